"""Making valid JSON readable that the JSON library rejects, in a copy of the bytes.

Two things are replaced: a lone surrogate escape by U+FFFD, and a number that is too large for the library by the
largest number it reads. Only the value read from the copy changes; stored bytes are never changed.
`members` splits an object without decoding its values, so that a line can be rewritten with every value unchanged.
"""

import re
from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"
# The library reads integers of up to this many characters, and other numbers up to the largest double.
_INTEGER_CHARS_MAX = 4300
_LARGEST = b"1.7976931348623157e308"
# Matches every escape, so that `u` after an escaped backslash is not taken for one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# An unterminated string extends to the end of the line. Possessive quantifiers keep the time linear for any input.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_STRING_OR_NUMBER = re.compile(_STRING + rb"|(-?+[0-9]++(\.[0-9]++)?+([eE][+-]?+[0-9]++)?+)", re.DOTALL)
_STRING_OR_SIGN = re.compile(_STRING + rb"|[\[\]{},:]", re.DOTALL)


def mended(raw: bytes, *, numbers: bool) -> bytes:
    """Return `raw` without byte order mark and with lone surrogates replaced; with `numbers`, too large ones too."""
    raw = _with_whole_characters(raw.removeprefix(BOM))
    return _STRING_OR_NUMBER.sub(_in_range, raw) if numbers else raw


def _with_whole_characters(raw: bytes) -> bytes:
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return raw
    # Both escapes have the same length, so they are replaced in place: one copy, however many there are.
    whole = bytearray(raw)
    for found in _ESCAPE.finditer(raw):
        if found[1]:
            whole[found.start() : found.end()] = b"\\ufffd"
    return bytes(whole)


def _in_range(found: re.Match[bytes]) -> bytes:
    number = found[1]
    if number is None or abs(float(number)) != float("inf"):
        return found[0]
    is_integer = found[2] is None and found[3] is None
    if is_integer and len(number) <= _INTEGER_CHARS_MAX:
        return number
    return b"-" + _LARGEST if number.startswith(b"-") else _LARGEST


def members(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a JSON object as bytes, in order. The line must be a valid object."""
    depth, start, key = 0, raw.index(b"{") + 1, b""
    for token in _STRING_OR_SIGN.finditer(raw):
        sign = token[0]
        if depth == 1 and sign == b":":
            key, start = raw[start : token.start()].strip(), token.end()
        elif depth == 1 and sign in (b",", b"}"):
            if key:
                yield key, raw[start : token.start()].strip()
            key, start = b"", token.end()
        depth += (sign in (b"{", b"[")) - (sign in (b"}", b"]"))

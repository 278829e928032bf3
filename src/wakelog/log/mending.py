"""JSON that is valid and that the JSON library refuses: made readable, in a copy of the bytes.

Two things are replaced: a lone surrogate escape by U+FFFD, and a number that is too large for the library by the
largest number it reads. Only the value that is read from the copy changes; stored bytes are never touched.
`members` splits an object without reading its values, so that a line can be written again with every value as it was.
"""

import re
from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"
# The library reads integers up to this many characters, and other numbers up to the largest double.
_INTEGER_CHARS_MAX = 4300
_LARGEST = b"1.7976931348623157e308"
# Every escape is matched, so that an escaped backslash before a `u` is never taken for one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# A string that never ends is taken to the end of the line. Possessive, so that no input takes more than linear time.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_STRING_OR_NUMBER = re.compile(_STRING + rb"|(-?+[0-9]++(\.[0-9]++)?+([eE][+-]?+[0-9]++)?+)", re.DOTALL)
_STRING_OR_SIGN = re.compile(_STRING + rb"|[\[\]{},:]", re.DOTALL)


def mended(raw: bytes, *, numbers: bool) -> bytes:
    """`raw` without a byte order mark and with lone surrogate escapes replaced; with `numbers`, too large ones too."""
    raw = _with_whole_characters(raw.removeprefix(BOM))
    return _STRING_OR_NUMBER.sub(_in_range, raw) if numbers else raw


def _with_whole_characters(raw: bytes) -> bytes:
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return raw
    # Both escapes have the same length, so they are put in place one by one: a line of nothing else costs one copy.
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
    """The keys and values of a JSON object, each as its bytes, in order. The line must be a valid object."""
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

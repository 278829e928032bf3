"""Make hostile text visible. All stored text passes through here before it is written to a terminal.

A terminal obeys control characters: they move the cursor, set the title, write the clipboard, reverse the reading
order or hide text. Each such character is shown as a sign instead: `␛` for ESC, `⟨U+202E⟩` where there is no picture.
Nothing else in a text changes.
"""

import functools
import re

import msgspec

_HIDDEN = (
    (0x00, 0x1F),  # C0: ESC, BEL, CR, backspace …
    (0x7F, 0x9F),  # DEL and C1, which some terminals read as ESC sequences
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),  # zero width characters, and direction marks
    (0x2028, 0x202E),  # line separators, and direction overrides
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),  # lone surrogates, which cannot be encoded
    (0xFE00, 0xFE0D),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags and variation selectors, which can hide a whole text
)
_PICTURE = "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]"
_TAB = "    "


@functools.cache
def hostile_characters() -> re.Pattern[str]:
    """Return the pattern for characters that control the terminal or are invisible."""
    signs = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in _HIDDEN)
    # One U+FE0E or U+FE0F after a character selects its picture, as in emoji; a row of them hides something.
    # One U+200D between two pictures joins them into one; anywhere else it hides something.
    joined = f"(?<={_PICTURE})\u200d(?={_PICTURE})|(?<={_PICTURE}\ufe0f)\u200d(?={_PICTURE})"
    return re.compile(f"(?!{joined})[{signs}]|(?<=[\ufe00-\ufe0f])[\ufe0e\ufe0f]|^[\ufe0e\ufe0f]")


def visible(text: str) -> str:
    """Return a text on one line: control and invisible characters are shown as signs, a tab as four spaces."""
    if text.isascii() and text.isprintable():
        return text
    return hostile_characters().sub(_visible_sign, text.replace("\t", _TAB))


def visible_lines(text: str) -> list[str]:
    """Return a text as visible lines. CRLF ends a line like LF; a single CR does not."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank, visible, with repeated spaces collapsed."""
    line = next((line for line in text.split("\n") if line.strip()), "")
    return " ".join(word for word in visible(line[:2_000].rstrip("\r")).split(" ") if word)


def json_line(value: object) -> bytes:
    """Return a value as one line of JSON with LF; hostile characters are escaped, the value is the same."""
    line = msgspec.json.encode(value)
    # Characters below space are escaped already; in ASCII only DEL is left to escape.
    if not line.isascii() or b"\x7f" in line:
        line = hostile_characters().sub(_escape, line.decode()).encode()
    return line + b"\n"


def _visible_sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

"""Hostile text → visible text. Everything that was stored goes through here before a terminal gets it.

A terminal obeys what it is sent: it moves the cursor, sets the title, writes the clipboard, reverses
the reading order, hides characters. None of that may come out of a log. Each such character is shown
as a sign instead: `␛` for ESC, `⟨U+202E⟩` for what has no picture. Nothing else about a text changes.
"""

import functools
import re

import msgspec

_HIDDEN = (
    (0x00, 0x1F),  # C0: ESC, BEL, CR, backspace …
    (0x7F, 0x9F),  # DEL and C1, which some terminals take for ESC sequences
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),  # zero width, and marks of direction
    (0x2028, 0x202E),  # separators of lines, and overrides of direction
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),  # lone surrogates cannot even be written
    (0xFE00, 0xFE0D),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),  # tags and variation selectors: a whole text can hide in them
)
_PICTURE = "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]"
_TAB = "    "


@functools.cache
def hostile() -> re.Pattern[str]:
    """What matches a character that does more, or less, than be seen."""
    signs = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in _HIDDEN)
    # One U+FE0E or U+FE0F behind a sign picks its picture, as emoji do; a row of them hides something.
    # One U+200D between two pictures makes one of them, which is seen; anywhere else it hides something.
    joined = f"(?<={_PICTURE})\u200d(?={_PICTURE})|(?<={_PICTURE}\ufe0f)\u200d(?={_PICTURE})"
    return re.compile(f"(?!{joined})[{signs}]|(?<=[\ufe00-\ufe0f])[\ufe0e\ufe0f]|^[\ufe0e\ufe0f]")


def visible(text: str) -> str:
    """A text on one line: what would break or bend the line is shown as a sign."""
    if text.isascii() and text.isprintable():
        return text
    return hostile().sub(_sign, text.replace("\t", _TAB))


def visible_lines(text: str) -> list[str]:
    """A text as lines to be printed one by one. CRLF ends a line as LF does; a CR alone does not."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def first_line(text: str) -> str:
    """The first line of a text that says anything, its spaces closed up."""
    line = next((line for line in text.split("\n") if line.strip()), "")
    return " ".join(word for word in visible(line[:2_000].rstrip("\r")).split(" ") if word)


def json_line(value: object) -> bytes:
    """A value as one line of JSON, LF included, in which hostile characters are escaped: same value, tame bytes."""
    line = msgspec.json.encode(value)
    # What is below a space is escaped already, so DEL is the one thing left to fear in plain ASCII.
    if not line.isascii() or b"\x7f" in line:
        line = hostile().sub(_escape, line.decode()).encode()
    return line + b"\n"


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

"""Drawing for a terminal: colours, widths, wrapping, columns. Text comes in visible and goes out in lines.

Nothing here knows what a session is. Colours are a handful of fixed codes, so that everything else that
looks like a code on a terminal is somebody else's and a test can say so. A general drawing library was
measured at half a millisecond an entry; this takes a twentieth, and ten thousand entries come at once.

A text is measured and cut by signs as people see them, never within one. A sign may be many characters: a letter
with its accents, a flag, a family held together by invisible joiners, a digit in a frame, a hand in a colour.
"""

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TextIO

import msgspec

from wakelog.cli import load

_SGR = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "user": "1;36",
    "model": "1;35",
    "tool": "33",
    "good": "32",
    "bad": "31",
    "warn": "33",
    "mark": "1;32",
    "name": "1",
    "label": "1;34",
}
_WIDTH_PIPED = 100
_WIDTH_MIN = 40
_GIVEN_MIN = 3


class Look(msgspec.Struct, frozen=True):
    """How to draw: in colour or not, how wide, with which signs. `width` 0 means that lines are not cut."""

    colour: bool = False
    width: int = 0
    utf8: bool = True

    @property
    def columns(self) -> int:
        """The width to lay things out in, also where lines are not cut."""
        return self.width or _WIDTH_PIPED

    def paint(self, style: str, text: str) -> str:
        """Text in a style."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.colour and style and text else text

    def sign(self, sign: str, plain: str) -> str:
        """A sign, or what stands for it where only ASCII can be shown."""
        return sign if self.utf8 else plain


def look(color: str, stream: TextIO | None = None) -> Look:
    """The look of a stream: this process's stdout, unless another is named."""
    out = stream or sys.stdout
    terminal = out.isatty()
    return Look(_is_coloured(color, terminal=terminal), _terminal_width(out) if terminal else 0, _is_utf8(out))


def _is_coloured(color: str, *, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return terminal and os.environ.get("TERM", "dumb") != "dumb"


def _terminal_width(out: TextIO) -> int:
    asked = os.environ.get("COLUMNS", "")
    if asked.isascii() and asked.isdigit() and int(asked):
        return max(_WIDTH_MIN, int(asked))
    try:
        width = os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return max(_WIDTH_MIN, width or 80)


def _is_utf8(out: TextIO) -> bool:
    """Whether signs beyond ASCII can be shown: the stream writes UTF-8 and the locale does not deny it."""
    said = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    encoding = (out.encoding or "").lower().replace("-", "")
    return encoding == "utf8" and said not in ("C", "POSIX")


# ── widths ───────────────────────────────────────────────────────────────────────────────────────


# Letters and marks of most languages: each is a sign by itself, wherever it stands. All others are looked up.
_NARROW = (
    "\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u0391-\u03c9\u0400-\u0481\u048a-\u052f"
    "\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u21ff\u2200-\u22ff\u2500-\u25fc"
)
_WIDE = "\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"


@functools.cache
def _tables() -> ModuleType:
    """What knows which characters make a sign, and how wide it is: loaded with the first text that needs it."""
    return load("wcwidth")


@functools.cache
def _plain() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(f"[{_NARROW}{_WIDE}]*"), re.compile(f"[{_WIDE}]+")


def _is_plain(text: str) -> bool:
    """Whether each character is a sign."""
    return text.isascii() or _plain()[0].fullmatch(text) is not None


def signs(text: str) -> Iterator[str]:
    """The signs of a text, each with all of its characters."""
    return iter(text) if _is_plain(text) else iter(_tables().iter_graphemes(text))


def cells(text: str) -> int:
    """How many columns a text takes. Terminals differ in what they join: what one draws apart is wider there."""
    if text.isascii():
        return len(text)
    if _is_plain(text):
        return len(text) + sum(map(len, _plain()[1].findall(text)))
    return sum(map(_width, signs(text)))


@functools.lru_cache(4_096)
def _width(sign: str) -> int:
    width: int = _tables().wcswidth(sign)
    return max(0, width)


def beginning(text: str, width: int) -> str:
    """As many signs from the beginning as have room."""
    cut = text[:width]
    # The one behind it could belong to the last.
    is_whole = _is_plain(text[: width + 1]) and cells(cut) <= width
    return cut if is_whole else text[: _taken(signs(text), width)]


def ending(text: str, width: int) -> str:
    """As many signs from the end as have room."""
    return text[len(text) - _taken(reversed(list(signs(text))), width) :]


def _taken(found: Iterator[str], width: int) -> int:
    """How many characters there are in the first signs that have room together."""
    count = taken = 0
    for sign in found:
        taken += _width(sign)
        if taken > width:
            break
        count += len(sign)
    return count


def clip(look: Look, text: str, width: int) -> str:
    """A text cut to a width, with a sign that says so."""
    if len(text) * 2 <= width or cells(text) <= width:
        return text
    more = look.sign("…", "...")
    return beginning(text, max(0, width - len(more))) + more


def pad(text: str, width: int, *, right: bool = False) -> str:
    """A text filled up to a width."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def wrap(line: str, width: int) -> list[str]:
    """One line as lines no wider than `width` (0: as it is), broken at spaces where there are any."""
    if not width or len(line) * 2 <= width or cells(line) <= width:
        return [line]
    lines = []
    while (piece := beginning(line, width)) != line:
        piece = piece or next(signs(line))
        space = piece.rfind(" ")
        # A space in the first third would leave a ragged stub: a long word is cut instead.
        if space > width // 3 and len(piece) < len(line) and line[len(piece)] != " ":
            piece = piece[:space]
        lines.append(piece.rstrip(" "))
        line = line[len(piece) :].lstrip(" ")
    return [*lines, line] if line else lines


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


class Column(msgspec.Struct, frozen=True):
    """A column of a table. Those that `give` are cut, the last one first, where a line is too long for the terminal."""

    head: str
    right: bool = False
    gives: bool = False
    cap: int = 0


Cell = tuple[str, str]
"""Text and the style it is painted in."""


def table(look: Look, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, headed: bool) -> Iterable[str]:
    """Rows in columns. The last column is not filled up, so that lines end where their text does."""
    widths = _widths(look, columns, rows, headed=headed)
    if headed:
        yield _line(look, columns, widths, [(column.head, "dim") for column in columns])
    for row in rows:
        yield _line(look, columns, widths, row)


def _widths(look: Look, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, headed: bool) -> list[int]:
    widths = [
        max([cells(column.head) if headed else 0, *(cells(row[at][0]) for row in rows)])
        for at, column in enumerate(columns)
    ]
    if not look.width:
        return widths
    widths = [min(width, column.cap or look.width) for width, column in zip(widths, columns, strict=True)]
    for _ in range(sum(widths) + 2 * (len(widths) - 1) - look.width):
        # The widest gives, and of equals the last: a short name stays whole beside a long title.
        given = [(width, at) for at, width in enumerate(widths) if columns[at].gives and width > _GIVEN_MIN]
        if not given:
            break
        widths[max(given)[1]] -= 1
    return widths


def _line(look: Look, columns: Sequence[Column], widths: Sequence[int], row: Sequence[Cell]) -> str:
    shown = []
    for at, (text, style) in enumerate(row):
        text = clip(look, text, widths[at])  # noqa: PLW2901 - the same text, cut
        blank = " " * (widths[at] - cells(text))
        painted = look.paint(style, text)
        shown.append(blank + painted if columns[at].right else painted + blank)
    return "  ".join(shown).rstrip()

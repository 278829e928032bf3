"""Terminal layout: colours, text widths, wrapping and tables. Takes visible text and returns lines.

This module knows nothing of sessions. It emits only a few fixed colour codes, so that a test can treat every other
escape code in the output as foreign. A general drawing library took half a millisecond per entry; this takes a
twentieth of that, and ten thousand entries may be drawn at once.

Text is measured and cut by graphemes, never within one. A grapheme may be many characters: a letter with accents, a
flag, a family emoji with joiners, a keycap, a hand with a skin tone.
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
_SHRUNK_MIN = 3


class TerminalStyle(msgspec.Struct, frozen=True):
    """Output style: colour, width and character set. `width` 0 means that lines are not cut."""

    colour: bool = False
    width: int = 0
    utf8: bool = True

    @property
    def columns(self) -> int:
        """Return the layout width, also where lines are not cut."""
        return self.width or _WIDTH_PIPED

    def paint(self, style: str, text: str) -> str:
        """Return text painted in a style."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.colour and style and text else text

    def symbol(self, sign: str, plain: str) -> str:
        """Return `sign`, or `plain` where only ASCII can be shown."""
        return sign if self.utf8 else plain


def style_of(color: str, stream: TextIO | None = None) -> TerminalStyle:
    """Return the look of a stream; default is stdout."""
    out = stream or sys.stdout
    terminal = out.isatty()
    return TerminalStyle(_is_coloured(color, terminal=terminal), _terminal_width(out) if terminal else 0, _is_utf8(out))


def _is_coloured(color: str, *, terminal: bool) -> bool:
    if color != "auto":
        return color == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return terminal and os.environ.get("TERM", "dumb") != "dumb"


def _terminal_width(out: TextIO) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return max(_WIDTH_MIN, int(columns))
    try:
        width = os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return max(_WIDTH_MIN, width or 80)


def _is_utf8(out: TextIO) -> bool:
    """Return whether characters beyond ASCII can be shown: the stream is UTF-8 and the locale is not C or POSIX."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    encoding = (out.encoding or "").lower().replace("-", "")
    return encoding == "utf8" and locale not in ("C", "POSIX")


# ── widths ───────────────────────────────────────────────────────────────────────────────────────


# Characters of most languages that are one grapheme each in any context. All others are looked up.
_NARROW = (
    "\u0020-\u007e\u00a1-\u00ac\u00ae-\u02ff\u0391-\u03c9\u0400-\u0481\u048a-\u052f"
    "\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u21ff\u2200-\u22ff\u2500-\u25fc"
)
_WIDE = "\u3001-\u3029\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"


@functools.cache
def _wcwidth() -> ModuleType:
    """Return `wcwidth`, which splits and measures graphemes; loaded for the first text that needs it."""
    return load("wcwidth")


@functools.cache
def _plain_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return re.compile(f"[{_NARROW}{_WIDE}]*"), re.compile(f"[{_WIDE}]+")


def _is_plain(text: str) -> bool:
    """Return whether each character is a grapheme of its own."""
    return text.isascii() or _plain_patterns()[0].fullmatch(text) is not None


def graphemes(text: str) -> Iterator[str]:
    """Yield the graphemes of a text."""
    return iter(text) if _is_plain(text) else iter(_wcwidth().iter_graphemes(text))


def text_width(text: str) -> int:
    """Return the columns that a text takes. A terminal that does not join a sequence draws it wider."""
    if text.isascii():
        return len(text)
    if _is_plain(text):
        return len(text) + sum(map(len, _plain_patterns()[1].findall(text)))
    return sum(map(_width, graphemes(text)))


@functools.lru_cache(4_096)
def _width(sign: str) -> int:
    width: int = _wcwidth().wcswidth(sign)
    return max(0, width)


def fit_start(text: str, width: int) -> str:
    """Return the graphemes from the start that fit into `width`."""
    cut = text[:width]
    # The next character could belong to the last grapheme.
    is_whole = _is_plain(text[: width + 1]) and text_width(cut) <= width
    return cut if is_whole else text[: _fitting_chars(graphemes(text), width)]


def fit_end(text: str, width: int) -> str:
    """Return the graphemes from the end that fit into `width`."""
    return text[len(text) - _fitting_chars(reversed(list(graphemes(text))), width) :]


def _fitting_chars(found: Iterator[str], width: int) -> int:
    """Return the number of characters in the first graphemes that fit into `width` together."""
    count = taken = 0
    for sign in found:
        taken += _width(sign)
        if taken > width:
            break
        count += len(sign)
    return count


def clip(look: TerminalStyle, text: str, width: int) -> str:
    """Return a text cut to `width`, with an ellipsis if it was cut."""
    if len(text) * 2 <= width or text_width(text) <= width:
        return text
    more = look.symbol("…", "...")
    return fit_start(text, max(0, width - len(more))) + more


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return a text padded to `width`; `right` aligns it to the right."""
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def wrap(line: str, width: int) -> list[str]:
    """Split one line into lines no wider than `width` (0: unchanged), at spaces where possible."""
    if not width or len(line) * 2 <= width or text_width(line) <= width:
        return [line]
    lines = []
    while (piece := fit_start(line, width)) != line:
        piece = piece or next(graphemes(line))
        space = piece.rfind(" ")
        # Breaking at a space in the first third would leave a short stub; the long word is cut instead.
        if space > width // 3 and len(piece) < len(line) and line[len(piece)] != " ":
            piece = piece[:space]
        lines.append(piece.rstrip(" "))
        line = line[len(piece) :].lstrip(" ")
    return [*lines, line] if line else lines


# ── columns ──────────────────────────────────────────────────────────────────────────────────────


class Column(msgspec.Struct, frozen=True):
    """A column of a table. Columns with `shrinks` are cut, the widest first, if a line is too long for the terminal."""

    head: str
    right: bool = False
    shrinks: bool = False
    max_width: int = 0


Cell = tuple[str, str]
"""Text and the style it is painted in."""


def table(
    look: TerminalStyle, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, headed: bool
) -> Iterable[str]:
    """Yield rows in columns. The last column is not padded, so that lines have no trailing spaces."""
    widths = _widths(look, columns, rows, headed=headed)
    if headed:
        yield _table_line(look, columns, widths, [(column.head, "dim") for column in columns])
    for row in rows:
        yield _table_line(look, columns, widths, row)


def _widths(
    look: TerminalStyle, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, headed: bool
) -> list[int]:
    widths = [
        max([text_width(column.head) if headed else 0, *(text_width(row[at][0]) for row in rows)])
        for at, column in enumerate(columns)
    ]
    if not look.width:
        return widths
    widths = [min(width, column.max_width or look.width) for width, column in zip(widths, columns, strict=True)]
    for _ in range(sum(widths) + 2 * (len(widths) - 1) - look.width):
        # The widest column is cut first, of equal ones the last: a short name stays whole beside a long title.
        given = [(width, at) for at, width in enumerate(widths) if columns[at].shrinks and width > _SHRUNK_MIN]
        if not given:
            break
        widths[max(given)[1]] -= 1
    return widths


def _table_line(look: TerminalStyle, columns: Sequence[Column], widths: Sequence[int], row: Sequence[Cell]) -> str:
    shown = []
    for at, (text, style) in enumerate(row):
        text = clip(look, text, widths[at])  # noqa: PLW2901 - the same text, cut
        blank = " " * (widths[at] - text_width(text))
        painted = look.paint(style, text)
        shown.append(blank + painted if columns[at].right else painted + blank)
    return "  ".join(shown).rstrip()

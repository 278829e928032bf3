"""Layout of the list of `chat --pick`: filter, rows, position, and preview of the chosen session.

Pure. Rows have priority: on a low terminal the preview goes first, then the key hints, then the rule below the rows; on
a narrow one columns go, so that titles and names stay readable.
"""

from collections.abc import Iterator
from itertools import compress

import msgspec

from wakelog.cli.chat.listing import Listed
from wakelog.cli.chat.picking import Page
from wakelog.cli.draw import Cell, Column, Look, clip, table, wrap
from wakelog.cli.draw import cells as cells_of
from wakelog.cli.safe import first_line, visible, visible_lines
from wakelog.cli.times import ago
from wakelog.projections.session_row import SessionRow

ROWS_MAX = 15
_PREVIEW_LINES = 4
# Each column with the minimum terminal width for it.
_COLUMNS = (
    (Column(""), 0),
    (Column("TITLE", gives=True), 0),
    (Column("NAME", gives=True, cap=24), 30),
    (Column("AGE", right=True), 25),
    (Column("STATE"), 60),
    (Column("MODEL", gives=True, cap=24), 80),
    (Column("WHERE", gives=True, cap=30), 80),
)
_HINT = "type to filter, arrows to choose, Enter opens, Esc leaves"


class Shape(msgspec.Struct, frozen=True):
    """Number of lines for each part of the list."""

    rows: int
    preview: int
    has_rule: bool
    has_hint: bool


def shape_of(lines: int) -> Shape:
    """Return the layout for a terminal of `lines` lines. One line is for the heading, one for the filter."""
    free = max(1, lines - 2)
    has_rule, has_hint = free >= 3, free >= 5
    free -= has_rule + has_hint
    preview = min(_PREVIEW_LINES, free // 4)
    return Shape(min(ROWS_MAX, free - preview), preview, has_rule, has_hint)


def page_lines(look: Look, page: Page, preview: str, now: int, shape: Shape) -> Iterator[str]:
    """Yield the filter, the visible rows, and the preview of the chosen session."""
    yield look.paint("bold", clip(look, f"Open which session? {visible(page.filter)}_", look.columns))
    rows = [_cells(look, row, now, chosen=at == page.chosen) for at, row in enumerate(page.rows)]
    fitting = [least <= look.columns for _, least in _COLUMNS]
    columns = list(compress([column for column, _ in _COLUMNS], fitting))
    yield from table(look, columns, [list(compress(row, fitting)) for row in rows], headed=False)
    if not page.rows and page.read.is_over:
        yield look.paint("dim", "no session fits" if page.filter else "no session yet")
    if shape.has_rule:
        yield look.paint("dim", _rule(look, page))
    lines = [piece for line in visible_lines(preview.strip("\n")) for piece in wrap(line, look.columns)]
    yield from (look.paint("dim", line) for line in lines[: shape.preview])
    if shape.has_hint:
        yield look.paint("dim", clip(look, _HINT, look.columns))


def _rule(look: Look, page: Page) -> str:
    """Return the rule below the rows, with the position in the list and the reading progress."""
    line = look.sign("─", "-")
    words = [f"{page.place:,} of {page.found:,}{'' if page.is_all else '+'}"] if page.rows else []
    words += [] if page.read.is_over else [_how_far(look, page.read)]
    said = clip(look, f"{line * 2} {', '.join(words)} " if words else "", look.columns)
    return said + line * (look.columns - cells_of(said))


def _how_far(look: Look, read: Listed) -> str:
    counted = f", {read.done:,} of {read.total:,}" if read.total else ""
    return f"reading sessions{counted} {look.sign('…', '...')}"


def _cells(look: Look, row: SessionRow, now: int, *, chosen: bool) -> list[Cell]:
    title = first_line(row.title or "") or first_line(row.prompt)
    return [
        (look.sign("›", ">") if chosen else " ", "mark"),
        (title, "bold" if chosen else ""),
        (visible(row.name), "dim"),
        (ago(row.updated, now), "dim"),
        (visible(row.state), "dim"),
        (visible(row.model or ""), "dim"),
        (visible(row.cwd), "dim"),
    ]

"""Session list of `chat --pick`: reading its rows, filter and choice, and layout. No terminal code.

Reading: rows are read in a thread. Known rows come first; sessions that are new to the catalog follow while it reads
them, the newest first. Rows are queried at growing intervals, so that showing them takes a small part of the time.
Choice: rows are filtered only as far as the window needs, so that ten thousand sessions filter as fast as ten. New rows
never change a choice that the user made; without one, the first row is chosen. Enter means the chosen row; if there is
none yet, it means the first match after all rows are read.
Layout: rows have priority. On a low terminal the preview goes first, then the key hints, then the rule below the
rows; on a narrow one columns go, so that titles and names stay readable.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import compress

import msgspec

from wakelog.cli.ui.quantities import age_text
from wakelog.cli.ui.safe_text import first_line, visible, visible_lines
from wakelog.cli.ui.terminal import Cell, Column, TerminalStyle, clip, table, wrap
from wakelog.cli.ui.terminal import text_width as cells_of
from wakelog.ports.catalogs import Catalog, SessionRow

FIRST_ROWS = 50
_PROGRESS_INTERVAL_S = 0.1
_ROWS_INTERVAL_S = 0.25


class ReadProgress(msgspec.Struct, frozen=True):
    """Progress of reading. Without `rows`, the previous rows stay valid; `total` is 0 while it is unknown."""

    rows: Sequence[SessionRow] | None = None
    done: int = 0
    total: int = 0
    is_over: bool = False


ReportProgress = Callable[[ReadProgress], None]


def read_rows(catalog: Catalog, tell: ReportProgress, seconds: Callable[[], float] = time.monotonic) -> None:
    """Refresh a catalog; report its rows meanwhile, and all of them at the end."""
    catalog.refresh(progress=_ProgressReporter(catalog, tell, seconds).step)
    tell(ReadProgress(catalog.rows(limit=FIRST_ROWS)))
    tell(ReadProgress(catalog.rows(), is_over=True))


class _ProgressReporter:
    """Turns the steps of a refresh into reports."""

    def __init__(self, catalog: Catalog, tell: ReportProgress, seconds: Callable[[], float]) -> None:
        self._catalog = catalog
        self._tell = tell
        self._seconds = seconds
        self._begun = seconds()
        self._told = 0.0
        self._shown = 0.0

    def step(self, done: int, total: int) -> None:
        """Handle a step: `done` of `total` logs are read."""
        passed = self._seconds() - self._begun
        if done == 0:
            self._tell(ReadProgress(self._catalog.rows(limit=FIRST_ROWS), done, total))
        elif passed >= 2 * self._shown + _ROWS_INTERVAL_S:
            self._tell(ReadProgress(self._catalog.rows(), done, total))
            self._shown = self._told = passed
        elif passed >= self._told + _PROGRESS_INTERVAL_S:
            self._tell(ReadProgress(None, done, total))
            self._told = passed


class SessionList:
    """The rows read so far, those that match, and the chosen one."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.filter = ""
        self.chosen = 0
        self.read = ReadProgress()
        self._rows: Sequence[SessionRow] = ()
        self._fitting: list[SessionRow] = []
        self._looked = 0
        self._has_moved = False
        self._is_wanted = False

    @property
    def row(self) -> SessionRow | None:
        """Return the chosen row, or None."""
        return self._fitting[self.chosen] if self._fitting else None

    @property
    def found(self) -> tuple[int, bool]:
        """Return the number of matches, and whether it is final: only as many rows as needed are examined."""
        return (len(self._fitting), self._looked == len(self._rows)) if self.filter.split() else (len(self._rows), True)

    @property
    def window(self) -> tuple[int, list[SessionRow]]:
        """Return the index of the first visible row, and the visible rows."""
        top = max(0, min(self.chosen - self.height // 2, len(self._fitting) - self.height))
        return top, self._fitting[top : top + self.height]

    def type(self, text: str) -> None:
        """Set the filter: words that must all occur in a row."""
        self.filter = text
        self._is_wanted = self._has_moved = False
        self._look_again(None)

    def stretch(self, height: int) -> None:
        """Set the number of visible rows."""
        if height != self.height:
            self.height = height
            self._look_on(self.chosen + height)

    def move(self, by: int) -> None:
        """Move the choice by a number of rows."""
        self._is_wanted = False
        self.chosen = max(0, self.chosen + by)
        self._look_on(self.chosen + self.height)
        self.chosen = max(0, min(self.chosen, len(self._fitting) - 1))
        self._has_moved = self.row is not None

    def take(self, read: ReadProgress) -> None:
        """Take a progress report, with new rows if it has any."""
        self.read = read
        if read.rows is not None:
            stays = self.row.name if self.row is not None and self._has_moved else None
            self._rows = read.rows
            self._look_again(stays)

    def enter(self) -> SessionRow | None:
        """Return the row that Enter chooses; None if there is none, or none yet."""
        self._is_wanted = self.row is None and not self.read.is_over
        return self.row

    @property
    def due(self) -> SessionRow | None:
        """Return the row for an Enter that was pressed before all rows were read; None if there is none."""
        return self.row if self._is_wanted and self.read.is_over else None

    # ── filtering ────────────────────────────────────────────────────────────────────────────────

    def _look_again(self, name: str | None) -> None:
        """Filter again from the top, and choose the row of this name if it matches, else the first."""
        self._fitting, self._looked, self.chosen = [], 0, 0
        if name is not None:
            self._look_on(len(self._rows))
            self.chosen = next((at for at, row in enumerate(self._fitting) if row.name == name), 0)
        self._look_on(self.chosen + self.height)

    def _look_on(self, wanted: int) -> None:
        """Examine rows until `wanted` match, or there are no more."""
        while self._looked < len(self._rows) and len(self._fitting) < wanted:
            row = self._rows[self._looked]
            self._looked += 1
            if matches(row, self.filter):
                self._fitting.append(row)


def matches(row: SessionRow, text: str) -> bool:
    """Return whether every word of a text occurs in a row, ignoring case."""
    words = text.casefold().split()
    if not words:
        return True
    there = "\n".join(
        word for word in (row.name, row.title, row.prompt, row.model, row.cwd, row.state, row.agent, row.sender) if word
    ).casefold()
    return all(word in there for word in words)


class Page(msgspec.Struct, frozen=True):
    """The visible part of the list: rows, the chosen one, and its position among all matches."""

    rows: tuple[SessionRow, ...]
    chosen: int
    filter: str
    place: int = 1
    found: int = 1
    is_all: bool = True
    read: ReadProgress = ReadProgress(is_over=True)


def page_of(picking: SessionList) -> Page:
    """Return the visible part as a value."""
    top, rows = picking.window
    place = picking.chosen
    return Page(tuple(rows), place - top, picking.filter, place + 1, *picking.found, picking.read)


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


class PageLayout(msgspec.Struct, frozen=True):
    """Number of lines for each part of the list."""

    rows: int
    preview: int
    has_rule: bool
    has_hint: bool


def page_layout(lines: int) -> PageLayout:
    """Return the layout for a terminal of `lines` lines. One line is for the heading, one for the filter."""
    free = max(1, lines - 2)
    has_rule, has_hint = free >= 3, free >= 5
    free -= has_rule + has_hint
    preview = min(_PREVIEW_LINES, free // 4)
    return PageLayout(min(ROWS_MAX, free - preview), preview, has_rule, has_hint)


def page_lines(look: TerminalStyle, page: Page, preview: str, now: int, shape: PageLayout) -> Iterator[str]:
    """Yield the filter, the visible rows, and the preview of the chosen session."""
    yield look.paint("bold", clip(look, f"Open which session? {visible(page.filter)}_", look.columns))
    rows = [_row_cells(look, row, now, chosen=at == page.chosen) for at, row in enumerate(page.rows)]
    fitting = [least <= look.columns for _, least in _COLUMNS]
    columns = list(compress([column for column, _ in _COLUMNS], fitting))
    yield from table(look, columns, [list(compress(row, fitting)) for row in rows], headed=False)
    if not page.rows and page.read.is_over:
        yield look.paint("dim", "no session fits" if page.filter else "no session yet")
    if shape.has_rule:
        yield look.paint("dim", _rule_line(look, page))
    lines = [piece for line in visible_lines(preview.strip("\n")) for piece in wrap(line, look.columns)]
    yield from (look.paint("dim", line) for line in lines[: shape.preview])
    if shape.has_hint:
        yield look.paint("dim", clip(look, _HINT, look.columns))


def _rule_line(look: TerminalStyle, page: Page) -> str:
    """Return the rule below the rows, with the position in the list and the reading progress."""
    line = look.sign("─", "-")
    words = [f"{page.place:,} of {page.found:,}{'' if page.is_all else '+'}"] if page.rows else []
    words += [] if page.read.is_over else [_progress_text(look, page.read)]
    said = clip(look, f"{line * 2} {', '.join(words)} " if words else "", look.columns)
    return said + line * (look.columns - cells_of(said))


def _progress_text(look: TerminalStyle, read: ReadProgress) -> str:
    counted = f", {read.done:,} of {read.total:,}" if read.total else ""
    return f"reading sessions{counted} {look.sign('…', '...')}"


def _row_cells(look: TerminalStyle, row: SessionRow, now: int, *, chosen: bool) -> list[Cell]:
    title = first_line(row.title or "") or first_line(row.prompt)
    return [
        (look.sign("›", ">") if chosen else " ", "mark"),
        (title, "bold" if chosen else ""),
        (visible(row.name), "dim"),
        (age_text(row.updated, now), "dim"),
        (visible(row.state), "dim"),
        (visible(row.model or ""), "dim"),
        (visible(row.cwd), "dim"),
    ]

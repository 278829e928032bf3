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
from wakelog.cli.ui.terminal import Cell, Column, TerminalStyle, clip, table, text_width, wrap
from wakelog.ports.catalogs import Catalog, SessionRow

FIRST_ROWS = 50
_PROGRESS_INTERVAL_S = 0.1
_ROWS_INTERVAL_S = 0.25


class ReadProgress(msgspec.Struct, frozen=True):
    """Progress of reading. Without `rows`, the previous rows stay valid; `total` is 0 while it is unknown."""

    rows: Sequence[SessionRow] | None = None
    done: int = 0
    total: int = 0
    is_complete: bool = False


ReportProgress = Callable[[ReadProgress], None]


def read_rows(catalog: Catalog, report: ReportProgress, clock: Callable[[], float] = time.monotonic) -> None:
    """Refresh a catalog; report its rows meanwhile, and all of them at the end."""
    catalog.refresh(progress=_ProgressReporter(catalog, report, clock).step)
    report(ReadProgress(catalog.rows(limit=FIRST_ROWS)))
    report(ReadProgress(catalog.rows(), is_complete=True))


class _ProgressReporter:
    """Turns the steps of a refresh into reports."""

    def __init__(self, catalog: Catalog, report: ReportProgress, clock: Callable[[], float]) -> None:
        self._catalog = catalog
        self._report = report
        self._clock = clock
        self._started = clock()
        self._last_progress = 0.0
        self._last_rows = 0.0

    def step(self, done: int, total: int) -> None:
        """Handle a step: `done` of `total` logs are read."""
        passed = self._clock() - self._started
        if done == 0:
            self._report(ReadProgress(self._catalog.rows(limit=FIRST_ROWS), done, total))
        elif passed >= 2 * self._last_rows + _ROWS_INTERVAL_S:
            self._report(ReadProgress(self._catalog.rows(), done, total))
            self._last_rows = self._last_progress = passed
        elif passed >= self._last_progress + _PROGRESS_INTERVAL_S:
            self._report(ReadProgress(None, done, total))
            self._last_progress = passed


class SessionList:
    """The rows read so far, those that match, and the chosen one."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.filter = ""
        self.chosen = 0
        self.progress = ReadProgress()
        self._rows: Sequence[SessionRow] = ()
        self._matches: list[SessionRow] = []
        self._examined = 0
        self._has_moved = False
        self._is_enter_pending = False

    @property
    def chosen_row(self) -> SessionRow | None:
        """Return the chosen row, or None."""
        return self._matches[self.chosen] if self._matches else None

    @property
    def match_count(self) -> tuple[int, bool]:
        """Return the number of matches, and whether it is final: only as many rows as needed are examined."""
        return (
            (len(self._matches), self._examined == len(self._rows)) if self.filter.split() else (len(self._rows), True)
        )

    @property
    def window(self) -> tuple[int, list[SessionRow]]:
        """Return the index of the first visible row, and the visible rows."""
        top = max(0, min(self.chosen - self.height // 2, len(self._matches) - self.height))
        return top, self._matches[top : top + self.height]

    def set_filter(self, text: str) -> None:
        """Set the filter: words that must all occur in a row."""
        self.filter = text
        self._is_enter_pending = self._has_moved = False
        self._filter_again(None)

    def set_height(self, height: int) -> None:
        """Set the number of visible rows."""
        if height != self.height:
            self.height = height
            self._filter_until(self.chosen + height)

    def move(self, by: int) -> None:
        """Move the choice by a number of rows."""
        self._is_enter_pending = False
        self.chosen = max(0, self.chosen + by)
        self._filter_until(self.chosen + self.height)
        self.chosen = max(0, min(self.chosen, len(self._matches) - 1))
        self._has_moved = self.chosen_row is not None

    def update(self, progress: ReadProgress) -> None:
        """Take a progress report, with new rows if it has any."""
        self.progress = progress
        if progress.rows is not None:
            stays = self.chosen_row.name if self.chosen_row is not None and self._has_moved else None
            self._rows = progress.rows
            self._filter_again(stays)

    def choose(self) -> SessionRow | None:
        """Return the row that Enter chooses; None if there is none, or none yet."""
        self._is_enter_pending = self.chosen_row is None and not self.progress.is_complete
        return self.chosen_row

    @property
    def delayed_choice(self) -> SessionRow | None:
        """Return the row for an Enter that was pressed before all rows were read; None if there is none."""
        return self.chosen_row if self._is_enter_pending and self.progress.is_complete else None

    # ── filtering ────────────────────────────────────────────────────────────────────────────────

    def _filter_again(self, name: str | None) -> None:
        """Filter again from the top, and choose the row of this name if it matches, else the first."""
        self._matches, self._examined, self.chosen = [], 0, 0
        if name is not None:
            self._filter_until(len(self._rows))
            self.chosen = next((at for at, row in enumerate(self._matches) if row.name == name), 0)
        self._filter_until(self.chosen + self.height)

    def _filter_until(self, wanted: int) -> None:
        """Examine rows until `wanted` match, or there are no more."""
        while self._examined < len(self._rows) and len(self._matches) < wanted:
            row = self._rows[self._examined]
            self._examined += 1
            if matches(row, self.filter):
                self._matches.append(row)


def matches(row: SessionRow, text: str) -> bool:
    """Return whether every word of a text occurs in a row, ignoring case."""
    words = text.casefold().split()
    if not words:
        return True
    searched = "\n".join(
        field
        for field in (row.name, row.title, row.prompt, row.model, row.cwd, row.state, row.agent, row.sender)
        if field
    ).casefold()
    return all(word in searched for word in words)


class Page(msgspec.Struct, frozen=True):
    """The visible part of the list: rows, the chosen one, and its position among all matches."""

    rows: tuple[SessionRow, ...]
    chosen: int
    filter: str
    position: int = 1
    match_count: int = 1
    is_count_final: bool = True
    progress: ReadProgress = ReadProgress(is_complete=True)


def page_of(session_list: SessionList) -> Page:
    """Return the visible part as a value."""
    top, rows = session_list.window
    place = session_list.chosen
    return Page(
        tuple(rows), place - top, session_list.filter, place + 1, *session_list.match_count, session_list.progress
    )


ROWS_MAX = 15
_PREVIEW_LINES = 4
# Each column with the minimum terminal width for it.
_COLUMNS = (
    (Column(""), 0),
    (Column("TITLE", shrinks=True), 0),
    (Column("NAME", shrinks=True, max_width=24), 30),
    (Column("AGE", right=True), 25),
    (Column("STATE"), 60),
    (Column("MODEL", shrinks=True, max_width=24), 80),
    (Column("WHERE", shrinks=True, max_width=30), 80),
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


def page_lines(look: TerminalStyle, page: Page, preview: str, now: int, layout: PageLayout) -> Iterator[str]:
    """Yield the filter, the visible rows, and the preview of the chosen session."""
    yield look.paint("bold", clip(look, f"Open which session? {visible(page.filter)}_", look.columns))
    rows = [_row_cells(look, row, now, chosen=at == page.chosen) for at, row in enumerate(page.rows)]
    fitting = [least <= look.columns for _, least in _COLUMNS]
    columns = list(compress([column for column, _ in _COLUMNS], fitting))
    yield from table(look, columns, [list(compress(row, fitting)) for row in rows], headed=False)
    if not page.rows and page.progress.is_complete:
        yield look.paint("dim", "no session matches" if page.filter else "no sessions yet")
    if layout.has_rule:
        yield look.paint("dim", _rule_line(look, page))
    lines = [piece for line in visible_lines(preview.strip("\n")) for piece in wrap(line, look.columns)]
    yield from (look.paint("dim", line) for line in lines[: layout.preview])
    if layout.has_hint:
        yield look.paint("dim", clip(look, _HINT, look.columns))


def _rule_line(look: TerminalStyle, page: Page) -> str:
    """Return the rule below the rows, with the position in the list and the reading progress."""
    line = look.symbol("─", "-")
    words = [f"{page.position:,} of {page.match_count:,}{'' if page.is_count_final else '+'}"] if page.rows else []
    words += [] if page.progress.is_complete else [_progress_text(look, page.progress)]
    prefix = clip(look, f"{line * 2} {', '.join(words)} " if words else "", look.columns)
    return prefix + line * (look.columns - text_width(prefix))


def _progress_text(look: TerminalStyle, progress: ReadProgress) -> str:
    counted = f", {progress.done:,} of {progress.total:,}" if progress.total else ""
    return f"reading sessions{counted} {look.symbol('…', '...')}"


def _row_cells(look: TerminalStyle, row: SessionRow, now: int, *, chosen: bool) -> list[Cell]:
    title = first_line(row.title or "") or first_line(row.prompt)
    return [
        (look.symbol("›", ">") if chosen else " ", "mark"),
        (title, "bold" if chosen else ""),
        (visible(row.name), "dim"),
        (age_text(row.updated, now), "dim"),
        (visible(row.state), "dim"),
        (visible(row.model or ""), "dim"),
        (visible(row.cwd), "dim"),
    ]

"""The list of sessions behind `chat --pick`: a window on the catalog, a page at a time, and a filter. Knows no
terminal.

Rule 1: no more rows are fetched than are needed to fill what is looked at: ten thousand sessions open like ten.
Rule 2: what a filter leaves out is read past, as far as the window needs it and hardly further.
"""

from collections.abc import Callable, Sequence

import msgspec

from wakelog.views.session_row import SessionRow

PAGE = 50

Fetch = Callable[[int, str | None], Sequence[SessionRow]]
"""So many rows behind a cursor."""


class Picking:
    """Rows as far as they have been fetched, which of them fit, and which one is chosen."""

    def __init__(self, fetch: Fetch, height: int) -> None:
        self._fetch = fetch
        self._rows: list[SessionRow] = []
        self._ended = False
        self.height = height
        self.filter = ""
        self._fitting: list[SessionRow] = []
        self.chosen = 0
        self._fill()

    @property
    def row(self) -> SessionRow | None:
        """The chosen one."""
        return self._fitting[self.chosen] if self._fitting else None

    @property
    def window(self) -> tuple[int, list[SessionRow]]:
        """The rows in sight, and the place of the first."""
        top = max(0, min(self.chosen - self.height // 2, len(self._fitting) - self.height))
        return top, self._fitting[top : top + self.height]

    def type(self, text: str) -> None:
        """Another filter: words that must all stand in a row."""
        self.filter = text
        self._fitting = [row for row in self._rows if fits(row, text)]
        self.chosen = 0
        self._fill()

    def move(self, by: int) -> None:
        """Another choice."""
        self.chosen = max(0, self.chosen + by)
        self._fill()
        self.chosen = max(0, min(self.chosen, len(self._fitting) - 1))

    def _fill(self) -> None:
        """Fetches until the window is full, or there is nothing more."""
        while not self._ended and len(self._fitting) < self.chosen + self.height:
            after = self._rows[-1].cursor if self._rows else None
            # As many again as there are: a filter that fits nothing takes a dozen questions, not hundreds.
            wanted = max(PAGE, len(self._rows))
            page = self._fetch(wanted, after)
            self._ended = len(page) < wanted
            self._rows += page
            self._fitting += [row for row in page if fits(row, self.filter)]


def fits(row: SessionRow, text: str) -> bool:
    """Whether every word of a text stands in a row, whatever its case."""
    there = "\n".join(
        word for word in (row.name, row.title, row.prompt, row.model, row.cwd, row.state, row.agent, row.sender) if word
    ).casefold()
    return all(word in there for word in text.casefold().split())


class Page(msgspec.Struct, frozen=True):
    """What is drawn of a list."""

    rows: tuple[SessionRow, ...]
    chosen: int
    filter: str


def page_of(picking: Picking) -> Page:
    """The window as a value."""
    top, rows = picking.window
    return Page(tuple(rows), picking.chosen - top, picking.filter)

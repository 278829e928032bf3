"""The list of sessions behind `chat --pick`: a window on rows that may still be coming in, and a filter. Knows no
terminal.

Rule 1: what a filter leaves out is looked past, as far as the window needs it and no further: ten thousand sessions
are typed into like ten.
Rule 2: rows that come in never take a choice away: who has chosen one stays with it, who has not is at the top.
Rule 3: Enter means what is chosen; where nothing can be chosen yet, it means the first that fits when all is read.
"""

from collections.abc import Sequence

import msgspec

from wakelog.cli.chat.listing import Listed
from wakelog.projections.session_row import SessionRow


class Picking:
    """Rows as far as they are read, which of them fit, and which one is chosen."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.filter = ""
        self.chosen = 0
        self.read = Listed()
        self._rows: Sequence[SessionRow] = ()
        self._fitting: list[SessionRow] = []
        self._looked = 0
        self._has_moved = False
        self._is_wanted = False

    @property
    def row(self) -> SessionRow | None:
        """The chosen one."""
        return self._fitting[self.chosen] if self._fitting else None

    @property
    def found(self) -> tuple[int, bool]:
        """How many fit, and whether that is all of them: no more are looked at than are needed."""
        return (len(self._fitting), self._looked == len(self._rows)) if self.filter.split() else (len(self._rows), True)

    @property
    def window(self) -> tuple[int, list[SessionRow]]:
        """The rows in sight, and the place of the first."""
        top = max(0, min(self.chosen - self.height // 2, len(self._fitting) - self.height))
        return top, self._fitting[top : top + self.height]

    def type(self, text: str) -> None:
        """Another filter: words that must all stand in a row."""
        self.filter = text
        self._is_wanted = self._has_moved = False
        self._look_again(None)

    def stretch(self, height: int) -> None:
        """Another number of rows in sight."""
        if height != self.height:
            self.height = height
            self._look_on(self.chosen + height)

    def move(self, by: int) -> None:
        """Another choice."""
        self._is_wanted = False
        self.chosen = max(0, self.chosen + by)
        self._look_on(self.chosen + self.height)
        self.chosen = max(0, min(self.chosen, len(self._fitting) - 1))
        self._has_moved = self.row is not None

    def take(self, read: Listed) -> None:
        """Reading has come further."""
        self.read = read
        if read.rows is not None:
            stays = self.row.name if self.row is not None and self._has_moved else None
            self._rows = read.rows
            self._look_again(stays)

    def enter(self) -> SessionRow | None:
        """The session that Enter means; None where there is none, or none yet."""
        self._is_wanted = self.row is None and not self.read.is_over
        return self.row

    @property
    def due(self) -> SessionRow | None:
        """What Enter has meant before all was read."""
        return self.row if self._is_wanted and self.read.is_over else None

    # ── looking ──────────────────────────────────────────────────────────────────────────────────

    def _look_again(self, name: str | None) -> None:
        """From the top, with the row of that name chosen if it fits; else the first."""
        self._fitting, self._looked, self.chosen = [], 0, 0
        if name is not None:
            self._look_on(len(self._rows))
            self.chosen = next((at for at, row in enumerate(self._fitting) if row.name == name), 0)
        self._look_on(self.chosen + self.height)

    def _look_on(self, wanted: int) -> None:
        """Until so many fit, or there is nothing more."""
        while self._looked < len(self._rows) and len(self._fitting) < wanted:
            row = self._rows[self._looked]
            self._looked += 1
            if fits(row, self.filter):
                self._fitting.append(row)


def fits(row: SessionRow, text: str) -> bool:
    """Whether every word of a text stands in a row, whatever its case."""
    words = text.casefold().split()
    if not words:
        return True
    there = "\n".join(
        word for word in (row.name, row.title, row.prompt, row.model, row.cwd, row.state, row.agent, row.sender) if word
    ).casefold()
    return all(word in there for word in words)


class Page(msgspec.Struct, frozen=True):
    """What is drawn of a list: some rows, of which one is chosen, and its place among all that were found."""

    rows: tuple[SessionRow, ...]
    chosen: int
    filter: str
    place: int = 1
    found: int = 1
    is_all: bool = True
    read: Listed = Listed(is_over=True)


def page_of(picking: Picking) -> Page:
    """The window as a value."""
    top, rows = picking.window
    place = picking.chosen
    return Page(tuple(rows), place - top, picking.filter, place + 1, *picking.found, picking.read)

"""State of the list of `chat --pick`: filter, choice and visible window over rows that may still be arriving.

It has no terminal code.
Rule 1: rows are filtered only as far as the window needs, so that ten thousand sessions filter as fast as ten.
Rule 2: new rows never change a choice that the user made; without one, the first row is chosen.
Rule 3: Enter means the chosen row; if there is none yet, it means the first match after all rows are read.
"""

from collections.abc import Sequence

import msgspec

from wakelog.cli.chat.listing import Listed
from wakelog.projections.session_row import SessionRow


class Picking:
    """The rows read so far, those that match, and the chosen one."""

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

    def take(self, read: Listed) -> None:
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
            if fits(row, self.filter):
                self._fitting.append(row)


def fits(row: SessionRow, text: str) -> bool:
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
    read: Listed = Listed(is_over=True)


def page_of(picking: Picking) -> Page:
    """Return the visible part as a value."""
    top, rows = picking.window
    place = picking.chosen
    return Page(tuple(rows), place - top, picking.filter, place + 1, *picking.found, picking.read)

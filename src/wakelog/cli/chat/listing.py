"""Rows of `chat --pick`, read in a thread, so that the list is shown before everything is read.

Rule 1: known rows come first; sessions that are new to the catalog follow while it reads them, the newest first.
Rule 2: rows are queried at growing intervals, so that showing them takes a small part of the time.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from wakelog.ports import Catalog
from wakelog.projections.session_row import SessionRow

PAGE = 50
_TOLD_S = 0.1
_SHOWN_S = 0.25


class Listed(msgspec.Struct, frozen=True):
    """Progress of reading. Without `rows`, the previous rows stay valid; `total` is 0 while it is unknown."""

    rows: Sequence[SessionRow] | None = None
    done: int = 0
    total: int = 0
    is_over: bool = False


Tell = Callable[[Listed], None]


def read_rows(catalog: Catalog, tell: Tell, seconds: Callable[[], float] = time.monotonic) -> None:
    """Refresh a catalog; report its rows meanwhile, and all of them at the end."""
    catalog.refresh(progress=_Reading(catalog, tell, seconds).step)
    tell(Listed(catalog.rows(limit=PAGE)))
    tell(Listed(catalog.rows(), is_over=True))


class _Reading:
    """Turns the steps of a refresh into reports."""

    def __init__(self, catalog: Catalog, tell: Tell, seconds: Callable[[], float]) -> None:
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
            self._tell(Listed(self._catalog.rows(limit=PAGE), done, total))
        elif passed >= 2 * self._shown + _SHOWN_S:
            self._tell(Listed(self._catalog.rows(), done, total))
            self._shown = self._told = passed
        elif passed >= self._told + _TOLD_S:
            self._tell(Listed(None, done, total))
            self._told = passed

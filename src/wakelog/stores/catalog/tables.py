"""`CatalogTables`: the database interface of a catalog, with session rows, searchable text and queries over both.

`indexing.py` fills the tables and `index.py` queries them. Implementations: `index_file.py` (file in the cache),
`stores/sqlite/catalog.py` and `stores/postgres/catalog.py`.
Rule 1: all data is derived and may be lost at any time. `CATALOG_VERSION` is raised with every change of what is
stored or how; tables of another version are rebuilt.
Rule 2: logs are read before anything is written, and each `write` is short, so that appends to a log are not blocked.
Rule 3: two processes may fill the same tables at once. The searchable entries of a log have places, counted from 0,
and the content of a place is a function of the log. A row is stored only when all its words are, and never over a
newer row.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from wakelog.ports.catalogs import SearchHit, SessionRow
from wakelog.ports.stores import SessionStat, Store
from wakelog.stores.catalog.query import HitPosition, Query, RowPosition

CATALOG_VERSION = 8


class CatalogUnusable(Exception):
    """The tables of a catalog cannot be stored at their location; says nothing about the logs."""


class ChangedLog(msgspec.Struct, frozen=True):
    """A log that differs from what the catalog knows. `before` is the recorded (size, changed), None if unknown."""

    stat: SessionStat
    before: tuple[int, int] | None = None


class IndexedLog(msgspec.Struct, frozen=True):
    """What the catalog knows of a log. `places` is the number of its searchable entries."""

    key: int
    name: str
    size: int
    changed: int
    id: str
    places: int
    bookmark: bytes | None

    def is_ahead_of(self, due: ChangedLog) -> bool:
        """Whether another process has indexed this change, or a later one, since it was found to be due."""
        return (self.size, self.changed) != due.before and self.changed >= due.stat.changed


class SearchableEntry(msgspec.Struct, frozen=True, gc=False):
    """A searchable entry at its place. `mark` is a checksum of its content and metadata.

    `seq` is None if an earlier entry has the same number, so that the number does not identify this entry.
    """

    place: int
    id: str
    type: str
    tools: str
    timestamp: str
    time_ms: int
    text: str
    mark: int
    seq: int | None


class RowUpdate(msgspec.Struct, frozen=True):
    """The row and bookmark to store for a log, on condition that `places` searchable entries are then stored."""

    due: ChangedLog
    row: SessionRow
    updated_ms: int
    places: int
    bookmark: bytes | None


class SessionChange(msgspec.Struct):
    """The changes to the words and the row of one session, applied in this order.

    The words from place `cut` on are deleted, `words` are added, the row in `kept` is stored. `kept` is None while the
    rest of the log is still being read.
    """

    name: str
    cut: int | None = None
    words: list[SearchableEntry] = []
    kept: RowUpdate | None = None


class Batch(msgspec.Struct):
    """One write: sessions to remove, sessions to mark as outdated, then the changes."""

    gone: list[str] = []
    outdated: list[str] = []
    changes: dict[str, SessionChange] = {}


class RowFilters(msgspec.Struct, frozen=True):
    """Filters for session rows; None does not filter."""

    archived: bool | None = None
    agent: str | None = None
    sender: str | None = None
    cwd: str | None = None
    state: str | None = None
    empty: bool | None = None


class CatalogTables(Protocol):
    """A database that stores a catalog.

    `failures` are the exceptions raised if the tables are damaged, missing or unreachable. About `batch_bytes` of
    logs are read per `writing`, and about `write_bytes` of words are collected per `write`.
    """

    failures: tuple[type[Exception], ...]
    batch_bytes: int
    write_bytes: int

    # ── filling ──────────────────────────────────────────────────────────────────────────────────

    def refreshing(self) -> AbstractContextManager[None]:
        """Enclose one refresh."""
        ...

    def changes(self, store: Store) -> tuple[dict[str, ChangedLog], list[str]]:
        """Return the changed logs by name, newest first, and the names of the sessions that no longer exist."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Enclose reading logs and writing the results; one transaction where that blocks no other writer."""
        ...

    def seen(self, names: Sequence[str]) -> Mapping[str, IndexedLog]:
        """Return what the catalog knows of these logs, by name; unknown ones are left out."""
        ...

    def marks(self, name: str, seen: IndexedLog | None, start: int) -> Sequence[int]:
        """Return the marks of the stored words from place `start` on, in order of place."""
        ...

    def forks(self, parents: Iterable[str], *, damage: int) -> Sequence[str]:
        """Return the names of the sessions forked from one of `parents` that have at least `damage` damage reports."""
        ...

    def write(self, batch: Batch) -> None:
        """Write the batch in one transaction."""
        ...

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def rows(self, filters: RowFilters, after: RowPosition | None, limit: int | None) -> Sequence[bytes]:
        """Return encoded rows, the most recently changed first."""
        ...

    def count(self, filters: RowFilters, after: RowPosition | None) -> int:
        """Return the number of rows."""
        ...

    def find(self, ref: str, limit: int) -> Sequence[bytes]:
        """Return the encoded rows with this id or name; if there are none, those whose id or name begins with it."""
        ...

    def is_damaged(self, name: str) -> bool:
        """Whether the session of that name has damage reports."""
        ...

    def search(
        self, query: Query, now_ms: int, mark: int, after: HitPosition | None, limit: int
    ) -> Sequence[SearchHit]:
        """Return up to `limit` hits after the position `after`, in order. `mark` is stored in their cursors."""
        ...

    # ── maintenance ──────────────────────────────────────────────────────────────────────────────

    def rebuild(self) -> None:
        """Discard all data; the next refresh starts from empty tables."""
        ...

    def close(self) -> None:
        """Close the open resources."""
        ...

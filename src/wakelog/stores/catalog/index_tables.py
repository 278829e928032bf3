"""Catalog tables in a separate file in the cache, for stores without catalog tables of their own.

Changes are found by comparing a listing of the store with the recorded sizes; one process at a time does that.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence

import msgspec

from wakelog.ports import Store
from wakelog.stores.catalog.fts_tables import FtsTables
from wakelog.stores.catalog.index_file import IndexFile
from wakelog.stores.catalog.tables import Due, Seen, Unusable
from wakelog.stores.locking import DEFAULT_WAIT, LockWait

_KNOWN = "SELECT name, size, changed FROM sessions"


class IndexTables(FtsTables):
    """See `CatalogTables`."""

    failures: tuple[type[Exception], ...] = (sqlite3.DatabaseError, msgspec.MsgspecError, Unusable)
    # Progress is committed after this many bytes, so that an interrupted first run is not lost.
    batch_bytes = 64 * 1024 * 1024
    stretch_bytes = 4 * 1024 * 1024

    def __init__(self, path: str, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.file = IndexFile(path, lock_wait=lock_wait)

    def refreshing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`."""
        return self.file.locked()

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`. No other writer waits for this file, so logs are read inside the transaction."""
        return self.file.writing()

    def changes(self, store: Store) -> tuple[dict[str, Due], list[str]]:
        """See `CatalogTables`."""
        with self._reading() as db:
            known = {name: (size, changed) for name, size, changed in db.execute(_KNOWN)}
        work = {}
        for stat in store.sessions():
            before = known.pop(stat.name, None)
            if before != (stat.size, stat.changed):
                work[stat.name] = Due(stat, before)
        by_age = sorted(work.values(), key=lambda due: due.stat.changed)
        return {due.stat.name: due for due in reversed(by_age)}, list(known)

    def marks(self, name: str, seen: Seen | None, start: int) -> Sequence[int]:
        """See `CatalogTables`. A key is assigned on the first write, so a session without a row has no words."""
        return super().marks(name, seen, start) if seen is not None else ()

    def rebuild(self) -> None:
        """See `CatalogTables`."""
        self.file.discard()

    def close(self) -> None:
        """See `CatalogTables`."""
        self.file.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        yield self.file.connection

    # Every `write` is inside `writing`.
    _transaction = _reading

    def _new_key(self, db: sqlite3.Connection, name: str) -> int:  # noqa: ARG002 - any unused number will do
        return int(db.execute("SELECT coalesce(max(key), 0) + 1 FROM sessions").fetchone()[0])

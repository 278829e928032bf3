"""The SQLite store: all sessions, their blobs and their journals in one file, `sqlite:FILE`.

The bytes of every entry are the truth and come back as they were; all columns beside them are derived. One file to
copy, back up and query with any SQLite shell, for one machine; a commit is synced where an entry must be kept.
"""

from collections.abc import Callable

from wakelog.stores.database.row_store import RowStore
from wakelog.stores.locking import DEFAULT_WAIT, LockWait
from wakelog.stores.sqlite.file import SqliteFile
from wakelog.stores.sqlite.tables import SqliteTables


class SqliteStore(RowStore):
    """Sessions in one SQLite file.

    `now` counts seconds since boot, for leases. `lock_wait`: the limit on the wait for another process's transaction.
    """

    def __init__(
        self, path: str, *, now: Callable[[], float] | None = None, lock_wait: LockWait = DEFAULT_WAIT
    ) -> None:
        self.file = SqliteFile(path, lock_wait=lock_wait)
        super().__init__(SqliteTables(self.file, now=now))

"""SQLite store: keeps all sessions, blobs and journals in one file, `sqlite:FILE`.

The bytes of every entry are stored unchanged; all other columns are derived from them. The file can be copied, backed
up and queried with any SQLite shell. It is for one machine. Commits of durable entries are synced.
"""

from collections.abc import Callable, Iterable

from wakelog.ports.stores import Exposure
from wakelog.stores.database.row_store import RowStore
from wakelog.stores.locking import DEFAULT_WAIT, LockWait
from wakelog.stores.ownership import Owners
from wakelog.stores.sqlite.file import SqliteFile
from wakelog.stores.sqlite.tables import SqliteTables


class SqliteStore(RowStore):
    """Sessions in one SQLite file. `now` returns seconds since boot, for leases.

    `trusted_owners`: other users and groups whose files may be run, such as `("ada", "uid:1000", "group:agents")`.
    `lock_wait`: the limit on waits for transactions of other processes.
    """

    def __init__(
        self,
        path: str,
        *,
        now: Callable[[], float] | None = None,
        trusted_owners: Owners = (),
        lock_wait: LockWait = DEFAULT_WAIT,
    ) -> None:
        self.file = SqliteFile(path, trusted_owners, lock_wait=lock_wait)
        super().__init__(SqliteTables(self.file, now=now))

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """See `ports.Store`. Checks the database file, which contains all sessions and blobs."""
        if session is not None:
            self.name(session)
        return (*super().custody(session, blobs=blobs), *self.file.exposures())

"""The PostgreSQL store: all sessions, their blobs and their journals in one database, `postgresql://…`.

For many workers on many machines: the server orders, judges leases by its own clock and wakes those who follow. The
bytes of every entry are the truth and come back as they were; all columns beside them are derived.
"""

from wakelog.errors import UsageError

try:
    # The pool is a package of its own, and brings the driver with it.
    import psycopg_pool  # noqa: F401 - only to see whether it is there
except ImportError as _missing:
    raise UsageError(
        f"PostgreSQL needs a driver that is not installed ({_missing})", hint="pip install 'wakelog[postgres]'"
    ) from _missing

from wakelog.stores.database.row_store import RowStore
from wakelog.stores.locking import DEFAULT_WAIT, LockWait
from wakelog.stores.postgres.database import Database
from wakelog.stores.postgres.tables import PostgresTables
from wakelog.stores.postgres.url import PostgresUrl


class PostgresStore(RowStore):
    """Sessions in the database at a URL; `url.py` says what may stand in it.

    `lock_wait`: the limit on the wait for another transaction's lock.
    """

    def __init__(self, url: str, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.database = Database(PostgresUrl(url, lock_timeout_s=lock_wait.timeout_s), lock_wait=lock_wait)
        super().__init__(PostgresTables(self.database))

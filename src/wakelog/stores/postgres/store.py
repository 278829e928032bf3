"""PostgreSQL store: keeps all sessions, blobs and journals in one database, `postgresql://…`.

For many workers on many machines: the server orders entries, checks leases by its own clock and notifies followers. The
bytes of every entry are stored unchanged; all other columns are derived from them.
"""

from wakelog.errors import UsageError

try:
    # The pool is a separate package that depends on the driver.
    import psycopg_pool  # noqa: F401 - only to check that it is installed
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
    """Sessions in the database of a URL (see `url.py`).

    `lock_wait`: the limit on waits for locks of other transactions.
    """

    def __init__(self, url: str, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.database = Database(PostgresUrl(url, lock_timeout_s=lock_wait.timeout_s), lock_wait=lock_wait)
        super().__init__(PostgresTables(self.database))

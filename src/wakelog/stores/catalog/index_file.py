"""The index in the cache: a SQLite file with catalog tables, for stores without catalog tables of their own.

Changes are found by comparing a listing of the store with the recorded sizes; one process at a time does that.
The file is either trusted or discarded. SQLite does not detect flipped bits. So every commit stores a timestamp in the
database, far enough in the past that no later write can have it, and sets the modification time of the file to it. A
file with another modification time was changed by something else, or a commit was interrupted: it is not trusted.
Rule 1: one process at a time opens, checks, writes or replaces the file, guarded by a lock file beside it.
Rule 2: where the cache cannot be written, `CatalogUnusable` is raised and the caller chooses another location.
"""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence

import msgspec

from wakelog.errors import StoreBusy
from wakelog.ports.stores import Store
from wakelog.stores import load
from wakelog.stores.catalog.fts_tables import FtsTables
from wakelog.stores.catalog.tables import CATALOG_VERSION, CatalogUnusable, ChangedLog, IndexedLog
from wakelog.stores.files import make_private_folders
from wakelog.stores.locking import DEFAULT_WAIT, LockWait, lock_file

IN_MEMORY = ":memory:"
_BUSY_TIMEOUT_S = 60.0
# Lists read rows in order of time, not of position in the file; a smaller cache reads the same pages repeatedly.
_CACHE_KIB = 64 * 1024
# A larger cache does not speed up writing, and a first index of large logs would fill all of it.
_WRITING_CACHE_KIB = 4 * 1024
_STAMP_NS = 2_000_000_000  # the coarsest timestamp resolution of file systems in use
_STAMP = ("CREATE TABLE stamp (changed INTEGER NOT NULL)", "INSERT INTO stamp VALUES (0)")


class IndexFile:
    """The database of one index. `connection` is valid until the next `locked`, which may replace it."""

    def __init__(self, path: str, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self._path = path
        self._lock_wait = lock_wait
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    @property
    def connection(self) -> sqlite3.Connection:
        """The open database connection."""
        if self._connection is None:
            with self.locked():
                pass
        assert self._connection is not None
        return self._connection

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the write lock, with a trusted database: the existing one, or a new empty one."""
        with self._lock():
            if self._connection is None or not self._is_trusted(self._connection):
                with _as_unusable():
                    self._open()
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Enclose one transaction and stamp the file. Only inside `locked`."""
        connection = self.connection
        connection.execute(f"PRAGMA cache_size = -{_WRITING_CACHE_KIB}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            stamp = (time.time_ns() // _STAMP_NS - 1) * _STAMP_NS
            connection.execute("UPDATE stamp SET changed = ?", (stamp,))
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        finally:
            with contextlib.suppress(sqlite3.Error):
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if self._path != IN_MEMORY:
            with _as_unusable():
                os.utime(self._path, ns=(stamp, stamp))

    def discard(self) -> None:
        """Delete the file; the next use creates an empty one."""
        self.close()
        with contextlib.suppress(CatalogUnusable, StoreBusy), self._lock(), _as_unusable():
            self._remove()

    def close(self) -> None:
        """Close the database."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        if self._path == IN_MEMORY:
            yield
            return
        with _as_unusable():
            make_private_folders(os.path.dirname(self._path))
            descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with _as_unusable():
                lock_file(descriptor, fcntl.LOCK_EX, f"the lock of the index {self._path}", self._lock_wait)
            yield
        finally:
            os.close(descriptor)

    def _open(self) -> None:
        self.close()
        self._connect()
        assert self._connection is not None
        if not self._is_trusted(self._connection):
            self.close()
            self._remove()
            self._connect()
            self._build()
        self._connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")

    def _connect(self) -> None:
        if self._path != IN_MEMORY:
            # SQLite would create the file readable by all users.
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            self._inode = os.stat(self._path).st_ino
        self._connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)

    def _build(self) -> None:
        assert self._connection is not None
        self._connection.execute("PRAGMA synchronous = NORMAL")
        with self.writing():
            for statement in _STAMP:
                self._connection.execute(statement)
            load("wakelog.stores.catalog.fts_tables").create_catalog_tables(self._connection)
            self._connection.execute(f"PRAGMA user_version = {CATALOG_VERSION}")

    def _is_trusted(self, connection: sqlite3.Connection) -> bool:
        """Whether the open database is the file at the path, of this version, unchanged since the last commit."""
        try:
            version = connection.execute("PRAGMA user_version").fetchone()
            stamp = connection.execute("SELECT changed FROM stamp").fetchall()
            if self._path == IN_MEMORY:
                return True
            found = os.stat(self._path)
        except (sqlite3.Error, OSError):
            return False
        return (version, stamp, found.st_ino) == ((CATALOG_VERSION,), [(found.st_mtime_ns,)], self._inode)

    def _remove(self) -> None:
        for path in (self._path, f"{self._path}-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


@contextlib.contextmanager
def _as_unusable() -> Iterator[None]:
    """Convert `OSError` to `CatalogUnusable`. Only for access to the index file, not for reading logs."""
    try:
        yield
    except OSError as error:
        raise CatalogUnusable(str(error)) from error


_INDEXED_SIZES = "SELECT name, size, changed FROM sessions"


class IndexTables(FtsTables):
    """See `CatalogTables`."""

    failures: tuple[type[Exception], ...] = (sqlite3.DatabaseError, msgspec.MsgspecError, CatalogUnusable)
    # Progress is committed after this many bytes, so that an interrupted first run is not lost.
    batch_bytes = 64 * 1024 * 1024
    write_bytes = 4 * 1024 * 1024

    def __init__(self, path: str, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.file = IndexFile(path, lock_wait=lock_wait)

    def refreshing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`."""
        return self.file.locked()

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`. No other writer waits for this file, so logs are read inside the transaction."""
        return self.file.writing()

    def changes(self, store: Store) -> tuple[dict[str, ChangedLog], list[str]]:
        """See `CatalogTables`."""
        with self._reading() as db:
            known = {name: (size, changed) for name, size, changed in db.execute(_INDEXED_SIZES)}
        work = {}
        for stat in store.sessions():
            before = known.pop(stat.name, None)
            if before != (stat.size, stat.changed):
                work[stat.name] = ChangedLog(stat, before)
        by_age = sorted(work.values(), key=lambda due: due.stat.changed)
        return {due.stat.name: due for due in reversed(by_age)}, list(known)

    def marks(self, name: str, seen: IndexedLog | None, start: int) -> Sequence[int]:
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

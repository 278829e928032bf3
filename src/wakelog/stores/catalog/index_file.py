"""The file under the index: one SQLite database in the cache that is either trusted or thrown away.

SQLite does not notice a flipped bit. So every commit writes down a time, long past enough that no later
write can bear it, and gives the file that time of change: a file whose own time is another one was
touched by something else (or a commit of ours was cut short), and nothing in it is believed.
Rule 1: one process at a time opens, checks, writes or replaces the file; a lock file beside it orders them.
Rule 2: where the cache cannot be written, the file is `Unusable`, and somebody else thinks of another place.
"""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator

from wakelog.errors import StoreBusy
from wakelog.stores import load
from wakelog.stores.catalog.tables import CATALOG_VERSION, Unusable
from wakelog.stores.files import make_private_folders
from wakelog.stores.locking import DEFAULT_WAIT, LockWait, lock_file

IN_MEMORY = ":memory:"
_BUSY_TIMEOUT_S = 60.0
# A list walks the rows in the order of time and not of the file; with less than this, pages are read again and again.
_CACHE_KIB = 64 * 1024
# Writing gains nothing from more than this, and a first index of large logs would take all of it.
_WRITING_CACHE_KIB = 16 * 1024
_STAMP_NS = 2_000_000_000  # the coarsest clock of a file system that is still about
_STAMP = ("CREATE TABLE stamp (changed INTEGER NOT NULL)", "INSERT INTO stamp VALUES (0)")


class IndexFile:
    """The database of one index. `connection` is good until the next `locked`, which may replace it."""

    def __init__(self, path: str, *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self._path = path
        self._lock_wait = lock_wait
        self._connection: sqlite3.Connection | None = None
        self._inode = 0

    @property
    def connection(self) -> sqlite3.Connection:
        """The open database."""
        if self._connection is None:
            with self.locked():
                pass
        assert self._connection is not None
        return self._connection

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """The right to write, with a database that can be believed: the one there was, or an empty one."""
        with self._lock():
            if self._connection is None or not self._is_trusted(self._connection):
                with _usable():
                    self._open()
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction, stamped. Only inside `locked`."""
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
            with _usable():
                os.utime(self._path, ns=(stamp, stamp))

    def discard(self) -> None:
        """Throws the file away; the next use begins with an empty one."""
        self.close()
        with contextlib.suppress(Unusable, StoreBusy), self._lock(), _usable():
            self._remove()

    def close(self) -> None:
        """Closes the database."""
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
        with _usable():
            make_private_folders(os.path.dirname(self._path))
            descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with _usable():
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
            # SQLite would make the file readable for everybody.
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
            load("wakelog.stores.catalog.schema").make(self._connection)
            self._connection.execute(f"PRAGMA user_version = {CATALOG_VERSION}")

    def _is_trusted(self, connection: sqlite3.Connection) -> bool:
        """Whether the open database is the file that stands there, of our version, and as we left it."""
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
def _usable() -> Iterator[None]:
    """Around our own file only: what goes wrong while a log is read is not the index's fault."""
    try:
        yield
    except OSError as error:
        raise Unusable(str(error)) from error

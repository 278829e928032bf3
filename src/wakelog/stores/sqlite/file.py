"""SQLite database file: its connections, write lock and transactions. Schema and errors are in `schema.py`.

There are three connections, each used by one thread at a time: one reads, one writes and syncs every commit, one writes
without a sync (journals, and entries that need none). In WAL mode unsynced commits survive a crash of the process.
Rule 1: only SQLite's own lock, held for one transaction, keeps other writers out. Writers poll for it, and some could
starve. So they first queue for a lock file, and proceed without it if a stopped process holds it: a process that is
stopped outside of a transaction does not keep other processes from writing.
Rule 2: reading creates nothing. A missing file reads as an empty one; the first write brings the schema up to date.
Rule 3: after an input/output error a connection is closed, and the next use opens a new one. A write that failed leaves
the write-ahead log in doubt: it is written again before the next transaction (`wal.py`).
Rule 4: automatic checkpoints run only on the connection that syncs its commits.
"""

import contextlib
import errno
import fcntl
import functools
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote

from wakelog.errors import NewerFormat, StoreBusy, StoreError
from wakelog.ports.stores import Exposure
from wakelog.stores.database.migrations import migrations, newest
from wakelog.stores.file_events import MODIFIED
from wakelog.stores.files import doubt_of, make_private_folders, storage, storage_error, sync_folder
from wakelog.stores.locking import (
    DEFAULT_WAIT,
    LockWait,
    QueueWait,
    Wait,
    busy_error,
    file_lock_holder,
    try_lock,
    wait_for_file_lock,
)
from wakelog.stores.ownership import Owners, OwnershipChecks, folders_above
from wakelog.stores.process_identity import sqlite_holder
from wakelog.stores.sqlite import wal
from wakelog.stores.sqlite.schema import (
    APPLICATION_ID,
    apply_migration,
    check_file_header,
    empty_database,
    is_busy,
    result_code,
    schema_version,
    store_error,
)

T = TypeVar("T")
_Use: TypeAlias = Literal["read", "sync", "quick"]
# How long closing waits for a thread that uses a connection.
_CLOSE_WAIT_S = 1.0
_SYNCHRONOUS = {"read": "NORMAL", "sync": "FULL", "quick": "NORMAL"}


_SQLITE_MIN = (3, 37, 0)
# The part of the wait limit that a writer queues for the lock file, and how long it does not queue after a timeout.
_QUEUE_PART = 0.5
_NO_QUEUE_S = 60.0
_CACHE_KIB = 16 * 1024
# The size of the write-ahead log is checked each time this many rows were changed without a sync.
_CHECKPOINT_CHECK_ROWS = 256
_INHERITED: list[sqlite3.Connection] = []


class SqliteFile:
    """One database file, opened on first use."""

    def __init__(self, path: str, owners: Owners = (), *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.path = os.path.abspath(path)
        self.custody = OwnershipChecks(owners)
        self._lock_wait = lock_wait
        self._connections: dict[_Use, sqlite3.Connection] = {}
        self._lock, self._no_queue_until = -1, 0.0
        self._wait: Wait | None = None
        self._is_current = self._has_schema = self._is_queued = False
        self._changes = 0
        self._begin()

    def _begin(self) -> None:
        """Set up the state of this process. Connections are closed at exit; SQLite then removes its extra files."""
        self._reading, self._writing = threading.RLock(), threading.RLock()
        locks = (self._reading, self._writing)
        weakref.finalize(self, _close_all, self.path, self._connections, locks, os.getpid())
        self._pid = os.getpid()

    # ── reading and writing ──────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The read connection. A missing file reads as an empty database."""
        self._reset_after_fork()
        with self._reading, self._translating_errors("read", "read"):
            if self._is_begun():
                yield self._connection("read")
                return
            with contextlib.closing(empty_database()) as nothing:
                yield nothing

    def _is_begun(self) -> bool:
        """Whether the file has a schema. It may have none yet while another process creates it."""
        self._has_schema = self._has_schema or (self._is_there() and schema_version(self._connection("read")) > 0)
        return self._has_schema

    def _is_there(self) -> bool:
        """Whether the file exists; an error if this user has no permission to find out."""
        with storage(f"read {self.path}"):
            try:
                os.stat(self.path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    @contextlib.contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One exclusive write transaction, which is synced at its commit if `durable`."""
        with self.turn(durable=durable) as connection, self.transaction(connection):
            yield connection

    def turn(self, *, durable: bool = True) -> "WriteTurn":
        """A writer's turn, for a `with` statement; each statement in it is its own transaction."""
        return WriteTurn(self, "sync" if durable else "quick")

    def take_turn(self, use: _Use) -> sqlite3.Connection:
        """Wait in the queue of writers and return the connection. Other writers are excluded only by a transaction."""
        self._reset_after_fork()
        wait = None
        if not self._writing.acquire(blocking=False):
            wait = self._new_wait()
            wait.acquire(self._writing)
        try:
            self._wait = wait
            self._make()
            self._queue()
        except BaseException as error:
            self._writing.release()
            if isinstance(error, OSError):
                raise storage_error(f"lock {self.path}", error) from error
            raise
        try:
            if doubt_of(self._lock) is not None:
                self._resolve_doubt()
            connection = self._connection(use)
            self._bring_up_to_date(connection)
        except BaseException as error:
            self.give_turn(use, error)
            raise
        return connection

    def _queue(self) -> None:
        """Take the lock on the lock file if it is free in time. It makes waiting fair; correctness does not need it."""
        self._is_queued = try_lock(self._lock, fcntl.LOCK_EX)
        if self._is_queued or time.monotonic() < self._no_queue_until:
            return
        limit_s = self._lock_wait.timeout_s * _QUEUE_PART
        queue = QueueWait(self._waiting(), limit_s, lambda: file_lock_holder(self._lock))
        try:
            wait_for_file_lock(self._lock, fcntl.LOCK_EX, queue)
            self._is_queued = True
        except StoreBusy:
            # A thread may still wait for the lock of this open file, so open it again.
            os.close(self._lock)
            self._lock = self._opened_lock()
            self._no_queue_until = time.monotonic() + _NO_QUEUE_S

    def _waiting(self) -> Wait:
        """The wait of this turn, started on first use; one limit covers all waits of the turn."""
        if self._wait is None:
            self._wait = self._new_wait()
        return self._wait

    def _new_wait(self) -> Wait:
        return Wait(self._lock_wait, f"the write lock of {self.path}", functools.partial(sqlite_holder, self.path))

    def repeated(self, statement: Callable[[], T]) -> T:
        """Run a statement that begins a transaction; repeat it while another process is in a transaction."""
        try:
            return statement()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        while True:
            self._waiting().pause()
            try:
                return statement()
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise

    def give_turn(self, use: _Use, error: BaseException | None) -> None:
        """End the turn. An SQLite error is raised as `StoreError` after the connection was dropped."""
        if isinstance(error, sqlite3.Error):
            wal.mark_if_in_doubt(self._lock, result_code(error))
            self._drop(use, lock=self._lock if self._is_queued else None)
        elif use == "quick" and error is None and self._is_queued:
            self._checkpoint_if_long()
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._writing.release()
        if isinstance(error, sqlite3.Error):
            raise self._write_error(error) from error

    def sync(self) -> None:
        """Sync earlier unsynced commits. An empty durable transaction would not do that: SQLite writes nothing then."""
        with self.turn():
            wal.sync(self.path, self._lock)

    def _resolve_doubt(self) -> None:
        """Write the bytes in doubt again, and drop the write connections, which may still report the old error.

        `StoreBusy` without the lock on the lock file: a writer that proceeded without it must not rewrite the
        write-ahead log at the same time as the stopped lock holder.
        """
        if not self._is_queued:
            raise busy_error(f"the lock file of {self.path}", file_lock_holder(self._lock), 0.0)
        wal.resolve_doubt(self.path, self._lock)
        self._drop("sync", lock=self._lock)
        self._drop("quick", lock=self._lock)

    def _checkpoint_if_long(self) -> None:
        """Checkpoint the write-ahead log if unsynced commits made it long; checked once every `_CHANGES` rows."""
        connection = self._connections["quick"]
        changes = connection.total_changes // _CHECKPOINT_CHECK_ROWS
        if changes != self._changes:
            self._changes = changes
            wal.checkpoint(self.path, self._lock, connection)

    def exposures(self) -> Iterator[Exposure]:
        """The exposures of the folders above the file, the file itself, SQLite's extra files and the lock file.

        SQLite follows links to the file and creates its extra files beside the real file.
        """
        real = os.path.realpath(self.path)
        for above in folders_above(self.path):
            yield from self._checked_path(above, self.custody.exposure_above)
        beside = (f"{real}{ending}" for ending in ("-wal", "-shm", "-journal"))
        for path in dict.fromkeys((self.path, *beside, f"{self.path}-lock")):
            yield from self._checked_path(path, self.custody.exposure)

    def _checked_path(self, path: str, judge: Callable[[str, os.stat_result], Exposure | None]) -> Iterator[Exposure]:
        with storage(f"look at {path}"):
            try:
                exposure = judge(path, os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return
        if exposure is not None:
            yield exposure

    def watched_paths(self) -> dict[str, int]:
        """The files that change with a commit, with the events to watch for. SQLite creates `-wal` beside the file."""
        real = os.path.realpath(self.path)
        return dict.fromkeys((real, f"{real}-wal"), MODIFIED)

    def version(self) -> int:
        """The version of the schema; 0 if there is none yet."""
        with self.reading() as connection:
            return schema_version(connection)

    def close(self) -> None:
        """Close all connections and the lock file; the next use opens them again."""
        self._reset_after_fork()
        with self._writing, self._reading:
            wal.close(self.path, self._connections.values())
            self._connections.clear()
            if self._lock >= 0:
                os.close(self._lock)
            self._lock, self._is_current, self._has_schema = -1, False, False

    # ── opening ──────────────────────────────────────────────────────────────────────────────────

    def _connection(self, use: _Use) -> sqlite3.Connection:
        connection = self._connections.get(use)
        if connection is None:
            connection = self._connections[use] = self._connect(use)
        return connection

    def _connect(self, use: _Use) -> sqlite3.Connection:
        if sqlite3.sqlite_version_info < _SQLITE_MIN:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old", hint="3.37 or newer is needed")
        if os.path.exists(self.path) and not os.path.isfile(self.path):
            raise StoreError(f"{self.path} is not a file", hint="give the path of a file after `sqlite:`")
        connection = self._opened(use)
        try:
            self._check_ours(connection)
            connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[use]}")
            connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            connection.execute("PRAGMA trusted_schema = OFF")
            if use != "read":
                # Waiting is left to `repeated`, which can name the lock holder.
                connection.execute("PRAGMA busy_timeout = 0")
            if use != "sync":
                connection.execute("PRAGMA wal_autocheckpoint = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened(self, use: _Use) -> sqlite3.Connection:
        if use != "read":
            # SQLite would open the file read-only instead, and create files beside it.
            self._check_access(os.W_OK, "write to")
            return self._connected("rw")
        self._check_access(os.R_OK, "read")
        for mode in self._read_modes():
            with contextlib.suppress(sqlite3.OperationalError):
                connection = self._connected(mode)
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()
                return connection
        return self._connected("ro")

    def _connected(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(self.path)}?mode={mode}",
            uri=True,
            timeout=self._lock_wait.timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )

    def _check_access(self, how: int, doing: str) -> None:
        """Raise `NoAccess` without permission. Does not open the file: closing it would release SQLite's locks."""
        if os.path.exists(self.path) and not os.access(self.path, how):
            raise storage_error(f"{doing} {self.path}", PermissionError(errno.EACCES, ""))

    def _read_modes(self) -> tuple[str, ...]:
        """The modes to try for reading. Without write access no files may be created beside the database.

        In that case a file without a write-ahead log can only be read as immutable.
        """
        if os.access(self.path, os.W_OK):
            return ("rw", "ro", "ro&immutable=1")
        return ("ro",) if os.path.exists(f"{self.path}-wal") else ("ro&immutable=1",)

    def _check_ours(self, connection: sqlite3.Connection) -> None:
        """Refuse a database of another program (`StoreError`) or of a newer wakelog (`NewerFormat`)."""
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application_id != APPLICATION_ID:
            raise StoreError(f"{self.path} is a database of another program", hint="choose another file")
        if schema_version(connection) > newest("sqlite"):
            raise NewerFormat(
                f"{self.path} has schema {schema_version(connection)}; this wakelog knows {newest('sqlite')}",
                hint="upgrade wakelog",
            )

    def _make(self) -> None:
        """Create the database file with mode 0600 if it is missing, sync its name, and open the lock file."""
        if self._lock >= 0:
            return
        with storage(f"make {self.path}"):
            folder = os.path.dirname(self.path)
            make_private_folders(folder)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
                sync_folder(folder)
            found = os.stat(self.path)
            if not stat.S_ISREG(found.st_mode):
                raise StoreError(f"{self.path} is not a file", hint="give the path of a file after `sqlite:`")
            self.custody.check_owner("the file", self.path, found)
            if found.st_size and not os.path.exists(f"{self.path}-lock"):
                check_file_header(self.path)
            self._lock = self._opened_lock()

    def _opened_lock(self) -> int:
        return os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _reset_after_fork(self) -> None:
        """Reset the state in a forked child. Inherited connections stay open: closing them would affect the parent."""
        if self._pid != os.getpid():
            _INHERITED.extend(self._connections.values())
            self._connections = {}
            if self._lock >= 0:
                os.close(self._lock)
            self._lock, self._is_current, self._has_schema = -1, False, False
            self._begin()

    # ── the schema ───────────────────────────────────────────────────────────────────────────────

    def _bring_up_to_date(self, connection: sqlite3.Connection) -> None:
        if self._is_current:
            return
        if schema_version(connection) < newest("sqlite"):
            self.repeated(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            with self.transaction(connection):
                version = schema_version(connection)
                for step in migrations("sqlite"):
                    if step.version > version:
                        apply_migration(connection, step)
        self._is_current = True

    @contextlib.contextmanager
    def transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """One exclusive write transaction, in a writer's turn."""
        self.begin(connection)
        try:
            yield
            self.repeated(lambda: connection.execute("COMMIT"))
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    def begin(self, connection: sqlite3.Connection) -> None:
        """Begin a transaction that writes."""
        self.repeated(lambda: connection.execute("BEGIN IMMEDIATE"))

    # ── errors ───────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _translating_errors(self, use: _Use, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._drop(use)
            if is_busy(error):
                raise self._busy() from error
            raise store_error(f"cannot {doing} {self.path}", error) from error

    def _busy(self) -> StoreBusy:
        """The error for a statement that SQLite itself waited with, such as a read while the file is created."""
        return busy_error(f"the lock of {self.path}", sqlite_holder(self.path), self._lock_wait.timeout_s)

    def _write_error(self, error: sqlite3.Error) -> StoreError:
        """The error for a failed write. SQLite does not report a read-only folder as such, so that is checked here."""
        if is_busy(error):
            return self._busy()
        folder = os.path.dirname(self.path)
        if result_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) and not os.access(folder, os.W_OK):
            return storage_error(f"write to {self.path}", PermissionError(errno.EACCES, "", folder))
        return store_error(f"cannot write to {self.path}", error)

    def _drop(self, use: _Use, *, lock: int | None = None) -> None:
        connection = self._connections.pop(use, None)
        if connection is not None:
            wal.close(self.path, [connection], lock=lock)


class WriteTurn:
    """Context manager for one writer's turn. A class, because every append uses it and generators are slower."""

    __slots__ = ("_file", "_use")

    def __init__(self, file: SqliteFile, use: _Use) -> None:
        self._file = file
        self._use = use

    def __enter__(self) -> sqlite3.Connection:
        return self._file.take_turn(self._use)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.give_turn(self._use, error)


def _close_all(
    path: str, connections: dict[_Use, sqlite3.Connection], locks: "Sequence[threading.RLock]", pid: int
) -> None:
    """Close the connections of this process, but none that another thread uses: that would crash the process."""
    if pid != os.getpid():
        return
    with contextlib.ExitStack() as held:
        for lock in locks:
            if not lock.acquire(timeout=_CLOSE_WAIT_S):
                return
            held.callback(lock.release)
        wal.close(path, connections.values())

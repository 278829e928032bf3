"""The file under the SQLite store: its connections, its lock, its schema, and what can go wrong with them.

Three connections, each used by one thread at a time: one reads, one writes and syncs at every commit, one writes
without a sync (journals, and entries that need none): with a write-ahead log that still survives the process.
Rule 1: SQLite's own lock, held for one transaction, is the only one that keeps another writer out. Writers poll for it,
and the unlucky ones would starve. So they queue for a lock file first, and go on without it where a stopped process
has it: a process that is stopped outside of a transaction keeps no other process from writing.
Rule 2: reading makes nothing. A file that is not there reads as an empty one; the schema is brought up to date by
the first write.
Rule 3: after an input/output error a connection is closed, and the next use opens a new one. A write that failed leaves
the write-ahead log in doubt: it is written again before the next transaction (`wal.py`).
Rule 4: SQLite runs checkpoints by itself only behind a commit that was synced.
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
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote

from wakelog.errors import Damaged, NewerFormat, NoAccess, StoreBusy, StoreError, Unavailable
from wakelog.ports import Exposure
from wakelog.stores.custody import Custody, Owners, folders_above
from wakelog.stores.database.migrations import Migration, migrations, newest
from wakelog.stores.doubt import doubt_of
from wakelog.stores.files import make_private_folders, storage, storage_error, sync_folder
from wakelog.stores.lock_holders import sqlite_holder
from wakelog.stores.locking import (
    DEFAULT_WAIT,
    LockWait,
    QueueWait,
    Wait,
    busy,
    file_lock_holder,
    is_locked,
    wait_for_file,
)
from wakelog.stores.sqlite import wal

T = TypeVar("T")
_Use: TypeAlias = Literal["read", "sync", "quick"]
_SYNCHRONOUS = {"read": "NORMAL", "sync": "FULL", "quick": "NORMAL"}
# "wake": so that another program's database is never taken for ours.
_APPLICATION_ID = 0x77616B65
# How a database begins; its program stands behind that.
_MAGIC, _BEGINNING_BYTES = b"SQLite format 3\0", 72
_SQLITE_MIN = (3, 37, 0)
# Which part of the whole wait a writer queues for the lock file, and how long it does not queue again after that.
_QUEUE_PART = 0.5
_NO_QUEUE_S = 60.0
_CACHE_KIB = 16 * 1024
# So many rows are changed without a sync before the length of the write-ahead log is looked at.
_CHANGES = 256
_INHERITED: list[sqlite3.Connection] = []


class SqliteFile:
    """One database file, opened when it is needed."""

    def __init__(self, path: str, owners: Owners = (), *, lock_wait: LockWait = DEFAULT_WAIT) -> None:
        self.path = os.path.abspath(path)
        self.custody = Custody(owners)
        self._lock_wait = lock_wait
        self._connections: dict[_Use, sqlite3.Connection] = {}
        self._lock, self._no_queue_until = -1, 0.0
        self._wait: Wait | None = None
        self._is_current = self._has_schema = self._is_queued = False
        self._changes = 0
        self._begin()

    def _begin(self) -> None:
        """The state of one process. At its end connections are closed, and the last one leaves a single file behind."""
        weakref.finalize(self, _close_all, self.path, self._connections, os.getpid())
        self._reading, self._writing = threading.RLock(), threading.RLock()
        self._pid = os.getpid()

    # ── using it ─────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection that reads. A file that is not there reads as an empty one."""
        self._leave_to_parent()
        with self._reading, self._failing("read", "read"):
            if self._is_begun():
                yield self._connection("read")
                return
            with contextlib.closing(_empty()) as nothing:
                yield nothing

    def _is_begun(self) -> bool:
        """Whether there is a schema to read from: whoever makes the file may not have come so far."""
        self._has_schema = self._has_schema or (self._is_there() and _version(self._connection("read")) > 0)
        return self._has_schema

    def _is_there(self) -> bool:
        """Whether there is a file. One that this user may not look for is not taken for none."""
        with storage(f"read {self.path}"):
            try:
                os.stat(self.path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

    @contextlib.contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """One transaction, alone among all writers of this file; durable when it is over, if that is asked for."""
        with self.turn(durable=durable) as connection, self._transaction(connection):
            yield connection

    def turn(self, *, durable: bool = True) -> "Turn":
        """The right to write, for a `with`: each statement in it is a transaction of its own."""
        return Turn(self, "sync" if durable else "quick")

    def take_turn(self, use: _Use) -> sqlite3.Connection:
        """Queue with all other writers of this file. Only a transaction keeps them out."""
        self._leave_to_parent()
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
                self._settle()
            connection = self._connection(use)
            self._bring_up_to_date(connection)
        except BaseException as error:
            self.give_turn(use, error)
            raise
        return connection

    def _queue(self) -> None:
        """Take the lock file if it is free in time. It makes waiting fair; nothing depends on it."""
        self._is_queued = is_locked(self._lock, fcntl.LOCK_EX)
        if self._is_queued or time.monotonic() < self._no_queue_until:
            return
        limit_s = self._lock_wait.timeout_s * _QUEUE_PART
        queue = QueueWait(self._waiting(), limit_s, lambda: file_lock_holder(self._lock))
        try:
            wait_for_file(self._lock, fcntl.LOCK_EX, queue)
            self._is_queued = True
        except StoreBusy:
            # A thread may still wait for the lock of this descriptor.
            os.close(self._lock)
            self._lock = self._opened_lock()
            self._no_queue_until = time.monotonic() + _NO_QUEUE_S

    def _waiting(self) -> Wait:
        """The wait of this turn, begun when it is needed: one limit for all that the turn waits for."""
        if self._wait is None:
            self._wait = self._new_wait()
        return self._wait

    def _new_wait(self) -> Wait:
        return Wait(self._lock_wait, f"the write lock of {self.path}", functools.partial(sqlite_holder, self.path))

    def repeated(self, statement: Callable[[], T]) -> T:
        """Run a statement that begins a transaction; again and again while another process is inside of one."""
        try:
            return statement()
        except sqlite3.OperationalError as error:
            if not _is_busy(error):
                raise
        while True:
            self._waiting().pause()
            try:
                return statement()
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise

    def give_turn(self, use: _Use, error: BaseException | None) -> None:
        """Lets the next one write. An error of SQLite is told in our words."""
        if isinstance(error, sqlite3.Error):
            wal.doubt(self._lock, _code(error))
            self._drop(use, lock=self._lock if self._is_queued else None)
        elif use == "quick" and error is None and self._is_queued:
            self._keep_short()
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        self._writing.release()
        if isinstance(error, sqlite3.Error):
            raise self._write_error(error) from error

    def sync(self) -> None:
        """Syncs what was committed without one. A commit that changes nothing would not: SQLite then writes nothing."""
        with self.turn():
            wal.sync(self.path, self._lock)

    def _settle(self) -> None:
        """Writes again what is in doubt. Other descriptors of the file may still report the error: they are closed.

        That needs the lock file: a writer that has passed a stopped one in the queue must not do it beside that one.
        """
        if not self._is_queued:
            raise busy(f"the lock file of {self.path}", file_lock_holder(self._lock), 0.0)
        wal.settle(self.path, self._lock)
        self._drop("sync", lock=self._lock)
        self._drop("quick", lock=self._lock)

    def _keep_short(self) -> None:
        """Looks once in a while whether commits without a sync have made the write-ahead log long."""
        connection = self._connections["quick"]
        changes = connection.total_changes // _CHANGES
        if changes != self._changes:
            self._changes = changes
            wal.checkpoint(self.path, self._lock, connection)

    def exposures(self) -> Iterator[Exposure]:
        """What is exposed of the folders above the file, the file, and SQLite's files and the lock beside it.

        SQLite follows links to the file and puts its own files beside the real one.
        """
        real = os.path.realpath(self.path)
        for above in folders_above(self.path):
            yield from self._judged(above, self.custody.exposure_above)
        beside = (f"{real}{ending}" for ending in ("-wal", "-shm", "-journal"))
        for path in dict.fromkeys((self.path, *beside, f"{self.path}-lock")):
            yield from self._judged(path, self.custody.exposure)

    def _judged(self, path: str, judge: Callable[[str, os.stat_result], Exposure | None]) -> Iterator[Exposure]:
        with storage(f"look at {path}"):
            try:
                exposure = judge(path, os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return
        if exposure is not None:
            yield exposure

    def version(self) -> int:
        """The version of the schema; 0 where there is none yet."""
        with self.reading() as connection:
            return _version(connection)

    def close(self) -> None:
        """Closes everything; the next use opens it anew."""
        self._leave_to_parent()
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
                # From here on `repeated` waits, and says for whom.
                connection.execute("PRAGMA busy_timeout = 0")
            if use != "sync":
                connection.execute("PRAGMA wal_autocheckpoint = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def _opened(self, use: _Use) -> sqlite3.Connection:
        if use != "read":
            # SQLite would open it all the same, to read, and leave files beside it.
            self._check_access(os.W_OK, "write to")
            return self._connected("rw")
        self._check_access(os.R_OK, "read")
        for mode in self._ways_to_read():
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
        """Opening the file to find out would let go of SQLite's locks on it when it is closed again."""
        if os.path.exists(self.path) and not os.access(self.path, how):
            raise storage_error(f"{doing} {self.path}", PermissionError(errno.EACCES, ""))

    def _ways_to_read(self) -> tuple[str, ...]:
        """How the file may be opened. Where we may not write, SQLite's files beside it would be in others' way.

        Without write access a file that nobody has in use can only be read as if it never changed.
        """
        if os.access(self.path, os.W_OK):
            return ("rw", "ro", "ro&immutable=1")
        return ("ro",) if os.path.exists(f"{self.path}-wal") else ("ro&immutable=1",)

    def _check_ours(self, connection: sqlite3.Connection) -> None:
        """Refuses a database of another program, and one of a newer wakelog."""
        (ours,) = connection.execute("PRAGMA application_id").fetchone()
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and ours != _APPLICATION_ID:
            raise StoreError(f"{self.path} is a database of another program", hint="choose another file")
        if _version(connection) > newest("sqlite"):
            raise NewerFormat(
                f"{self.path} has schema {_version(connection)}; this wakelog knows {newest('sqlite')}",
                hint="upgrade wakelog",
            )

    def _make(self) -> None:
        """The file, private to its owner and durable by name."""
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
                _check_beginning(self.path)
            self._lock = self._opened_lock()

    def _opened_lock(self) -> int:
        return os.open(f"{self.path}-lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def _leave_to_parent(self) -> None:
        """After a fork what is open is the parent's. It is kept, because even closing it would touch its locks."""
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
        if _version(connection) < newest("sqlite"):
            self.repeated(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            with self._transaction(connection):
                version = _version(connection)
                for step in migrations("sqlite"):
                    if step.version > version:
                        apply(connection, step)
        self._is_current = True

    @contextlib.contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
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

    # ── what goes wrong ──────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _failing(self, use: _Use, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self._drop(use)
            if _is_busy(error):
                raise self._busy() from error
            raise store_error(f"cannot {doing} {self.path}", error) from error

    def _busy(self) -> StoreBusy:
        """The error of a statement that SQLite itself waited with: a reader meets a file that is being made."""
        return busy(f"the lock of {self.path}", sqlite_holder(self.path), self._lock_wait.timeout_s)

    def _write_error(self, error: sqlite3.Error) -> StoreError:
        """What SQLite said of a write. It does not tell a folder that it may not write to from other trouble."""
        if _is_busy(error):
            return self._busy()
        folder = os.path.dirname(self.path)
        if _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) and not os.access(folder, os.W_OK):
            return storage_error(f"write to {self.path}", PermissionError(errno.EACCES, "", folder))
        return store_error(f"cannot write to {self.path}", error)

    def _drop(self, use: _Use, *, lock: int | None = None) -> None:
        connection = self._connections.pop(use, None)
        if connection is not None:
            wal.close(self.path, [connection], lock=lock)


class Turn:
    """One writer's turn at a file. A class and not a generator: every append takes one."""

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


def _close_all(path: str, connections: dict[_Use, sqlite3.Connection], pid: int) -> None:
    if pid == os.getpid():
        wal.close(path, connections.values())


def _check_beginning(path: str) -> None:
    """Refuses what is no database, or plainly another program's, before a lock is left beside it."""
    with open(path, "rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    if not beginning.startswith(_MAGIC):
        raise Damaged(f"{path} is not a database", hint=_HINTS[sqlite3.SQLITE_NOTADB])
    program = int.from_bytes(beginning[-4:], "big")
    # A new database says whose it is in its write-ahead log first.
    if program not in (0, _APPLICATION_ID):
        raise StoreError(f"{path} is a database of another program", hint="choose another file")


def _empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for step in migrations("sqlite"):
        apply(connection, step)
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def apply(connection: sqlite3.Connection, step: Migration) -> None:
    """One step of the schema, statement by statement, inside a transaction of the caller's."""
    statement = ""
    for line in step.sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA user_version = {step.version:d}")
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID:d}")


_HINTS = {
    sqlite3.SQLITE_FULL: os.strerror(errno.ENOSPC) + ": free some space and try again",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only; check who owns it and its permissions",
    sqlite3.SQLITE_PERM: "check who owns the file and its permissions",
    sqlite3.SQLITE_CANTOPEN: "check that the folder is there, who owns it and its permissions",
    sqlite3.SQLITE_LOCKED: "another program has locked the file; let it finish and try again",
    sqlite3.SQLITE_IOERR: "the disk reported an error; what was acknowledged before is kept",
    sqlite3.SQLITE_NOTADB: "give the path of a database that wakelog has made, or of none",
    sqlite3.SQLITE_CORRUPT: "`sqlite3 FILE .recover` may save what can be read; then restore or copy it",
}


_KINDS: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_NOTADB: Damaged,
    sqlite3.SQLITE_CORRUPT: Damaged,
    sqlite3.SQLITE_PERM: NoAccess,
    sqlite3.SQLITE_BUSY: Unavailable,
    sqlite3.SQLITE_LOCKED: Unavailable,
}


def store_error(what: str, error: sqlite3.Error) -> StoreError:
    """What SQLite said, in one line, with what to do now."""
    code = _code(error)
    return _KINDS.get(code, StoreError)(f"{what}: {error}", hint=_HINTS.get(code, ""))


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_BUSY


def _code(error: sqlite3.Error) -> int:
    """The kind of an error: the lower byte of its code. What is above it tells which call failed."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF

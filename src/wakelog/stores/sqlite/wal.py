"""SQLite write-ahead log: sync it, checkpoint it, and write it again after a failed commit (see `stores/files.py`).

A commit is durable when its frames in `FILE-wal` are. SQLite recovers frames up to the first incomplete one, so a frame
missing on the device loses every later commit too. Frames may be missing that SQLite counts as committed, because
commits without a sync precede the one that failed.
Rule 1: before the next transaction the whole write-ahead log is written again with the same bytes and synced. It has
only the commits since the last checkpoint, so no offset is kept: the mark says only that there is doubt.
Rule 2: the database file itself needs no rewrite. Only a checkpoint writes to it, and one whose sync failed is done
again by SQLite, frame by frame.
Rule 3: while there is doubt no checkpoint may run: it would change the database ahead of a write-ahead log that the
device does not have, and a power cut in the middle of it would leave a mixture. SQLite runs one when the last
connection is closed, so a connection is then kept open to the end of the process instead.
Rule 4: a checkpoint syncs the write-ahead log first, and where SQLite runs it by itself it reports no error of that
sync. So commits without a sync are synced here before a checkpoint.
"""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator

from wakelog.errors import StoreError
from wakelog.stores import load
from wakelog.stores.files import (
    clear_doubt,
    doubt_error,
    doubt_of,
    mark_doubt,
    rewrite_in_doubt,
    storage_error,
    sync_folder,
)

# Other errors are detected before anything is written.
_DOUBTFUL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
# The size at which SQLite runs a checkpoint by itself: 1,000 pages of 4 KiB.
_CHECKPOINT_BYTES = 4 * 1024 * 1024


def mark_if_in_doubt(lock: int, code: int) -> None:
    """Mark the database as in doubt if a transaction failed with one of the codes in `_DOUBTFUL`."""
    if code in _DOUBTFUL:
        mark_doubt(lock, 0)


def resolve_doubt(path: str, lock: int) -> None:
    """Write the write-ahead log again and remove the mark; on failure the append is refused.

    A missing write-ahead log was completely checkpointed, and removed by SQLite after the database was synced.
    """
    try:
        with contextlib.suppress(FileNotFoundError), _opened(path, os.O_RDWR) as wal:
            rewrite_in_doubt(wal, 0)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise doubt_error(path, error) from error
    clear_doubt(lock)


def sync(path: str, lock: int) -> None:
    """Sync commits that were made without a sync. The lock must be held, because a failure is marked."""
    with contextlib.suppress(FileNotFoundError), _opened(path, os.O_RDONLY) as wal:
        try:
            os.fdatasync(wal)
        except OSError as error:
            mark_doubt(lock, 0)
            raise storage_error(f"make {path} durable", error) from error


def checkpoint(path: str, lock: int, connection: sqlite3.Connection) -> None:
    """Run a checkpoint if the write-ahead log is long. The lock must be held.

    A failed sync is marked, and a failed checkpoint is repeated by the next one, so no error is raised for either.
    """
    with contextlib.suppress(OSError, StoreError, sqlite3.Error):
        if os.stat(_wal_of(path)).st_size > _CHECKPOINT_BYTES:
            sync(path, lock)
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


# ── closing ──────────────────────────────────────────────────────────────────────────────────────


def close(path: str, connections: Iterable[sqlite3.Connection], *, lock: int | None = None) -> None:
    """Sync the write-ahead log and close connections; while it is in doubt, keep them open.

    `lock` is a descriptor of the lock file if the caller holds the lock. If another process or thread holds it, it has
    a connection too, so none of these is the last one.
    """
    with _held(path, lock) as held:
        is_doubted = held is not None and _is_doubted(path, held)
        for connection in connections:
            if is_doubted:
                # An extra reference keeps it open even when the interpreter exits.
                ctypes = load("ctypes")
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
                continue
            with contextlib.suppress(sqlite3.Error):
                connection.close()


def _is_doubted(path: str, lock: int) -> bool:
    if doubt_of(lock) is None:
        with contextlib.suppress(OSError, StoreError):
            sync(path, lock)
    return doubt_of(lock) is not None


@contextlib.contextmanager
def _held(path: str, lock: int | None) -> Iterator[int | None]:
    """A descriptor of the lock file with the lock held; None if there is no lock file or the lock is taken."""
    if lock is not None:
        yield lock
        return
    try:
        own = os.open(f"{path}-lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield own if _is_taken(own) else None
    finally:
        os.close(own)


def _is_taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _opened(path: str, mode: int) -> Iterator[int]:
    # SQLite has no locks on this file, so closing a descriptor of it releases none.
    wal = os.open(_wal_of(path), mode | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield wal
    finally:
        os.close(wal)


def _wal_of(path: str) -> str:
    return f"{path}-wal"

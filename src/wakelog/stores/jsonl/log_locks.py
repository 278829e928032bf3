"""Locks of a log: the lease of a session, and the append lock with the descriptors of open logs.

A lease is a small file with a record that expires. Times count from boot (`CLOCK_BOOTTIME`), so suspending the machine
or setting its clock does not matter, and a record from before the last boot is void. A record whose process is dead is
void too: waking after a crash on the same machine does not wait for the expiry. Records are written, and checked before
a write to the log, under the append lock.
The append lock gives a log to one appender at a time: threads take it by a thread lock, processes by `flock` on its
lock file, which is closed on exec and never unlinked. One limit covers both waits (`stores/locking.py`). Logs that a
process appends to stay open. Descriptors of a log in use are closed only by its current appender. Appenders that waited
meanwhile look the log up again, because the system may have reused the descriptor number for another file. A forked
child opens all logs again: `flock` locks belong to the open file, which the child shares with its parent.
"""

import contextlib
import errno
import fcntl
import os
import resource
import threading
from collections.abc import Callable
from types import TracebackType

import msgspec

from wakelog.decoding import decoder_of
from wakelog.errors import StoreError, TooManyOpenFiles
from wakelog.log.integrity import LogEnd
from wakelog.ports.stores import Lease
from wakelog.stores.files import clear_doubt, doubt_error, doubt_of, mark_doubt, rewrite_in_doubt, storage
from wakelog.stores.jsonl.folder import Folder
from wakelog.stores.locking import Wait, file_lock_holder, wait_for_file_lock
from wakelog.stores.process_identity import ProcessIdentity, boot_id, seconds_since_boot, this_process

_RECORD_BYTES = 512
_READS_MAX = 3


class LeaseRecord(msgspec.Struct, frozen=True):
    """The content of a lease file. `expires` is in seconds since boot."""

    holder: str
    fence: int
    expires: float
    process: ProcessIdentity


class LeaseFiles:
    """The lease files of one folder. `now` returns seconds since boot."""

    def __init__(self, folder: Folder, *, now: Callable[[], float] | None = None) -> None:
        self._folder = folder
        self._now = now or seconds_since_boot

    def read(self, name: str) -> LeaseRecord | None:
        """The record, in force or not; None if there is none, or none that can be decoded.

        A lost record is harmless for fences: they are seqs of the log, so they still grow.
        """
        for _ in range(_READS_MAX):
            content = self._folder.read_small(".locks", f"{name}.lease")
            if not content:
                return None
            # Without the append lock, the record may be read while it is written.
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return decoder_of(LeaseRecord).decode(content)
        return None

    def in_force(self, name: str) -> LeaseRecord | None:
        """The record, if its lease is in force: same boot, not expired, process not known to be dead; else None."""
        record = self.read(name)
        if record is None or record.process.boot != boot_id() or record.expires <= self._now():
            return None
        return None if record.process.is_dead else record

    def write(self, name: str, lease: Lease, ttl_s: float) -> None:
        """Write a lease of this process that expires after `ttl_s` seconds."""
        record = LeaseRecord(lease.holder, lease.fence, self._now() + ttl_s, this_process())
        self._write(name, record)

    def files(self, name: str) -> tuple[str, ...]:
        """The paths of a session's lock file and lease file, which need not exist."""
        folder = os.path.join(self._folder.path, ".locks")
        return os.path.join(folder, f"{name}.lock"), os.path.join(folder, f"{name}.lease")

    def end(self, name: str, record: LeaseRecord) -> None:
        """Let a record expire now. The file stays, as the highest fence so far."""
        self._write(name, msgspec.structs.replace(record, expires=0.0))

    def _write(self, name: str, record: LeaseRecord) -> None:
        # With blanks to a fixed size, so that the next record fits into the same bytes.
        self._folder.rewrite_small(msgspec.json.encode(record).ljust(_RECORD_BYTES), ".locks", f"{name}.lease")


_OPEN_MAX = 128
# Of the files that the process may open, an eighth may be logs and another eighth their lock files. The rest is for
# blobs, leases, journals, tools and connections.
_DESCRIPTOR_SHARE = 8
# How long a thread waits until other threads have given back a log, if as many are in use as may be open.
_ROOM_WAIT_S = 1.5
_TRIES_MAX = 100
_TRY_LOCK = fcntl.LOCK_EX | fcntl.LOCK_NB


def open_max() -> int:
    """How many logs may be open, or taken at once, under the current limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_MAX if soft == resource.RLIM_INFINITY else max(1, min(_OPEN_MAX, soft // _DESCRIPTOR_SHARE))


class OpenLog:
    """One open log: its descriptors, its end if known, and its size when it was last taken.

    `synced`: the number of bytes known to be on the device. `doubt`: see `stores/files.py`.
    """

    __slots__ = ("closed", "doubt", "end", "lock", "log", "size", "synced", "turn", "users")

    def __init__(self, log: int, lock: int) -> None:
        self.log = log
        self.lock = lock
        self.end: LogEnd | None = None
        self.size = self.synced = 0
        self.doubt: int | None = None
        self.turn = threading.Lock()
        self.users = 0
        self.closed = False

    def fail(self) -> None:
        """Mark the log as in doubt after a failed write or sync, and close it; the next append opens it again.

        The descriptor of a failed sync is never synced again.
        """
        mark_doubt(self.lock, self.synced)
        self.close()

    def close(self) -> None:
        """Close both descriptors, which releases the lock between processes.

        Only the first call does it: later, the numbers may belong to other files.
        """
        if self.closed:
            return
        self.closed = True
        for descriptor in (self.log, self.lock):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        """Close the descriptors if the store was dropped without `close()`."""
        self.close()


class OpenLogs:
    """The open logs of one folder, about `open_max()` at most."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._logs: dict[str, OpenLog] = {}
        self._begin()

    def _begin(self) -> None:
        """Set up the locks of this process."""
        self._pid = os.getpid()
        self._looking = threading.Lock()
        self._returned = threading.Condition(self._looking)
        self._waiting_for_room = 0

    def append_lock(self, name: str) -> "AppendLock":
        """The append lock of a session, for a `with` statement."""
        return AppendLock(self, name)

    def wait(self, name: str) -> Wait:
        """The wait of one append for a log that another thread or process holds, with one limit for both.

        The holder is looked up by the path of the lock file, because another thread may close the descriptor.
        """
        lock, path = f"the append lock of {name}", self._folder.lock_path(name)
        return Wait(self._folder.lock_wait, lock, lambda: file_lock_holder(path))

    def look_up(self, name: str) -> OpenLog:
        """The open log of a name, counted as in use until `give_back`."""
        self._reset_after_fork()
        with self._looking:
            if name not in self._logs and self._is_full():
                self._wait_for_room()
            log = self._logs.get(name)
            if log is None or log.closed:
                log = self._logs[name] = self._opened(name)
            log.users += 1
            return log

    def resolve_doubt(self, name: str, log: OpenLog) -> None:
        """Write the bytes in doubt again. On failure the log stays in doubt and the append is refused.

        The log gets a new open file, because the old one may still report the earlier error.
        """
        fresh = self._folder.open_log(name, write=True)
        try:
            _rewrite_log(fresh, log)
            os.dup2(fresh, log.log, inheritable=False)
        except OSError as error:
            raise doubt_error(name, error) from error
        finally:
            os.close(fresh)
        clear_doubt(log.lock)
        log.doubt, log.end, log.synced = None, None, log.size

    def known_to_end(self, name: str, size: int, seq: int) -> bool:
        """Whether a log of this size is known to end with this seq. Takes no lock; False if that is uncertain."""
        log = self._logs.get(name)
        end = log.end if log is not None and self._pid == os.getpid() else None
        # An appender updates seq before size, so with size compared first, a half-updated end never matches. Without a
        # seal on the last line, the seq alone does not prove that there is nothing new.
        return end is not None and end.size == size and end.seq == seq and end.ends_sealed

    def give_back(self, log: OpenLog) -> None:
        """Count one user of the log less."""
        with self._looking:
            log.users -= 1
            if self._waiting_for_room:
                self._returned.notify()

    def close(self) -> None:
        """Close every log that is not in use."""
        with self._looking:
            self._close_unused(keep=0)

    def _reset_after_fork(self) -> None:
        """In a forked child, close the inherited descriptors and reset the locks, which threads may have held."""
        if self._pid == os.getpid():
            return
        inherited, self._logs = self._logs, {}
        self._begin()
        for log in inherited.values():
            log.close()

    def _is_full(self) -> bool:
        """Whether as many logs are in use as may be open."""
        return len(self._logs) >= (most := open_max()) and sum(log.users > 0 for log in self._logs.values()) >= most

    def _wait_for_room(self) -> None:
        """Wait until a log in use is given back, for a limited time: one may wait for a process that is stopped."""
        self._waiting_for_room += 1
        try:
            self._returned.wait_for(lambda: not self._is_full(), _ROOM_WAIT_S)
        finally:
            self._waiting_for_room -= 1

    def _opened(self, name: str) -> OpenLog:
        """Open a log; if the process is out of descriptors, close all unused logs and try once more."""
        self._close_unused(keep=open_max() - 1)
        try:
            return self._open(name)
        except TooManyOpenFiles:
            self._close_unused(keep=0)
            return self._open(name)

    def _open(self, name: str) -> OpenLog:
        self._folder.make()
        log = self._folder.open_log(name, write=True)
        try:
            with storage(f"lock {name}"):
                lock = self._folder.open_lock(name, make=True)
        except StoreError:
            os.close(log)
            raise
        assert lock is not None
        return OpenLog(log, lock)

    def _close_unused(self, *, keep: int) -> None:
        for name, log in list(self._logs.items()):
            if len(self._logs) <= keep:
                return
            if not log.users:
                self._logs.pop(name).close()


def _rewrite_log(fresh: int, log: OpenLog) -> None:
    """Write the bytes in doubt again through a fresh descriptor, with append mode switched off meanwhile."""
    if not os.path.samestat(os.fstat(fresh), os.fstat(log.log)):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    mode = fcntl.fcntl(fresh, fcntl.F_GETFL)
    fcntl.fcntl(fresh, fcntl.F_SETFL, mode & ~os.O_APPEND)
    rewrite_in_doubt(fresh, log.doubt or 0)
    fcntl.fcntl(fresh, fcntl.F_SETFL, mode)


class AppendLock:
    """Context manager for one append's lock on a log: entering waits for the lock, leaving releases it."""

    __slots__ = ("_log", "_logs", "_name", "_wait")

    def __init__(self, logs: OpenLogs, name: str) -> None:
        self._logs = logs
        self._name = name
        self._wait: Wait | None = None

    def __enter__(self) -> OpenLog:
        for _ in range(_TRIES_MAX):
            self._log = log = self._logs.look_up(self._name)
            if not log.turn.acquire(False):  # noqa: FBT003 - runs in every append: faster than a keyword
                self._wait_for_threads(log)
            if self._is_held(log):
                return log
            self._leave()
        raise StoreError(f"the file of {self._name} is replaced repeatedly", hint="stop the program that rewrites it")

    def _is_held(self, log: OpenLog) -> bool:
        """Take the lock between processes; False if the log must be opened again."""
        if log.closed:
            return False
        try:
            try:
                fcntl.flock(log.lock, _TRY_LOCK)
            except BlockingIOError:
                self._wait_for_processes(log)
            found = os.fstat(log.log)
            log.doubt = doubt_of(log.lock)
        except OSError:
            log.close()
            self._leave()
            with storage(f"lock {self._name}"):
                raise
        log.size = found.st_size
        if not found.st_nlink:
            # The file was replaced or removed: an append to it would be lost.
            log.close()
        return not log.closed

    def _wait_for_threads(self, log: OpenLog) -> None:
        try:
            self._waiting().acquire(log.turn)
        except BaseException:
            self._logs.give_back(log)
            raise

    def _wait_for_processes(self, log: OpenLog) -> None:
        try:
            wait_for_file_lock(log.lock, fcntl.LOCK_EX, self._waiting())
        except OSError:
            raise
        except BaseException:
            # A thread may still wait for the lock of this open file, so the next append opens its own.
            log.close()
            self._leave()
            raise

    def _waiting(self) -> Wait:
        """The wait of this append, started on first use."""
        if self._wait is None:
            self._wait = self._logs.wait(self._name)
        return self._wait

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        log = self._log
        if not log.closed:
            fcntl.flock(log.lock, fcntl.LOCK_UN)
        log.turn.release()
        self._logs.give_back(log)

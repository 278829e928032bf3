"""The logs a process appends to, kept open, each taken by one appender at a time.

Among threads a log is taken by its own lock, among processes by `flock` on its lock file, which is
closed on exec and never unlinked. A descriptor is closed only by who holds the log, and whoever waited
for it meanwhile looks it up again: a number that the system has given to another file by then must
never be written to. A forked child opens everything anew: a lock belongs to an open file, and the child
would share its parent's.
"""

import contextlib
import fcntl
import os
import resource
import threading
from types import TracebackType

from wakelog.errors import StoreError, TooManyOpenFiles
from wakelog.log.end import End
from wakelog.stores.files import Folder, storage

_OPEN_MAX = 128
# Of the files that the process may open, an eighth are logs, and another eighth their locks: blobs, leases, journals,
# tools and connections need the rest.
_SHARE = 8
_TRIES_MAX = 100


def open_max() -> int:
    """How many logs are kept open, or taken at once, under the limit of open files that is in force now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_MAX if soft == resource.RLIM_INFINITY else max(1, min(_OPEN_MAX, soft // _SHARE))


class OpenLog:
    """One open log: its descriptors, its end as far as known, and its size when it was last taken."""

    __slots__ = ("closed", "end", "lock", "log", "size", "turn", "users")

    def __init__(self, log: int, lock: int) -> None:
        self.log = log
        self.lock = lock
        self.end: End | None = None
        self.size = 0
        self.turn = threading.Lock()
        self.users = 0
        self.closed = False

    def close(self) -> None:
        """Lets go of both descriptors, and with them of the lock among processes."""
        self.closed = True
        for descriptor in (self.log, self.lock):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def __del__(self) -> None:
        """Closes the descriptors of a store that was dropped without `close()`."""
        if not self.closed:
            self.close()


class OpenLogs:
    """The open logs of one folder, at most so many at a time."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._logs: dict[str, OpenLog] = {}
        self._looking = threading.Lock()
        self._pid = os.getpid()

    def taken(self, name: str) -> "Taken":
        """The append lock of a session, for a `with`."""
        return Taken(self, name)

    def look_up(self, name: str) -> OpenLog:
        """The open log of a name, counted as in use until it is given back."""
        self._leave_to_parent()
        with self._looking:
            log = self._logs.get(name)
            if log is None or log.closed:
                log = self._logs[name] = self._opened(name)
            log.users += 1
            return log

    def known_to_end(self, name: str, size: int, seq: int) -> bool:
        """Whether a log of this size is known to end with this seq. Nobody is waited for: when in doubt it is not."""
        log = self._logs.get(name)
        end = log.end if log is not None and self._pid == os.getpid() else None
        # An appender moves the seq before the size: in this order what is half moved never looks like an end. Behind a
        # last line without a seal there may be more to tell than its seq.
        return end is not None and end.size == size and end.seq == seq and end.sealed

    def give_back(self, log: OpenLog) -> None:
        """Not in use by this appender any more."""
        with self._looking:
            log.users -= 1

    def close(self) -> None:
        """Closes every log that nobody is using."""
        with self._looking:
            self._close_unused(keep=0)

    def _leave_to_parent(self) -> None:
        """After a fork what is open is the parent's, whatever its threads were doing with it at that moment."""
        if self._pid == os.getpid():
            return
        inherited, self._logs = self._logs, {}
        self._looking, self._pid = threading.Lock(), os.getpid()
        for log in inherited.values():
            log.close()

    def _opened(self, name: str) -> OpenLog:
        """Opens a log; where the process has no descriptor left, once more with all unused logs closed."""
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


class Taken:
    """One append's hold on a log. Entering waits for the lock; leaving lets it go."""

    __slots__ = ("_log", "_logs", "_name")

    def __init__(self, logs: OpenLogs, name: str) -> None:
        self._logs = logs
        self._name = name

    def __enter__(self) -> OpenLog:
        for _ in range(_TRIES_MAX):
            self._log = log = self._logs.look_up(self._name)
            log.turn.acquire()
            if self._is_held(log):
                return log
            self._leave()
        raise StoreError(f"{self._name} is replaced again and again", hint="stop whatever rewrites the file")

    def _is_held(self, log: OpenLog) -> bool:
        """Takes the lock among processes; False if the log must be opened anew."""
        if log.closed:
            return False
        try:
            fcntl.flock(log.lock, fcntl.LOCK_EX)
            found = os.fstat(log.log)
        except OSError:
            log.close()
            self._leave()
            with storage(f"lock {self._name}"):
                raise
        log.size = found.st_size
        if not found.st_nlink:
            # A file that was replaced or removed under us must not swallow what is appended.
            log.close()
        return not log.closed

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

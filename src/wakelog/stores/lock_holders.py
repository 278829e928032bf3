"""Find the process that holds a file lock, from `/proc/locks`, and describe it for an error message.

Read only after a long wait. Systems without `/proc`, and holders in another pid namespace, give None.
"""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LOCKS = "/proc/locks"
_STATES = {
    "R": "running",
    "S": "waiting",
    "I": "waiting",
    "D": "waiting for the disk",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
}
# SQLite's write lock in WAL mode: one byte of the -shm file.
_WAL_WRITE_BYTE = 120


class LockHolder(NamedTuple):
    """A process that holds a lock: its pid, program name and state in words."""

    pid: int
    command: str
    state: str

    def __str__(self) -> str:
        if self.pid == os.getpid():
            return f"another thread of this process ({self.pid})"
        about = ", ".join(filter(None, (self.command, self.state)))
        return f"process {self.pid} ({about})" if about else f"process {self.pid}"

    @property
    def is_stopped(self) -> bool:
        """Whether the process was stopped by a signal or a debugger."""
        return self.state.startswith("stopped")

    @property
    def hint(self) -> str:
        """What a user can do to free the lock."""
        if self.pid == os.getpid():
            return "try again in a moment"
        if self.is_stopped:
            return f"let it go on with `kill -CONT {self.pid}`, or end it with `kill -9 {self.pid}`; then try again"
        if self.state == "ended":
            return "a process that it started still holds the lock: find it with `lsof` and end it; then try again"
        return f"let it finish, or end it with `kill {self.pid}`; then try again"


class HeldLock(NamedTuple):
    """One line of `/proc/locks`. `device` is `major:minor` in hexadecimal digits."""

    kind: str
    mode: str
    pid: int
    device: str
    inode: int
    start: int
    end: int


def flock_holder(descriptor: int) -> LockHolder | None:
    """The process that holds a `flock` lock on an open file."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return _first(_on_file(found, "FLOCK"))


def sqlite_holder(path: str) -> LockHolder | None:
    """The process that holds the write lock of a SQLite database; else one that holds any exclusive lock on it."""
    locks: list[HeldLock] = []
    for place in (f"{path}-shm", path):
        try:
            found = os.stat(place)
        except OSError:
            continue
        locks += [lock for lock in _on_file(found, "POSIX") if lock.mode == "WRITE"]
    writers = [lock for lock in locks if lock.start <= _WAL_WRITE_BYTE <= lock.end]
    return _first(writers) or _first(locks)


def _first(locks: Sequence[HeldLock]) -> LockHolder | None:
    return _described(locks[0].pid) if locks else None


def _on_file(found: os.stat_result, kind: str) -> list[HeldLock]:
    """The locks of one kind that are held on a file."""
    locks = [lock for lock in _held() if lock.kind == kind and lock.inode == found.st_ino]
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    exact = [lock for lock in locks if lock.device == device]
    # Some file systems (btrfs, overlayfs) report different device numbers in `stat` and in the lock table.
    return exact or [lock for lock in locks if _has_open(lock.pid, found)]


def _held() -> Iterator[HeldLock]:
    try:
        with open(_LOCKS, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        lock = parsed(line)
        if lock is not None:
            yield lock


def parsed(line: str) -> HeldLock | None:
    """A parsed line of `/proc/locks`; None for a waiting process (`->`) and for lines that cannot be parsed.

    `1: FLOCK  ADVISORY  WRITE 4242 fd:01:131074 0 EOF`
    """
    words = line.split()
    if len(words) != 8 or words[1] == "->":
        return None
    _, kind, _, mode, pid, place, start, end = words
    device, _, inode = place.rpartition(":")
    try:
        last = (1 << 63) - 1 if end == "EOF" else int(end)
        return HeldLock(kind, mode, int(pid), device, int(inode), int(start), last)
    except ValueError:
        return None


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    """Whether a process has a file open; False where this user may not read its descriptors."""
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            found = os.stat(os.path.join(folder, name))
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    except OSError:
        return False
    return False


def _described(pid: int) -> LockHolder | None:
    """The lock holder of a pid; None for -1 and 0, which the lock table shows for unknown processes."""
    if pid <= 0:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # `4242 (name) T …`: the name may contain brackets and spaces.
            before, _, behind = file.read().rpartition(b")")
    except OSError:
        return LockHolder(pid, "", "ended")
    command = before.partition(b"(")[2].decode(errors="replace")
    return LockHolder(pid, command, _STATES.get(behind.split()[0].decode(), ""))

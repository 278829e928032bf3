"""Identify processes: whether the holder of a lease is dead, and which process holds a file lock.

A process is identified by boot id, pid namespace, pid and start time. Only a process of the same boot and pid namespace
can tell that a lease holder is dead; others wait until the lease expires.
Holders of file locks are found in `/proc/locks`, only after a long wait, and described for an error message. Systems
without `/proc`, and holders in another pid namespace, give None.
"""

import functools
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec


class ProcessIdentity(msgspec.Struct, frozen=True):
    """The process that holds a lease."""

    boot: str
    pids: str
    pid: int
    born: str

    @property
    def is_dead(self) -> bool:
        """Whether this process is known to be dead; False if it is of another boot or pid namespace."""
        return (self.boot, self.pids) == (boot_id(), pid_namespace()) and process_start_time(self.pid) != self.born


def this_process() -> ProcessIdentity:
    """The identity of the current process."""
    pid = os.getpid()
    return ProcessIdentity(boot_id(), pid_namespace(), pid, process_start_time(pid))


def seconds_since_boot() -> float:
    """Seconds since boot, including suspended time where the system has `CLOCK_BOOTTIME`."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@functools.cache
def boot_id() -> str:
    """An id that changes with every boot; empty where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """The pid namespace: containers of one machine share its boot id, but not this; empty where it is unknown."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def process_start_time(pid: int) -> str:
    """The start time of a process, which distinguishes it from a later one with the same pid; empty if it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in brackets, which may contain spaces and brackets.
            fields = file.read().rpartition(b")")[2].split()
            return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    except (FileNotFoundError, ProcessLookupError):
        return "" if os.path.isdir("/proc/self") else _start_time_without_proc(pid)


def _start_time_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"
    return "alive"


_LOCK_TABLE = "/proc/locks"
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


class LockingProcess(NamedTuple):
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
            return f"continue it with `kill -CONT {self.pid}`, or end it with `kill -9 {self.pid}`; then try again"
        if self.state == "ended":
            return "a child process of it still holds the lock: find it with `lsof` and end it; then try again"
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


def flock_holder(file: int | str) -> LockingProcess | None:
    """The process that holds a `flock` lock on a file, which is given by a descriptor or its path."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return _first_holder(_locks_on_file(found, "FLOCK"))


def sqlite_holder(path: str) -> LockingProcess | None:
    """The process that holds the write lock of a SQLite database; else one that holds any exclusive lock on it."""
    locks: list[HeldLock] = []
    for place in (f"{path}-shm", path):
        try:
            found = os.stat(place)
        except OSError:
            continue
        locks += [lock for lock in _locks_on_file(found, "POSIX") if lock.mode == "WRITE"]
    writers = [lock for lock in locks if lock.start <= _WAL_WRITE_BYTE <= lock.end]
    return _first_holder(writers) or _first_holder(locks)


def _first_holder(locks: Sequence[HeldLock]) -> LockingProcess | None:
    return _describe_process(locks[0].pid) if locks else None


def _locks_on_file(found: os.stat_result, kind: str) -> list[HeldLock]:
    """The locks of one kind that are held on a file."""
    locks = [lock for lock in _held_locks() if lock.kind == kind and lock.inode == found.st_ino]
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    exact = [lock for lock in locks if lock.device == device]
    # Some file systems (btrfs, overlayfs) report different device numbers in `stat` and in the lock table.
    return exact or [lock for lock in locks if _has_open(lock.pid, found)]


def _held_locks() -> Iterator[HeldLock]:
    try:
        with open(_LOCK_TABLE, encoding="ascii", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        lock = parse_lock_line(line)
        if lock is not None:
            yield lock


def parse_lock_line(line: str) -> HeldLock | None:
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


def _describe_process(pid: int) -> LockingProcess | None:
    """The lock holder of a pid; None for -1 and 0, which the lock table shows for unknown processes."""
    if pid <= 0:
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # `4242 (name) T …`: the name may contain brackets and spaces.
            before, _, behind = file.read().rpartition(b")")
    except OSError:
        return LockingProcess(pid, "", "ended")
    command = before.partition(b"(")[2].decode(errors="replace")
    return LockingProcess(pid, command, _STATES.get(behind.split()[0].decode(), ""))

"""Process identity of a lease holder: tells whether the holder is dead, so that waking after a crash does not wait.

A process is identified by boot id, pid namespace, pid and start time. Only a process of the same boot and pid namespace
can tell that a holder is dead; others wait until the lease expires.
"""

import functools
import os
import time

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lease."""

    boot: str
    pids: str
    pid: int
    born: str

    @property
    def is_gone(self) -> bool:
        """Whether this process is known to be dead; False if it is of another boot or pid namespace."""
        return (self.boot, self.pids) == (boot_id(), pid_namespace()) and process_born(self.pid) != self.born


def this_process() -> Holder:
    """The identity of the current process."""
    pid = os.getpid()
    return Holder(boot_id(), pid_namespace(), pid, process_born(pid))


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


def process_born(pid: int) -> str:
    """The start time of a process, which distinguishes it from a later one with the same pid; empty if it is dead."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in brackets, which may contain spaces and brackets.
            fields = file.read().rpartition(b")")[2].split()
            return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
    except (FileNotFoundError, ProcessLookupError):
        return "" if os.path.isdir("/proc/self") else _born_without_proc(pid)


def _born_without_proc(pid: int) -> str:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"
    return "alive"

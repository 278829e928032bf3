"""Who holds a lease, so that one whose holder is dead is known to be void: waking after a crash never waits.

A process is named by the boot it lives in, the namespace its number counts in, its number and its birth. Only who
shares boot and namespace can tell that it is gone; everybody else waits for the expiry.
"""

import functools
import os
import time

import msgspec


class Holder(msgspec.Struct, frozen=True):
    """The process behind a lease."""

    boot: str
    pids: str
    pid: int
    born: str

    @property
    def is_gone(self) -> bool:
        """Whether this process is known to be dead; never said of one that we could not see."""
        return (self.boot, self.pids) == (boot_id(), pid_namespace()) and process_born(self.pid) != self.born


def this_process() -> Holder:
    """The process that asks."""
    pid = os.getpid()
    return Holder(boot_id(), pid_namespace(), pid, process_born(pid))


def seconds_since_boot() -> float:
    """Seconds since boot, time asleep included where the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@functools.cache
def boot_id() -> str:
    """A word that changes with every boot; empty where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Where process numbers count: containers of one machine share its boot, but not these."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def process_born(pid: int) -> str:
    """When a process began, so that a reused pid is not taken for its predecessor; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the program's name in brackets and may hold anything, spaces too.
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

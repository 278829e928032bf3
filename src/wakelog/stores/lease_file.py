"""The lease of a session as a small file: a record that expires, not a lock that is held.

Time is counted from boot (`CLOCK_BOOTTIME`), so neither a suspended machine nor a jumping clock
matters, and a record from before the last boot is void. So is one whose process is gone: waking
after a crash on the same machine never waits for an expiry. All of it is judged under the append lock.
"""

import os
import time
from collections.abc import Callable

import msgspec

from wakelog.ports import Lease
from wakelog.stores.files import Folder


class Record(msgspec.Struct, frozen=True):
    """What the file holds."""

    holder: str
    fence: int
    boot: str
    expires: float
    pid: int
    born: str


class Leases:
    """The lease files of one folder. `now` counts seconds since boot."""

    def __init__(self, folder: Folder, *, now: Callable[[], float] | None = None) -> None:
        self._folder = folder
        self._now = now or seconds_since_boot
        self._boot = boot_id()

    def read(self, name: str) -> Record | None:
        """The record, in force or not. One that cannot be read is none: the fence in the log still grows."""
        content = self._folder.read_small(".locks", f"{name}.lease")
        if not content:
            return None
        try:
            return msgspec.json.decode(content, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def in_force(self, name: str) -> Record | None:
        """The record, if it still gives its holder the right to run the session."""
        record = self.read(name)
        if record is None or record.boot != self._boot or record.expires <= self._now():
            return None
        return record if process_born(record.pid) == record.born else None

    def write(self, name: str, lease: Lease, ttl_s: float) -> None:
        """Puts a lease in force for this process."""
        pid = os.getpid()
        record = Record(lease.holder, lease.fence, self._boot, self._now() + ttl_s, pid, process_born(pid))
        self._folder.replace_small(msgspec.json.encode(record), ".locks", f"{name}.lease")

    def end(self, name: str, record: Record) -> None:
        """Lets a record expire now. It stays as the highest fence given out."""
        over = msgspec.structs.replace(record, expires=0.0)
        self._folder.replace_small(msgspec.json.encode(over), ".locks", f"{name}.lease")


def seconds_since_boot() -> float:
    """Seconds since boot, time asleep included where the system counts it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def boot_id() -> str:
    """A word that changes with every boot; empty where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
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

"""Lease files: keep the lease of a session in a small file, as a record that expires.

Times count from boot (`CLOCK_BOOTTIME`), so suspending the machine or setting its clock does not matter, and a record
from before the last boot is void. A record whose process is dead is void too: waking after a crash on the same machine
does not wait for the expiry. Records are written, and checked before a write to the log, under the append lock.
"""

import os
from collections.abc import Callable

import msgspec

from wakelog.ports import Lease
from wakelog.stores.files import Folder
from wakelog.stores.holding import Holder, boot_id, seconds_since_boot, this_process


class Record(msgspec.Struct, frozen=True):
    """The content of a lease file. `expires` is in seconds since boot."""

    holder: str
    fence: int
    expires: float
    process: Holder


class Leases:
    """The lease files of one folder. `now` returns seconds since boot."""

    def __init__(self, folder: Folder, *, now: Callable[[], float] | None = None) -> None:
        self._folder = folder
        self._now = now or seconds_since_boot

    def read(self, name: str) -> Record | None:
        """The record, in force or not; None if there is none, or none that can be decoded.

        A lost record is harmless for fences: they are seqs of the log, so they still grow.
        """
        content = self._folder.read_small(".locks", f"{name}.lease")
        if not content:
            return None
        try:
            return msgspec.json.decode(content, type=Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    def in_force(self, name: str) -> Record | None:
        """The record, if its lease is in force: same boot, not expired, process not known to be dead; else None."""
        record = self.read(name)
        if record is None or record.process.boot != boot_id() or record.expires <= self._now():
            return None
        return None if record.process.is_gone else record

    def write(self, name: str, lease: Lease, ttl_s: float) -> None:
        """Write a lease of this process that expires after `ttl_s` seconds."""
        record = Record(lease.holder, lease.fence, self._now() + ttl_s, this_process())
        self._folder.replace_small(msgspec.json.encode(record), ".locks", f"{name}.lease")

    def files(self, name: str) -> tuple[str, ...]:
        """The paths of a session's lock file and lease file, which need not exist."""
        folder = os.path.join(self._folder.path, ".locks")
        return os.path.join(folder, f"{name}.lock"), os.path.join(folder, f"{name}.lease")

    def end(self, name: str, record: Record) -> None:
        """Let a record expire now. The file stays, as the highest fence so far."""
        over = msgspec.structs.replace(record, expires=0.0)
        self._folder.replace_small(msgspec.json.encode(over), ".locks", f"{name}.lease")

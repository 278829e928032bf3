"""The lease of a session as a small file: a record that expires, not a lock that is held.

Time is counted from boot (`CLOCK_BOOTTIME`), so neither a suspended machine nor a jumping clock
matters, and a record from before the last boot is void. So is one whose process is gone: waking
after a crash on the same machine never waits for an expiry. All of it is judged under the append lock.
"""

import os
from collections.abc import Callable

import msgspec

from wakelog.ports import Lease
from wakelog.stores.files import Folder
from wakelog.stores.holding import Holder, boot_id, seconds_since_boot, this_process


class Record(msgspec.Struct, frozen=True):
    """What the file holds."""

    holder: str
    fence: int
    expires: float
    process: Holder


class Leases:
    """The lease files of one folder. `now` counts seconds since boot."""

    def __init__(self, folder: Folder, *, now: Callable[[], float] | None = None) -> None:
        self._folder = folder
        self._now = now or seconds_since_boot

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
        if record is None or record.process.boot != boot_id() or record.expires <= self._now():
            return None
        return None if record.process.is_gone else record

    def write(self, name: str, lease: Lease, ttl_s: float) -> None:
        """Puts a lease in force for this process."""
        record = Record(lease.holder, lease.fence, self._now() + ttl_s, this_process())
        self._folder.replace_small(msgspec.json.encode(record), ".locks", f"{name}.lease")

    def files(self, name: str) -> tuple[str, ...]:
        """The paths of a session's append lock and lease, there or not."""
        folder = os.path.join(self._folder.path, ".locks")
        return os.path.join(folder, f"{name}.lock"), os.path.join(folder, f"{name}.lease")

    def end(self, name: str, record: Record) -> None:
        """Lets a record expire now. It stays as the highest fence given out."""
        over = msgspec.structs.replace(record, expires=0.0)
        self._folder.replace_small(msgspec.json.encode(over), ".locks", f"{name}.lease")

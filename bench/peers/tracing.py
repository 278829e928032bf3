"""What a writer of files had synced at each acknowledgement: read from a trace of its system calls.

A file that was written to and not synced since is in doubt at an acknowledgement. A rollback journal whose removal
commits a transaction is in doubt until its folder is synced: after a power cut it may be back and undo what it covers.
"""

import os
import re
import statistics
import subprocess
from collections.abc import Iterable

import msgspec

from bench.peers.hand import command
from bench.peers.peer import Row

_CALLS = "write,pwrite64,writev,pwritev,pwritev2,ftruncate,fsync,fdatasync,unlink,unlinkat"
_ON_FILE = re.compile(r"^\d+ +(\w+)\(\d+<([^>]*)>")
_UNLINK = re.compile(r'^\d+ +(unlink|unlinkat)\(.*?"([^"]+)"')
_ACK = re.compile(r'^\d+ +write\(1<[^>]*>, "ack ')
_SYNCS = frozenset({"fsync", "fdatasync"})


class Trace(msgspec.Struct, frozen=True):
    """The median number of syncs between two acknowledgements, and the files that were in doubt at one.

    `silent` and `bare` count the acknowledgements before which nothing was written, and nothing was synced.
    """

    acknowledged: int
    syncs: float
    silent: int
    bare: int
    unsynced: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Return what that means for an acknowledged message."""
        if self.silent:
            return f"kept by the process alone: nothing was written before {self.silent} of {self.acknowledged}"
        if self.unsynced and self.bare == self.acknowledged:
            return "survives a crash of the process only: no sync before the acknowledgement"
        if self.unsynced:
            return f"synced in part: {', '.join(self.unsynced)} was written to after its last sync"
        if self.removed:
            return (
                "synced at each append, but the removal of the journal, which commits, is not: "
                "a power cut may take the last append back"
            )
        return "synced at each append: survives a power cut"


class _Judge:
    """Reads system calls in order."""

    def __init__(self, place: str) -> None:
        self._place = os.path.realpath(place)
        self._written: set[str] = set()
        self._removed: set[str] = set()
        self._syncs = 0
        self._writes = 0
        self._silent = 0
        self._counts: list[int] = []
        self._doubts: tuple[set[str], set[str]] = (set(), set())

    def read(self, lines: Iterable[str]) -> Trace:
        for line in lines:
            if _ACK.match(line):
                self._acknowledge()
            elif found := _UNLINK.match(line) or _ON_FILE.match(line):
                self._take(*found.groups())
        # The calls of opening the store come before the first acknowledgement.
        counts = self._counts[1:]
        return Trace(
            acknowledged=len(counts),
            syncs=statistics.median(counts),
            silent=self._silent,
            bare=counts.count(0),
            unsynced=_names(self._doubts[0]),
            removed=_names(self._doubts[1]),
        )

    def _take(self, call: str, path: str) -> None:
        # SQLite makes its shared memory again after a crash.
        if not path.startswith(self._place) or path.endswith("-shm"):
            return
        if call in _SYNCS:
            self._syncs += 1
            self._written.discard(path)
            self._removed = {gone for gone in self._removed if os.path.dirname(gone) != path}
        elif call.startswith("unlink"):
            self._written.discard(path)
            if path.endswith("-journal"):
                self._removed.add(path)
        else:
            self._writes += 1
            self._written.add(path)

    def _acknowledge(self) -> None:
        if self._counts:
            self._doubts[0].update(self._written)
            self._doubts[1].update(self._removed)
            self._silent += not self._writes
        self._counts.append(self._syncs)
        self._syncs = self._writes = 0


def _names(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(os.path.basename(path) for path in paths))


def trace(of: Row, place: str, count: int) -> Trace:
    """Append so many messages under `strace`; return what the trace shows."""
    log = f"{place}.trace"
    watch = ["strace", "-f", "-y", "-qq", "-s", "8", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", log]
    subprocess.run(
        [*watch, *command("append", of, place, count)], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    with open(log, encoding="utf-8", errors="replace") as lines:
        found = _Judge(place).read(lines)
    os.remove(log)
    return found

"""The store of a replay: the recorded log, written again line by line.

An input is added as soon as everything before it is there. What the runtime appends is sealed as in any store and must
be, byte for byte, the next recorded line. Where the recording says that the worker was gone by then (another one took
over, or it left), the append fails as for a worker that has lost its lease: this is how a crash is replayed. Other
sessions are read from the real store and never written.
"""

import asyncio
from collections.abc import Iterator

from wakelog.errors import LeaseLost, NotFound, WakelogError
from wakelog.log.content import BlobRef
from wakelog.log.entry import Activity, Entry
from wakelog.log.lines import Line
from wakelog.ports import Blobs, Lease, Sealed, Store
from wakelog.replaying.recording import Recorded
from wakelog.stores.memory import MemoryStore
from wakelog.stores.memory_blobs import MemoryBlobs


class Diverged(WakelogError):
    """The runtime wrote another line than the recorded one."""

    kind = "diverged"

    def __init__(self, at: int, recorded: bytes, written: bytes) -> None:
        super().__init__(
            f"line {at + 1} would be written differently today", hint="the lines of both are in the report"
        )
        self.at = at
        self.recorded = recorded
        self.written = written


class ReplayedStore(MemoryStore):
    """Store in which one session is replayed."""

    def __init__(self, behind: Store, session: str, name: str, script: list[Recorded]) -> None:
        super().__init__()
        self.script = script
        self.at = 0
        self.ended = False
        self.changed = asyncio.Event()
        self._behind = behind
        self.replayed = name
        self._id = session
        self._blobs = _Blobs(behind.blobs)
        self.replace(session, name)
        self.add_inputs()

    # ── script ───────────────────────────────────────────────────────────────────────────────────

    @property
    def next(self) -> Entry | None:
        """The next entry that the runtime is to write; None after the last."""
        return self.script[self.at].entry if self.at < len(self.script) else None

    def add_inputs(self) -> None:
        """Add the inputs that come before the next entry of the runtime."""
        while self.at < len(self.script) and self.script[self.at].given:
            self.add_next()

    def add_next(self) -> None:
        """Add the next line unchanged."""
        self.plant(self._id, self.script[self.at].line.bytes)
        self._move_on()

    def _move_on(self) -> None:
        self.at += 1
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def worker_is_gone(self) -> bool:
        """Whether the recording continues without the current worker."""
        entry = self.next
        return entry is None or isinstance(entry.value, Activity)

    # ── store ────────────────────────────────────────────────────────────────────────────────────

    def append(
        self,
        session: str,
        body: bytes,
        *,
        after: int,
        behind: int = 0,
        fence: int | None = None,
        durable: bool = True,
    ) -> Sealed:
        """Append an entry; `Diverged` if it is not the next recorded line, `LeaseLost` if the worker was gone."""
        if self.ended:
            # Writes of a worker that is being stopped say nothing about where the two logs differ.
            raise LeaseLost("the replay is over")
        if self.worker_is_gone and not self._is_leaving(body):
            raise LeaseLost("the recording goes on without this worker")
        sealed = super().append(session, body, after=after, behind=behind, fence=fence, durable=durable)
        self._compare(sealed.line)
        return sealed

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """Take the lease; `Diverged` if its entry is not the next recorded line."""
        log = self._log(session)
        log.expires = 0.0
        lease = super().acquire(session, body, after=after, behind=behind, holder=holder, ttl_s=ttl_s)
        *_, last = self.load(session)
        self._compare(last)
        return lease

    def held(self, session: str) -> Lease | None:
        """Return the lease in force; None if the worker is gone."""
        return None if self.worker_is_gone else super().held(session)

    def _is_leaving(self, body: bytes) -> bool:
        entry = self.next
        leaves = isinstance(entry.value, Activity) and entry.value.event == "left" if entry is not None else False
        return leaves and b'"event":"left"' in body

    def _compare(self, line: Line) -> None:
        recorded = self.script[self.at].line if self.at < len(self.script) else Line(b"", 0)
        if recorded.raw != line.raw:
            self.ended = True
            raise Diverged(self.at, recorded.raw, line.raw)
        self._move_on()
        self.add_inputs()

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """Return the lines of the replayed session from this store, those of others from the real store."""
        return (
            super().load(session, after=after)
            if self._is_replayed(session)
            else self._behind.load(session, after=after)
        )

    def tail(self, session: str) -> Iterator[Line]:
        """Return the same lines from the end."""
        return super().tail(session) if self._is_replayed(session) else self._behind.tail(session)

    def name(self, session: str) -> str:
        """Return the name of a session in the real store."""
        return self.replayed if self._is_replayed(session) else self._behind.name(session)

    def _is_replayed(self, session: str) -> bool:
        return session in (self.replayed, self._id)


class _Blobs(MemoryBlobs):
    """Blobs of a replay: reads fall back to the real store, writes stay in memory."""

    def __init__(self, behind: Blobs) -> None:
        super().__init__(now=lambda: 0.0)
        self._behind = behind

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        try:
            return super().get(ref)
        except NotFound:
            return self._behind.get(ref)

"""A recorded log as a script, and the store in which it is written again line by line.

Inputs are entries of people and other programs, and damage: the runtime finds them in the log. The rest the runtime
must write again, byte for byte. Everything before the first worker attached is an input, and so is everything that a
program recorded of its own agent loop. An input is added as soon as everything before it is there. What the runtime
appends is sealed as in any store and must be the next recorded line. Where the recording says that the worker was gone
by then, the append fails as for a worker that has lost its lease: this is how a crash is replayed. Other sessions are
read from the real store and never written.
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from wakelog.errors import LeaseLost, NotFound, WakelogError
from wakelog.log.content import BlobRef, Prompt, Reply, ToolResult
from wakelog.log.entry import (
    Activity,
    Attention,
    Cancelled,
    Compaction,
    Custom,
    Entry,
    Failed,
    Message,
    ModelCall,
    Partial,
    Resumed,
    SendFailed,
    Sent,
    Spawned,
    ToolStarted,
)
from wakelog.log.lines import EntryReader, Line
from wakelog.ports.stores import Blobs, Lease, SealedLine, Store
from wakelog.projections.losses import DAMAGE_NOTICE
from wakelog.projections.unknown_outcomes import OUTCOME_NOTICE
from wakelog.stores.memory import MemoryBlobs, MemoryStore

_RUNTIME_TYPES = (Activity, Partial, Resumed, ToolStarted, Sent, SendFailed, Spawned, Failed, Cancelled)


class RecordedLine(msgspec.Struct, frozen=True):
    """One line of the log: its bytes, its entry if it holds exactly one, and whether it is an input."""

    line: Line
    entry: Entry | None
    is_input: bool

    @property
    def body(self) -> object:
        """The typed value of the entry; None if there is none."""
        return self.entry.value if self.entry is not None else None


def read_script(lines: Iterable[Line]) -> list[RecordedLine]:
    """Return a log as a script."""
    reader = EntryReader()
    return list(_classified((line, reader.feed(line)) for line in lines))


def _classified(read: Iterable[tuple[Line, list[Entry]]]) -> Iterator[RecordedLine]:
    attached = recording = False
    reruns: set[str] = set()
    for line, entries in read:
        entry = entries[0] if len(entries) == 1 else None
        value = entry.value if entry is not None else None
        if isinstance(value, Activity) and value.event == "attached":
            recording = value.recording
            attached = attached or not recording
        if isinstance(value, ModelCall) and value.purpose == "rerun":
            reruns.add(value.reply_id)
        given = not attached or recording or not _is_written_by_runtime(value, reruns)
        if isinstance(value, Attention):
            # The first question about a rerun is part of the request; the runtime writes any later one.
            reruns.discard(value.reply_id or "")
        yield RecordedLine(line, entry, given)


def _is_written_by_runtime(value: object, reruns: set[str]) -> bool:
    match value:
        case ModelCall():
            return value.purpose != "rerun"
        case Attention():
            return value.reply_id not in reruns
        case Message(message=Reply(call_id=made_by)):
            return made_by is not None and value.id not in reruns
        case Message(message=ToolResult()):
            return True
        case Message(message=Prompt(queued_id=queued_id)):
            return queued_id is not None
        case Compaction(call_id=made_by):
            return made_by is not None
        case Custom(custom_type=kind):
            return kind in (DAMAGE_NOTICE, OUTCOME_NOTICE)
    return isinstance(value, _RUNTIME_TYPES)


def new_ids_of(entry: Entry) -> tuple[str, ...]:
    """Return the ids that the runtime made for an entry, in the order it made them."""
    match entry.value:
        case ModelCall() as call:
            return (call.reply_id, call.id)
        case Spawned() as spawned:
            return (spawned.child_session, spawned.id)
    return (entry.id,)


class Diverged(WakelogError):
    """The runtime wrote another line than the recorded one."""

    kind = "diverged"

    def __init__(self, at: int, recorded: bytes, written: bytes) -> None:
        super().__init__(f"replay writes another line {at + 1} than the recorded one", hint="the report has both lines")
        self.position = at
        self.recorded = recorded
        self.written = written


class ReplayStore(MemoryStore):
    """Store in which one session is replayed."""

    def __init__(self, real_store: Store, session: str, name: str, script: list[RecordedLine]) -> None:
        super().__init__()
        self.script = script
        self.position = 0
        self.ended = False
        self.changed = asyncio.Event()
        self._real_store = real_store
        self.replayed_name = name
        self._id = session
        self._blobs = _ReplayBlobs(real_store.blobs)
        self.replace(session, name)
        self.add_inputs()

    # ── script ───────────────────────────────────────────────────────────────────────────────────

    @property
    def next_entry(self) -> Entry | None:
        """The next entry that the runtime is to write; None after the last."""
        return self.script[self.position].entry if self.position < len(self.script) else None

    def add_inputs(self) -> None:
        """Add the inputs that come before the next entry of the runtime."""
        while self.position < len(self.script) and self.script[self.position].is_input:
            self.add_next()

    def add_next(self) -> None:
        """Add the next line unchanged."""
        self.plant(self._id, self.script[self.position].line.bytes)
        self._advance()

    def _advance(self) -> None:
        self.position += 1
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def worker_is_gone(self) -> bool:
        """Whether the recording continues without the current worker."""
        entry = self.next_entry
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
    ) -> SealedLine:
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
        entry = self.next_entry
        leaves = isinstance(entry.value, Activity) and entry.value.event == "left" if entry is not None else False
        return leaves and b'"event":"left"' in body

    def _compare(self, line: Line) -> None:
        recorded = self.script[self.position].line if self.position < len(self.script) else Line(b"", 0)
        if recorded.raw != line.raw:
            self.ended = True
            raise Diverged(self.position, recorded.raw, line.raw)
        self._advance()
        self.add_inputs()

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """Return the lines of the replayed session from this store, those of others from the real store."""
        return (
            super().load(session, after=after)
            if self._is_replayed(session)
            else self._real_store.load(session, after=after)
        )

    def tail(self, session: str) -> Iterator[Line]:
        """Return the same lines from the end."""
        return super().tail(session) if self._is_replayed(session) else self._real_store.tail(session)

    def name(self, session: str) -> str:
        """Return the name of a session in the real store."""
        return self.replayed_name if self._is_replayed(session) else self._real_store.name(session)

    def _is_replayed(self, session: str) -> bool:
        return session in (self.replayed_name, self._id)


class _ReplayBlobs(MemoryBlobs):
    """Blobs of a replay: reads fall back to the real store, writes stay in memory."""

    def __init__(self, real_blobs: Blobs) -> None:
        super().__init__(now=lambda: 0.0)
        self._real_blobs = real_blobs

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        try:
            return super().get(ref)
        except NotFound:
            return self._real_blobs.get(ref)

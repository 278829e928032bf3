"""Protocols of everything wakelog needs from outside: stores, clock, providers, tools, channels.

Rule 1: a port is small and uses bytes and plain values, never classes of other ports' implementations.
Rule 2: a store holds lines. It orders and seals them and returns the same bytes, damaged ones included; it does not
interpret entries beyond that. `stores/memory.py` is the reference implementation, and `wakelog.testing.store_suite`
tests every implementation.
Rule 3: stores are synchronous; calls that wait for a model, tool or channel are asynchronous. No port exists in both
forms.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from wakelog.errors import WakelogError
from wakelog.log.content import BlobRef, Media
from wakelog.log.deltas import Delta
from wakelog.log.entry import Replay
from wakelog.log.lines import Line
from wakelog.projections.session_row import SessionRow

# ── store ────────────────────────────────────────────────────────────────────────────────────────


class Stat(msgspec.Struct, frozen=True):
    """A session in a store's listing, read without opening it: name, size, and a value that changes with the log."""

    name: str
    size: int
    changed: int


class FirstLine(msgspec.Struct, frozen=True, gc=False):
    """The name of a session and the bytes of its first line, without LF."""

    name: str
    raw: bytes


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """An acknowledged append: the assigned seq, and the line as stored."""

    seq: int
    line: Line


class Append(msgspec.Struct, frozen=True, gc=False):
    """The arguments of `Store.append` as a value, for `Store.append_all`."""

    session: str
    body: bytes
    after: int
    behind: int = 0
    fence: int | None = None
    durable: bool = True


class Lease(msgspec.Struct, frozen=True):
    """The right to run a session. `fence` is the seq of the entry that acquired it; it only ever grows."""

    session: str
    holder: str
    fence: int


class Piece(msgspec.Struct, frozen=True):
    """A journal piece of a reply in progress. `offset` is the number of pieces before it."""

    reply_id: str
    offset: int
    raw: bytes


class News(msgspec.Struct, frozen=True):
    """Result of `follow`: log lines and journal pieces after the positions given by the caller."""

    lines: tuple[Line, ...] = ()
    pieces: tuple[Piece, ...] = ()


PIECE_MAX_BYTES = 64 * 1024 * 1024
"""Upper limit for a journal piece. Workers write shorter ones: tool output is split into pieces."""


class Exposure(msgspec.Struct, frozen=True):
    """A file or folder of a store that an untrusted user owns or may write to.

    `reason` completes the sentence "PATH …"; `remedy` is the command that removes the exposure, or empty.
    """

    path: str
    reason: str
    remedy: str = ""
    uid: int = -1
    gid: int = -1
    mode: int = 0


class Store(Protocol):
    """Stores sessions as lines of bytes. A session is addressed by its id or its name."""

    def create(self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes]) -> str:
        """Create a session durably under the next free number of the exact pair (agent, sender); return its name.

        `first_line` gets that number and returns the encoded session header. Concurrent creators never get the same
        number. Numbering continues after sessions named by an earlier version (`names.old_stem`). A session that
        already exists is left unchanged (ST-7).
        """
        ...

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """Yield the first lines of all sessions named `stem` plus a number, highest number first.

        Each is read on demand; no other session is read.
        """
        ...

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
        """Seal an encoded entry and append it as the line after seq `after`.

        `Conflict` if the log no longer ends there, unless this same entry (same id, same bytes) is what was appended:
        it is then returned. An id that already occurs earlier in the log is the caller's error; a store that would have
        to read the whole log to detect it need not. `behind` is the size of the torn tail known to the caller, so that
        none stays undetected. With a `fence`, `LeaseLost` unless it is the current one.
        """
        ...

    def append_all(self, appends: Sequence[Append]) -> list[Sealed | WakelogError]:
        """Append to many sessions with a shared sync; return one result for each append, in the given order.

        Appends to one session keep their order. Failures of other appends do not affect a result. Returns only when all
        successful appends are durable.
        """
        ...

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """Add bytes of a log copied from elsewhere, unchanged, after its first `size` bytes; return the name used here.

        With `size` 0 the session is created under this name or, if the name is taken, under the next free number.
        Durable. `Conflict` if the log in this store has another size.
        """
        ...

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """Yield the lines after seq `after`, in log order."""
        ...

    def tail(self, session: str) -> Iterator[Line]:
        """Yield the lines from the last to the first, without line numbers."""
        ...

    def sessions(self) -> Iterator[Stat]:
        """Yield every session, in no particular order, without opening any."""
        ...

    def name(self, session: str) -> str:
        """Return the name of a session; `NotFound` if it does not exist."""
        ...

    def set_title(self, session: str, title: str) -> None:
        """Make a session findable by title for people who browse the storage itself; may do nothing."""
        ...

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """Append the `activity` entry that acquires the lease. `Conflict` while another holder has the lease."""
        ...

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Extend the lease. `LeaseLost` if another holder has taken over."""
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease; does nothing if it was lost."""
        ...

    def held(self, session: str) -> Lease | None:
        """Return the lease in force, or None."""
        ...

    def follow(self, session: str, *, after: int, pieces: Mapping[str, int], timeout_s: float) -> News:
        """Wait until there are lines after `after` or journal pieces beyond the given counts, or until the timeout.

        Of many pieces only the first may be returned; the next call returns the following ones.
        """
        ...

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """Add a piece to the journal of a reply in progress. Survives a process crash; not synced.

        With a `fence`, `LeaseLost` unless it is the current one, so that two workers never write to one journal.
        """
        ...

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """Return the existing journals by reply, as complete pieces; each journal is read in blocks during iteration.

        A journal that is dropped meanwhile may have no pieces. A piece longer than `PIECE_MAX_BYTES` may be returned
        empty.
        """
        ...

    def drop(self, session: str, reply_id: str) -> None:
        """Remove a journal."""
        ...

    @property
    def blobs(self) -> "Blobs":
        """The blobs of this store: content that is too large for a line."""
        ...

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """Return the files of the store, of a session and of blobs (by digest) that untrusted users own or may write.

        Without a session: the store alone, which need not exist yet. A store whose access is controlled elsewhere, such
        as a database server with its roles, reports nothing. Runs on every wake, never on an append.
        """
        ...

    def close(self) -> None:
        """Close files and connections; using the store again reopens them."""
        ...


class StoredBlob(msgspec.Struct, frozen=True):
    """A blob in a listing; `age_s` is the time since it was last put."""

    digest: str
    bytes: int
    age_s: float


class Blobs(Protocol):
    """Content-addressed bytes. A blob is written and synced before the entry that refers to it."""

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """Store bytes and return their reference; equal bytes are stored once."""
        ...

    def get(self, ref: BlobRef) -> bytes:
        """Return the bytes after checking them against the digest; `NotFound` or `Damaged` if that fails."""
        ...

    def check(self, ref: BlobRef) -> None:
        """Raise what `get` would raise, without returning the content and with as little memory as possible."""
        ...

    def stored(self) -> Iterator[StoredBlob]:
        """Yield every blob, in no particular order."""
        ...

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """Remove a blob unless it was put more recently than `older_than_s`; return whether it was removed."""
        ...

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:
        """Remove remains of interrupted puts, or with `dry_run` only count them; return their number."""
        ...


class Hit(msgspec.Struct, frozen=True, rename="camel"):
    """One search result. `excerpt` marks matches with «»; `cursor` is the `after` argument for the next page.

    `seq` is the number that people use for the entry; None where an earlier entry has the same number.
    """

    session: str
    name: str
    entry: str
    type: str
    timestamp: str
    excerpt: str
    cursor: str
    seq: int | None = None


class Catalog(Protocol):
    """Lists and full-text search over all sessions of a store, without opening logs. Derived data.

    Law 2: the log is the only state, so a catalog can be deleted and rebuilt. `refresh` updates it; queries answer from
    its current content. `after` is the cursor of the last row or hit the caller has; `UsageError` if it is invalid.
    """

    def refresh(self, *, progress: Callable[[int, int], None] | None = None, limit_bytes: int | None = None) -> None:
        """Bring the catalog up to date, newest sessions first.

        `progress` gets the number of logs done and their total. It may query the catalog, which then answers from what
        has been read so far. With `limit_bytes`, sessions are left for a later refresh if about that much would have to
        be read for them.
        """
        ...

    def rows(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
    ) -> Sequence[SessionRow]:
        """Return the sessions, last changed first; `archived` None includes archived ones."""
        ...

    def count(
        self,
        *,
        after: str | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
    ) -> int:
        """Return the number of sessions, with the same filters."""
        ...

    def find(self, ref: str) -> Sequence[SessionRow]:
        """Return the session with this id or name; if there is none, those whose id or name starts with it."""
        ...

    def is_damaged(self, name: str) -> bool:
        """Return whether part of the session with that name could not be read."""
        ...

    def inaccessible(self) -> Sequence[str]:
        """Return the names of the sessions that this user had no permission to read at the last refresh."""
        ...

    def unsummarised(self) -> Mapping[str, str]:
        """Return the names of the sessions whose logs could not be summarised at the last refresh, with the reasons.

        Each has a row with the state `unknown`. Its log is read again at the next refresh.
        """
        ...

    def left_out(self) -> Sequence[SessionRow]:
        """Return rows, made from first and last lines only, of the sessions that the last refresh left for later.

        Other queries omit these sessions or return older rows of them.
        """
        ...

    def search(self, query: str, *, limit: int = 50, after: str | None = None) -> Sequence[Hit]:
        """Return the best matches first, the newest first among equals. `BadQuery` if the query cannot be parsed."""
        ...

    def close(self) -> None:
        """Close open files and connections."""
        ...


# ── runtime ──────────────────────────────────────────────────────────────────────────────────────


class Clock(Protocol):
    """Time and new ids, passed in so that replay can supply both."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        ...

    def new_id(self) -> str:
        """Return a new unique id; later ids sort after earlier ones."""
        ...


class Request(msgspec.Struct, frozen=True):
    """A model request: everything the context digest covers, with texts resolved from blobs.

    `answers` is the number of model calls of this branch that ended before this one. `prefill` is the text that a reply
    to be resumed already has; the model continues after it.
    """

    model: str
    messages: tuple[Any, ...]
    system: str = ""
    tools: tuple[Any, ...] = ()
    params: Mapping[str, Any] = {}
    injected: tuple[str, ...] = ()
    prefill: str = ""
    answers: int = 0
    purpose: Literal["reply", "compaction"] = "reply"


class Provider(Protocol):
    """Access to a model. It never raises for failures outside wakelog; it yields `Faulted` instead.

    A provider that signs reasoning and needs it back unchanged sets `needs_reasoning_back = True`.
    """

    name: str
    can_resume: bool

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Yield the reply as it arrives, ending in `Finished` or `Faulted`."""
        ...


@runtime_checkable
class CheckedProvider(Protocol):
    """A provider that can report before a request that none can be made. Optional for a `Provider`."""

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """Raise `UsageError` if the model cannot be called: no key, wrong settings, missing package. No network use."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """The full result of a tool run; it is clipped when it is appended.

    `media` are the images and audio that belong to the text, base64-encoded.
    """

    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


def _unseen(_: str) -> None:
    """Discard live output."""


class Invocation(msgspec.Struct, frozen=True):
    """One tool call. (reply id, tool call id) is the key of its receipt, the same for every attempt.

    `intent` is what `prepare` returned before the tool started; `show` receives live output.
    """

    reply_id: str
    tool_call_id: str
    arguments: Mapping[str, Any]
    attempt: int = 1
    intent: Mapping[str, Any] = {}
    show: Callable[[str], None] = _unseen


class RunInfo(msgspec.Struct, frozen=True):
    """A run about to start: session, agent, sender, folder, and the last prompt."""

    session: str
    turn_id: str
    agent: str
    sender: str
    cwd: str
    prompt: str
    now_ms: int


class Hook(Protocol):
    """Called before a run; provides text that the model sees in that run only (VIEW-7)."""

    name: str

    async def before_run(self, occasion: RunInfo) -> str:
        """Return the text to add to the context; empty for none."""
        ...


Answer: TypeAlias = Outcome | Literal["not begun", "cannot say"]


class Tool(Protocol):
    """An action available to an agent. `replay` says what to do if it is unknown whether the tool ran.

    Failures outside wakelog are returned as an `Outcome`; a tool raises nothing.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    replay: Replay

    async def prepare(self, call: Invocation) -> Mapping[str, Any]:
        """Return data that `receipt` needs later. It is logged before the tool starts. Must have no effect."""
        ...

    async def run(self, call: Invocation) -> Outcome:
        """Run the tool. Cancelling the task stops it and everything it started before this returns."""
        ...

    async def receipt(self, call: Invocation) -> Answer:
        """For `receipt` tools: return what a started call did, `"not begun"`, or `"cannot say"`."""
        ...


class Channel(Protocol):
    """Destination for replies. Offsets make repeated deliveries harmless.

    Any method may raise anything: the reply is kept and delivered in full later, under the same id.
    """

    name: str

    async def begin(self, reply_id: str, attempt: int) -> None:
        """A reply starts, or starts again."""
        ...

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Text at an offset; everything before it has been delivered."""
        ...

    async def reset(self, reply_id: str) -> None:
        """Text delivered so far for this reply is void."""
        ...

    async def end(self, reply_id: str) -> None:
        """The reply is complete. Returning means that it is flushed."""
        ...

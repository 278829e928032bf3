"""The effects as Protocols: what wakelog needs from the world, and no more.

Rule 1: a port is small and knows bytes and values, never a class of its neighbours.
Rule 2: a store holds lines. It orders and seals them and gives the same bytes back, damage
included; it never knows what an entry means. `stores/memory.py` is the reference, and one shipped
suite (`wakelog.testing.store_suite`) judges every implementation.
Rule 3: stores are synchronous; what waits on a model is asynchronous. There are no twins.
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
    """A session as a listing meets it, without opening it: its name, its size, and a mark of its last change."""

    name: str
    size: int
    changed: int


class FirstLine(msgspec.Struct, frozen=True, gc=False):
    """The name of a session and the bytes of its first line, without LF."""

    name: str
    raw: bytes


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """An acknowledged append: the place it got, and the line as stored."""

    seq: int
    line: Line


class Append(msgspec.Struct, frozen=True, gc=False):
    """An entry on its way into a log: what `Store.append` is told, as a value."""

    session: str
    body: bytes
    after: int
    behind: int = 0
    fence: int | None = None
    durable: bool = True


class Lease(msgspec.Struct, frozen=True):
    """The right to run a session. `fence` is the seq of the entry that took it and only ever grows."""

    session: str
    holder: str
    fence: int


class Piece(msgspec.Struct, frozen=True):
    """A piece of a reply under way, and how many pieces stand before it."""

    reply_id: str
    offset: int
    raw: bytes


class News(msgspec.Struct, frozen=True):
    """What `follow` saw: lines behind the place asked from, and journal pieces nobody had yet."""

    lines: tuple[Line, ...] = ()
    pieces: tuple[Piece, ...] = ()


PIECE_MAX_BYTES = 64 * 1024 * 1024
"""No piece that a worker writes is as long as this: a reply is shorter, and a tool's output is cut into pieces."""


class Exposure(msgspec.Struct, frozen=True):
    """A file or folder of a store that an untrusted user owns or may write to.

    `reason` completes the sentence "PATH …"; `remedy` is the command that ends it, or empty where none does.
    """

    path: str
    reason: str
    remedy: str = ""
    uid: int = -1
    gid: int = -1
    mode: int = 0


class Store(Protocol):
    """Keeps sessions as lines of bytes. A session is addressed by its id or its name."""

    def create(self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes]) -> str:
        """Makes a session durable under the next free number of the exact pair (agent, sender); gives its name.

        `first_line` gets that number and gives the encoded session entry. Two creators never share a
        number. Numbers go on behind those of sessions that an earlier version named (`names.old_stem`). A
        session that exists already is left as it is (ST-7).
        """
        ...

    def first_lines(self, stem: str) -> Iterator[FirstLine]:
        """The first lines of all sessions named `stem` and a number, the highest number first.

        Each is read when it is asked for; no other session is read.
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
        """Seals an encoded entry and adds it as the line behind seq `after`.

        `Conflict` if the log does not end there any more, unless this very entry (same id, same bytes)
        is what was added: then that is the answer. An id that stands before that place is the caller's
        mistake; a store that would have to read the whole log to see it need not. `behind` is the size of
        the torn tail the caller knows of, so that none goes unnoticed. With a `fence`, `LeaseLost` unless
        it is the current one.
        """
        ...

    def append_all(self, appends: Sequence[Append]) -> list[Sealed | WakelogError]:
        """Appends to many sessions, made durable together: what each got, in the order given.

        Those of one session keep their order. An answer is an entry's own: what its neighbours meet does
        not change it. Not before all that got a place are durable does this return.
        """
        ...

    def adopt(self, session: str, name: str, raw: bytes, *, size: int = 0) -> str:
        """Adds bytes of a log that was kept elsewhere, exactly as they are, behind the first `size` of them.

        With a `size` of 0 the session is made, under this name or, where another has it, under the next
        free number; gives the name it has here. Durable. `Conflict` if the log here has another size.
        """
        ...

    def load(self, session: str, *, after: int = -1) -> Iterator[Line]:
        """The lines behind seq `after`, in order."""
        ...

    def tail(self, session: str) -> Iterator[Line]:
        """The lines from the last to the first, whose numbers are not counted."""
        ...

    def sessions(self) -> Iterator[Stat]:
        """Every session, in no particular order, without opening any."""
        ...

    def name(self, session: str) -> str:
        """The name of a session, or `NotFound`."""
        ...

    def entitle(self, session: str, title: str) -> None:
        """Makes a session findable by its title for people who browse the storage itself; may do nothing."""
        ...

    def acquire(self, session: str, body: bytes, *, after: int, behind: int = 0, holder: str, ttl_s: float) -> Lease:
        """Appends the `activity` entry that takes the lease. `Conflict` while another holder's is in force."""
        ...

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Moves the expiry. `LeaseLost` if another holder has taken over."""
        ...

    def release(self, lease: Lease) -> None:
        """Gives the lease up; nothing happens if it was lost."""
        ...

    def held(self, session: str) -> Lease | None:
        """The lease in force, if any."""
        ...

    def follow(self, session: str, *, after: int, pieces: Mapping[str, int], timeout_s: float) -> News:
        """Waits until there is news behind `after` or behind the pieces already had, or the time is up.

        Where there are many pieces, only the first of them may be given: the next call gives those behind them.
        """
        ...

    def journal(self, session: str, reply_id: str, piece: bytes, *, fence: int | None = None) -> None:
        """Adds a piece to the journal of a reply under way: safe from a crash of the process, not synced.

        With a `fence`, `LeaseLost` unless it is the current one: two workers never speak in one journal.
        """
        ...

    def journals(self, session: str) -> Mapping[str, Iterable[bytes]]:
        """The journals that stand, by reply, as whole pieces. Each journal is read as it is iterated over, in blocks.

        A journal that is dropped meanwhile may have no pieces. A piece longer than `PIECE_MAX_BYTES` may come as an
        empty one.
        """
        ...

    def drop(self, session: str, reply_id: str) -> None:
        """Removes a journal."""
        ...

    @property
    def blobs(self) -> "Blobs":
        """Where this store keeps what is too large for a line."""
        ...

    def custody(self, session: str | None = None, *, blobs: Iterable[str] = ()) -> tuple[Exposure, ...]:
        """The files of the store itself, of a session and of blobs (by digest) that untrusted users own or may write.

        Without a session: the store alone, which need not exist yet. A store whose access is decided elsewhere, such as
        a database server with its roles, has nothing to report. Runs on every wake, never on an append.
        """
        ...

    def close(self) -> None:
        """Lets go of files and connections; using the store again opens them anew."""
        ...


class StoredBlob(msgspec.Struct, frozen=True):
    """A blob as a listing meets it; its age is the time since it was last put."""

    digest: str
    bytes: int
    age_s: float


class Blobs(Protocol):
    """Bytes by their digest. Written and synced before the entry that names them."""

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """Keeps bytes; equal bytes are kept once."""
        ...

    def get(self, ref: BlobRef) -> bytes:
        """The bytes, checked against the digest: `NotFound` or `Damaged` otherwise."""
        ...

    def check(self, ref: BlobRef) -> None:
        """Raises what `get` would raise, without handing out, or holding in memory, more than it must."""
        ...

    def stored(self) -> Iterator[StoredBlob]:
        """Every blob there is, in no particular order."""
        ...

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """Removes a blob, unless it was put again more recently than that; says whether it did."""
        ...

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:
        """Removes what a put that was cut short has left behind, or with `dry_run` only counts it."""
        ...


class Hit(msgspec.Struct, frozen=True, rename="camel"):
    """One entry that a search found. `excerpt` marks what matched with «»; the next page begins behind `cursor`.

    `seq` is its number in the session, by which people name it; None where an entry before it has that number too.
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
    """What can be said of all sessions of one store without opening any: lists, and full text. Derived (law 2).

    `refresh` brings it up to date; the questions answer from what it holds then. An `after` is the cursor of the last
    row or hit that the caller has; `UsageError` if it is none.
    """

    def refresh(self, *, progress: Callable[[int, int], None] | None = None, limit_bytes: int | None = None) -> None:
        """Takes in what has changed since, the newest sessions first.

        `progress` is told how many logs of how many are done. It may ask: what was taken in by then is answered.
        With `limit_bytes` sessions are left for a later refresh if about that much would have to be read for them.
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
        """The sessions, the last changed first; `archived` None gives those put away as well."""
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
        """How many sessions there are, by the same filters."""
        ...

    def find(self, ref: str) -> Sequence[SessionRow]:
        """The session whose id or name this is; else those that begin with it."""
        ...

    def is_damaged(self, name: str) -> bool:
        """Whether something in the session of that name could not be read."""
        ...

    def inaccessible(self) -> Sequence[str]:
        """The names of the sessions that this user was not let read when the catalog was last brought up to date."""
        ...

    def unsummarised(self) -> Mapping[str, str]:
        """The names of the sessions whose logs could not be summarised then, each with the reason.

        Each has a row with the state `unknown`. Its log is read again at the next refresh.
        """
        ...

    def left_out(self) -> Sequence[SessionRow]:
        """What the first and the last lines say of the sessions that the last refresh left for later.

        Other questions are answered without them, or with an older row of them.
        """
        ...

    def search(self, query: str, *, limit: int = 50, after: str | None = None) -> Sequence[Hit]:
        """The best matches first, the newest among equals. `BadQuery` for text that cannot be understood."""
        ...

    def close(self) -> None:
        """Lets go of what is open."""
        ...


# ── the world of the agent ───────────────────────────────────────────────────────────────────────


class Clock(Protocol):
    """Time and identity, handed in so that replay can answer for them."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def new_id(self) -> str:
        """An id that nobody has, later than those before it."""
        ...


class Request(msgspec.Struct, frozen=True):
    """What an adapter is handed: everything the context digest covers, with its texts at hand.

    `answers` is how many calls of this branch have come to an end before this one. `prefill` is what a
    reply that is being resumed had said already; the answer goes on behind it.
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
    """A model behind a socket. It never raises for what the outside world does: it yields `Faulted`.

    One that signs a model's reasoning and must get it back as it came says so by `needs_reasoning_back = True`.
    """

    name: str
    can_resume: bool

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """The reply as it comes, ending in `Finished` or `Faulted`."""
        ...


@runtime_checkable
class CheckedProvider(Protocol):
    """A provider that can say before a request is made that none can be made. `Provider` does not require it."""

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """`UsageError` if the model cannot be asked: no key, wrong settings, missing package. Uses no network."""
        ...


class Outcome(msgspec.Struct, frozen=True):
    """What a tool did: the whole of what it has to say. Whoever appends it clips it.

    `media` are the images and the audio that come with the text, with their bytes in base64.
    """

    text: str
    is_error: bool = False
    media: tuple[Media, ...] = ()


def _unseen(_: str) -> None:
    """Live output that nobody watches."""


class Invocation(msgspec.Struct, frozen=True):
    """One call of a tool. (reply id, tool call id) is the key of its receipt, the same at every attempt.

    `intent` is what `prepare` gave before the tool was begun, `show` takes live output.
    """

    reply_id: str
    tool_call_id: str
    arguments: Mapping[str, Any]
    attempt: int = 1
    intent: Mapping[str, Any] = {}
    show: Callable[[str], None] = _unseen


class Occasion(msgspec.Struct, frozen=True):
    """A run that is about to begin: whose it is, where, and what was said last."""

    session: str
    turn_id: str
    agent: str
    sender: str
    cwd: str
    prompt: str
    now_ms: int


class Hook(Protocol):
    """Somebody who is asked before a run for what the model should see in that run, and never again (VIEW-7)."""

    name: str

    async def before_run(self, occasion: Occasion) -> str:
        """The text to be shown; empty for none."""
        ...


Answer: TypeAlias = Outcome | Literal["not begun", "cannot say"]


class Tool(Protocol):
    """Something an agent can do. `replay` says what may happen if nobody knows whether it ran.

    What a tool meets in the outside world is an `Outcome`; it raises nothing.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    replay: Replay

    async def prepare(self, call: Invocation) -> Mapping[str, Any]:
        """What the tool must know afterwards to answer for itself. Kept in the log before it begins; no effect."""
        ...

    async def run(self, call: Invocation) -> Outcome:
        """Does it. Cancelling the task stops it, and whatever it started, before this returns."""
        ...

    async def receipt(self, call: Invocation) -> Answer:
        """For `receipt` tools, of a call that was begun: what it did, or that it did not, or that it cannot say."""
        ...


class Channel(Protocol):
    """Where replies are delivered. Offsets make repeats harmless.

    Any method may raise anything: the reply is kept, and the channel is given the whole of it later, under the same id.
    """

    name: str

    async def begin(self, reply_id: str, attempt: int) -> None:
        """A reply starts, or starts again."""
        ...

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Text at an offset; what lies before it is already there."""
        ...

    async def reset(self, reply_id: str) -> None:
        """What was shown of this reply is void."""
        ...

    async def end(self, reply_id: str) -> None:
        """The reply is complete. Returning means that it is flushed."""
        ...

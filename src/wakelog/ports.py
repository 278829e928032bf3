"""The effects as Protocols: what wakelog needs from the world, and no more.

Rule 1: a port is small and knows bytes and values, never a class of its neighbours.
Rule 2: a store holds lines. It orders and seals them and gives the same bytes back, damage
included; it never knows what an entry means. `stores/memory.py` is the reference, and one shipped
suite (`wakelog.testing.store_suite`) judges every implementation.
Rule 3: stores are synchronous; what waits on a model is asynchronous. There are no twins.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from wakelog.log.content import BlobRef, Usage
from wakelog.log.lines import Line

# ── store ────────────────────────────────────────────────────────────────────────────────────────


class Stat(msgspec.Struct, frozen=True):
    """A session as a listing meets it, without opening it: its name, its size, and a mark of its last change."""

    name: str
    size: int
    changed: int


class Sealed(msgspec.Struct, frozen=True):
    """An acknowledged append: the place it got, and the line as stored."""

    seq: int
    line: Line


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


class Store(Protocol):
    """Keeps sessions as lines of bytes. A session is addressed by its id or its name."""

    def create(self, session: str, agent: str, sender: str, first_line: Callable[[int], bytes]) -> str:
        """Makes a session durable under the next free number of (agent, sender); gives its name.

        `first_line` gets that number and gives the encoded session entry. Two creators never share a
        number. A session that exists already is left as it is (ST-7).
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
        is what was added: then that is the answer. `behind` is the size of the torn tail the caller
        knows of, so that none goes unnoticed. With a `fence`, `LeaseLost` unless it is the current one.
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
        """Waits until there is news behind `after` or behind the pieces already had, or the time is up."""
        ...

    def journal(self, session: str, reply_id: str, piece: bytes) -> None:
        """Adds a piece to the journal of a reply under way: safe from a crash of the process, not synced."""
        ...

    def journals(self, session: str) -> dict[str, tuple[bytes, ...]]:
        """The journals that stand, by reply, as whole pieces."""
        ...

    def drop(self, session: str, reply_id: str) -> None:
        """Removes a journal."""
        ...

    def close(self) -> None:
        """Lets go of files and connections; using the store again opens them anew."""
        ...


class Blobs(Protocol):
    """Bytes by their digest. Written and synced before the entry that names them."""

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """Keeps bytes; equal bytes are kept once."""
        ...

    def get(self, ref: BlobRef) -> bytes:
        """The bytes, checked against the digest: `NotFound` or `Damaged` otherwise."""
        ...


class Hit(msgspec.Struct, frozen=True, rename="camel"):
    """One entry that a search found. `excerpt` marks what matched with «»."""

    session: str
    name: str
    entry: str
    type: str
    timestamp: str
    excerpt: str


class Search(Protocol):
    """Full text over all sessions of one store."""

    def search(self, query: str, *, limit: int = 50) -> Sequence[Hit]:
        """The best matches first. `BadQuery` for text that cannot be understood."""
        ...


# ── the world of the agent ───────────────────────────────────────────────────────────────────────


class Clock(Protocol):
    """Time and chance, handed in so that replay can answer for them."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def chance(self, size: int) -> bytes:
        """Random bytes."""
        ...


class TextDelta(msgspec.Struct, frozen=True, tag="text"):
    """A piece of the answer."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking"):
    """A piece of reasoning; the signature comes with the last one."""

    thinking: str = ""
    signature: str | None = None


class CallDelta(msgspec.Struct, frozen=True, tag="call"):
    """A tool call, whole."""

    id: str
    name: str
    input: Any = None


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The end of a reply."""

    stop_reason: str = "stop"
    usage: Usage | None = None
    request_id: str | None = None


class Faulted(msgspec.Struct, frozen=True, tag="faulted"):
    """The reply did not come: a failure of the outside world, as a value."""

    kind: str
    message: str
    retryable: bool = False
    delay_ms: int | None = None


Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Finished | Faulted


class Request(msgspec.Struct, frozen=True):
    """What an adapter is handed: everything the context digest covers, with its texts at hand."""

    model: str
    messages: tuple[Any, ...]
    system: str = ""
    tools: tuple[Any, ...] = ()
    params: Mapping[str, Any] = {}
    injected: tuple[str, ...] = ()
    prefill: str = ""


class Provider(Protocol):
    """A model behind a socket. It never raises for what the outside world does: it yields `Faulted`."""

    name: str
    can_resume: bool

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """The reply as it comes, ending in `Finished` or `Faulted`."""
        ...


Replay = Literal["safe", "receipt", "never"]


class Outcome(msgspec.Struct, frozen=True):
    """What a tool did."""

    text: str
    is_error: bool = False


class Tool(Protocol):
    """Something an agent can do. `replay` says what may happen if nobody knows whether it ran."""

    name: str
    description: str
    schema: Mapping[str, Any]
    replay: Replay

    async def run(self, call: tuple[str, str], arguments: Mapping[str, Any]) -> Outcome:
        """Does it. `call` is (reply id, tool call id), the key of its receipt."""
        ...

    async def receipt(self, call: tuple[str, str], arguments: Mapping[str, Any]) -> Outcome | bool | None:
        """For `receipt` tools: an outcome if it was done, False if not begun, None if it cannot say."""
        ...


class Channel(Protocol):
    """Where replies are delivered. Offsets make repeats harmless."""

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

"""The entry: one immutable line of a session, an envelope and a body of one of a closed set of types.

Rule 1: a type here is either a *node* (it chains: `parentId` is the node before it) or a *annotation*
(`parentId` names the one node it speaks about). Nothing else about the tree is decided here.
Rule 2: a body is made without an envelope; `session.py` stamps id, parent and time, the store seals
seq and h around the encoded bytes. Nothing read from a store is ever encoded again.
Rule 3: types are short words we own; a type we do not know is an `Unknown` with its bytes.
`docs/format.md` is the source of truth for each field.
"""

from typing import Any, Literal, Self, TypeAlias

import msgspec

from wakelog.log.content import AnyMessage, BlobRef, Content, JsonObject, Usage, Value

FORMAT_VERSION = 1
RULES = 2
"""The rules by which this version decides and writes; `activity` records the number, so that replay can follow it."""
Replay: TypeAlias = Literal["safe", "receipt", "never"]


def always_written(default: Any) -> Any:
    """A field that is written even where it equals its default: it records a choice that recovery depends on.

    A line without it, from before rules 2, means the default given here; that default never changes.
    """
    return msgspec.field(default_factory=lambda: default)


class Envelope(Value, frozen=True, kw_only=True, tag_field="type"):
    """What every entry carries. Blank in a body that has not been appended yet."""

    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    turn_id: str | None = None
    v: int | None = None
    seq: int | None = None

    @property
    def type(self) -> str:
        """The entry's tag."""
        return str(self.__struct_config__.tag)

    @property
    def bare(self) -> Self:
        """The body as it was before it got its place: what it says, and to be appended anew."""
        return msgspec.structs.replace(self, id="", parent_id=None, timestamp="", turn_id=None, v=None, seq=None)


class Node(Envelope, frozen=True, kw_only=True):
    """An entry that chains: a branch is the walk over nodes."""


class Annotation(Envelope, frozen=True, kw_only=True):
    """An entry that speaks about one node; never a parent, never moves the head (but for `head`)."""


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


class Origin(Value, frozen=True, kw_only=True):
    """Where a session came from: the entry of another session that its own history goes on from."""

    session: str
    entry: str
    h: str | None = None
    kind: Literal["fork", "subagent", "import"] = always_written("fork")


class Session(Node, frozen=True, kw_only=True, tag="session"):
    """The first line. Its id is the session's id."""

    version: int | None = None
    cwd: str = ""
    agent: str = ""
    sender: str = ""
    number: int | None = None
    app: str = ""
    title: str | None = None
    provider: str | None = None
    model: str | None = None
    settings: JsonObject = {}
    parent: Origin | None = None


class Source(Value, frozen=True, kw_only=True):
    """One instruction file that was, or could not be, loaded."""

    kind: str = ""
    path: str = ""
    scope: str = ""
    hash: str = ""
    bytes: int = 0
    truncated: bool = False
    error: str | None = None


class ContextRecord(Node, frozen=True, kw_only=True, tag="context"):
    """What is in force from here on: instructions, tools, parameters, policy. Texts are blobs."""

    sources: tuple[Source, ...] = ()
    environment: JsonObject = {}
    system: BlobRef | None = None
    tools: BlobRef | None = None
    params: JsonObject = {}
    policy: JsonObject = {}


class Message(Node, frozen=True, kw_only=True, tag="message"):
    """A prompt, a reply, a tool result, or an extension's note."""

    message: AnyMessage


class ModelChange(Node, frozen=True, kw_only=True, tag="model_change"):
    """Which model answers from here on."""

    model: str
    provider: str | None = None


class Setting(Node, frozen=True, kw_only=True, tag="setting"):
    """One run setting, from here on."""

    key: str
    value: Any = None


class Cancelled(Node, frozen=True, kw_only=True, tag="cancelled"):
    """The turn was ended by a person; `queued_id` names the entry that asked for it.

    `content` is what they had read of the reply under way: it stays part of the talk.
    """

    reason: str = ""
    queued_id: str | None = None
    content: Content = ()


class FaultReport(Value, frozen=True, kw_only=True):
    """What the outside world did wrong."""

    kind: str = ""
    message: str = ""
    retryable: bool = False
    delay_ms: int | None = None


class Failed(Node, frozen=True, kw_only=True, tag="failed"):
    """A model call, or the turn, ended in a fault."""

    reason: str = ""
    error: FaultReport | None = None
    call_id: str | None = None


class Custom(Node, frozen=True, kw_only=True, tag="custom"):
    """An extension's entry. The model sees `content`, and only if `inContext`."""

    custom_type: str
    data: Any = None
    in_context: bool = False
    content: Content = ()


# ── annotations ────────────────────────────────────────────────────────────────────────────────────────


class Call(Annotation, frozen=True, kw_only=True, tag="call"):
    """Written before each request to the model. Hangs on the last node the request contains.

    `call_id` is what its outcome names it by, where that is not the entry's own id (see `key`).
    `from` is the first entry of a window that leaves some out, `to` the first that a summary is not to stand for;
    `context_id` names the context in force where that is not the last one of the branch.
    """

    call_id: str | None = None
    reply_id: str
    purpose: Literal["reply", "compaction", "title", "rerun"] = always_written("reply")
    queued_id: str | None = None
    context_id: str | None = None
    model: str | None = None
    provider: str | None = None
    strategy: str = always_written("full")
    from_id: str | None = msgspec.field(default=None, name="from")
    to_id: str | None = msgspec.field(default=None, name="to")
    context_digest: str | None = None
    request_digest: str | None = None
    injected: tuple[BlobRef, ...] = ()
    channels: tuple[str, ...] = ()
    tokens_estimate: int | None = None

    @property
    def key(self) -> str:
        """What the outcome of this call names it by."""
        return self.call_id or self.id


class Partial(Annotation, frozen=True, kw_only=True, tag="partial"):
    """A reply, or a tool's output, that was cut off, as far as it had come; error and usage where they are known."""

    reply_id: str
    content: Content = ()
    tool_call_id: str | None = None
    error: FaultReport | None = None
    usage: Usage | None = None


class Resumed(Annotation, frozen=True, kw_only=True, tag="resumed"):
    """How a cut reply is being made good."""

    reply_id: str
    strategy: Literal["resume", "replace"] = always_written("replace")
    prior_chars: int = 0


class ToolStarted(Annotation, frozen=True, kw_only=True, tag="tool_started"):
    """Durable before the tool's effect begins. Hangs on the reply that asked for it.

    `intent` is what the tool needs to know afterwards to say whether it had its effect.
    """

    reply_id: str
    tool_call_id: str
    name: str = ""
    input_digest: str | None = None
    replay: Replay = always_written("never")
    attempt: int = always_written(1)
    intent: JsonObject = {}


class Sent(Annotation, frozen=True, kw_only=True, tag="sent"):
    """A channel has flushed this reply."""

    reply_id: str
    channel: str = ""


class SendFailed(Annotation, frozen=True, kw_only=True, tag="send_failed"):
    """A channel raised while it was given this reply. `attempt` counts from 1 since the worker took the session up."""

    reply_id: str
    channel: str = ""
    error: FaultReport | None = None
    attempt: int = always_written(1)


class Head(Annotation, frozen=True, kw_only=True, tag="head"):
    """A person moved the place where the next node goes.

    `reason` says that the move is a request to run: a turn is tried again (`retry`), or a tool runs again (`rerun`).
    A move without a reason is no such request (see `SessionState.dormant`).
    """

    target_id: str
    reason: Literal["retry", "rerun"] | None = None


class Label(Annotation, frozen=True, kw_only=True, tag="label"):
    """A person named an entry. An empty label takes the name away."""

    target_id: str
    label: str = ""


class SessionRenamed(Annotation, frozen=True, kw_only=True, tag="session_renamed"):
    """The session's title, from now on."""

    title: str


class SessionArchived(Annotation, frozen=True, kw_only=True, tag="session_archived"):
    """The session is put away, or brought back."""

    archived: bool = True


class Queued(Annotation, frozen=True, kw_only=True, tag="queued"):
    """Said while the agent was busy, or asked of it: taken up by an entry that names this one.

    A `cancel` ends the turn in which it is said. A `compact` asks for a fold that keeps everything from `keep`
    on; its message holds instructions for the summary.
    """

    message: AnyMessage | None = None
    mode: Literal["steer", "followUp", "cancel", "compact"] = always_written("followUp")
    keep: str | None = None


class Attention(Annotation, frozen=True, kw_only=True, tag="attention"):
    """A person is needed."""

    reason: str = ""
    refs: tuple[str, ...] = ()
    reply_id: str | None = None
    tool_call_id: str | None = None


class AttentionResolved(Annotation, frozen=True, kw_only=True, tag="attention_resolved"):
    """A person has decided."""

    attention_id: str
    decision: str = ""
    result: Content | None = None


class Spawned(Annotation, frozen=True, kw_only=True, tag="spawned"):
    """A sub-agent's session is about to exist; hangs on the reply that asked for it."""

    child_session: str
    reply_id: str
    tool_call_id: str


class Activity(Annotation, frozen=True, kw_only=True, tag="activity"):
    """A worker took the session up, or left it. The seq of the taking is the worker's fence.

    `channels` are those the worker can deliver to while it has the session; `rules` are those it decides and writes by.
    `queue` is given where the last compaction was written before rules 2, which carries the queue of one branch only.
    It holds the messages that wait in the whole session, so that they need not be looked for again.
    """

    holder: str = ""
    event: Literal["attached", "left"] = always_written("attached")
    fence: int | None = None
    channels: tuple[str, ...] = ()
    rules: int = 1
    queue: tuple[Queued, ...] | None = None


class DamageNote(Annotation, frozen=True, kw_only=True, tag="damage"):
    """Unreadable bytes before this line are known: `torn` was never acknowledged, `lost` may have been."""

    offset: int = 0
    bytes: int = 0
    digest: str = ""
    reason: Literal["torn", "lost"] = "torn"


class Terminated(Annotation, frozen=True, kw_only=True, tag="terminated"):
    """The session is over for good."""

    reason: str = ""


# ── the fold ─────────────────────────────────────────────────────────────────────────────────────


class Owed(Value, frozen=True, kw_only=True):
    """A reply that a channel has not been given yet."""

    reply_id: str
    channel: str


class CarriedState(Value, frozen=True, kw_only=True):
    """Everything a reader would need from before a compaction, so that reading can stop there.

    Session-wide values are those of the whole log before the compaction; branch values those of
    the branch the compaction stands on. `head` is the session's head just before it.

    `rules` are those it was computed by. Under rules 1 `queue` held what waited on this branch only, `said` which of it
    was taken up on another branch, `uptime_ms` counted the time of dead workers too, and `dormant` was not recorded.
    Under rules 2 `queue` holds the messages that wait in the whole session, and this branch's requests.
    """

    head: str
    rules: int = 1
    title: str | None = None
    archived: bool = False
    terminated: bool = False
    uptime_ms: int = 0
    attached_at: str | None = None
    worked_at: str | None = None
    """When the worker that is attached last wrote an entry that only a worker writes."""
    dormant: bool = False
    calls: int = 0
    usage: Usage = Usage(cost_micros=0)
    messages: int = 0
    model: str | None = None
    provider: str | None = None
    answered_model: str | None = None
    answered_provider: str | None = None
    ends_in: str | None = None
    answers: int = 0
    steps: int = 0
    settings: JsonObject = {}
    context: ContextRecord | None = None
    queue: tuple[Queued, ...] = ()
    said: tuple[str, ...] = ()
    attention: tuple[Attention, ...] = ()
    owed: tuple[Owed, ...] = ()
    send_failed: tuple[SendFailed, ...] = ()
    """Of each owed reply, the last failed attempt to send it since the worker took the session up."""


class Compaction(Node, frozen=True, kw_only=True, tag="compaction"):
    """Stands for everything before `first_kept_entry_id` in the context. Deletes nothing.

    `summary` is, word for word, the user message it becomes. Without a first kept entry nothing
    older than the compaction is kept.
    """

    summary: str
    first_kept_entry_id: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    trigger: str = always_written("manual")
    state: CarriedState | None = None
    call_id: str | None = None
    usage: Usage | None = None


AnyNode: TypeAlias = (
    Session | ContextRecord | Message | ModelChange | Setting | Compaction | Cancelled | Failed | Custom
)
AnyAnnotation: TypeAlias = (
    Call
    | Partial
    | Resumed
    | ToolStarted
    | Sent
    | SendFailed
    | Head
    | Label
    | SessionRenamed
    | SessionArchived
    | Queued
    | Attention
    | AttentionResolved
    | Spawned
    | Activity
    | DamageNote
    | Terminated
)
Known: TypeAlias = AnyNode | AnyAnnotation

NODE_TYPES = frozenset(str(cls.__struct_config__.tag) for cls in Node.__subclasses__())
ANNOTATION_TYPES = frozenset(str(cls.__struct_config__.tag) for cls in Annotation.__subclasses__())


class Unknown(Value, frozen=True, kw_only=True):
    """An envelope whose body this version does not understand; the entry keeps the bytes."""

    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""
    turn_id: str | None = None
    v: int | None = None
    seq: int | None = None


Body: TypeAlias = Known | Unknown


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One entry as it was read: its bytes and their typed value.

    `seq` is its place in the session, also where the line itself did not say; `offset` and `line`
    say where its bytes stand (line 0: not counted, the log was not read from its beginning).
    """

    raw: bytes
    value: Body
    seq: int
    offset: int = 0
    line: int = 0

    @property
    def id(self) -> str:
        """The entry's id."""
        return self.value.id

    @property
    def type(self) -> str:
        """The entry's tag."""
        return self.value.type

    @property
    def is_node(self) -> bool:
        """Whether it chains. A known node type whose body would not decode still does."""
        return isinstance(self.value, Node) or self.value.type in NODE_TYPES

"""Entry types: one entry is one immutable line of a session log, an envelope plus a typed body.

Rule 1: each type is either a *node* (`parentId` is the previous node of its branch) or an *annotation* (`parentId` is
the node it describes). `tree.py` decides everything else about the tree.
Rule 2: a body is created without an envelope. `session.py` sets id, parent and timestamp; the store adds seq and h
around the encoded bytes. Data read from a store is never encoded again.
Rule 3: the set of types is closed. An entry of a type this version does not know is an `UnknownBody` and keeps its
bytes. `docs/format.md` defines each field.
"""

from typing import Any, Literal, Self, TypeAlias

import msgspec

from wakelog.log.content import AnyMessage, BlobRef, Content, JsonObject, Usage, Value

FORMAT_VERSION = 1
RULES_VERSION = 3
"""Version of the decision and writing rules. `activity` entries record it: replay needs the rules of the worker."""
ReplayMode: TypeAlias = Literal["safe", "receipt", "never"]


def always_written(default: Any) -> Any:
    """Return a field that is encoded even where it equals its default, because recovery depends on the value.

    Lines written before rules 2 may lack the field; it then has the default given here, which never changes.
    """
    return msgspec.field(default_factory=lambda: default)


class Envelope(Value, frozen=True, kw_only=True, tag_field="type"):
    """Fields that every entry has. They are blank in a body that has not been appended."""

    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    turn_id: str | None = None
    v: int | None = None
    seq: int | None = None

    @property
    def type(self) -> str:
        """The type tag of the entry."""
        return str(self.__struct_config__.tag)

    @property
    def without_envelope(self) -> Self:
        """A copy of the body with a blank envelope, ready to be appended again."""
        return msgspec.structs.replace(self, id="", parent_id=None, timestamp="", turn_id=None, v=None, seq=None)


class Node(Envelope, frozen=True, kw_only=True):
    """An entry with a place in the tree. A branch is a path of nodes."""


class Annotation(Envelope, frozen=True, kw_only=True):
    """An entry about one node. It is never a parent, and only the `head` type moves the head."""


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────


class Origin(Value, frozen=True, kw_only=True):
    """Reference to the entry of another session that this session was made from."""

    session: str
    entry: str
    h: str | None = None
    kind: Literal["fork", "subagent", "import"] = always_written("fork")


class SessionHeader(Node, frozen=True, kw_only=True, tag="session"):
    """Session header: the first line of a log. Its id is the id of the session."""

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


class InstructionSource(Value, frozen=True, kw_only=True):
    """One instruction file that was loaded, or that could not be loaded (`error`)."""

    kind: str = ""
    path: str = ""
    scope: str = ""
    hash: str = ""
    bytes: int = 0
    truncated: bool = False
    error: str | None = None


class ContextEntry(Node, frozen=True, kw_only=True, tag="context"):
    """Settings in force from this entry on: instructions, tools, parameters, policy. `system` and `tools` are blobs."""

    sources: tuple[InstructionSource, ...] = ()
    environment: JsonObject = {}
    system: BlobRef | None = None
    tools: BlobRef | None = None
    params: JsonObject = {}
    policy: JsonObject = {}


class Message(Node, frozen=True, kw_only=True, tag="message"):
    """A prompt, a reply, a tool result, or a message of an extension."""

    message: AnyMessage


class ModelChange(Node, frozen=True, kw_only=True, tag="model_change"):
    """The model used from this entry on."""

    model: str
    provider: str | None = None


class Setting(Node, frozen=True, kw_only=True, tag="setting"):
    """One run setting, in force from this entry on."""

    key: str
    value: Any = None


class Cancelled(Node, frozen=True, kw_only=True, tag="cancelled"):
    """The turn was cancelled by a person; `queued_id` is the entry that requested it.

    `content` is the displayed part of the reply in progress, `reply_id`; it stays in the context.
    """

    reason: str = ""
    queued_id: str | None = None
    reply_id: str | None = None
    content: Content = ()


class FaultReport(Value, frozen=True, kw_only=True):
    """A failure outside wakelog, such as a provider error."""

    kind: str = ""
    message: str = ""
    retryable: bool = False
    delay_ms: int | None = None


class Failed(Node, frozen=True, kw_only=True, tag="failed"):
    """A model call, or the whole turn, ended in a failure."""

    reason: str = ""
    error: FaultReport | None = None
    call_id: str | None = None


class Custom(Node, frozen=True, kw_only=True, tag="custom"):
    """An entry of an extension. The model sees `content` only if `inContext` is true."""

    custom_type: str
    data: Any = None
    in_context: bool = False
    content: Content = ()


# ── annotations ──────────────────────────────────────────────────────────────────────────────────


class ModelCall(Annotation, frozen=True, kw_only=True, tag="call"):
    """A model call, written before the request is sent. Its parent is the last node that the request contains.

    Entries about the outcome refer to the call by `call_id`, or by the entry's own id if that is None (see `key`).
    `from` is the first entry of a context window that omits older ones; `to` is the first entry that a summary does not
    cover; `context_id` is the `context` entry in force if that is not the last one of the branch. `over_limit` is by
    how much the context exceeds the size of `strategy`, in its unit; it then is the newest group of messages alone.
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
    over_limit: int | None = None

    @property
    def key(self) -> str:
        """The id by which entries about the outcome refer to this model call."""
        return self.call_id or self.id


class Partial(Annotation, frozen=True, kw_only=True, tag="partial"):
    """The stored part of an interrupted reply or of an interrupted tool's output; error and usage where known."""

    reply_id: str
    content: Content = ()
    tool_call_id: str | None = None
    error: FaultReport | None = None
    usage: Usage | None = None


class Resumed(Annotation, frozen=True, kw_only=True, tag="resumed"):
    """How an interrupted reply is recovered: continued (`resume`) or generated again (`replace`)."""

    reply_id: str
    strategy: Literal["resume", "replace"] = always_written("replace")
    prior_chars: int = 0


class ToolStarted(Annotation, frozen=True, kw_only=True, tag="tool_started"):
    """Start of a tool run, durable before the tool's effect begins. Its parent is the reply with the tool call.

    `intent` is the data that the tool needs later to find out whether it had its effect.
    """

    reply_id: str
    tool_call_id: str
    name: str = ""
    input_digest: str | None = None
    replay: ReplayMode = always_written("never")
    attempt: int = always_written(1)
    intent: JsonObject = {}


ClosedAs: TypeAlias = Literal["ended", "reset"]
"""How an interrupted reply is closed on a channel: `ended` with the words in its `cancelled` entry, or `reset`."""


class Sent(Annotation, frozen=True, kw_only=True, tag="sent"):
    """A channel has flushed this reply. With `interrupted`, it has closed a reply that is not in the log."""

    reply_id: str
    channel: str = ""
    interrupted: ClosedAs | None = None


class SendFailed(Annotation, frozen=True, kw_only=True, tag="send_failed"):
    """A channel raised while it got this reply. `attempt` counts from 1 since the worker acquired the session."""

    reply_id: str
    channel: str = ""
    error: FaultReport | None = None
    attempt: int = always_written(1)


class Head(Annotation, frozen=True, kw_only=True, tag="head"):
    """A person moved the head: the next node goes under `target_id`.

    With a `reason` the move is also a request to run: repeat a turn (`retry`) or run a tool again (`rerun`).
    Without a reason it is not such a request (see `SessionState.dormant`).
    """

    target_id: str
    reason: Literal["retry", "rerun"] | None = None


class Label(Annotation, frozen=True, kw_only=True, tag="label"):
    """A label for an entry, set by a person. An empty label removes it."""

    target_id: str
    label: str = ""


class SessionRenamed(Annotation, frozen=True, kw_only=True, tag="session_renamed"):
    """The title of the session from this entry on."""

    title: str


class SessionArchived(Annotation, frozen=True, kw_only=True, tag="session_archived"):
    """The session was archived or restored."""

    archived: bool = True


class Queued(Annotation, frozen=True, kw_only=True, tag="queued"):
    """A message or request left while the agent was busy. The entry that uses it refers to it by id.

    `cancel` ends the current turn. `compact` requests a compaction that keeps everything from `keep` on; its message
    holds instructions for the summary.
    """

    message: AnyMessage | None = None
    mode: Literal["steer", "followUp", "cancel", "compact"] = always_written("followUp")
    keep: str | None = None


class Attention(Annotation, frozen=True, kw_only=True, tag="attention"):
    """A decision of a person is needed: an approval or a question."""

    reason: str = ""
    refs: tuple[str, ...] = ()
    reply_id: str | None = None
    tool_call_id: str | None = None


class AttentionResolved(Annotation, frozen=True, kw_only=True, tag="attention_resolved"):
    """The decision of a person on an `attention` entry, or on a tool result whose outcome is unknown.

    For a tool result, `result` is what the model is told; without it the model is told nothing. `by` names the person,
    if the program that asked did.
    """

    attention_id: str
    decision: str = ""
    result: Content | None = None
    by: str | None = None


class Spawned(Annotation, frozen=True, kw_only=True, tag="spawned"):
    """Written before a subagent's session is created. Its parent is the reply with the tool call."""

    child_session: str
    reply_id: str
    tool_call_id: str


class Activity(Annotation, frozen=True, kw_only=True, tag="activity"):
    """A worker acquired or released the session. The seq of the acquiring entry is the worker's fence.

    `channels` are those the worker can deliver to; `rules` is the version of the rules it decides and writes by.
    `recording` is set by a program that records its own agent loop: replay takes its entries as inputs, and automatic
    wakers leave the session to that program.
    `queue` is set where the last compaction was written before rules 2 and so carries the queue of one branch only. It
    holds the waiting messages of the whole session, so that readers need not search for them again.
    """

    holder: str = ""
    event: Literal["attached", "left"] = always_written("attached")
    fence: int | None = None
    channels: tuple[str, ...] = ()
    rules: int = 1
    recording: bool = False
    queue: tuple[Queued, ...] | None = None


class DamageNote(Annotation, frozen=True, kw_only=True, tag="damage"):
    """Unreadable bytes before this line are known: `torn` was never acknowledged, `lost` may have been."""

    offset: int = 0
    bytes: int = 0
    digest: str = ""
    reason: Literal["torn", "lost"] = "torn"


class Terminated(Annotation, frozen=True, kw_only=True, tag="terminated"):
    """The session is terminated: it accepts no more messages and is not run again."""

    reason: str = ""


# ── compaction ───────────────────────────────────────────────────────────────────────────────────


class UndeliveredReply(Value, frozen=True, kw_only=True):
    """A reply that is not delivered to a channel yet; with `interrupted`, an incomplete one to be closed there."""

    reply_id: str
    channel: str
    interrupted: ClosedAs | None = None


class UnknownOutcome(Value, frozen=True, kw_only=True):
    """A tool result of the status `unknown` that a person has not dismissed, with the person's answer if there is one.

    `answer` is kept until an entry has told it to the model.
    """

    result_id: str
    reply_id: str | None = None
    tool_call_id: str = ""
    tool_name: str = ""
    timestamp: str = ""
    seq: int | None = None
    answer_id: str | None = None
    answer: Content = ()


class CarriedState(Value, frozen=True, kw_only=True):
    """The state that readers need from before a compaction, so that reading can stop at the compaction.

    Session-wide values are those of the whole log before the compaction; branch values are those of the compaction's
    branch. `head` is the head of the session just before the compaction.

    `rules` is the version of the rules the state was computed by. Under rules 1 `queue` held only the messages waiting
    on this branch, `said` named those of them taken up on another branch, `uptime_ms` included the time of crashed
    workers, and `dormant` was not recorded. Since rules 2 `queue` holds the waiting messages of the whole session and
    the requests of this branch. Under rules 1 and 2 `owed` held the undelivered replies of this branch only; since
    rules 3 it holds those of the session, and the interrupted replies that a channel may show a part of.
    """

    head: str
    rules: int = 1
    title: str | None = None
    archived: bool = False
    terminated: bool = False
    uptime_ms: int = 0
    attached_at: str | None = None
    worked_at: str | None = None
    """Timestamp of the last entry by the attached worker of a type that only workers write."""
    dormant: bool = False
    recorded: bool = False
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
    context: ContextEntry | None = None
    queue: tuple[Queued, ...] = ()
    said: tuple[str, ...] = ()
    attention: tuple[Attention, ...] = ()
    owed: tuple[UndeliveredReply, ...] = ()
    send_failed: tuple[SendFailed, ...] = ()
    """For each undelivered reply, the last failed delivery since the worker acquired the session."""
    unknown_outcomes: tuple[UnknownOutcome, ...] = ()


class Compaction(Node, frozen=True, kw_only=True, tag="compaction"):
    """Replaces everything before `first_kept_entry_id` in the context by a summary. Deletes nothing.

    `summary` is used verbatim as the user message that replaces those entries. Without a first kept entry, nothing
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
    SessionHeader | ContextEntry | Message | ModelChange | Setting | Compaction | Cancelled | Failed | Custom
)
AnyAnnotation: TypeAlias = (
    ModelCall
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
KnownBody: TypeAlias = AnyNode | AnyAnnotation

NODE_TYPES = frozenset(str(cls.__struct_config__.tag) for cls in Node.__subclasses__())
ANNOTATION_TYPES = frozenset(str(cls.__struct_config__.tag) for cls in Annotation.__subclasses__())


class UnknownBody(Value, frozen=True, kw_only=True):
    """The envelope of an entry whose body this version cannot decode; `Entry.raw` keeps the bytes."""

    type: str
    id: str
    parent_id: str | None = None
    timestamp: str = ""
    turn_id: str | None = None
    v: int | None = None
    seq: int | None = None


Body: TypeAlias = KnownBody | UnknownBody


class Entry(msgspec.Struct, frozen=True, gc=False):
    """An entry as read: its bytes and their typed value.

    `seq` is the position in the session, computed where the line does not state it. `offset` is the byte offset of the
    line, `line` its number (0 if unknown because the log was not read from the start).
    """

    raw: bytes
    value: Body
    seq: int
    offset: int = 0
    line: int = 0

    @property
    def id(self) -> str:
        """The id of the entry."""
        return self.value.id

    @property
    def type(self) -> str:
        """The type tag of the entry."""
        return self.value.type

    @property
    def is_node(self) -> bool:
        """Whether the entry is a node, also where the body of a known node type could not be decoded."""
        return isinstance(self.value, Node) or self.value.type in NODE_TYPES

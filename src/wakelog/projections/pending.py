"""Pending work of a branch: open tool calls, an interrupted reply, queue and questions.

A tool call is identified by its reply and its id, because provider ids repeat between replies. It is open until it has
a result. Tool calls that a compaction replaced are not pending: the model will never see their results. Terminating a
session drops pending work; `work_dropped_by_end` lists it.
"""

import msgspec

from wakelog.log.content import AnyPart, BaseMessage, BlobRef, JsonObject, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Entry,
    Message,
    ModelCall,
    Partial,
    Queued,
    ReplayMode,
    Spawned,
    ToolStarted,
    UndeliveredReply,
)
from wakelog.log.tree import Branch, Tree
from wakelog.projections.branch_state import BranchState, branch_state
from wakelog.projections.context import active_part
from wakelog.projections.deliveries import deliveries
from wakelog.projections.queue import queue_at_head


class OpenToolCall(msgspec.Struct, frozen=True):
    """A tool call without a result."""

    reply_id: str
    tool_call: ToolCall
    is_own: bool
    """Whether a model call of this session made the reply: only then may the tool be run."""
    starts: int = 0
    """How often the tool was started: the number of `tool_started` annotations."""
    replay: ReplayMode | None = None
    """The replay mode of the last `tool_started`: what may be done if it is unknown whether the tool ran."""
    intent: JsonObject = {}
    """The data that the tool recorded before its last start."""
    output: str = ""
    """The output of the tool up to its interruption, clipped like a result."""
    output_blob: BlobRef | None = None
    """The whole output, if `shown` was clipped."""
    start_may_be_lost: bool = False
    """Whether unreadable bytes follow the reply in the log: the tool then counts as started."""
    question_id: str | None = None
    """The id of the `attention` entry that asks a person about it."""
    decision_id: str | None = None
    """The id of the `attention_resolved` entry that answers."""
    child_session: str | None = None
    """The session of the sub-agent that runs it."""
    rerun: bool = False
    """Whether a person requested the tool call again: it then runs only after an approval."""
    made_elsewhere: bool = False
    """Whether no model call in the log made the reply: another program may have made it and run its tools."""

    @property
    def may_have_started(self) -> bool:
        """Whether the tool may have taken effect; a sub-agent counts as started once its session is recorded."""
        return self.starts > 0 or self.start_may_be_lost or self.child_session is not None


class Pending(msgspec.Struct, frozen=True):
    """Pending work at the end of a branch."""

    open_tool_calls: tuple[OpenToolCall, ...] = ()
    interrupted: str | None = None
    """The id of the `call` entry whose reply is missing or interrupted."""
    queue: tuple[Queued, ...] = ()
    attention: tuple[Attention, ...] = ()


def pending(branch: Branch, state: BranchState | None = None) -> Pending:
    """Return the pending work at the end of a branch; pass `state` if the branch state is known."""
    state = state or branch_state(branch)
    return Pending(open_tool_calls(branch), _interrupted_call_id(branch), state.queue, state.attention)


def is_turn_open(branch: Branch) -> bool:
    """Whether a turn is in progress that could be cancelled."""
    state = branch_state(branch)
    open_work = pending(branch, state)
    return bool(open_work.open_tool_calls or open_work.interrupted) or state.ends_in in ("prompt", "result", "faulted")


def open_tool_calls(branch: Branch) -> tuple[OpenToolCall, ...]:
    """Return the tool calls of the active part that have no result, in log order."""
    calls: list[tuple[Entry, ToolCall]] = []
    for node in active_part(branch).nodes:
        value = node.value
        if type(value) is not Message:
            continue
        message = value.message
        if type(message) is Reply:
            calls += [(node, call) for call in message.tool_calls]
        elif type(message) is ToolResult:
            _close_tool_call(calls, message)
    return tuple(_open_tool_call(branch, reply, call) for reply, call in calls)


def _close_tool_call(calls: list[tuple[Entry, ToolCall]], result: ToolResult) -> None:
    """Remove the tool call that a result answers; a result that names no reply answers the latest call with its id."""
    for at in range(len(calls) - 1, -1, -1):
        reply, call = calls[at]
        if call.id == result.tool_call_id and result.reply_id in (None, reply.id):
            del calls[at]
            return


def _open_tool_call(branch: Branch, reply: Entry, call: ToolCall) -> OpenToolCall:
    waits = decided = child = replay = None
    started, shown, ours, rerun = 0, BaseMessage(), False, False
    intent: JsonObject = {}
    for annotation in branch.annotations:
        match annotation.value:
            case ModelCall(reply_id=reply.id, parent_id=parent, purpose=purpose) if parent == reply.value.parent_id:
                ours, rerun = True, rerun or purpose == "rerun"
            case ToolStarted(reply_id=reply.id, tool_call_id=call.id, replay=word, intent=meant):
                # A decision allows one start; the outcome of that start is a new question.
                started, replay, intent, shown = started + 1, word, meant, BaseMessage()
                waits = decided = None
            case Partial(reply_id=reply.id, tool_call_id=call.id, content=content):
                shown = BaseMessage(content=content)
            case Attention(reply_id=reply.id, tool_call_id=call.id):
                waits = annotation.id
            case AttentionResolved(attention_id=answered) if answered == waits:
                decided = annotation.id
            case Spawned(reply_id=reply.id, tool_call_id=call.id, child_session=session):
                child = session
    # A tool call of another session is never run here, but its starts there count.
    started += sum(_is_start(annotation, reply.id, call.id) for annotation in branch.inherited_annotations)
    inherited = reply.id in {node.id for node in branch.nodes[: branch.inherited]}
    return OpenToolCall(
        reply_id=reply.id,
        tool_call=call,
        is_own=ours and not inherited,
        starts=started,
        replay=replay,
        intent=intent,
        output=shown.text,
        output_blob=_blob_of(shown.parts),
        start_may_be_lost=not inherited and reply.offset < branch.last_loss_offset,
        question_id=waits,
        decision_id=decided,
        child_session=child,
        rerun=rerun,
        made_elsewhere=not ours
        and not any(_is_model_call_for(annotation, reply.id) for annotation in branch.inherited_annotations),
    )


def with_output(call: OpenToolCall, partial: Partial) -> OpenToolCall:
    """Return a tool call with the output of its tool up to its interruption."""
    shown = BaseMessage(content=partial.content)
    return msgspec.structs.replace(call, output=shown.text, output_blob=_blob_of(shown.parts))


def _blob_of(parts: tuple[AnyPart, ...]) -> BlobRef | None:
    return next((part.blob for part in parts if isinstance(part, Text) and part.blob is not None), None)


def _is_model_call_for(annotation: Entry, reply_id: str) -> bool:
    return isinstance(annotation.value, ModelCall) and annotation.value.reply_id == reply_id


def _is_start(annotation: Entry, reply_id: str, call_id: str) -> bool:
    match annotation.value:
        case ToolStarted(reply_id=named, tool_call_id=called):
            return (named, called) == (reply_id, call_id)
    return False


def _interrupted_call_id(branch: Branch) -> str | None:
    """Return the id of the last `call` entry for a reply on the last node, which no node follows."""
    if branch.tip is None:
        return None
    calls = [
        annotation
        for annotation in branch.annotations
        if type(annotation.value) is ModelCall
        and annotation.value.purpose == "reply"
        and annotation.value.parent_id == branch.tip.id
    ]
    return calls[-1].id if calls else None


class DroppedWork(msgspec.Struct, frozen=True):
    """Open tool calls, undelivered replies, and queued messages that were not taken up."""

    open_tool_calls: tuple[OpenToolCall, ...] = ()
    undelivered: tuple[UndeliveredReply, ...] = ()
    queue: tuple[Queued, ...] = ()

    @property
    def needs_force(self) -> bool:
        """Whether terminating needs force: a tool may have taken effect, or a reply is undelivered."""
        return bool(self.open_tool_calls or self.undelivered)

    @property
    def descriptions(self) -> tuple[str, ...]:
        """One line of text for each item."""
        return (
            *(f"the open tool call {call.tool_call.name} ({call.tool_call.id})" for call in self.open_tool_calls),
            *map(_undelivered_text, self.undelivered),
            *(f"the queued message {queued.id}" for queued in self.queue),
        )


def _undelivered_text(reply: UndeliveredReply) -> str:
    if reply.interrupted is None:
        return f"the reply {reply.reply_id}, not delivered to {reply.channel}"
    return f"the interrupted reply {reply.reply_id}, of which {reply.channel} may show a part"


class SessionEnding(msgspec.Struct, frozen=True):
    """How a session was terminated: the `terminated` entry, the request to cancel the turn, and the dropped work."""

    entry: Entry
    cancelled: Entry | None
    dropped: DroppedWork


def work_dropped_by_end(tree: Tree) -> DroppedWork:
    """Return the work that terminating a session now would drop."""
    branch = tree.branch()
    state = branch_state(branch)
    messages = (queued for queued in queue_at_head(tree, state.queue) if queued.message is not None)
    return DroppedWork(
        open_tool_calls(branch),
        deliveries(tree).pending(None).undelivered,
        tuple(queued for queued in messages if queued.mode != "compact"),
    )

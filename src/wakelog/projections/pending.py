"""Pending work of a branch, derived from the log: open tool calls, unfinished or undelivered replies, queue, questions.

A tool call is identified by its reply and its id, because provider ids repeat between replies. It is open until it has
a result. Tool calls that a compaction replaced are not pending: the model will never see their results.
"""

import msgspec

from wakelog.log.content import AnyPart, BaseMessage, BlobRef, JsonObject, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Call,
    Entry,
    Message,
    Owed,
    Partial,
    Queued,
    Replay,
    Spawned,
    ToolStarted,
)
from wakelog.log.tree import Branch
from wakelog.projections.active import active
from wakelog.projections.state import BranchState, branch_state


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call without a result."""

    reply_id: str
    call: ToolCall
    ours: bool
    """Whether a model call of this session made the reply: only then may the tool be run."""
    started: int = 0
    """How often the tool was started: the number of `tool_started` annotations."""
    replay: Replay | None = None
    """The replay mode of the last `tool_started`: what may be done if it is unknown whether the tool ran."""
    intent: JsonObject = {}
    """The data that the tool recorded before its last start."""
    shown: str = ""
    """The output of the tool up to its interruption, clipped like a result."""
    shown_blob: BlobRef | None = None
    """The whole output, if `shown` was clipped."""
    doubtful: bool = False
    """Whether unreadable bytes follow the reply in the log: the tool then counts as started."""
    waits: str | None = None
    """The id of the `attention` entry that asks a person about it."""
    decided: str | None = None
    """The id of the `attention_resolved` entry that answers."""
    child: str | None = None
    """The session of the sub-agent that runs it."""
    rerun: bool = False
    """Whether a person requested the tool call again: it then runs only after an approval."""
    recorded: bool = False
    """Whether no model call in the log made the reply: another program may have made it and run its tools."""

    @property
    def begun(self) -> bool:
        """Whether the tool may have taken effect; a sub-agent counts as started once its session is recorded."""
        return self.started > 0 or self.doubtful or self.child is not None


class Pending(msgspec.Struct, frozen=True):
    """Pending work at the end of a branch. `owed` are the undelivered replies."""

    open_calls: tuple[OpenCall, ...] = ()
    owed: tuple[Owed, ...] = ()
    cut: str | None = None
    """The id of the `call` entry whose reply is missing or interrupted."""
    queue: tuple[Queued, ...] = ()
    attention: tuple[Attention, ...] = ()


def pending(branch: Branch, state: BranchState | None = None) -> Pending:
    """Return the pending work at the end of a branch; pass `state` if the branch state is known."""
    state = state or branch_state(branch)
    return Pending(open_calls(branch), state.owed, _cut(branch), state.queue, state.attention)


def is_under_way(branch: Branch) -> bool:
    """Whether a turn is in progress that could be cancelled."""
    state = branch_state(branch)
    open_work = pending(branch, state)
    return bool(open_work.open_calls or open_work.cut) or state.ends_in in ("prompt", "result", "faulted")


def open_calls(branch: Branch) -> tuple[OpenCall, ...]:
    """Return the tool calls of the active part that have no result, in log order."""
    asked: list[tuple[Entry, ToolCall]] = []
    for node in active(branch).nodes:
        if not isinstance(node.value, Message):
            continue
        said = node.value.message
        if isinstance(said, Reply):
            asked += [(node, call) for call in said.calls]
        elif isinstance(said, ToolResult):
            _close(asked, said)
    return tuple(_open_call(branch, reply, call) for reply, call in asked)


def _close(asked: list[tuple[Entry, ToolCall]], result: ToolResult) -> None:
    """Remove the tool call that a result answers; a result that names no reply answers the latest call with its id."""
    for at in range(len(asked) - 1, -1, -1):
        reply, call = asked[at]
        if call.id == result.tool_call_id and result.reply_id in (None, reply.id):
            del asked[at]
            return


def _open_call(branch: Branch, reply: Entry, call: ToolCall) -> OpenCall:
    waits = decided = child = replay = None
    started, shown, ours, rerun = 0, BaseMessage(), False, False
    intent: JsonObject = {}
    for annotation in branch.annotations:
        match annotation.value:
            case Call(reply_id=reply.id, parent_id=parent, purpose=purpose) if parent == reply.value.parent_id:
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
    started += sum(_is_beginning(annotation, reply.id, call.id) for annotation in branch.inherited_annotations)
    inherited = reply.id in {node.id for node in branch.nodes[: branch.inherited]}
    return OpenCall(
        reply_id=reply.id,
        call=call,
        ours=ours and not inherited,
        started=started,
        replay=replay,
        intent=intent,
        shown=shown.text,
        shown_blob=_blob_of(shown.parts),
        doubtful=not inherited and reply.offset < branch.last_loss_offset,
        waits=waits,
        decided=decided,
        child=child,
        rerun=rerun,
        recorded=not ours
        and not any(_is_call_for(annotation, reply.id) for annotation in branch.inherited_annotations),
    )


def _blob_of(parts: tuple[AnyPart, ...]) -> BlobRef | None:
    return next((part.blob for part in parts if isinstance(part, Text) and part.blob is not None), None)


def _is_call_for(annotation: Entry, reply_id: str) -> bool:
    return isinstance(annotation.value, Call) and annotation.value.reply_id == reply_id


def _is_beginning(annotation: Entry, reply_id: str, call_id: str) -> bool:
    match annotation.value:
        case ToolStarted(reply_id=named, tool_call_id=called):
            return (named, called) == (reply_id, call_id)
    return False


def _cut(branch: Branch) -> str | None:
    """Return the id of the last `call` entry for a reply on the last node, which no node follows."""
    if branch.tip is None:
        return None
    calls = [
        annotation
        for annotation in branch.annotations
        if isinstance(annotation.value, Call)
        and annotation.value.purpose == "reply"
        and annotation.value.parent_id == branch.tip.id
    ]
    return calls[-1].id if calls else None

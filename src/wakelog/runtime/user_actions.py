"""What people do to a session besides talking: cancel or retry a turn, decide what was asked, have a tool run again.

None of it needs a lease. Each is an entry, or a few in an order that a crash cannot spoil; whoever runs the
session, now or later, finds it in the log.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from wakelog.decide.compaction import is_kept_by_a_compaction, plan_compaction
from wakelog.decide.policy import policy_in_force
from wakelog.errors import Conflict, NotFound, UsageError
from wakelog.log.content import Content, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Call,
    ContextRecord,
    Entry,
    Failed,
    Message,
    ModelChange,
    Queued,
    Setting,
)
from wakelog.log.tree import Tree
from wakelog.projections.pending import OpenCall, is_under_way, pending
from wakelog.projections.state import branch_state
from wakelog.session import Session

DecisionWord: TypeAlias = Literal["approve", "deny", "ran", "did not run", "unknown", "run again", "result"]
# What may be decided about each thing that is asked.
CHOICES: dict[str, tuple[DecisionWord, ...]] = {
    "approve": ("approve", "deny"),
    "unknown": ("ran", "did not run", "run again", "result"),
    # What a lost reply called cannot be run again: its input is lost.
    "damage": ("ran", "did not run", "unknown", "result"),
}


_Setting: TypeAlias = ModelChange | ContextRecord | Setting


class Question(msgspec.Struct, frozen=True):
    """Something that waits for a person: what is asked, and about which call."""

    attention: Attention
    call: OpenCall | None = None

    @property
    def choices(self) -> tuple[DecisionWord, ...]:
        """What may be decided."""
        return CHOICES.get(self.attention.reason, CHOICES["unknown"])


def questions(session: Session) -> list[Question]:
    """What waits for a person on the head's branch, oldest first."""
    open_work = pending(session.branch())
    calls = {call.waits: call for call in open_work.open_calls if call.waits is not None}
    return [Question(attention, calls.get(attention.id)) for attention in open_work.attention]


def resolve(session: Session, attention_id: str, decision: DecisionWord, *, result: str | None = None) -> Entry:
    """Decides what was asked; with a `result`, that is what the model is told the tool said."""
    question = next((found for found in questions(session) if found.attention.id == attention_id), None)
    if question is None:
        raise NotFound(f"{attention_id} does not wait for a decision in {session.name}")
    if decision not in question.choices:
        raise UsageError(f"cannot decide {decision!r} here", hint=f"decide one of {', '.join(question.choices)}")
    if (decision == "result") != (result is not None):
        raise UsageError("a result is given with the decision `result`, and only with it")
    content: Content | None = (Text(text=result),) if result is not None else None
    body = AttentionResolved(attention_id=attention_id, decision=decision, result=content)
    return session.append(body, at=question.attention.parent_id)


def cancel(session: Session) -> Entry | None:
    """Asks whoever runs the session, now or next, to end the turn; None if there is no turn to end."""
    return session.append(Queued(mode="cancel")) if is_under_way(session.branch()) else None


def request_compaction(session: Session, *, keep: str | None = None, instructions: str = "") -> Entry:
    """Asks whoever runs the session, now or next, to fold it; `UsageError` if there is nothing to fold."""
    branch = session.branch()
    policy = policy_in_force(branch_state(branch).context)
    kept = keep or plan_compaction(branch, policy.keep)
    if kept is None or not is_kept_by_a_compaction(branch, kept):
        raise UsageError("there is nothing to fold", hint="a fold stands for messages before the first one it keeps")
    message = Prompt(content=(Text(text=instructions),)) if instructions else None
    return session.append(Queued(mode="compact", keep=keep, message=message))


def has_failed(session: Session) -> bool:
    """Whether the last turn has failed for good."""
    return branch_state(session.branch()).ends_in == "failed"


def retry(session: Session) -> Entry:
    """Takes a turn that has failed back to where it began to fail: whoever wakes the session tries it again.

    What was agreed on since holds for the next try. What else came behind the failures stays with them.
    """
    if not has_failed(session):
        raise Conflict(f"the last turn of {session.name} did not fail", hint="say something, or wake it")
    # The failures may stand before a fold, and so before what a session reads of its log.
    nodes = session.read().tree.branch().nodes
    first = _first_failure(nodes)
    place = nodes[first - 1].id
    # It stands there before the head is moved: nobody may try again without it.
    for node in nodes[first:]:
        if isinstance(node.value, _Setting):
            place = session.append(_bare(node.value), at=place, fork=True).id
    return session.move_head(place, reason="retry")


def _first_failure(nodes: Sequence[Entry]) -> int:
    """Where the failures begin that the last turn ended in; settings may stand between them."""
    first = max(at for at, node in enumerate(nodes) if isinstance(node.value, Failed))
    for at in range(first, 0, -1):
        if not isinstance(nodes[at].value, Failed | _Setting):
            break
        first = at if isinstance(nodes[at].value, Failed) else first
    return first


def _bare(setting: _Setting) -> _Setting:
    """A setting without its envelope."""
    return msgspec.structs.replace(setting, id="", parent_id=None, timestamp="", turn_id=None, v=None, seq=None)


def rerun(session: Session, entry_id: str) -> Entry:
    """Has a tool run again: a fork before its result, a new call, and a question that must be approved first.

    The entry is the tool's result, or a reply that asks for one tool. Gives the `attention` entry.
    """
    if session.store.held(session.name) is not None:
        raise Conflict(f"{session.name} is being run", hint="wait until it rests, or cancel it")
    tree = session.read().tree
    reply, call = _called(tree, tree.find(entry_id))
    parent = tree.parent(reply.id)
    assert parent is not None
    call_id, reply_id = session.clock.new_id(), session.clock.new_id()
    session.append(Call(id=call_id, reply_id=reply_id, purpose="rerun"), at=parent)
    said = Reply(content=(call,), call_id=call_id)
    session.append(Message(id=reply_id, message=said), at=parent, fork=True)
    # The question stands before the head is moved: nobody may find the new call without it.
    asked = session.append(Attention(reason="approve", reply_id=reply_id, tool_call_id=call.id), at=reply_id)
    session.move_head(reply_id, reason="rerun")
    return asked


def _called(tree: Tree, node_id: str) -> tuple[Entry, ToolCall]:
    """The reply and the call that an entry is about."""
    node = tree.nodes[node_id]
    said = node.value.message if isinstance(node.value, Message) else None
    if isinstance(said, ToolResult):
        return _answered(tree, node, said)
    if isinstance(said, Reply) and len(said.calls) == 1:
        return node, said.calls[0]
    raise UsageError(f"{node_id} is not the result of a tool", hint="name the result, or a reply that calls one tool")


def _answered(tree: Tree, node: Entry, result: ToolResult) -> tuple[Entry, ToolCall]:
    for before in reversed(tree.branch(node.id).nodes):
        said = before.value.message if isinstance(before.value, Message) else None
        if isinstance(said, Reply) and result.reply_id in (None, before.id):
            for call in said.calls:
                if call.id == result.tool_call_id:
                    return before, call
    raise NotFound(f"the call that {node.id} answers cannot be found")

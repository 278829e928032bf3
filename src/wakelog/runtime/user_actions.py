"""User actions on a session: answer a question, cancel or retry a turn, request a compaction, run a tool again.

None of them needs a lease. Each is one entry, or a few in an order that is safe at any crash; the worker that runs the
session, now or later, reads them from the log.
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
    ContextEntry,
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
# The decisions allowed for each reason of a question.
CHOICES: dict[str, tuple[DecisionWord, ...]] = {
    "approve": ("approve", "deny"),
    "unknown": ("ran", "did not run", "run again", "result"),
    # The tools of a lost reply cannot be run again: their input is lost.
    "damage": ("ran", "did not run", "unknown", "result"),
}


_Setting: TypeAlias = ModelChange | ContextEntry | Setting


class Question(msgspec.Struct, frozen=True):
    """An open question to a person, and the tool call it is about."""

    attention: Attention
    call: OpenCall | None = None

    @property
    def choices(self) -> tuple[DecisionWord, ...]:
        """The allowed decisions."""
        return CHOICES.get(self.attention.reason, CHOICES["unknown"])


def questions(session: Session) -> list[Question]:
    """Return the open questions on the head branch, oldest first."""
    open_work = pending(session.branch())
    calls = {call.waits: call for call in open_work.open_calls if call.waits is not None}
    return [Question(attention, calls.get(attention.id)) for attention in open_work.attention]


def resolve(session: Session, attention_id: str, decision: DecisionWord, *, result: str | None = None) -> Entry:
    """Append the decision on a question. A `result` is passed to the model as the result of the tool."""
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
    """Ask the current or next worker to end the turn; return None if there is no turn to end."""
    return session.append(Queued(mode="cancel")) if is_under_way(session.branch()) else None


def request_compaction(session: Session, *, keep: str | None = None, instructions: str = "") -> Entry:
    """Ask the current or next worker to compact the session; `UsageError` if there is nothing to compact."""
    branch = session.branch()
    policy = policy_in_force(branch_state(branch).context)
    kept = keep or plan_compaction(branch, policy.keep)
    if kept is None or not is_kept_by_a_compaction(branch, kept):
        raise UsageError("there is nothing to fold", hint="a fold stands for messages before the first one it keeps")
    message = Prompt(content=(Text(text=instructions),)) if instructions else None
    return session.append(Queued(mode="compact", keep=keep, message=message))


def has_failed(session: Session) -> bool:
    """Return whether the last turn has failed for good."""
    return branch_state(session.branch()).ends_in == "failed"


def retry(session: Session) -> Entry:
    """Move the head back before the failures of the last turn, so that the next worker tries it again.

    Settings that were changed since then are copied and apply to the retry. Other entries after the failures stay on
    the old branch. `Conflict` if the last turn did not fail.
    """
    if not has_failed(session):
        raise Conflict(f"the last turn of {session.name} did not fail", hint="say something, or wake it")
    # The failures may be older than the last compaction, and so not in the part of the log that a session loads.
    nodes = session.read().tree.branch().nodes
    first = _first_failure(nodes)
    place = nodes[first - 1].id
    # Settings are copied before the head is moved, so that no worker retries without them.
    for node in nodes[first:]:
        if isinstance(node.value, _Setting):
            place = session.append(_bare(node.value), at=place, fork=True).id
    return session.move_head(place, reason="retry")


def _first_failure(nodes: Sequence[Entry]) -> int:
    """Return the index of the first of the failures that ended the last turn; settings may be between them."""
    first = max(at for at, node in enumerate(nodes) if isinstance(node.value, Failed))
    for at in range(first, 0, -1):
        if not isinstance(nodes[at].value, Failed | _Setting):
            break
        first = at if isinstance(nodes[at].value, Failed) else first
    return first


def _bare(setting: _Setting) -> _Setting:
    """Return a setting without its envelope fields."""
    return msgspec.structs.replace(setting, id="", parent_id=None, timestamp="", turn_id=None, v=None, seq=None)


def rerun(session: Session, entry_id: str) -> Entry:
    """Fork before the reply that called a tool, repeat the call, and ask for approval; return the `attention` entry.

    The entry is the tool's result, or a reply with exactly one tool call. `Conflict` while a worker runs the session.
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
    # The question is written before the head is moved, so that no worker finds the new call without it.
    asked = session.append(Attention(reason="approve", reply_id=reply_id, tool_call_id=call.id), at=reply_id)
    session.move_head(reply_id, reason="rerun")
    return asked


def _called(tree: Tree, node_id: str) -> tuple[Entry, ToolCall]:
    """Return the reply and the tool call that an entry belongs to."""
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

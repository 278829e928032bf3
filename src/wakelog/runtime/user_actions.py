"""User actions on a session: answer a question, cancel or retry a turn, compact, run a tool again.

Each is one entry, or a few in an order that is safe at any crash, and needs no lease; the worker that runs the session,
now or later, reads them from the log. `compact_now` also wakes the session step by step until its request is answered:
the session's own model writes the summary.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from wakelog.decide.compaction import can_keep_from, plan_compaction
from wakelog.decide.decisions import Await, Idle
from wakelog.decide.policy import policy_in_force
from wakelog.errors import Conflict, NotFound, UsageError
from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Attention,
    Compaction,
    ContextEntry,
    Entry,
    Failed,
    Message,
    ModelCall,
    ModelChange,
    Partial,
    Queued,
    Setting,
)
from wakelog.log.tree import Branch, Tree
from wakelog.projections.branch_state import branch_state
from wakelog.projections.context import build_context, group_starts
from wakelog.projections.pending import is_turn_open, pending
from wakelog.runtime.checks import check_files, check_model
from wakelog.runtime.interface import Runtime
from wakelog.runtime.tool_declarations import ToolDeclarations
from wakelog.runtime.wake import wake
from wakelog.session import Session

_Setting: TypeAlias = ModelChange | ContextEntry | Setting


def request_cancel(session: Session) -> Entry | None:
    """Ask the current or next worker to end the turn; return None if there is no turn to end."""
    return session.append(Queued(mode="cancel")) if is_turn_open(session.branch()) else None


def request_compaction(session: Session, *, keep: str | None = None, instructions: str = "") -> Entry:
    """Ask the current or next worker to compact the session; `UsageError` if there is nothing to compact."""
    branch = session.branch()
    policy = policy_in_force(branch_state(branch).context)
    kept = keep or plan_compaction(branch, policy.keep)
    if kept is None or not can_keep_from(branch, kept):
        raise UsageError(
            "there is nothing to compact", hint="a compaction replaces the messages before the first kept one"
        )
    message = Prompt(content=(Text(text=instructions),)) if instructions else None
    return session.append(Queued(mode="compact", keep=keep, message=message))


def has_failed_turn(session: Session) -> bool:
    """Return whether the last turn has failed for good."""
    return branch_state(session.branch()).ends_in == "failed"


def retry_turn(session: Session) -> Entry:
    """Move the head back before the failures of the last turn, so that the next worker tries it again.

    Settings that were changed since then are copied and apply to the retry. Other entries after the failures stay on
    the old branch. `Conflict` if the last turn did not fail. `UsageError` if a name in the approvals would
    make it fail again.
    """
    state = branch_state(session.branch())
    if state.ends_in != "failed":
        raise Conflict(f"the last turn of {session.name} did not fail", hint="append a message, or wake the session")
    policy = policy_in_force(state.context)
    error = ToolDeclarations(session.store.blobs).approvals_error(state.context, policy)
    if error is not None:
        raise error
    # The failures may be older than the last compaction, and so not in the part of the log that a session loads.
    nodes = session.read().tree.branch().nodes
    first = _first_failure(nodes)
    place = nodes[first - 1].id
    # Settings are copied before the head is moved, so that no worker retries without them.
    for node in nodes[first:]:
        if isinstance(node.value, _Setting):
            place = session.append(_without_envelope(node.value), at=place, fork=True).id
    return session.move_head(place, reason="retry")


def _first_failure(nodes: Sequence[Entry]) -> int:
    """Return the index of the first of the failures that ended the last turn; settings may be between them."""
    first = max(at for at, node in enumerate(nodes) if isinstance(node.value, Failed))
    for at in range(first, 0, -1):
        if not isinstance(nodes[at].value, Failed | _Setting):
            break
        first = at if isinstance(nodes[at].value, Failed) else first
    return first


def _without_envelope(setting: _Setting) -> _Setting:
    """Return a setting without its envelope fields."""
    return msgspec.structs.replace(setting, id="", parent_id=None, timestamp="", turn_id=None, v=None, seq=None)


def rerun_tool(session: Session, entry_id: str) -> Entry:
    """Fork before the reply that called a tool, repeat the call, and ask for approval; return the `attention` entry.

    The entry is the tool's result, or a reply with exactly one tool call. `Conflict` while a worker runs the session.
    """
    if session.store.held(session.name) is not None:
        raise Conflict(f"{session.name} is running", hint="wait until the run ends, or cancel it")
    tree = session.read().tree
    reply, call = _reply_and_call(tree, tree.find(entry_id))
    parent = tree.parent(reply.id)
    assert parent is not None
    call_id, reply_id = session.clock.new_id(), session.clock.new_id()
    session.append(ModelCall(id=call_id, reply_id=reply_id, purpose="rerun"), at=parent)
    repeated = Reply(content=(call,), call_id=call_id)
    session.append(Message(id=reply_id, message=repeated), at=parent, fork=True)
    # The question is written before the head is moved, so that no worker finds the new call without it.
    question = session.append(Attention(reason="approve", reply_id=reply_id, tool_call_id=call.id), at=reply_id)
    session.move_head(reply_id, reason="rerun")
    return question


def _reply_and_call(tree: Tree, node_id: str) -> tuple[Entry, ToolCall]:
    """Return the reply and the tool call that an entry belongs to."""
    node = tree.nodes[node_id]
    message = node.value.message if isinstance(node.value, Message) else None
    if isinstance(message, ToolResult):
        return _call_of_result(tree, node, message)
    if isinstance(message, Reply) and len(message.tool_calls) == 1:
        return node, message.tool_calls[0]
    raise UsageError(
        f"{node_id} is not a tool result", hint="use the id of a tool result, or of a reply with exactly one tool call"
    )


def _call_of_result(tree: Tree, node: Entry, result: ToolResult) -> tuple[Entry, ToolCall]:
    for before in reversed(tree.branch(node.id).nodes):
        message = before.value.message if isinstance(before.value, Message) else None
        if isinstance(message, Reply) and result.reply_id in (None, before.id):
            for call in message.tool_calls:
                if call.id == result.tool_call_id:
                    return before, call
    raise NotFound(f"the tool call of the result {node.id} cannot be found")


class CompactionResult(msgspec.Struct, frozen=True):
    """Result: the compaction entry; or the request, if another worker runs the session; or None and the reason."""

    entry: Entry | None
    reason: str = ""


async def compact_now(
    runtime: Runtime, session_id: str, *, keep: str | None = None, instructions: str = ""
) -> CompactionResult:
    """Compact a session: its model summarises everything before `keep` (default: as much as the policy says).

    `Conflict` if it has open tool calls or an interrupted reply and no worker runs it. `UsageError` if its model cannot
    be called, `Untrusted` if other users own or may write to its files; nothing is written then.
    """
    session = Session(runtime.store, session_id, clock=runtime.clock)
    branch = session.branch()
    held = runtime.store.held(session.name) is not None
    if not held:
        check_files(session)
        _check_not_busy(session.name, branch)
    kept = _first_kept(branch, keep) if keep is not None else _planned_first_kept(branch)
    if kept is None:
        return CompactionResult(None, "there is nothing to compact")
    if not held:
        # Checked before the request is written: one that cannot be answered here would wait in the queue.
        check_model(runtime.open_provider, session.name, branch_state(branch))
    request = request_compaction(session, keep=kept if keep is not None else None, instructions=instructions)
    return CompactionResult(request) if held else await _wake_until_compacted(runtime, session, request)


async def _wake_until_compacted(runtime: Runtime, session: Session, request: Entry) -> CompactionResult:
    """Wake the session one step at a time until the request is answered."""
    while True:
        try:
            report = await wake(runtime, session.name, steps=1)
        except Conflict:
            # Another worker has taken the session, and the request with it.
            return CompactionResult(request)
        done = _compaction_result(session, request.id)
        if done is not None:
            return done
        if isinstance(report.decision, Idle | Await):
            return CompactionResult(None, "the session stopped before the compaction")


def _check_not_busy(name: str, branch: Branch) -> None:
    """Raise `Conflict` while a tool call is open or a reply is interrupted: a compaction must come after both."""
    open_work = pending(branch)
    if open_work.open_tool_calls or open_work.interrupted:
        raise Conflict(f"{name} has an open tool call or an interrupted reply", hint=f"run `wakelog wake {name}` first")


def _planned_first_kept(branch: Branch) -> str | None:
    return plan_compaction(branch, policy_in_force(branch_state(branch).context).keep)


def _first_kept(branch: Branch, keep: str) -> str | None:
    """Return the id of the first message in the context from `keep` on; None if it is the first of all."""
    context = build_context(branch)
    nodes = [node.id for node in branch.nodes]
    if keep not in nodes:
        raise UsageError(f"{keep} is not on the active branch", hint="use the id of an entry on it")
    later = set(nodes[nodes.index(keep) :])
    at = next((at for at, entry_id in enumerate(context.entry_ids) if entry_id in later), None)
    if at is None:
        raise UsageError(f"the context has no message from {keep} on", hint="use the id of a message")
    if at not in group_starts(context.messages):
        raise UsageError(
            f"{keep} is between a tool call and its result", hint="use the id of the reply with the tool call"
        )
    return context.entry_ids[at] if at else None


def _compaction_result(session: Session, request_id: str) -> CompactionResult | None:
    """Return the result of the model call for a request; None if there is no such call yet."""
    entries = session.tree.own_entries()
    call = next(
        (
            entry.value
            for entry in entries
            if isinstance(entry.value, ModelCall) and entry.value.queued_id == request_id
        ),
        None,
    )
    if call is None:
        return None
    for entry in entries:
        match entry.value:
            case Compaction(call_id=call.key):
                return CompactionResult(entry)
            case Partial(reply_id=call.reply_id, error=error) if error is not None:
                return CompactionResult(None, error.message or error.kind)
    return CompactionResult(None, "the model call for the summary was interrupted")

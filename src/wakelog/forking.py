"""Forking into a new session: the new log refers to an entry of the parent's log and copies nothing.

Rule 1: a fork writes one line, plus a result for each open tool call, whatever the size of its parent.
Rule 2: a new session never runs its parent's tool calls (law 6: no tool that may not be repeated runs twice). Open tool
calls of the last reply get a result at once: the parent's own result if it has one by now, else what the parent's log
proves (`settle_unrun`): `skipped` if it was not started there, else `unknown`.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from wakelog.decide import wording
from wakelog.decide.open_tool_calls import settle_unrun
from wakelog.decide.policy import RedactMode, policy_in_force
from wakelog.errors import Damaged, UsageError
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Entry, Message, Origin
from wakelog.log.seal import find_seal
from wakelog.log.tree import Branch, Tree
from wakelog.projections.branch_state import branch_state
from wakelog.projections.pending import OpenToolCall, open_tool_calls
from wakelog.reading import read_log
from wakelog.redaction.entries import redact_entry
from wakelog.writer import SessionWriter

_SessionT = TypeVar("_SessionT", bound=SessionWriter)


def fork(session: _SessionT, at: str | Entry | None = None) -> _SessionT:
    """Create a new session that continues from an entry of another session (default: the head)."""
    _check_session(session)
    at = at.id if isinstance(at, Entry) else at
    tree = session.tree_with(at)
    target = tree.find(at) if at is not None else tree.head
    if target is None:
        raise Damaged(f"{session.name} has no entry that can be read", hint="see `wakelog doctor`")
    header = tree.header
    owner, node = _owner(session, tree, target)
    child = type(session).create(
        session.store,
        agent=header.agent or "agent",
        sender=header.sender or "user",
        cwd=header.cwd,
        parent=Origin(session=owner, entry=target, h=find_seal(node.raw)),
        clock=session.clock,
        redact=_redact_mode(tree, target),
    )
    branch = tree.branch(target)
    calls = _open_calls_of_last_turn(branch)
    results = _parent_results(calls, session.read().entries if calls else ())
    for call in calls:
        child.append(
            Message(message=results.get((call.reply_id, call.tool_call.id)) or _result_for(tree, branch, call))
        )
    return child


def _check_session(given: object) -> None:
    if not isinstance(given, SessionWriter):
        hint = "pass Session(store, NAME), or call session.fork()"
        raise UsageError(f"fork takes a session, not {type(given).__name__}", hint=hint)


def _redact_mode(tree: Tree, target: str) -> RedactMode:
    """Return which secrets to remove from the new header. The policy is looked up only if there are any."""
    header = tree.header
    if redact_entry(header, "strict") is header:
        return "assignments"
    return policy_in_force(branch_state(tree.branch(target)).context).redact


def _owner(session: SessionWriter, tree: Tree, node_id: str) -> tuple[str, Entry]:
    """Return the session whose log holds a node (this one, or an ancestor if inherited), and the node."""
    owner = session.id
    while tree.is_inherited(node_id):
        parent = tree.header.parent
        assert parent is not None
        owner = parent.session
        tree = read_log(session.store, owner).tree
    return owner, tree.nodes[node_id]


def _open_calls_of_last_turn(branch: Branch) -> tuple[OpenToolCall, ...]:
    """Return the open tool calls since the last reply or prompt; older ones are settled when the fork is woken."""
    for at in range(len(branch.nodes) - 1, -1, -1):
        value = branch.nodes[at].value
        if isinstance(value, Message) and isinstance(value.message, Reply | Prompt):
            return open_tool_calls(msgspec.structs.replace(branch, nodes=branch.nodes[at:], inherited=0))
    return ()


def _parent_results(open_calls: Sequence[OpenToolCall], entries: Iterable[Entry]) -> dict[tuple[str, str], ToolResult]:
    """Return the results that the parent has, after the fork or on another branch, for tool calls open at the fork."""
    wanted = {(call.reply_id, call.tool_call.id) for call in open_calls}
    found: dict[tuple[str, str], ToolResult] = {}
    for entry in entries:
        match entry.value:
            case Message(message=ToolResult(reply_id=str() as reply_id, tool_call_id=call_id) as result):
                if (reply_id, call_id) in wanted:
                    found.setdefault((reply_id, call_id), msgspec.structs.replace(result, copied_from=entry.id))
    return found


def _result_for(tree: Tree, branch: Branch, open_call: OpenToolCall) -> ToolResult:
    """Return the result of a tool call that is open where the fork begins and has no result in the parent."""
    if open_call.child_session is not None:
        # The sub-agent belongs to the parent and may still work: to the fork it is a tool that was started.
        open_call = msgspec.structs.replace(open_call, starts=1, child_session=None)
    skipped, started = wording.SKIPPED_FORKED, wording.UNKNOWN_FORKED
    return settle_unrun(tree, branch, open_call, skipped=skipped, started=started)

"""Overview of a session: header, settings, counts, usage, open work and state, as lists show it."""

from typing import Literal, TypeAlias

import msgspec

from wakelog.log.content import Reply, Usage
from wakelog.log.entry import Attention, Body, Message, Queued, SessionHeader
from wakelog.log.tree import Branch, Tree
from wakelog.projections.branch_state import BranchState, branch_state
from wakelog.projections.pending import pending
from wakelog.projections.queue import queue_at_head
from wakelog.projections.session_state import SessionState, session_state

SessionStateName: TypeAlias = Literal[
    "idle",
    "pending",
    "running",
    "interrupted",
    "undelivered",
    "waiting",
    "failed",
    "damaged",
    "terminated",
    "dormant",
]


class Overview(msgspec.Struct, frozen=True):
    """The overview of a session: everything but its messages."""

    id: str
    agent: str
    sender: str
    number: int | None
    cwd: str
    title: str | None
    created: str
    entries: int
    messages: int
    head: str | None
    model: str | None
    provider: str | None
    settings: dict[str, object]
    archived: bool
    uptime_ms: int | None
    """For how long workers have run it; None if the tail that was read does not show it (see `SessionState.uptime`)."""
    calls: int
    usage: Usage
    open_calls: int
    undelivered: int
    """Number of undelivered replies; a reply counts once for each channel it has not been sent to."""
    queue: tuple[Queued, ...]
    attention: tuple[Attention, ...]
    unknown_outcomes: int
    """Number of tool calls whose outcome is unknown and that no person has answered."""
    state: SessionStateName


def overview(tree: Tree, *, held: bool = False, damaged: bool = False) -> Overview:
    """Return the overview of a session, from its whole tree or its tail.

    `held`: a worker holds its lease; `damaged`: reading it found damage.
    """
    branch = tree.branch()
    session, here = session_state(tree), branch_state(branch)
    found = pending(branch, here)
    work = HeadWork(
        len(found.open_tool_calls),
        sum(call.reply_id == _last_reply(branch) for call in found.open_tool_calls),
        found.interrupted,
        queue_at_head(tree, here.queue),
    )
    return build_overview(tree.header, tree.last_seq + 1, tree.head, session, here, work, held=held, damaged=damaged)


def _last_reply(branch: Branch) -> str | None:
    replies = (node.id for node in reversed(branch.nodes) if _is_reply(node.value))
    return next(replies, None)


def _is_reply(value: Body) -> bool:
    return type(value) is Message and type(value.message) is Reply


class HeadWork(msgspec.Struct, frozen=True):
    """Open work at the head: the number of open tool calls, the `call` entry of an interrupted reply, and the queue."""

    open_tool_calls: int
    open_in_last_reply: int
    """The open tool calls of the last reply. A later reply shows that the conversation went on without a result."""
    interrupted: str | None
    queue: tuple[Queued, ...]


def build_overview(
    header: SessionHeader,
    entries: int,
    head: str | None,
    session: SessionState,
    branch: BranchState,
    work: HeadWork,
    *,
    held: bool = False,
    damaged: bool = False,
) -> Overview:
    """Build the overview of a session from its header, states and open work."""
    undelivered = len(session.deliveries.pending(work.interrupted).undelivered)
    return Overview(
        id=header.id,
        agent=header.agent,
        sender=header.sender,
        number=header.number,
        cwd=header.cwd,
        title=session.title,
        created=header.timestamp,
        entries=entries,
        messages=session.messages,
        head=head,
        model=branch.model,
        provider=branch.provider,
        settings=branch.settings,
        archived=session.archived,
        uptime_ms=session.uptime_ms,
        calls=session.calls,
        usage=session.usage,
        open_calls=work.open_tool_calls,
        undelivered=undelivered,
        queue=work.queue,
        attention=branch.attention,
        unknown_outcomes=sum(outcome.answer_id is None for outcome in session.unknown_outcomes),
        state=_state_name(session, branch, work, undelivered=undelivered, held=held, damaged=damaged),
    )


def _state_name(
    session: SessionState, branch: BranchState, work: HeadWork, *, undelivered: int, held: bool, damaged: bool
) -> SessionStateName:
    """Return the state. An unanswered prompt is pending until a worker begins the turn; then it is interrupted."""
    if session.terminated:
        return "terminated"
    if damaged:
        return "damaged"
    if held:
        return "running"
    if branch.attention:
        return "waiting"
    if branch.ends_in == "failed":
        return "failed"
    is_begun = work.open_in_last_reply or work.interrupted or branch.ends_in in ("result", "faulted")
    is_unanswered = branch.ends_in == "prompt" or any(queued.mode != "cancel" for queued in work.queue)
    if is_begun or is_unanswered:
        return "dormant" if session.dormant else "interrupted" if is_begun else "pending"
    return "undelivered" if undelivered else "idle"

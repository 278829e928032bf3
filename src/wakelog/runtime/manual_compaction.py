"""Compaction on request: a person asks for it, and the session's own model writes the summary.

What may be compacted, and when, is decided in `decide/` and done in `runtime/compaction.py`. The request is an entry,
so it survives a crash and is replayed. This module appends the request and wakes the session step by step until the
request is answered.
"""

import msgspec

from wakelog.decide.compaction import plan_compaction
from wakelog.decide.decisions import Await, Rest
from wakelog.decide.policy import policy_in_force
from wakelog.errors import Conflict, UsageError
from wakelog.log.entry import Call, Compaction, Entry, Partial
from wakelog.log.tree import Branch
from wakelog.projections.context import build_context, group_starts
from wakelog.projections.pending import pending
from wakelog.projections.state import branch_state
from wakelog.runtime.checks import check_custody, check_model
from wakelog.runtime.user_actions import request_compaction
from wakelog.runtime.wake import wake
from wakelog.runtime.world import World
from wakelog.session import Session


class CompactionRun(msgspec.Struct, frozen=True):
    """Result: the compaction entry; or the request, if another worker runs the session; or None and `why_not`."""

    entry: Entry | None
    why_not: str = ""


async def compact_now(
    world: World, session_id: str, *, keep: str | None = None, instructions: str = ""
) -> CompactionRun:
    """Compact a session: its model summarises everything before `keep` (default: as much as the policy says).

    `Conflict` if it has open tool calls or an interrupted reply and no worker runs it. `UsageError` if its model cannot
    be called, `Untrusted` if other users own or may write to its files; nothing is written then.
    """
    session = Session(world.store, session_id, clock=world.clock)
    branch = session.branch()
    held = world.store.held(session.name) is not None
    if not held:
        check_custody(session)
        _refuse_if_busy(session.name, branch)
    kept = _place(branch, keep) if keep is not None else _planned(branch)
    if kept is None:
        return CompactionRun(None, "there is nothing to fold")
    if not held:
        # Checked before the request is written: one that cannot be answered here would wait in the queue.
        check_model(world.provider, session.name, branch_state(branch))
    asked = request_compaction(session, keep=kept if keep is not None else None, instructions=instructions)
    return CompactionRun(asked) if held else await _folded(world, session, asked)


async def _folded(world: World, session: Session, asked: Entry) -> CompactionRun:
    """Wake the session one step at a time until the request is answered."""
    while True:
        try:
            report = await wake(world, session.name, steps=1)
        except Conflict:
            # Another worker has taken the session, and the request with it.
            return CompactionRun(asked)
        done = _outcome(session, asked.id)
        if done is not None:
            return done
        if isinstance(report.decision, Rest | Await):
            return CompactionRun(None, "the session does not get to it")


def _refuse_if_busy(name: str, branch: Branch) -> None:
    """Raise `Conflict` while a tool call is open or a reply is interrupted: a compaction must come after both."""
    open_work = pending(branch)
    if open_work.open_calls or open_work.cut:
        raise Conflict(f"{name} is in the middle of something", hint=f"`wakelog wake {name}` finishes it first")


def _planned(branch: Branch) -> str | None:
    return plan_compaction(branch, policy_in_force(branch_state(branch).context).keep)


def _place(branch: Branch, keep: str) -> str | None:
    """Return the id of the first message in the context from `keep` on; None if it is the first of all."""
    context = build_context(branch)
    nodes = [node.id for node in branch.nodes]
    if keep not in nodes:
        raise UsageError(f"{keep} is not on the active branch", hint="keep from an entry that is")
    later = set(nodes[nodes.index(keep) :])
    at = next((at for at, entry_id in enumerate(context.entry_ids) if entry_id in later), None)
    if at is None:
        raise UsageError(f"the model sees nothing from {keep} on", hint="keep from a message")
    if at not in group_starts(context.messages):
        raise UsageError(f"{keep} stands between a tool call and its result", hint="keep from the reply that called")
    return context.entry_ids[at] if at else None


def _outcome(session: Session, asked: str) -> CompactionRun | None:
    """Return the result of the model call for a request; None if there is no such call yet."""
    entries = session.tree.own()
    call = next(
        (entry.value for entry in entries if isinstance(entry.value, Call) and entry.value.queued_id == asked), None
    )
    if call is None:
        return None
    for entry in entries:
        match entry.value:
            case Compaction(call_id=call.key):
                return CompactionRun(entry)
            case Partial(reply_id=call.reply_id, error=error) if error is not None:
                return CompactionRun(None, error.message or error.kind)
    return CompactionRun(None, "it was cut off")

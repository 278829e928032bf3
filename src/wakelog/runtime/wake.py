"""Wake a session: load, decide, act, append, and repeat until it is at rest or has to wait.

This is the only loop that runs an agent. It keeps no history between steps and has no separate recovery: a session that
was killed at any point is woken like a new one (law 15: starting, continuing and recovering are the same call).
`decide/table.py` holds the decisions, the other modules of this package the actions.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.decisions import (
    Ask,
    AskAboutDamage,
    Await,
    Cancel,
    Compact,
    Decision,
    Deliver,
    Fail,
    Inquire,
    Raise,
    RecoverReply,
    Rest,
    Run,
    Settle,
    TakeUp,
    TellDamage,
)
from wakelog.decide.lease_term import LeaseTerm
from wakelog.decide.table import Verdict, or_retry
from wakelog.errors import Conflict, LeaseLost, UsageError
from wakelog.log.content import Reply, Usage
from wakelog.log.entry import Entry, Failed, FaultReport, Message
from wakelog.log.lines import Reader
from wakelog.ports import Lease
from wakelog.projections.pending import OpenCall
from wakelog.projections.usage import usage
from wakelog.runtime.checks import check_custody, check_model, needs_model
from wakelog.runtime.compaction import compact
from wakelog.runtime.delivery import deliver
from wakelog.runtime.interruption import stopped
from wakelog.runtime.journal_recovery import drop_finished, recover_journals
from wakelog.runtime.lease_keeper import LeaseKeeper
from wakelog.runtime.model_call import ask, recover_reply
from wakelog.runtime.settling import ask_a_person, ask_about_damage, cancel, fail, settle, take_up, tell_damage
from wakelog.runtime.step import Step, decided
from wakelog.runtime.tool_run import check_runnable, inquire, run
from wakelog.runtime.world import World
from wakelog.session import Session
from wakelog.stores.retrying import RetryingStore, with_retries

_TRIES_MAX = 1_000
# For steps that only read: every store refuses writes under this lease.
_NO_LEASE = Lease(session="", holder="", fence=-1)


class Report(msgspec.Struct, frozen=True):
    """Result of a wake: the last decision, the table row of each step, and the text of the last reply."""

    session: str
    decision: Decision
    rows: tuple[str, ...] = ()
    text: str = ""
    error: FaultReport | None = None
    """The fault that ended the turn, or that a later wake retries; None if there is none."""
    usage: Usage = Usage(cost_micros=0)
    """Tokens and cost of the model calls of this wake. Subagents are counted in their own sessions."""


async def wake(
    world: World, session: Session | str, *, steps: int | None = None, patience_ms: int | None = None
) -> Report:
    """Run a session until it is at rest, waits for input, or has taken `steps` steps.

    `session` is an id, a name, or a `Session` of `world.store`. A wait until a point in time is waited out if it is no
    longer than `patience_ms` (default: any length). No entry is written if there is nothing to do, or if the first
    step is impossible here: `UsageError` if the model cannot be called, `NotFound` if the tools are missing,
    `Untrusted` if other users own or may write to the session's files. `Conflict` if another worker runs it.
    """
    _check_world(world)
    world = _with_retries(world)
    session = Session(world.store, ref_of(session), clock=world.clock, rules=world.rules)
    check_custody(session)
    verdict = _seen(world, session)
    drop_finished(session)
    if _is_idle(verdict.decision):
        return _report(session, verdict.decision, (verdict.row,), after=session.last_seq)
    if world.store.held(session.name) is None:
        check_first(world, session, verdict)
    rows: list[str] = []
    after = session.last_seq
    async with world.alive(), holding(world, session) as lease:
        recover_journals(session, lease)
        while True:
            verdict = await step(world, session, lease)
            rows.append(verdict.row)
            decision = verdict.decision
            waits = _will_wait(world, decision, patience_ms)
            if isinstance(decision, Await) and waits:
                await _wait_until(world, session, decision.until_ms or 0)
            if len(rows) == steps or (isinstance(decision, Rest | Await) and not waits):
                return _report(session, decision, tuple(rows), after=after)


def _check_world(world: object) -> None:
    if not isinstance(world, World):
        what = f"wake takes a world first, not {type(world).__name__}"
        raise UsageError(what, hint="pass live_world(store), then the session")


def ref_of(session: object) -> str:
    """Return the name of a `Session`, or an id or name as it is; `UsageError` for anything else."""
    if isinstance(session, Session | str):
        return session if isinstance(session, str) else session.name
    what = f"a session is named by a Session, an id or a name, not by {type(session).__name__}"
    raise UsageError(what, hint='pass the session itself, or its name, such as "agent_user_1"')


def check_first(world: World, session: Session, verdict: Verdict) -> None:
    """Raise the error that makes the first decision impossible here: no usable model, or none of its tools can run.

    Needs no lease and writes nothing, so that wakes that fail leave no entries.
    """
    decision = verdict.decision
    if needs_model(decision):
        check_model(world.provider, session.name, verdict.snapshot.state)
    elif isinstance(decision, Run):
        check_runnable(Step(world, session, _NO_LEASE, verdict), decision)


def _report(session: Session, decision: Decision, rows: tuple[str, ...], *, after: int) -> Report:
    nodes = session.branch().nodes
    said = [node.value.message for node in nodes if isinstance(node.value, Message)]
    text = next((message.text for message in reversed(said) if isinstance(message, Reply)), "")
    return Report(session.name, decision, rows, text, _error(decision, nodes), _spent(session, after))


def _error(decision: Decision, nodes: Sequence[Entry]) -> FaultReport | None:
    """Return the fault that ended the turn, or that is retried at a later time."""
    has_failed = isinstance(decision, Rest) and decision.outcome == "failed"
    if not has_failed and not (isinstance(decision, Await) and decision.until_ms is not None):
        return None
    failed = next((node.value for node in reversed(nodes) if isinstance(node.value, Failed)), None)
    return None if failed is None else failed.error or FaultReport(kind=failed.reason)


def _spent(session: Session, after: int) -> Usage:
    """Return the usage of the model calls that ended after seq `after`."""
    if session.last_seq == after:
        return usage(()).usage
    return usage(Reader(next_seq=after + 1).feed_all(session.store.load(session.name, after=after))).usage


async def step(world: World, session: Session, lease: Lease) -> Verdict:
    """Decide once and act once. `session` catches up with the log before the decision."""
    for _ in range(_TRIES_MAX):
        verdict = decided(world, session)
        now = Step(world, session, lease, verdict)
        try:
            if not await act(now, verdict.decision):
                verdict = or_retry(msgspec.structs.replace(verdict, decision=Await()))
                await act(now, verdict.decision)
        except LeaseLost:
            raise
        except Conflict:
            if now.begun:
                raise
            # Another writer appended first: decide again on the longer log.
            continue
        return verdict
    raise Conflict(f"{session.name} is too busy: {_TRIES_MAX} decisions were overtaken")


async def act(now: Step, decision: Decision) -> bool:
    """Carry out a decision. Return False if nothing could be done because all its tool calls have to wait."""
    if (write := _WRITES.get(type(decision))) is not None:
        write(now, decision)
        return True
    work = _WORKS.get(type(decision))
    return work is None or await work(now, decision) is not False


_WRITES: Mapping[type[Decision], Callable[[Step, Any], None]] = {
    Raise: ask_a_person,
    Cancel: cancel,
    TakeUp: take_up,
    TellDamage: tell_damage,
    AskAboutDamage: ask_about_damage,
    Fail: fail,
}
_WORKS: Mapping[type[Decision], Callable[[Step, Any], Awaitable[bool | None]]] = {
    Deliver: deliver,
    Settle: settle,
    Run: run,
    Inquire: inquire,
    Ask: ask,
    RecoverReply: recover_reply,
    Compact: compact,
}


def next_decision(world: World, session: Session) -> Decision | None:
    """Return the first decision that waking a session would carry out; None if there is nothing to do."""
    decision = _seen(world, session).decision
    return None if _is_idle(decision) else decision


def is_waiting(world: World, session: Session) -> bool:
    """Return whether waking a session would do nothing because it waits for input."""
    decision = _seen(world, session).decision
    return _is_idle(decision) and not isinstance(decision, Rest)


def _seen(world: World, session: Session) -> Verdict:
    """Decide without a lease. If all tool calls to run wait for stuck subagents, the decision is `Await`."""
    verdict = decided(world, session, new_worker=True)
    if isinstance(verdict.decision, Run) and all(_is_stuck(world, call) for call in verdict.decision.calls):
        return msgspec.structs.replace(verdict, decision=Await())
    return verdict


def _is_stuck(world: World, call: OpenCall) -> bool:
    return call.child is not None and world.stuck(world, call.child)


def _is_idle(decision: Decision) -> bool:
    return isinstance(decision, Rest) or (isinstance(decision, Await) and decision.until_ms is None)


def _will_wait(world: World, decision: Decision, patience_ms: int | None) -> bool:
    if not isinstance(decision, Await) or decision.until_ms is None:
        return False
    return patience_ms is None or decision.until_ms - world.clock.now_ms() <= patience_ms


async def _wait_until(world: World, session: Session, until_ms: int) -> None:
    """Wait until a point in time, or until an entry is appended: it may be a cancel, or other work."""
    pausing = asyncio.ensure_future(world.pause(max(0, until_ms - world.clock.now_ms())))
    watching = asyncio.ensure_future(world.news(session, session.last_seq))
    try:
        done, _ = await asyncio.wait({pausing, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stopped(pausing)
        await stopped(watching)
    for task in done:
        # Raises the error of a task that failed.
        task.result()


# ── lease ────────────────────────────────────────────────────────────────────────────────────────


def _with_retries(world: World) -> World:
    """Return a copy of `world` whose store retries during short outages."""
    return msgspec.structs.replace(world, store=with_retries(world.store, uptime=world.uptime))


@contextlib.asynccontextmanager
async def holding(world: World, session: Session) -> AsyncIterator[Lease]:
    """Hold the lease of a session, renew it in time, and release it at the end.

    `LeaseLost`, after all running work has been stopped, if another worker has the lease or may take it soon.
    """
    store = session.store if isinstance(session.store, RetryingStore) else with_retries(session.store)
    runner = asyncio.current_task()
    # The term is counted from before the request, so that it ends here before it ends for the store.
    term = LeaseTerm(ttl_s=world.lease_s, sent=world.uptime.now())
    lease = session.acquire(world.holder, ttl_s=world.lease_s, channels=sorted(world.attached))
    keeper = LeaseKeeper(store, lease, term, world.uptime, runner)
    renewing = asyncio.ensure_future(keeper.keep())
    try:
        try:
            yield lease
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
    except asyncio.CancelledError:
        if store.lost is not None and (runner is None or runner.uncancel() == 0):
            raise store.lost from None
        raise
    finally:
        keeper.end()
        store.leave()
        if store.lost is None:
            session.release(lease)

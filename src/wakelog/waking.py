"""Waking a session: load, decide, act, append, and again, until it rests or waits for somebody.

This is the whole of running an agent. There is no other loop, no history that is kept between steps, and no
recovery: a session that was killed anywhere is woken like one that was never begun (law 15). Read
`turn/decide.py` for what is decided, and `acts/` for what is then done.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from wakelog.acts.asking import ask, mend
from wakelog.acts.delivering import deliver
from wakelog.acts.folding import compact
from wakelog.acts.interrupting import stopped
from wakelog.acts.running import inquire, run
from wakelog.acts.sealing import drop_finished, seal_journals
from wakelog.acts.settling import ask_a_person, cancel, fail, settle, take_up
from wakelog.acts.step import Step, decided
from wakelog.errors import Conflict, LeaseLost
from wakelog.log.content import Reply
from wakelog.log.entry import Message
from wakelog.ports import Lease
from wakelog.session import Session
from wakelog.turn.decide import Verdict, or_retry
from wakelog.turn.decisions import (
    Ask,
    Await,
    Cancel,
    Compact,
    Decision,
    Deliver,
    Fail,
    Inquire,
    Mend,
    Raise,
    Rest,
    Run,
    Settle,
    TakeUp,
)
from wakelog.views.pending import OpenCall
from wakelog.world import World

_TRIES_MAX = 1_000


class Report(msgspec.Struct, frozen=True):
    """How a session was left: the last decision, the rows of the table that led there, and the last reply's words."""

    session: str
    decision: Decision
    rows: tuple[str, ...] = ()
    text: str = ""


async def wake(world: World, session_id: str, *, steps: int | None = None, patience_ms: int | None = None) -> Report:
    """Runs a session until it rests, or waits for somebody, or has taken so many steps.

    A wait for a time is sat out if it is no longer than `patience_ms` (default: however long it is). A session that
    has nothing to do is not touched. `Conflict` if somebody else runs it.
    """
    session = Session(world.store, session_id, clock=world.clock, rules=world.rules)
    verdict = _seen(world, session)
    drop_finished(session)
    if _is_idle(verdict.decision):
        return _report(session, verdict.decision, (verdict.row,))
    rows: list[str] = []
    async with world.alive(), holding(world, session) as lease:
        seal_journals(session, lease)
        while True:
            verdict = await step(world, session, lease)
            rows.append(verdict.row)
            decision = verdict.decision
            waits = _will_wait(world, decision, patience_ms)
            if isinstance(decision, Await) and waits:
                await _sit_out(world, session, decision.until_ms or 0)
            if len(rows) == steps or (isinstance(decision, Rest | Await) and not waits):
                return _report(session, decision, tuple(rows))


def _report(session: Session, decision: Decision, rows: tuple[str, ...]) -> Report:
    said = [link.value.message for link in session.branch().links if isinstance(link.value, Message)]
    text = next((message.text for message in reversed(said) if isinstance(message, Reply)), "")
    return Report(session.name, decision, rows, text)


async def step(world: World, session: Session, lease: Lease) -> Verdict:
    """One decide and one act. What is brought along is a reading of the log, caught up before it is looked at."""
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
            # Somebody was faster: there is more to look at than this was decided on.
            continue
        return verdict
    raise Conflict(f"{session.name} is too busy: {_TRIES_MAX} decisions were overtaken")


async def act(now: Step, decision: Decision) -> bool:
    """Does what was decided. False if nothing could be done: everybody concerned waits for somebody."""
    match decision:
        case Deliver():
            await deliver(now, decision)
        case Settle():
            await settle(now, decision)
        case Raise():
            ask_a_person(now, decision)
        case Run():
            return await run(now, decision)
        case Inquire():
            await inquire(now, decision)
        case Cancel():
            cancel(now, decision)
        case TakeUp():
            take_up(now, decision)
        case Ask():
            await ask(now, decision)
        case Mend():
            await mend(now, decision)
        case Compact():
            await compact(now, decision)
        case Fail():
            fail(now, decision)
    return True


def what_next(world: World, session: Session) -> Decision | None:
    """What waking a session would do first; None if that is nothing."""
    decision = _seen(world, session).decision
    return None if _is_idle(decision) else decision


def is_waiting(world: World, session: Session) -> bool:
    """Whether waking a session would do nothing, because it waits for somebody."""
    decision = _seen(world, session).decision
    return _is_idle(decision) and not isinstance(decision, Rest)


def _seen(world: World, session: Session) -> Verdict:
    """What is to be done, seen without a lease: calls that only wait for their sub-agents wait too."""
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


async def _sit_out(world: World, session: Session, until_ms: int) -> None:
    """Waits for a time to come, or until something is appended: it may be a cancel, or other work."""
    pausing = asyncio.ensure_future(world.pause(max(0, until_ms - world.clock.now_ms())))
    watching = asyncio.ensure_future(world.news(session, session.last_seq))
    try:
        done, _ = await asyncio.wait({pausing, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await stopped(pausing)
        await stopped(watching)
    for task in done:
        # What went wrong while waiting is not waited for again.
        task.result()


# ── the lease ────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def holding(world: World, session: Session) -> AsyncIterator[Lease]:
    """Holds the right to run a session, renews it in time, and gives it up whatever happens."""
    lease = session.acquire(world.holder, ttl_s=world.lease_s, channels=sorted(world.attached))
    renewing = asyncio.ensure_future(_renew(world, lease, asyncio.current_task()))
    try:
        yield lease
    except asyncio.CancelledError:
        if renewing.done() and not renewing.cancelled():
            renewing.result()
        raise
    finally:
        renewing.cancel()
        await asyncio.wait({renewing})
        session.release(lease)


async def _renew(world: World, lease: Lease, runner: "asyncio.Task[object] | None") -> None:
    """Renews a lease three times within its term; stops whoever runs under it if it is lost."""
    while True:
        await asyncio.sleep(world.lease_s / 3)
        try:
            world.store.renew(lease, ttl_s=world.lease_s)
        except LeaseLost:
            if runner is not None:
                runner.cancel()
            raise

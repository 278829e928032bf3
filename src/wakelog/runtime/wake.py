"""Wake a session: load, decide, act, append, and repeat until it is idle or has to wait.

This is the only loop that runs an agent. It keeps no history between steps and has no separate recovery: a session that
was killed at any point is woken like a new one (law 15: starting, continuing and recovering are the same call). A
journal that a crashed worker left becomes one `partial` annotation as soon as the next worker has the lease.
`decide/table.py` holds the decisions, the other modules of this package the actions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from wakelog.arguments import session_ref
from wakelog.decide.decisions import (
    AskAboutDamage,
    AskPerson,
    Await,
    CallModel,
    CancelTurn,
    CheckReceipt,
    Compact,
    Decision,
    Deliver,
    FailTurn,
    Idle,
    RecoverReply,
    ReportDamage,
    ReportOutcomes,
    RunTools,
    SettleToolCall,
    TakeQueued,
)
from wakelog.decide.table import Verdict, or_retry_delivery
from wakelog.errors import Conflict, LeaseLost, UsageError
from wakelog.log.content import Prompt, Reply, Usage
from wakelog.log.entry import Entry, Failed, FaultReport, Message
from wakelog.log.lines import EntryReader
from wakelog.ports.stores import Lease
from wakelog.projections.pending import OpenToolCall
from wakelog.projections.usage import usage
from wakelog.recording.recovery import recover_journals
from wakelog.runtime.actions import (
    ask_about_damage,
    ask_person,
    cancel_turn,
    deliver,
    fail_turn,
    report_damage,
    report_outcomes,
    settle_tool_call,
    take_queued,
)
from wakelog.runtime.checks import check_files, check_model, needs_model
from wakelog.runtime.compaction import compact
from wakelog.runtime.interface import Runtime
from wakelog.runtime.lease import hold_lease
from wakelog.runtime.model_call import call_model, recover_reply
from wakelog.runtime.step import Step, cancel_and_wait, decide_now
from wakelog.runtime.tool_run import check_receipt, check_runnable, run_tools
from wakelog.session import Session
from wakelog.stores.retrying import with_retries

_DECISIONS_MAX = 1_000
# For steps that only read: every store refuses writes under this lease.
_NO_LEASE = Lease(session="", holder="", fence=-1)


class WakeReport(msgspec.Struct, frozen=True):
    """Result of a wake: the last decision, the rule of each step, and the text of the last reply since the prompt."""

    session: str
    decision: Decision
    rules: tuple[str, ...] = ()
    text: str = ""
    error: FaultReport | None = None
    """The fault that ended the turn, or that a later wake retries; None if there is none."""
    usage: Usage = Usage(cost_micros=0)
    """Tokens and cost of the model calls of this wake. Subagents are counted in their own sessions."""

    @property
    def state(self) -> Literal["idle", "failed", "cancelled", "terminated", "waiting"]:
        """The state in which the session was left; `waiting` for a person, a sub-agent or a point in time."""
        match self.decision:
            case Idle("done"):
                return "idle"
            case Idle("failed" | "cancelled" | "terminated" as outcome):
                return outcome
        return "waiting"


async def wake(
    runtime: Runtime, session: Session | str, *, steps: int | None = None, patience_ms: int | None = None
) -> WakeReport:
    """Run a session until it is idle, waits for input, or has taken `steps` steps.

    `session` is an id, a name, or a `Session` of `runtime.store`. A wait until a point in time is waited out if it is
    no longer than `patience_ms` (default: any length). No entry is written if there is nothing to do, or if the first
    step is impossible here: `UsageError` if the model cannot be called, `NotFound` if the tools are missing,
    `Untrusted` if other users own or may write to the session's files. `Conflict` if another worker runs it.
    """
    _check_runtime(runtime)
    runtime = _with_retries(runtime)
    session = Session(runtime.store, session_ref(session), clock=runtime.clock, known_secrets=runtime.known_secrets)
    check_files(session)
    verdict = _decide_as_new_worker(runtime, session)
    drop_finished_journals(session)
    if _is_idle(verdict.decision):
        return _report(session, verdict.decision, (verdict.rule,), after=session.last_seq)
    if runtime.store.held(session.name) is None:
        check_first_decision(runtime, session, verdict)
    rows: list[str] = []
    after = session.last_seq
    async with runtime.resources(), hold_lease(runtime, session) as lease:
        recover_journals(session, lease)
        while True:
            verdict = await take_step(runtime, session, lease)
            rows.append(verdict.rule)
            decision = verdict.decision
            waits = _will_wait(runtime, decision, patience_ms)
            if isinstance(decision, Await) and waits:
                await _wait_until(runtime, session, decision.until_ms or 0)
            if len(rows) == steps or (isinstance(decision, Idle | Await) and not waits):
                return _report(session, decision, tuple(rows), after=after)


def _check_runtime(runtime: object) -> None:
    if not isinstance(runtime, Runtime):
        what = f"wake takes a runtime first, not {type(runtime).__name__}"
        raise UsageError(what, hint="pass LiveRuntime(store), then the session")


def check_first_decision(runtime: Runtime, session: Session, verdict: Verdict) -> None:
    """Raise the error that makes the first decision impossible here: no usable model, or none of its tools can run.

    Needs no lease and writes nothing, so that wakes that fail leave no entries.
    """
    decision = verdict.decision
    if needs_model(decision):
        check_model(runtime.open_provider, session.name, verdict.snapshot.state)
    elif isinstance(decision, RunTools):
        check_runnable(Step(runtime, session, _NO_LEASE, verdict), decision)


def _report(session: Session, decision: Decision, rules: tuple[str, ...], *, after: int) -> WakeReport:
    nodes = session.branch().nodes
    return WakeReport(
        session.name, decision, rules, _last_text(nodes), _error(decision, nodes), _usage_after(session, after)
    )


def _last_text(nodes: Sequence[Entry]) -> str:
    """Return the text of the last reply since the last prompt; empty if there is none."""
    for node in reversed(nodes):
        message = node.value.message if isinstance(node.value, Message) else None
        if isinstance(message, Reply | Prompt):
            return message.text if isinstance(message, Reply) else ""
    return ""


def _error(decision: Decision, nodes: Sequence[Entry]) -> FaultReport | None:
    """Return the fault that ended the turn, or that is retried at a later time."""
    has_failed = isinstance(decision, Idle) and decision.outcome == "failed"
    if not has_failed and not (isinstance(decision, Await) and decision.until_ms is not None):
        return None
    failed = next((node.value for node in reversed(nodes) if isinstance(node.value, Failed)), None)
    return None if failed is None else failed.error or FaultReport(kind=failed.reason)


def _usage_after(session: Session, after: int) -> Usage:
    """Return the usage of the model calls that ended after seq `after`."""
    if session.last_seq == after:
        return usage(()).usage
    return usage(EntryReader(next_seq=after + 1).feed_all(session.store.load(session.name, after=after))).usage


async def take_step(runtime: Runtime, session: Session, lease: Lease) -> Verdict:
    """Decide once and act once. `session` catches up with the log before the decision."""
    for _ in range(_DECISIONS_MAX):
        verdict = decide_now(runtime, session)
        now = Step(runtime, session, lease, verdict)
        try:
            if not await carry_out(now, verdict.decision):
                verdict = or_retry_delivery(msgspec.structs.replace(verdict, decision=Await()))
                await carry_out(now, verdict.decision)
        except LeaseLost:
            raise
        except Conflict:
            if now.has_written:
                raise
            # Another writer appended first: decide again on the longer log.
            continue
        return verdict
    raise Conflict(f"{session.name} is too busy: other writers appended during {_DECISIONS_MAX} decisions in a row")


async def carry_out(now: Step, decision: Decision) -> bool:
    """Carry out a decision. Return False if nothing could be done because all its tool calls have to wait."""
    if (write := _WRITE_ACTIONS.get(type(decision))) is not None:
        write(now, decision)
        return True
    work = _ASYNC_ACTIONS.get(type(decision))
    return work is None or await work(now, decision) is not False


_WRITE_ACTIONS: Mapping[type[Decision], Callable[[Step, Any], None]] = {
    AskPerson: ask_person,
    CancelTurn: cancel_turn,
    TakeQueued: take_queued,
    ReportDamage: report_damage,
    ReportOutcomes: report_outcomes,
    AskAboutDamage: ask_about_damage,
    FailTurn: fail_turn,
}
_ASYNC_ACTIONS: Mapping[type[Decision], Callable[[Step, Any], Awaitable[bool | None]]] = {
    Deliver: deliver,
    SettleToolCall: settle_tool_call,
    RunTools: run_tools,
    CheckReceipt: check_receipt,
    CallModel: call_model,
    RecoverReply: recover_reply,
    Compact: compact,
}


def next_decision(runtime: Runtime, session: Session) -> Decision | None:
    """Return the first decision that waking a session would carry out; None if there is nothing to do."""
    decision = _decide_as_new_worker(runtime, session).decision
    return None if _is_idle(decision) else decision


def is_waiting(runtime: Runtime, session: Session) -> bool:
    """Return whether waking a session would do nothing because it waits for input."""
    decision = _decide_as_new_worker(runtime, session).decision
    return _is_idle(decision) and not isinstance(decision, Idle)


def _decide_as_new_worker(runtime: Runtime, session: Session) -> Verdict:
    """Decide without a lease. If all tool calls to run wait for stuck subagents, the decision is `Await`."""
    verdict = decide_now(runtime, session, new_worker=True)
    if isinstance(verdict.decision, RunTools) and all(
        _is_blocked(runtime, call) for call in verdict.decision.open_calls
    ):
        return msgspec.structs.replace(verdict, decision=Await())
    return verdict


def _is_blocked(runtime: Runtime, open_call: OpenToolCall) -> bool:
    return open_call.child_session is not None and runtime.is_subagent_blocked(open_call.child_session)


def _is_idle(decision: Decision) -> bool:
    return isinstance(decision, Idle) or (isinstance(decision, Await) and decision.until_ms is None)


def _will_wait(runtime: Runtime, decision: Decision, patience_ms: int | None) -> bool:
    if not isinstance(decision, Await) or decision.until_ms is None:
        return False
    return patience_ms is None or decision.until_ms - runtime.clock.now_ms() <= patience_ms


async def _wait_until(runtime: Runtime, session: Session, until_ms: int) -> None:
    """Wait until a point in time, or until an entry is appended: it may be a cancel, or other work."""
    pausing = asyncio.ensure_future(runtime.sleep(max(0, until_ms - runtime.clock.now_ms())))
    watching = asyncio.ensure_future(runtime.wait_for_entry(session, session.last_seq))
    try:
        done, _ = await asyncio.wait({pausing, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(pausing)
        await cancel_and_wait(watching)
    for task in done:
        # Raises the error of a task that failed.
        task.result()


# ── lease ────────────────────────────────────────────────────────────────────────────────────────


def _with_retries(runtime: Runtime) -> Runtime:
    """Return a copy of `runtime` whose store retries during short outages."""
    return runtime.with_changes(store=with_retries(runtime.store, uptime=runtime.lease_clock))


def drop_finished_journals(session: Session) -> None:
    """Drop the journals of replies that are complete in the log. Needs no lease and writes no entry."""
    for journal in session.store.journals(session.name):
        if journal in session.tree.nodes:
            session.store.drop(session.name, journal)

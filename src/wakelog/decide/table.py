"""The decision table: a pure function from the log to the next step. The first row that matches decides.

Rule 1: all decisions are made here. Starting a session, continuing it and recovering it after a crash are the same
function over the same log (law 15: one entry point).
Rule 2: the input of a row is the log, the policy in force, the time, and the set of attached channels. Nothing else.
Rule 3: open tool calls are judged one by one. The decision is to wait only if no open tool call can proceed.
`docs/decide.md` is printed from `ROWS`; the case table of the tests covers every row.
"""

from collections.abc import Callable

import msgspec

from wakelog.decide import wording as words
from wakelog.decide.compaction import compaction_is_hopeless, is_kept_by_a_compaction, plan_compaction
from wakelog.decide.damage import judge_damage
from wakelog.decide.decisions import Ask, Await, Cancel, Compact, Decision, Fail, RecoverReply, Rest, TakeUp
from wakelog.decide.delivery import ready_send, retried_send
from wakelog.decide.faults import (
    faults_in_a_row,
    last_fault,
    overflow_limit,
    retry_at_ms,
    too_many_faults,
    way_to_mend,
)
from wakelog.decide.open_tool_calls import judge_open_calls
from wakelog.decide.snapshot import Snapshot, look
from wakelog.log.entry import RULES, Call
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context
from wakelog.projections.state import is_terminated


class Row(msgspec.Struct, frozen=True):
    """One row of the table: its name, the texts of its two cells, and the function that implements it."""

    name: str
    when: str
    then: str
    judge: Callable[[Snapshot], Decision | None]


class Verdict(msgspec.Struct, frozen=True):
    """A decision, the name of the row that made it, and the snapshot it was made from."""

    row: str
    decision: Decision
    snapshot: Snapshot


def decide(
    tree: Tree,
    now_ms: int,
    attached: frozenset[str] = frozenset(),
    rules: int = RULES,
    *,
    new_worker: bool = False,
) -> Verdict:
    """Decide the next step at the head of a session.

    `attached` names the channels that can be reached. `new_worker` decides for a worker that has yet to attach, for
    which earlier send failures do not count.
    """
    return or_retry(_first_that_fits(look(tree, now_ms, attached, rules, new_worker=new_worker)))


def or_retry(verdict: Verdict) -> Verdict:
    """Return the verdict, or a send retry if the verdict is to rest or to wait without a time."""
    match verdict.decision:
        case Rest("terminated") | Await(until_ms=int()):
            return verdict
        case Rest() | Await():
            retried = retried_send(verdict.snapshot)
            if isinstance(retried, Await) and isinstance(verdict.decision, Await):
                retried = Await(verdict.decision.attention, retried.until_ms)
            return verdict if retried is None else Verdict("retry", retried, verdict.snapshot)
    return verdict


def _first_that_fits(snapshot: Snapshot) -> Verdict:
    for row in ROWS:
        if row.judge is _open_calls:
            judged = judge_open_calls(snapshot)
            if judged is not None:
                return Verdict(*judged, snapshot)
        elif (decision := row.judge(snapshot)) is not None:
            return Verdict(row.name, decision, snapshot)
    raise AssertionError("the last row fits everything")


def _terminated(snapshot: Snapshot) -> Decision | None:
    return Rest("terminated") if is_terminated(snapshot.tree) else None


def _open_calls(_: Snapshot) -> Decision | None:
    """Placeholder for the rows of `open_tool_calls.py`, which judge each open tool call."""
    return None


def _retry(_: Snapshot) -> Decision | None:
    """Placeholder for `or_retry`, which runs after the other rows."""
    return None


def _cancel_asked(snapshot: Snapshot) -> Decision | None:
    under_way = (
        snapshot.open.open_calls or snapshot.open.cut or snapshot.state.ends_in in ("prompt", "result", "faulted")
    )
    asked = [queued for queued in snapshot.open.queue if queued.mode == "cancel"]
    return Cancel(asked[0]) if asked and under_way else None


def _cancelled(snapshot: Snapshot) -> Decision | None:
    if snapshot.state.ends_in != "cancelled":
        return None
    return _follow_up(snapshot, any_mode=True) or Rest("cancelled")


def _cut(snapshot: Snapshot) -> Decision | None:
    call = next(
        (annotation.value for annotation in snapshot.branch.annotations if annotation.id == snapshot.open.cut), None
    )
    if not isinstance(call, Call):
        return None
    return too_many_faults(snapshot) or RecoverReply(call.reply_id, way_to_mend(snapshot, call.reply_id), call.strategy)


def _faulted(snapshot: Snapshot) -> Decision | None:
    if snapshot.state.ends_in == "failed":
        return _follow_up(snapshot, any_mode=True) or Rest("failed")
    fault = last_fault(snapshot.branch) if snapshot.state.ends_in == "faulted" else None
    if fault is None:
        return None
    failed = too_many_faults(snapshot)
    if failed is not None:
        return failed
    until_ms = retry_at_ms(fault, faults_in_a_row(snapshot), snapshot.now_ms)
    sooner = retried_send(snapshot, until_ms)
    if sooner is not None:
        return sooner
    return Await(until_ms=until_ms) if snapshot.now_ms < until_ms else _answer(snapshot)


def _compaction_asked(snapshot: Snapshot) -> Decision | None:
    if snapshot.open.cut or snapshot.state.ends_in == "faulted":
        # An interrupted reply or a retryable fault is handled first; a turn that has failed for good does not block.
        return None
    for queued in snapshot.open.queue:
        kept = queued.keep or plan_compaction(snapshot.branch, snapshot.policy.keep)
        if queued.mode == "compact" and kept is not None and is_kept_by_a_compaction(snapshot.branch, kept):
            said = queued.message.text if queued.message is not None else ""
            return Compact(kept, "manual", said, queued.id)
    return None


def _steer(snapshot: Snapshot) -> Decision | None:
    return next((TakeUp(queued) for queued in snapshot.open.queue if queued.mode == "steer"), None)


def _owes_answer(snapshot: Snapshot) -> Decision | None:
    return _answer(snapshot) if snapshot.state.ends_in in ("prompt", "result", "faulted") else None


def _follow_up(snapshot: Snapshot, *, any_mode: bool = False) -> Decision | None:
    modes = ("steer", "followUp") if any_mode else ("followUp",)
    return next((TakeUp(queued) for queued in snapshot.open.queue if queued.mode in modes), None)


def _rest(_: Snapshot) -> Decision | None:
    return Rest()


def _answer(snapshot: Snapshot) -> Decision:
    """Decide how to get a reply: Ask, unless the turn has reached `steps_max` or the context must be compacted first.

    Where compaction cannot help, the model is asked with a token budget instead.
    """
    policy = snapshot.policy
    if snapshot.state.steps >= policy.steps_max:
        return Fail("steps", words.STEPS.format(steps=snapshot.state.steps))
    overflow = overflow_limit(snapshot)
    limit = min(filter(None, (policy.compact_at, overflow)), default=0)
    if not limit or build_context(snapshot.branch, policy.strategy, state=snapshot.state).tokens <= limit:
        return Ask(policy.strategy)
    keep = min(policy.keep, overflow // 2) if overflow else policy.keep
    first_kept = None if compaction_is_hopeless(snapshot.branch) else plan_compaction(snapshot.branch, keep)
    return Compact(first_kept) if first_kept is not None else Ask(f"budget:{limit}")


ROWS = (
    Row("terminated", "is terminated", "Rest", _terminated),
    Row(
        "owed",
        "has a reply made by a call, not sent to a channel that call names",
        "Deliver, same id (channel not attached, or it failed and waits for its next attempt: it stays owed, go on)",
        ready_send,
    ),
    Row("cancel", "is under way, and a person has asked to cancel", "Cancel the turn", _cancel_asked),
    Row("open calls", "has open calls", "judge each by the rows below", _open_calls),
    Row(
        "damage",
        "has lost entries since its last compaction, and the model is to be asked",
        "policy tell: tell the model, once; policy ask: attention first, then tell it what was decided",
        judge_damage,
    ),
    Row(
        "fold asked",
        "a person has asked for a fold, there is something to fold, and no call is to be made good first",
        "Compact, once",
        _compaction_asked,
    ),
    Row("cancelled", "ends in a cancelled turn", "take up the oldest queued message, else Rest", _cancelled),
    Row("cut", "has a cut reply", "below faults_max Mend: resume or replace; else Fail", _cut),
    Row(
        "fault",
        "ends in a fault",
        "retryable and below faults_max: Await its time, then Ask (a send that is due sooner goes first); else "
        "take up what is queued, else Rest(failed)",
        _faulted,
    ),
    Row("steer", "has a queued steer", "take it up", _steer),
    Row(
        "answer",
        "ends in a prompt or results",
        "above steps_max Fail; context over compact_at, or too long for the provider: Compact (hopeless: Ask with a "
        "smaller window); else Ask",
        _owes_answer,
    ),
    Row("follow-up", "has a queued follow-up", "take up the oldest", _follow_up),
    Row(
        "retry",
        "would rest or wait for a person, and a channel that failed is to be tried again",
        "Await its time, then Deliver, same id; after three failures by one worker the reply stays undelivered",
        _retry,
    ),
    Row("rest", "anything else", "Rest", _rest),
)

"""What is to be done now: one pure function, a table read from the top, the first row that fits wins.

Rule 1: there is no other place where anything is decided, and no other way to recover: starting, going
on and coming back after a crash are this function over the same log (law 15).
Rule 2: a row sees the log, the policy in force, the time, and which channels can be reached. Nothing else.
Rule 3: open calls are judged one by one. Whatever can move, moves; waiting is the answer only when none can.
`docs/decide.md` is printed from `ROWS`; the case table of the tests holds every row.
"""

from collections.abc import Callable

import msgspec

from wakelog.decide import wording as words
from wakelog.decide.compaction import fold_is_hopeless, is_kept_by_a_fold, plan_fold
from wakelog.decide.damage import judge_damage
from wakelog.decide.decisions import Ask, Await, Cancel, Compact, Decision, Fail, Mend, Rest, TakeUp
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
from wakelog.decide.snapshot import Sight, look
from wakelog.log.entry import RULES, Call
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context
from wakelog.projections.state import is_terminated


class Row(msgspec.Struct, frozen=True):
    """One row of the table: its name, both of its cells, and the function that is the row."""

    name: str
    when: str
    then: str
    judge: Callable[[Sight], Decision | None]


class Verdict(msgspec.Struct, frozen=True):
    """A decision, the row it came from, and what was seen when it was made."""

    row: str
    decision: Decision
    sight: Sight


def decide(
    tree: Tree,
    now_ms: int,
    attached: frozenset[str] = frozenset(),
    rules: int = RULES,
    *,
    new_worker: bool = False,
) -> Verdict:
    """Decides what is to be done at the head of a session: by the worker that has it, or by one that would take it."""
    return or_retry(_first_that_fits(look(tree, now_ms, attached, rules, new_worker=new_worker)))


def or_retry(verdict: Verdict) -> Verdict:
    """The verdict, or the retry of a send where it would rest or wait for a person or a sub-agent."""
    match verdict.decision:
        case Rest("terminated") | Await(until_ms=int()):
            return verdict
        case Rest() | Await():
            retried = retried_send(verdict.sight)
            if isinstance(retried, Await) and isinstance(verdict.decision, Await):
                retried = Await(verdict.decision.attention, retried.until_ms)
            return verdict if retried is None else Verdict("retry", retried, verdict.sight)
    return verdict


def _first_that_fits(sight: Sight) -> Verdict:
    for row in ROWS:
        if row.judge is _open_calls:
            judged = judge_open_calls(sight)
            if judged is not None:
                return Verdict(*judged, sight)
        elif (decision := row.judge(sight)) is not None:
            return Verdict(row.name, decision, sight)
    raise AssertionError("the last row fits everything")


def _terminated(sight: Sight) -> Decision | None:
    return Rest("terminated") if is_terminated(sight.tree) else None


def _open_calls(_: Sight) -> Decision | None:
    """Stands for the rows of `calls.py`, which judge each open call."""
    return None


def _retry(_: Sight) -> Decision | None:
    """Stands for `or_retry`, which looks at what the other rows have come to."""
    return None


def _cancel_asked(sight: Sight) -> Decision | None:
    under_way = sight.open.open_calls or sight.open.cut or sight.state.ends_in in ("prompt", "result", "faulted")
    asked = [queued for queued in sight.open.queue if queued.mode == "cancel"]
    return Cancel(asked[0]) if asked and under_way else None


def _cancelled(sight: Sight) -> Decision | None:
    if sight.state.ends_in != "cancelled":
        return None
    return _follow_up(sight, any_mode=True) or Rest("cancelled")


def _cut(sight: Sight) -> Decision | None:
    call = next((annotation.value for annotation in sight.branch.annotations if annotation.id == sight.open.cut), None)
    if not isinstance(call, Call):
        return None
    return too_many_faults(sight) or Mend(call.reply_id, way_to_mend(sight, call.reply_id), call.strategy)


def _faulted(sight: Sight) -> Decision | None:
    if sight.state.ends_in == "failed":
        return _follow_up(sight, any_mode=True) or Rest("failed")
    fault = last_fault(sight.branch) if sight.state.ends_in == "faulted" else None
    if fault is None:
        return None
    failed = too_many_faults(sight)
    if failed is not None:
        return failed
    until_ms = retry_at_ms(fault, faults_in_a_row(sight), sight.now_ms)
    sooner = retried_send(sight, until_ms)
    if sooner is not None:
        return sooner
    return Await(until_ms=until_ms) if sight.now_ms < until_ms else _answer(sight)


def _fold_asked(sight: Sight) -> Decision | None:
    if sight.open.cut or sight.state.ends_in == "faulted":
        # What is half said, or is to be tried again, comes first; a turn that has failed for good does not.
        return None
    for queued in sight.open.queue:
        kept = queued.keep or plan_fold(sight.branch, sight.policy.keep)
        if queued.mode == "compact" and kept is not None and is_kept_by_a_fold(sight.branch, kept):
            said = queued.message.text if queued.message is not None else ""
            return Compact(kept, "manual", said, queued.id)
    return None


def _steer(sight: Sight) -> Decision | None:
    return next((TakeUp(queued) for queued in sight.open.queue if queued.mode == "steer"), None)


def _owes_answer(sight: Sight) -> Decision | None:
    return _answer(sight) if sight.state.ends_in in ("prompt", "result", "faulted") else None


def _follow_up(sight: Sight, *, any_mode: bool = False) -> Decision | None:
    modes = ("steer", "followUp") if any_mode else ("followUp",)
    return next((TakeUp(queued) for queued in sight.open.queue if queued.mode in modes), None)


def _rest(_: Sight) -> Decision | None:
    return Rest()


def _answer(sight: Sight) -> Decision:
    """The model is to answer: ask it, unless the turn has gone on too long or its context must be folded first."""
    policy = sight.policy
    if sight.state.steps >= policy.steps_max:
        return Fail("steps", words.STEPS.format(steps=sight.state.steps))
    overflow = overflow_limit(sight)
    limit = min(filter(None, (policy.compact_at, overflow)), default=0)
    if not limit or build_context(sight.branch, policy.strategy, state=sight.state).tokens <= limit:
        return Ask(policy.strategy)
    keep = min(policy.keep, overflow // 2) if overflow else policy.keep
    first_kept = None if fold_is_hopeless(sight.branch) else plan_fold(sight.branch, keep)
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
        _fold_asked,
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

"""The decision table: a pure function from the log to the next step. The first rule that matches decides.

Rule 1: all decisions are made here. Starting a session, continuing it and recovering it after a crash are the same
function over the same log (law 15: one entry point).
Rule 2: the input of a rule is the log with its declared tools, the policy in force, the time, and the set of reachable
channels. Nothing else.
Rule 3: open tool calls are decided one by one. The decision is to wait only if no open tool call can proceed.
`docs/decide.md` is printed from `DECISION_RULES`; the case table of the tests covers every rule.
"""

from collections.abc import Callable

import msgspec

from wakelog.decide import wording
from wakelog.decide.compaction import can_keep_from, is_compaction_exhausted, plan_compaction
from wakelog.decide.damage import decide_damage
from wakelog.decide.decisions import (
    UNDECLARED_TOOLS,
    Await,
    CallModel,
    CancelTurn,
    Compact,
    Decision,
    DeclaredTools,
    FailTurn,
    Idle,
    RecoverReply,
    Snapshot,
    TakeQueued,
    take_snapshot,
)
from wakelog.decide.open_tool_calls import decide_open_tool_calls
from wakelog.decide.outcomes import decide_outcomes
from wakelog.decide.retries import (
    consecutive_faults,
    last_fault,
    next_delivery,
    next_retry,
    overflow_limit,
    recovery_strategy,
    retry_at_ms,
    too_many_faults,
)
from wakelog.log.entry import ModelCall
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context
from wakelog.projections.session_state import is_terminated


class Rule(msgspec.Struct, frozen=True):
    """One rule of the table: its name, the texts of its two cells, and the function that implements it."""

    name: str
    when: str
    then: str
    decide: Callable[[Snapshot], Decision | None]


class Verdict(msgspec.Struct, frozen=True):
    """A decision, the name of the rule that made it, and the snapshot it was made from."""

    rule: str
    decision: Decision
    snapshot: Snapshot


def decide(
    tree: Tree,
    now_ms: int,
    channels: frozenset[str] = frozenset(),
    *,
    new_worker: bool = False,
    tools: DeclaredTools = UNDECLARED_TOOLS,
) -> Verdict:
    """Decide the next step at the head of a session.

    `channels` names the channels that can be reached. `new_worker` decides for a worker that has yet to attach, for
    which earlier send failures do not count. `tools` reads the declarations of the tools in force.
    """
    return or_retry_delivery(_first_match(take_snapshot(tree, now_ms, channels, new_worker=new_worker, tools=tools)))


def or_retry_delivery(verdict: Verdict) -> Verdict:
    """Return the verdict, or a send retry if the verdict is to be idle or to wait without a time."""
    match verdict.decision:
        case Idle("terminated") | Await(until_ms=int()):
            return verdict
        case Idle() | Await():
            retried = next_retry(verdict.snapshot)
            if isinstance(retried, Await) and isinstance(verdict.decision, Await):
                retried = Await(verdict.decision.attention, retried.until_ms)
            return verdict if retried is None else Verdict("retry", retried, verdict.snapshot)
    return verdict


def _first_match(snapshot: Snapshot) -> Verdict:
    for row in DECISION_RULES:
        if row.decide is _open_tool_calls:
            judged = decide_open_tool_calls(snapshot)
            if judged is not None:
                return Verdict(*judged, snapshot)
        elif (decision := row.decide(snapshot)) is not None:
            return Verdict(row.name, decision, snapshot)
    raise AssertionError("the last rule matches everything")


def _terminated(snapshot: Snapshot) -> Decision | None:
    return Idle("terminated") if is_terminated(snapshot.tree) else None


def _open_tool_calls(_: Snapshot) -> Decision | None:
    """Placeholder for the rules of `open_tool_calls.py`, which decide each open tool call."""
    return None


def _retry(_: Snapshot) -> Decision | None:
    """Placeholder for `or_retry_delivery`, which runs after the other rules."""
    return None


def _cancel_requested(snapshot: Snapshot) -> Decision | None:
    under_way = (
        snapshot.pending.open_tool_calls
        or snapshot.pending.interrupted
        or snapshot.state.ends_in in ("prompt", "result", "faulted")
    )
    requests = [queued for queued in snapshot.pending.queue if queued.mode == "cancel"]
    return CancelTurn(requests[0]) if requests and under_way else None


def _cancelled(snapshot: Snapshot) -> Decision | None:
    if snapshot.state.ends_in != "cancelled":
        return None
    return _follow_up(snapshot, any_mode=True) or Idle("cancelled")


def _interrupted_reply(snapshot: Snapshot) -> Decision | None:
    call = next(
        (
            annotation.value
            for annotation in snapshot.branch.annotations
            if annotation.id == snapshot.pending.interrupted
        ),
        None,
    )
    if not isinstance(call, ModelCall):
        return None
    return too_many_faults(snapshot) or RecoverReply(
        call.reply_id, recovery_strategy(snapshot, call.reply_id), call.strategy
    )


def _faulted(snapshot: Snapshot) -> Decision | None:
    if snapshot.state.ends_in == "failed":
        return _follow_up(snapshot, any_mode=True) or Idle("failed")
    fault = last_fault(snapshot.branch) if snapshot.state.ends_in == "faulted" else None
    if fault is None:
        return None
    failed = too_many_faults(snapshot)
    if failed is not None:
        return failed
    until_ms = retry_at_ms(fault, consecutive_faults(snapshot), snapshot.now_ms)
    sooner = next_retry(snapshot, until_ms)
    if sooner is not None:
        return sooner
    return Await(until_ms=until_ms) if snapshot.now_ms < until_ms else _model_call_or_compaction(snapshot)


def _unknown_approvals(snapshot: Snapshot) -> Decision | None:
    if not (snapshot.pending.interrupted or snapshot.state.ends_in in ("prompt", "result", "faulted")):
        return None
    fault = snapshot.tools.approvals_fault(snapshot.state.context, snapshot.policy)
    return FailTurn("approvals", fault) if fault else None


def _compaction_requested(snapshot: Snapshot) -> Decision | None:
    if snapshot.pending.interrupted or snapshot.state.ends_in == "faulted":
        # An interrupted reply or a retryable fault is handled first; a turn that has failed for good does not block.
        return None
    for queued in snapshot.pending.queue:
        kept = queued.keep or plan_compaction(snapshot.branch, snapshot.policy.keep)
        if queued.mode == "compact" and kept is not None and can_keep_from(snapshot.branch, kept):
            instructions = queued.message.text if queued.message is not None else ""
            return Compact(kept, "manual", instructions, queued.id)
    return None


def _steer(snapshot: Snapshot) -> Decision | None:
    return next((TakeQueued(queued) for queued in snapshot.pending.queue if queued.mode == "steer"), None)


def _unanswered(snapshot: Snapshot) -> Decision | None:
    return _model_call_or_compaction(snapshot) if snapshot.state.ends_in in ("prompt", "result", "faulted") else None


def _follow_up(snapshot: Snapshot, *, any_mode: bool = False) -> Decision | None:
    modes = ("steer", "followUp") if any_mode else ("followUp",)
    return next((TakeQueued(queued) for queued in snapshot.pending.queue if queued.mode in modes), None)


def _idle(_: Snapshot) -> Decision | None:
    return Idle()


def _model_call_or_compaction(snapshot: Snapshot) -> Decision:
    """Decide how to get a reply: call the model, unless `steps_max` is reached or the context must be compacted first.

    Where compaction cannot help, the model is called with a token budget instead.
    """
    policy = snapshot.policy
    if snapshot.state.steps >= policy.steps_max:
        return FailTurn("steps", wording.TOO_MANY_STEPS.format(steps=snapshot.state.steps))
    overflow = overflow_limit(snapshot)
    limit = min(filter(None, (policy.compact_at, overflow)), default=0)
    if not limit or build_context(snapshot.branch, policy.strategy, state=snapshot.state).tokens <= limit:
        return CallModel(policy.strategy)
    keep = min(policy.keep, overflow // 2) if overflow else policy.keep
    first_kept = None if is_compaction_exhausted(snapshot.branch) else plan_compaction(snapshot.branch, keep)
    return Compact(first_kept) if first_kept is not None else CallModel(f"budget:{limit}")


DECISION_RULES = (
    Rule("terminated", "is terminated", "Idle", _terminated),
    Rule(
        "owed",
        "has a reply of a model call that was not sent to one of the channels that the call names; or one of these may "
        "show a part of a reply that is not continued",
        "Deliver, under the same id, or close the part; skipped while the channel is not attached or waits for its "
        "next attempt",
        next_delivery,
    ),
    Rule("cancel", "has a turn in progress that a person has asked to cancel", "CancelTurn", _cancel_requested),
    Rule("open calls", "has open tool calls", "decide each by the rules below", _open_tool_calls),
    Rule(
        "approvals",
        "has a turn in progress, and the policy names a tool in `approvals` that does not exist",
        "FailTurn",
        _unknown_approvals,
    ),
    Rule(
        "damage",
        "has lost entries since its last compaction, and a model call comes next",
        "unknown = tell: ReportDamage, once; unknown = ask: AskAboutDamage, then ReportDamage with the decision",
        decide_damage,
    ),
    Rule(
        "outcome answered",
        "has a tool call of unknown outcome that a person has answered about, and a model call comes next",
        "ReportOutcomes, once",
        decide_outcomes,
    ),
    Rule(
        "fold asked",
        "a person has asked for a compaction, there is something to compact, and no model call must be retried first",
        "Compact, once",
        _compaction_requested,
    ),
    Rule("cancelled", "ends in a cancelled turn", "TakeQueued (the oldest message), else Idle", _cancelled),
    Rule(
        "cut",
        "has an interrupted reply",
        "below faults_max: RecoverReply (resume or replace); else FailTurn",
        _interrupted_reply,
    ),
    Rule(
        "fault",
        "ends in a failed model call",
        "retryable and below faults_max: Await the retry time, then CallModel (a delivery that is due earlier goes "
        "first); else TakeQueued, else Idle (failed)",
        _faulted,
    ),
    Rule("steer", "has a queued steer message", "TakeQueued", _steer),
    Rule(
        "answer",
        "ends in a prompt or in tool results",
        "at steps_max: FailTurn; context over compact_at or too long for the provider: Compact, or CallModel with a "
        "smaller window if compaction cannot help; else CallModel",
        _unanswered,
    ),
    Rule("follow-up", "has a queued follow-up message", "TakeQueued (the oldest)", _follow_up),
    Rule(
        "retry",
        "would be idle or wait for a person, and a failed delivery is to be retried",
        "Await the retry time, then Deliver, under the same id; after three failures it stays undelivered",
        _retry,
    ),
    Rule("rest", "anything else", "Idle", _idle),
)

"""Retries: when a failed model call or a failed delivery is tried again, and how an interrupted reply is recovered.

Everything is derived from the log, so every worker waits equally long and gives up after the same number of faults.
Rule 1: a channel gets its replies in order. While one waits for its next attempt, later ones wait behind it; a reply
that has used up its attempts is skipped.
Rule 2: one worker tries a reply `SENDS_MAX` times. Once a channel has failed that often with one reply, each of the
others is tried once. The next worker counts from zero.
Rule 3: waiting for a channel blocks nothing else. While there is other work, the current time is taken from the last
entry of the log; the clock is used only if there is none. An entry's timestamp is later than the decision that led to
it, so two rules that both read the clock could be decided differently in a replay.
"""

from collections.abc import Iterator
from typing import Literal

from wakelog.decide import wording
from wakelog.decide.decisions import Await, Deliver, FailTurn, Snapshot
from wakelog.decide.policy import SENDS_MAX
from wakelog.decide.timing import retry_delay_ms
from wakelog.log.content import AnyPart, Content, Prompt, Text
from wakelog.log.entry import (
    Cancelled,
    Compaction,
    Entry,
    Failed,
    Message,
    ModelCall,
    Partial,
    SendFailed,
    UndeliveredReply,
)
from wakelog.log.timestamps import parse_ms
from wakelog.log.tree import Branch
from wakelog.projections.deliveries import PendingDeliveries

CONTEXT_OVERFLOW = "context_overflow"
"""The error kind of a provider that rejects the context as too long. It needs a shorter context, not a delay."""


def too_many_faults(snapshot: Snapshot) -> FailTurn | None:
    """Return the decision to end the turn if it has reached `faults_max`, else None."""
    faults = consecutive_faults(snapshot)
    if faults < snapshot.policy.faults_max:
        return None
    fault = last_fault(snapshot.branch) if snapshot.state.ends_in == "faulted" else None
    error = fault.value.error if fault is not None and isinstance(fault.value, Failed) else None
    why = wording.LAST_FAULT.format(why=error.message or error.kind) if error is not None else ""
    return FailTurn("faults", wording.TOO_MANY_FAULTS.format(faults=faults) + why)


def consecutive_faults(snapshot: Snapshot) -> int:
    """Return the number of consecutive failed model calls. Under resume, a call that gained text resets the count."""
    calls = _without_ended_elsewhere(snapshot, _calls_since_last_message(snapshot.branch))
    if snapshot.policy.cut == "replace":
        return len(calls)
    longest, count = 0, 0
    for call, seq in calls:
        chars = _partial_chars(snapshot.branch, call.reply_id, seq)
        count = 0 if chars > longest else count + 1
        longest = max(longest, chars)
    return count


def _without_ended_elsewhere(snapshot: Snapshot, calls: list[tuple[ModelCall, int]]) -> list[tuple[ModelCall, int]]:
    """Drop calls whose reply or failure is on another branch: those attempts do not count on this one."""
    if not calls:
        return []
    nodes, on_branch = snapshot.tree.nodes, {node.id for node in snapshot.branch.nodes}
    failed = {
        node.value.call_id for node in nodes.values() if isinstance(node.value, Failed) and node.id not in on_branch
    }
    return [(call, seq) for call, seq in calls if call.reply_id not in nodes and call.key not in failed]


def _calls_since_last_message(branch: Branch) -> list[tuple[ModelCall, int]]:
    on_branch: set[str] = set()
    for node in reversed(branch.nodes):
        on_branch.add(node.id)
        if isinstance(node.value, Message | Cancelled | Compaction):
            break
    return [
        (annotation.value, annotation.seq)
        for annotation in branch.annotations
        if type(annotation.value) is ModelCall
        and annotation.value.purpose == "reply"
        and annotation.value.parent_id in on_branch
    ]


def _partial_chars(branch: Branch, reply_id: str, since: int) -> int:
    """Return the text length of the first `partial` entry of a reply after the seq `since`; 0 without one."""
    for annotation in branch.annotations:
        if isinstance(annotation.value, Partial) and annotation.value.reply_id == reply_id and annotation.seq > since:
            return len(_content_text(annotation.value.content))
    return 0


def recovery_strategy(snapshot: Snapshot, reply_id: str) -> Literal["replace", "resume"]:
    """Return how to recover an interrupted reply: resume if the policy says so and it is plain, unclipped text only."""
    sealed = [annotation.value for annotation in snapshot.branch.annotations if isinstance(annotation.value, Partial)]
    last = next((partial for partial in reversed(sealed) if partial.reply_id == reply_id), None)
    resumable = last is not None and _content_text(last.content) and all(map(_is_whole_text, last.content))
    return "resume" if resumable and snapshot.policy.cut == "resume" else "replace"


def _is_whole_text(part: AnyPart | str) -> bool:
    return isinstance(part, Text) and part.blob is None


def overflow_limit(snapshot: Snapshot) -> int:
    """Return the context limit in tokens after the provider rejected a context as too long; 0 if it has not.

    Providers count tokens in unknown ways: the limit is the shortest rejected estimate times 3/4 for each rejection.
    """
    failed = {
        node.value.call_id
        for node in snapshot.branch.nodes
        if type(node.value) is Failed and node.value.error is not None and node.value.error.kind == CONTEXT_OVERFLOW
    }
    calls = [call for call, _ in _calls_since_last_message(snapshot.branch) if call.key in failed]
    shortest = min((call.tokens_estimate or 0 for call in calls), default=0)
    return max(1, shortest * 3 ** len(calls) // 4 ** len(calls)) if calls else 0


def _content_text(content: Content) -> str:
    return Prompt(content=content).text


def last_fault(branch: Branch) -> Entry | None:
    """Return the last fault of the branch, or None if a compaction follows it: its delay is then over."""
    for node in reversed(branch.nodes):
        if isinstance(node.value, Failed):
            return node
        if isinstance(node.value, Compaction):
            return None
    return None


def retry_at_ms(fault: Entry, faults: int, now_ms: int) -> int:
    """Return the time of the fault plus its delay; `now_ms` if the fault is dated in the future, after a clock jump."""
    value = fault.value
    assert isinstance(value, Failed)
    failed_ms = parse_ms(value.timestamp) or 0
    delay_ms = retry_delay_ms(fault.id, faults, value.error.delay_ms if value.error else None)
    return failed_ms + delay_ms if failed_ms <= now_ms else now_ms


def next_delivery(snapshot: Snapshot) -> Deliver | None:
    """Return the first send that is not waiting for a retry, by the time of the last entry."""
    now_ms = _last_entry_ms(snapshot)
    for reply, failed in _next_of_each_channel(snapshot):
        if failed is None or not _is_waiting(failed, now_ms):
            return _deliver(reply)
    return None


def next_retry(snapshot: Snapshot, before_ms: int | None = None) -> Deliver | Await | None:
    """Return the next retry by the clock: send it, or wait for its time. None if none is due by `before_ms`."""
    waiting = [(_due_ms(failed), reply, failed) for reply, failed in _waiting_retries(snapshot)]
    if not waiting:
        return None
    due_ms, reply, failed = min(waiting, key=lambda each: each[0])
    if before_ms is not None and due_ms > before_ms:
        return None
    return Await(until_ms=due_ms) if _is_waiting(failed, snapshot.now_ms) else _deliver(reply)


def failed_attempts(deliveries: PendingDeliveries, reply_id: str, channel: str) -> int:
    """Return how often this worker has failed to send a reply to a channel."""
    failed = _failures(deliveries).get((reply_id, channel))
    return failed.attempt if failed is not None else 0


def has_waiting_retry(deliveries: PendingDeliveries, channel: str) -> bool:
    """Whether an earlier reply waits for a retry on a channel; a new reply is then not streamed to it."""
    failures = _failures(deliveries)
    replies = (reply for reply in deliveries.undelivered if reply.channel == channel)
    return any(_may_try(reply, failures) and _key(reply) in failures for reply in replies)


def _deliver(reply: UndeliveredReply) -> Deliver:
    return Deliver(reply.reply_id, reply.channel, reply.interrupted)


def _waiting_retries(snapshot: Snapshot) -> Iterator[tuple[UndeliveredReply, SendFailed]]:
    return ((reply, failed) for reply, failed in _next_of_each_channel(snapshot) if failed is not None)


def _next_of_each_channel(snapshot: Snapshot) -> list[tuple[UndeliveredReply, SendFailed | None]]:
    """Return, for each attached channel, the reply to send next and its last failed attempt, if any."""
    failures = _failures(snapshot.deliveries)
    first: dict[str, UndeliveredReply] = {}
    for reply in snapshot.deliveries.undelivered:
        if reply.channel in snapshot.channels and _may_try(reply, failures):
            first.setdefault(reply.channel, reply)
    return [(reply, failures.get(_key(reply))) for reply in first.values()]


def _may_try(reply: UndeliveredReply, failures: dict[tuple[str, str], SendFailed]) -> bool:
    """Whether this worker may still try this send."""
    failed = failures.get(_key(reply))
    if failed is None:
        return True
    is_given_up = any(each.channel == reply.channel and each.attempt >= SENDS_MAX for each in failures.values())
    return not is_given_up


def _failures(deliveries: PendingDeliveries) -> dict[tuple[str, str], SendFailed]:
    return {(failed.reply_id, failed.channel): failed for failed in deliveries.send_failed}


def _key(reply: UndeliveredReply) -> tuple[str, str]:
    return reply.reply_id, reply.channel


def _due_ms(failed: SendFailed) -> int:
    return (parse_ms(failed.timestamp) or 0) + retry_delay_ms(failed.id, failed.attempt, None)


def _is_waiting(failed: SendFailed, now_ms: int) -> bool:
    """Whether a failed send waits for its retry time. A failure dated in the future, after a clock jump, does not."""
    return (parse_ms(failed.timestamp) or 0) <= now_ms < _due_ms(failed)


def _last_entry_ms(snapshot: Snapshot) -> int:
    last = max(
        (*snapshot.branch.nodes[-1:], *snapshot.branch.annotations[-1:]), key=lambda entry: entry.seq, default=None
    )
    return (parse_ms(last.value.timestamp) if last is not None else None) or 0

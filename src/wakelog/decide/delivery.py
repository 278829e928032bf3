"""Delivery of replies to channels: which reply is sent next, and when a failed send is retried.

Rule 1: a channel gets its replies in order. While one waits for its next attempt, later ones wait behind it; a reply
that has used up its attempts is skipped.
Rule 2: one worker tries a reply `SENDS_MAX` times. Once a channel has failed that often with one reply, each of the
others is tried once. The next worker counts from zero.
Rule 3: waiting for a channel blocks nothing else. While there is other work, the current time is taken from the last
entry of the log; the clock is used only if there is none. An entry's timestamp is later than the decision that led to
it, so two rows that both read the clock could be decided differently in a replay.
"""

from collections.abc import Iterator

from wakelog.decide.decisions import Await, Deliver
from wakelog.decide.policy import SENDS_MAX, retry_delay_ms
from wakelog.decide.snapshot import Snapshot
from wakelog.log.entry import Owed, SendFailed
from wakelog.log.times import parse_ms
from wakelog.projections.state import BranchState


def ready_send(snapshot: Snapshot) -> Deliver | None:
    """Return the first send that is not waiting for a retry, by the time of the last entry."""
    if snapshot.rules < 2:
        debts = (debt for debt in snapshot.open.owed if debt.channel in snapshot.attached)
        return next((Deliver(debt.reply_id, debt.channel) for debt in debts), None)
    now_ms = _time_of_the_log(snapshot)
    for debt, failed in _next_of_each_channel(snapshot):
        if failed is None or not _is_waiting(failed, now_ms):
            return Deliver(debt.reply_id, debt.channel)
    return None


def retried_send(snapshot: Snapshot, before_ms: int | None = None) -> Deliver | Await | None:
    """Return the next retry by the clock: send it, or wait for its time. None if none is due by `before_ms`."""
    waiting = [] if snapshot.rules < 2 else [(_due_ms(failed), debt, failed) for debt, failed in _retries(snapshot)]
    if not waiting:
        return None
    due_ms, debt, failed = min(waiting, key=lambda each: each[0])
    if before_ms is not None and due_ms > before_ms:
        return None
    return Await(until_ms=due_ms) if _is_waiting(failed, snapshot.now_ms) else Deliver(debt.reply_id, debt.channel)


def attempts(state: BranchState, reply_id: str, channel: str) -> int:
    """Return how often this worker has failed to send a reply to a channel."""
    failed = _failures(state).get((reply_id, channel))
    return failed.attempt if failed is not None else 0


def is_behind(state: BranchState, channel: str) -> bool:
    """Whether an earlier reply waits for a retry on a channel; a new reply is then not streamed to it."""
    failures = _failures(state)
    return any(_is_left(debt, failures) and _key(debt) in failures for debt in state.owed if debt.channel == channel)


def _retries(snapshot: Snapshot) -> Iterator[tuple[Owed, SendFailed]]:
    return ((debt, failed) for debt, failed in _next_of_each_channel(snapshot) if failed is not None)


def _next_of_each_channel(snapshot: Snapshot) -> list[tuple[Owed, SendFailed | None]]:
    """Return, for each attached channel, the reply to send next and its last failed attempt, if any."""
    failures = _failures(snapshot.state)
    first: dict[str, Owed] = {}
    for debt in snapshot.open.owed:
        if debt.channel in snapshot.attached and _is_left(debt, failures):
            first.setdefault(debt.channel, debt)
    return [(debt, failures.get(_key(debt))) for debt in first.values()]


def _is_left(debt: Owed, failures: dict[tuple[str, str], SendFailed]) -> bool:
    """Whether this worker may still try this send."""
    failed = failures.get(_key(debt))
    if failed is None:
        return True
    is_given_up = any(each.channel == debt.channel and each.attempt >= SENDS_MAX for each in failures.values())
    return not is_given_up


def _failures(state: BranchState) -> dict[tuple[str, str], SendFailed]:
    return {(failed.reply_id, failed.channel): failed for failed in state.send_failed}


def _key(debt: Owed) -> tuple[str, str]:
    return debt.reply_id, debt.channel


def _due_ms(failed: SendFailed) -> int:
    return (parse_ms(failed.timestamp) or 0) + retry_delay_ms(failed.id, failed.attempt, None)


def _is_waiting(failed: SendFailed, now_ms: int) -> bool:
    """Whether a failed send waits for its retry time. A failure dated in the future, after a clock jump, does not."""
    return (parse_ms(failed.timestamp) or 0) <= now_ms < _due_ms(failed)


def _time_of_the_log(snapshot: Snapshot) -> int:
    last = max(
        (*snapshot.branch.nodes[-1:], *snapshot.branch.annotations[-1:]), key=lambda entry: entry.seq, default=None
    )
    return (parse_ms(last.value.timestamp) if last is not None else None) or 0

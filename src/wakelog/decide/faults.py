"""Failed model calls: how many in a row, when to retry, and how to recover an interrupted reply.

Everything is derived from the log, so every worker waits equally long and gives up after the same number of faults.
"""

from typing import Literal

from wakelog.decide import wording as words
from wakelog.decide.decisions import Fail
from wakelog.decide.policy import retry_delay_ms
from wakelog.decide.snapshot import Snapshot
from wakelog.log.content import AnyPart, Content, Prompt, Text
from wakelog.log.entry import Call, Cancelled, Compaction, Entry, Failed, Message, Partial
from wakelog.log.times import parse_ms
from wakelog.log.tree import Branch

OVERFLOW = "context_overflow"
"""The error kind of a provider that rejects the context as too long. It needs a shorter context, not a delay."""


def too_many_faults(snapshot: Snapshot) -> Fail | None:
    """Return the decision to end the turn if it has reached `faults_max`, else None."""
    faults = faults_in_a_row(snapshot)
    if faults < snapshot.policy.faults_max:
        return None
    fault = last_fault(snapshot.branch) if snapshot.state.ends_in == "faulted" else None
    error = fault.value.error if fault is not None and isinstance(fault.value, Failed) else None
    why = words.LAST_FAULT.format(why=error.message or error.kind) if error is not None else ""
    return Fail("faults", words.FAULTS.format(faults=faults) + why)


def faults_in_a_row(snapshot: Snapshot) -> int:
    """Return the number of consecutive failed model calls. Under resume, a call that gained text resets the count."""
    calls = _without_ended_elsewhere(snapshot, _calls_since_the_last_word(snapshot.branch))
    if snapshot.policy.cut == "replace":
        return len(calls)
    longest, count = 0, 0
    for call, seq in calls:
        chars = _partial_chars(snapshot.branch, call.reply_id, seq)
        count = 0 if chars > longest else count + 1
        longest = max(longest, chars)
    return count


def _without_ended_elsewhere(snapshot: Snapshot, calls: list[tuple[Call, int]]) -> list[tuple[Call, int]]:
    """Drop calls whose reply or failure is on another branch: those attempts do not count on this one."""
    if not calls:
        return []
    nodes, here = snapshot.tree.nodes, {node.id for node in snapshot.branch.nodes}
    failed = {node.value.call_id for node in nodes.values() if isinstance(node.value, Failed) and node.id not in here}
    return [(call, seq) for call, seq in calls if call.reply_id not in nodes and call.key not in failed]


def _calls_since_the_last_word(branch: Branch) -> list[tuple[Call, int]]:
    here: set[str] = set()
    for node in reversed(branch.nodes):
        here.add(node.id)
        if isinstance(node.value, Message | Cancelled | Compaction):
            break
    return [
        (annotation.value, annotation.seq)
        for annotation in branch.annotations
        if isinstance(annotation.value, Call)
        and annotation.value.purpose == "reply"
        and annotation.value.parent_id in here
    ]


def _partial_chars(branch: Branch, reply_id: str, since: int) -> int:
    """Return the text length of the first `partial` entry of a reply after the seq `since`; 0 without one."""
    for annotation in branch.annotations:
        if isinstance(annotation.value, Partial) and annotation.value.reply_id == reply_id and annotation.seq > since:
            return len(_text(annotation.value.content))
    return 0


def way_to_mend(snapshot: Snapshot, reply_id: str) -> Literal["replace", "resume"]:
    """Return how to recover an interrupted reply: resume if the policy says so and it is plain, unclipped text only."""
    sealed = [annotation.value for annotation in snapshot.branch.annotations if isinstance(annotation.value, Partial)]
    last = next((partial for partial in reversed(sealed) if partial.reply_id == reply_id), None)
    resumable = last is not None and _text(last.content) and all(map(_is_whole_text, last.content))
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
        if isinstance(node.value, Failed) and node.value.error is not None and node.value.error.kind == OVERFLOW
    }
    calls = [call for call, _ in _calls_since_the_last_word(snapshot.branch) if call.key in failed]
    shortest = min((call.tokens_estimate or 0 for call in calls), default=0)
    return max(1, shortest * 3 ** len(calls) // 4 ** len(calls)) if calls else 0


def _text(content: Content) -> str:
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

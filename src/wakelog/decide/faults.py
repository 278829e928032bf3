"""Calls that came to nothing: how many in a row, when to try again, and how to go on from a cut reply.

All of it is read from the log, so a worker that never saw the faults waits as long, and gives up as
soon, as the one that met them.
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
"""The kind of fault that says: the context is too long. It is cured by a shorter one, not by waiting."""


def too_many_faults(snapshot: Snapshot) -> Fail | None:
    """The end of the turn, if it has met its bound."""
    faults = faults_in_a_row(snapshot)
    if faults < snapshot.policy.faults_max:
        return None
    fault = last_fault(snapshot.branch) if snapshot.state.ends_in == "faulted" else None
    error = fault.value.error if fault is not None and isinstance(fault.value, Failed) else None
    why = words.LAST_FAULT.format(why=error.message or error.kind) if error is not None else ""
    return Fail("faults", words.FAULTS.format(faults=faults) + why)


def faults_in_a_row(snapshot: Snapshot) -> int:
    """How many calls in a row came to nothing. Under resume, one that gained words begins the count anew."""
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
    """Without those whose reply, or failure, stands on a branch that was left since: that try is not this one's."""
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
    """How far the first sealing behind a call says that its reply had come."""
    for annotation in branch.annotations:
        if isinstance(annotation.value, Partial) and annotation.value.reply_id == reply_id and annotation.seq > since:
            return len(_text(annotation.value.content))
    return 0


def way_to_mend(snapshot: Snapshot, reply_id: str) -> Literal["replace", "resume"]:
    """Only whole plain words can be continued: not half a tool call, half a thought, or a text that was clipped."""
    sealed = [annotation.value for annotation in snapshot.branch.annotations if isinstance(annotation.value, Partial)]
    last = next((partial for partial in reversed(sealed) if partial.reply_id == reply_id), None)
    resumable = last is not None and _text(last.content) and all(map(_is_whole_text, last.content))
    return "resume" if resumable and snapshot.policy.cut == "resume" else "replace"


def _is_whole_text(part: AnyPart | str) -> bool:
    return isinstance(part, Text) and part.blob is None


def overflow_limit(snapshot: Snapshot) -> int:
    """How many tokens a context may have, now that the provider has found one too long; 0 if it has not.

    Nobody here knows how a provider counts: three quarters of what was too long, and again with every refusal.
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
    """The fault that the branch ends in, unless a fold has been made since: then it was waited for."""
    for node in reversed(branch.nodes):
        if isinstance(node.value, Failed):
            return node
        if isinstance(node.value, Compaction):
            return None
    return None


def retry_at_ms(fault: Entry, faults: int, now_ms: int) -> int:
    """The fault's time and its delay. A fault that lies ahead, because clocks have jumped, has been waited for."""
    value = fault.value
    assert isinstance(value, Failed)
    failed_ms = parse_ms(value.timestamp) or 0
    delay_ms = retry_delay_ms(fault.id, faults, value.error.delay_ms if value.error else None)
    return failed_ms + delay_ms if failed_ms <= now_ms else now_ms

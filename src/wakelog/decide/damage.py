"""Damage notices: when the model is informed about damage in the log, and the text of the notice.

Rule 1 (law 6, never twice): before the next model call, the context names every hole in the log since the last
compaction, and every tool that a lost reply may have started. Otherwise the model would repeat the lost turn and its
tool calls.
Rule 2: each hole is reported once per branch; the entry of the notice names it by offset and digest.
Rule 3: if the policy lets a person decide about unknown outcomes, a person is asked first.
"""

from wakelog.decide import wording
from wakelog.decide.decisions import AskAboutDamage, Await, Decision, ReportDamage, Snapshot
from wakelog.log.codec import canonical_json
from wakelog.log.content import BaseMessage
from wakelog.log.entry import Attention, AttentionResolved
from wakelog.projections.losses import Losses, LostTool, losses

DAMAGE_REASON = "damage"
"""The `reason` of an `attention` entry that asks about damage."""

_OUTCOME_TEXTS = {
    "ran": wording.DAMAGE_RAN,
    "did not run": wording.DAMAGE_DID_NOT_RUN,
}


def decide_damage(snapshot: Snapshot) -> Decision | None:
    """Decide what to do about holes in the log before the next model call; None if there is nothing to report."""
    if not precedes_model_call(snapshot):
        return None
    found = losses(snapshot.tree, snapshot.branch)
    if found is None:
        return None
    if snapshot.policy.unknown == "tell":
        return ReportDamage(found)
    question = _question(snapshot, found)
    if question is None:
        return AskAboutDamage(found)
    answer = _answer(snapshot, question)
    return Await(attention=(question.id,)) if answer is None else ReportDamage(found, answer)


def precedes_model_call(snapshot: Snapshot) -> bool:
    """Whether a model call comes next, for a reply or for a summary that would cover the damage."""
    unanswered = snapshot.state.ends_in in ("prompt", "result", "faulted")
    wants_summary = any(queued.mode == "compact" for queued in snapshot.pending.queue)
    return bool(snapshot.pending.interrupted) or unanswered or wants_summary


def _question(snapshot: Snapshot, found: Losses) -> Attention | None:
    """Return the question that was asked about exactly these holes, if any."""
    questions = [
        annotation.value for annotation in snapshot.branch.annotations if isinstance(annotation.value, Attention)
    ]
    return next(
        (
            question
            for question in questions
            if question.reason == DAMAGE_REASON and set(question.refs) == set(found.refs)
        ),
        None,
    )


def _answer(snapshot: Snapshot, question: Attention) -> AttentionResolved | None:
    resolved = [
        annotation.value
        for annotation in snapshot.branch.annotations
        if isinstance(annotation.value, AttentionResolved)
    ]
    return next((answer for answer in resolved if answer.attention_id == question.id), None)


def notice_text(found: Losses, answer: AttentionResolved | None = None) -> str:
    """Return the notice for the model about the holes and the tools of lost replies."""
    paragraphs = [wording.DAMAGE_HOLES.format(places=len(found.holes))]
    if found.tools:
        paragraphs.append("\n".join((wording.DAMAGE_TOOLS, *(f"- {_tool_text(tool)}" for tool in found.tools))))
    else:
        paragraphs.append(wording.DAMAGE_NO_TRACE)
    if found.delivered:
        paragraphs.append(wording.DAMAGE_SENT.format(count=len(found.delivered)))
    if answer is not None and answer.result is not None:
        paragraphs.append(wording.DAMAGE_SAID.format(said=BaseMessage(content=answer.result).text))
    elif answer is not None and answer.decision in _OUTCOME_TEXTS:
        paragraphs.append(_OUTCOME_TEXTS[answer.decision])
    return "\n\n".join((*paragraphs, wording.DAMAGE_CHECK))


def _tool_text(tool: LostTool) -> str:
    name = f"{tool.name or 'a tool'} (call {tool.tool_call_id}): its input is lost"
    if tool.intent:
        name = f"{name}; before it started it noted {canonical_json(tool.intent).decode()}"
    if tool.result is not None:
        return (
            f"{name}; it ended with the status {tool.result.effective_status}, and its result was:\n{tool.result.text}"
        )
    return f"{name}; it had started and its outcome is unknown. It was not run again."

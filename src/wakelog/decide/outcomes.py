"""Answers of people about unknown outcomes: when the model is told, and the text.

The person's entry may be written at any time, also while a worker runs the session. The worker, or the recording
program, tells the model before the next request, once (law 8: as a new message, behind all that was sent before).
"""

from wakelog.decide import wording
from wakelog.decide.damage import precedes_model_call
from wakelog.decide.decisions import Decision, ReportOutcomes, Snapshot
from wakelog.log.content import BaseMessage, Text
from wakelog.log.entry import Custom, UnknownOutcome
from wakelog.log.tree import Tree
from wakelog.projections.session_state import session_state
from wakelog.projections.unknown_outcomes import OUTCOME_NOTICE, may_have_untold_answers

_ANSWERS = {"ran": wording.OUTCOME_RAN, "did not run": wording.OUTCOME_DID_NOT_RUN}
_CALL_MAX_BYTES = 500


def decide_outcomes(snapshot: Snapshot) -> Decision | None:
    """Decide to tell the model what people have answered, before the next model call; None if there is nothing."""
    if not precedes_model_call(snapshot):
        return None
    answered = untold_answers(snapshot.tree)
    return ReportOutcomes(answered) if answered else None


def untold_answers(tree: Tree) -> tuple[UnknownOutcome, ...]:
    """Return the unknown outcomes with an answer that the model was not told yet."""
    if not may_have_untold_answers(tree):
        return ()
    return tuple(outcome for outcome in session_state(tree).unknown_outcomes if outcome.answer_id is not None)


def outcome_notice(answered: tuple[UnknownOutcome, ...]) -> Custom:
    """Return the entry that tells the model the answers."""
    text = "\n\n".join(BaseMessage(content=outcome.answer).text for outcome in answered)
    data = {"answers": [outcome.answer_id for outcome in answered]}
    return Custom(custom_type=OUTCOME_NOTICE, data=data, in_context=True, content=(Text(text=text),))


def answer_text(call: str, decision: str, said: str | None) -> str | None:
    """Return what the model is told of a person's decision about a tool call; None if it is told nothing."""
    shown = wording.clip(call, _CALL_MAX_BYTES)[0]
    if said is not None:
        return wording.OUTCOME_SAID.format(call=shown, said=said)
    return _ANSWERS[decision].format(call=shown) if decision in _ANSWERS else None

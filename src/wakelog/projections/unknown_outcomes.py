"""Tool calls of a session whose outcome is unknown, until a person's entry answers or dismisses them.

They belong to the whole session, not to a branch: the effect of a tool stays wherever the head is moved. The results
of workers, of recording programs and of forks (for the calls that were open in the parent) count; a copy does not,
because the original does, and neither does history that a fork inherits or that was imported from another agent.
"""

import msgspec

from wakelog.log.content import ToolResult
from wakelog.log.entry import Attention, AttentionResolved, Compaction, Custom, Entry, Message, UnknownOutcome
from wakelog.log.tree import Tree

OUTCOME_NOTICE = "wakelog.outcome"
"""The `customType` of the entry that tells the model what a person has answered; its data names the answers."""
DISMISSED = "dismiss"
"""The decision of a person who wants to hear no more of an unknown outcome. The model is not told."""


def add_unknown_result(outcomes: tuple[UnknownOutcome, ...], entry: Message) -> tuple[UnknownOutcome, ...]:
    """Return the unknown outcomes after a message that a worker or a fork has written."""
    result = entry.message
    if not isinstance(result, ToolResult) or result.status != "unknown" or result.copied_from is not None:
        return outcomes
    outcome = UnknownOutcome(
        result_id=entry.id,
        reply_id=result.reply_id,
        tool_call_id=result.tool_call_id,
        tool_name=result.tool_name,
        timestamp=entry.timestamp,
        seq=entry.seq,
    )
    return (*outcomes, outcome)


def apply_answer(outcomes: tuple[UnknownOutcome, ...], entry: AttentionResolved) -> tuple[UnknownOutcome, ...]:
    """Return the unknown outcomes after a person's decision. The first answer counts; later ones change nothing."""
    found = next((outcome for outcome in outcomes if outcome.result_id == entry.attention_id), None)
    if found is None or found.answer_id is not None:
        return outcomes
    if entry.decision == DISMISSED or not entry.result:
        return tuple(outcome for outcome in outcomes if outcome is not found)
    answered = msgspec.structs.replace(found, answer_id=entry.id, answer=entry.result)
    return tuple(answered if outcome is found else outcome for outcome in outcomes)


def remove_told_answers(outcomes: tuple[UnknownOutcome, ...], notice: Custom) -> tuple[UnknownOutcome, ...]:
    """Return the unknown outcomes after an entry that tells the model some of the answers."""
    if notice.custom_type != OUTCOME_NOTICE or not isinstance(notice.data, dict):
        return outcomes
    told = notice.data.get("answers")
    if not isinstance(told, list):
        return outcomes
    return tuple(outcome for outcome in outcomes if outcome.answer_id is None or outcome.answer_id not in told)


def may_have_untold_answers(tree: Tree) -> bool:
    """Whether the session may have answers that the model was not told. Looks only at entries that are few."""
    resolved = [entry.value for entry in tree.own_entries_of(AttentionResolved)]
    if any(_is_about_result(tree, value.attention_id) for value in resolved if isinstance(value, AttentionResolved)):
        return True
    compactions = [entry.value for entry in tree.own_entries_of(Compaction)]
    states = [value.state for value in compactions if isinstance(value, Compaction) and value.state is not None]
    return bool(states) and any(outcome.answer_id is not None for outcome in states[-1].unknown_outcomes)


def _is_about_result(tree: Tree, named: str) -> bool:
    """Whether a decision is not about an `attention` entry of this tree: about a tool result, or an older entry."""
    asked: Entry | None = tree.entry(named)
    return asked is None or not isinstance(asked.value, Attention)

"""LOG-18: which deltas of a model's reasoning are written and displayed."""

import pytest

from wakelog.decide.assembly import assemble_parts
from wakelog.errors import UsageError
from wakelog.log.content import Finished, Text, TextDelta, Thinking, ThinkingDelta, ToolCallDelta
from wakelog.runtime.model_request import ReasoningFilter, check_reasoning

SUMMARY = [ThinkingDelta("In ", summary=True), ThinkingDelta("short.", summary=True)]
OPEN = [ThinkingDelta("At "), ThinkingDelta("length.")]
SEAL = ThinkingDelta("", "sealed", {"id": "rs_1"})
TEXT = TextDelta("So.")


def kept(keeps, deltas):
    sieve = ReasoningFilter(keeps)
    return [heard for delta in deltas for heard in sieve.add(delta)]


def test_keep_changes_nothing():
    deltas = [*OPEN, SEAL, *SUMMARY, TEXT, ToolCallDelta("c", "x", {}), Finished()]
    assert kept("keep", deltas) == deltas


@pytest.mark.parametrize("keeps", ["summary", "drop"])
def test_open_reasoning_is_left_out(keeps):
    """LOG-18: neither its text nor the signature over that text is kept."""
    assert kept(keeps, [*OPEN, TEXT, Finished()]) == [TEXT, Finished()]
    assert kept(keeps, [*OPEN, SEAL, TEXT]) == [TEXT]


def test_drop_leaves_out_everything():
    """LOG-18: neither a summary nor encrypted reasoning is kept."""
    assert kept("drop", [*SUMMARY, SEAL, SEAL, TEXT]) == [TEXT]


def test_summary_keeps_summaries_and_encrypted_reasoning():
    """LOG-18, VIEW-5: encrypted reasoning that covers nothing else is sent back; it cannot be read here."""
    assert assemble_parts(kept("summary", [*SUMMARY, SEAL, TEXT])) == (
        Thinking(thinking="In short.", signature="sealed", bound={"id": "rs_1"}),
        Text(text="So."),
    )
    assert kept("summary", [SEAL, TEXT]) == [SEAL, TEXT]


def test_a_signature_over_text_that_is_left_out_is_left_out():
    """VIEW-5: the summary is kept and ends there; the next reasoning part has its own signature."""
    gap = ThinkingDelta("\n\n")
    assert assemble_parts(kept("summary", [*SUMMARY, gap, *OPEN, SEAL, *SUMMARY, SEAL])) == (
        Thinking(thinking="In short.", bound={}),
        Thinking(thinking="In short.", signature="sealed", bound={"id": "rs_1"}),
    )
    led = ThinkingDelta("\n\n", summary=True)
    assert assemble_parts(kept("summary", [*OPEN, led, *SUMMARY, SEAL])) == (Thinking(thinking="In short.", bound={}),)


def test_a_reasoning_part_ends_at_the_next_other_part():
    """LOG-18: text left out of one reasoning part does not affect the next."""
    assert kept("summary", [*OPEN, TEXT, SEAL]) == [TEXT, SEAL]


def test_reasoning_that_must_be_sent_back_cannot_be_left_out():
    """LOG-18: refused with a hint before any request, unless no reasoning is sent back."""
    check_reasoning("p", needs_back=True, reasoning="keep", params={})
    check_reasoning("p", needs_back=False, reasoning="drop", params={})
    check_reasoning("p", needs_back=True, reasoning="drop", params={"thinking": "drop"})
    for reasoning in ("summary", "drop"):
        with pytest.raises(
            UsageError, match=f"reasoning = '{reasoning}' does not work with p, which needs signed reasoning"
        ):
            check_reasoning("p", needs_back=True, reasoning=reasoning, params={})

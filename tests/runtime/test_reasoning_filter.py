"""LOG-18: what of a model's reasoning is written and shown, piece by piece."""

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
def test_reasoning_in_the_open_is_left_out(keeps):
    """LOG-18: neither its text nor the signature over that text."""
    assert kept(keeps, [*OPEN, TEXT, Finished()]) == [TEXT, Finished()]
    assert kept(keeps, [*OPEN, SEAL, TEXT]) == [TEXT]


def test_drop_leaves_out_everything():
    """LOG-18: no summary and nothing sealed either."""
    assert kept("drop", [*SUMMARY, SEAL, SEAL, TEXT]) == [TEXT]


def test_summary_keeps_summaries_and_what_is_sealed():
    """LOG-18, VIEW-5: a seal that covers nothing else goes back; it cannot be read here."""
    assert assemble_parts(kept("summary", [*SUMMARY, SEAL, TEXT])) == (
        Thinking(thinking="In short.", signature="sealed", bound={"id": "rs_1"}),
        Text(text="So."),
    )
    assert kept("summary", [SEAL, TEXT]) == [SEAL, TEXT]


def test_a_seal_over_what_is_left_out_goes():
    """VIEW-5: the summary stays and ends there; the next thought has its own seal."""
    gap = ThinkingDelta("\n\n")
    assert assemble_parts(kept("summary", [*SUMMARY, gap, *OPEN, SEAL, *SUMMARY, SEAL])) == (
        Thinking(thinking="In short.", bound={}),
        Thinking(thinking="In short.", signature="sealed", bound={"id": "rs_1"}),
    )
    led = ThinkingDelta("\n\n", summary=True)
    assert assemble_parts(kept("summary", [*OPEN, led, *SUMMARY, SEAL])) == (Thinking(thinking="In short.", bound={}),)


def test_a_thought_ends_where_something_else_begins():
    """LOG-18: what was left out of one thought says nothing about the next."""
    assert kept("summary", [*OPEN, TEXT, SEAL]) == [TEXT, SEAL]


def test_what_must_go_back_cannot_be_left_out():
    """LOG-18: said before anything is asked, with what to do; nothing goes back where none is to go back."""
    check_reasoning("p", needs_back=True, reasoning="keep", params={})
    check_reasoning("p", needs_back=False, reasoning="drop", params={})
    check_reasoning("p", needs_back=True, reasoning="drop", params={"thinking": "drop"})
    for reasoning in ("summary", "drop"):
        with pytest.raises(
            UsageError, match=f"reasoning = '{reasoning}' does not work with p, which needs signed reasoning"
        ):
            check_reasoning("p", needs_back=True, reasoning=reasoning, params={})

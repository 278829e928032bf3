"""Words that the runtime writes: framed once, and taken apart again for replay (law 11, VIEW-2)."""

from wakelog.decide.wording import SUMMARY_FRAMES, framed, unframed


def test_a_summary_is_framed_once_and_comes_back():
    """Law 11: what the model said is found again inside the message it became."""
    assert unframed(framed("  They talked.\n")) == "They talked."
    assert framed("x").startswith(SUMMARY_FRAMES[-1])


def test_a_summary_by_hand_has_no_frame():
    """VIEW-2: nobody adds or takes away words that are not there."""
    assert unframed("They talked.") == "They talked."

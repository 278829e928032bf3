"""Words that the runtime writes: framed once, and taken apart again for replay (law 11, VIEW-2)."""

from wakelog.decide.wording import SUMMARY_PREFIXES, with_summary_prefix, without_summary_prefix


def test_a_summary_is_framed_once_and_comes_back():
    """Law 11: what the model said is found again inside the message it became."""
    assert without_summary_prefix(with_summary_prefix("  They talked.\n")) == "They talked."
    assert with_summary_prefix("x").startswith(SUMMARY_PREFIXES[-1])


def test_a_summary_by_hand_has_no_frame():
    """VIEW-2: nobody adds or takes away words that are not there."""
    assert without_summary_prefix("They talked.") == "They talked."

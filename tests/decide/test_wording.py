"""Texts that the runtime writes: framed once, and unframed again for replay (law 11, VIEW-2)."""

from wakelog.decide.wording import SUMMARY_PREFIXES, with_summary_prefix, without_summary_prefix


def test_a_summary_is_framed_and_unframed():
    """Law 11: the model's text is found again inside the message made of it."""
    assert without_summary_prefix(with_summary_prefix("  They talked.\n")) == "They talked."
    assert with_summary_prefix("x").startswith(SUMMARY_PREFIXES[-1])


def test_a_summary_by_hand_has_no_frame():
    """VIEW-2: a summary without a frame stays as it is."""
    assert without_summary_prefix("They talked.") == "They talked."

"""Clip on entry (VIEW-6): a text that is too long keeps its head and tail, and says how much is missing."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.decide.wording import CLIP_BYTES, clip, valid_utf8
from wakelog.errors import UsageError

pieces = st.builds(lambda text, times: text * times, st.text("ab\n \r€☃𝄞é", min_size=1), st.integers(1, 200))
texts = st.lists(pieces, max_size=4).map("".join)
MARK = re.compile(r"\n\[… ([\d,]+) bytes left out …\]\n")


@given(texts, st.integers(128, 1_000))
def test_every_byte_is_kept_or_counted(text, limit):
    """Head and tail are the text's own whole characters within the limit, and the mark counts the rest."""
    clipped, truncated = clip(text, limit)
    assert len(clipped.encode()) <= limit
    assert truncated == (len(text.encode()) > limit)
    if not truncated:
        assert clipped == text
        return
    head, left_out, tail = MARK.split(clipped)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len((head + tail).encode()) + int(left_out.replace(",", "")) == len(text.encode())
    assert len((head + tail).encode()) > limit // 2


def test_lines_stay_whole_where_they_can():
    text = "".join(f"line {number}\n" for number in range(10_000))
    clipped, _ = clip(text)
    head, _, tail = MARK.split(clipped)
    assert f"{head}\n" in text
    assert head.startswith("line 0\n")
    assert f"\n{tail}" in text
    assert tail.endswith("line 9999\n")


def test_one_very_long_line_is_cut_inside():
    clipped, _ = clip("x" * 100_000)
    assert len(clipped) > CLIP_BYTES - 64


def test_a_limit_without_room_for_the_mark_is_an_error():
    with pytest.raises(UsageError):
        clip("text", 127)


def test_a_lone_surrogate_is_escaped():
    """Law 13: an unusual file name becomes text that a log can store."""
    assert valid_utf8("a\udcffb€") == "a\\udcffb€"

"""Texts are measured and cut by graphemes: no cut falls within one."""

import pytest
import wcwidth
from hypothesis import given
from hypothesis import strategies as st

from wakelog.cli.ui import terminal
from wakelog.cli.ui.terminal import TerminalStyle, clip, fit_end, fit_start, graphemes, text_width, wrap

FAMILY = "👨\u200d👩\u200d👧"
SIGNS = [FAMILY, "👩🏽\u200d💻", "❤\ufe0f\u200d🔥", "🇩🇪", "👍🏽", "1\ufe0f\u20e3", "⚠\ufe0f", "日"]
many = st.lists(st.sampled_from([*SIGNS, "a", "e\u0301", " "]), max_size=30)
widths = st.integers(1, 20)


@pytest.mark.parametrize("sign", SIGNS)
def test_a_grapheme_of_many_characters_is_two_columns_wide(sign):
    assert list(graphemes(f"a{sign}b")) == ["a", sign, "b"]
    assert text_width(f"a{sign}b") == 4
    assert clip(TerminalStyle(), sign * 5, 6) == f"{sign}{sign}…"
    assert wrap(sign * 5, 5) == [sign * 2, sign * 2, sign]


def test_a_combining_mark_belongs_to_its_letter():
    assert list(graphemes("e\u0301\u0323a")) == ["e\u0301\u0323", "a"]
    assert clip(TerminalStyle(), "e\u0301" * 4, 3) == "e\u0301" * 2 + "…"


@given(many, widths)
def test_no_cut_falls_within_a_grapheme(given_signs, width):
    """Beginning and end are whole graphemes, as many as have room."""
    text = "".join(given_signs)
    whole = list(graphemes(text))
    first, last = list(graphemes(fit_start(text, width))), list(graphemes(fit_end(text, width)))
    assert first == whole[: len(first)]
    assert last == whole[len(whole) - len(last) :]
    for part, following in ((first, whole[len(first) :][:1]), (last, whole[: len(whole) - len(last)][-1:])):
        assert text_width("".join(part)) <= width
        assert not following or text_width("".join(part)) + text_width(following[0]) > width


@given(many, widths)
def test_no_line_is_broken_within_a_grapheme(given_signs, width):
    text = "".join(given_signs)
    lines = wrap(text, width)
    assert [sign for line in lines for sign in graphemes(line) if sign != " "] == [
        s for s in graphemes(text) if s != " "
    ]
    assert all(text_width(line) <= max(2, width) for line in lines)


@given(many)
def test_a_text_is_as_wide_as_its_graphemes(given_signs):
    text = "".join(given_signs)
    assert "".join(graphemes(text)) == text
    assert text_width(text) == sum(map(text_width, graphemes(text)))


def _plain_ones():
    every = [chr(code) for code in range(0x20, 0x10000) if not 0xD800 <= code < 0xE000 and code != 0x7F]
    return [sign for sign in every if terminal._is_plain(sign)]


def test_plain_characters_are_as_wide_as_the_tables_say():
    """Characters that are measured without the tables have the width in them, each by itself."""
    ones = _plain_ones()
    assert len(ones) > 30_000
    assert [one for one in ones if text_width(one) != terminal._width(one)] == []


@given(st.text(st.sampled_from(_plain_ones()), max_size=40))
def test_plain_characters_never_join(text):
    assert list(graphemes(text)) == list(wcwidth.iter_graphemes(text))
    assert text_width(text) == wcwidth.wcswidth(text)

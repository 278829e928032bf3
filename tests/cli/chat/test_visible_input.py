"""Typed text is drawn escaped, and the cursor is at the right place (law 13)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.document import Document
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput
from prompt_toolkit.layout.screen import Char

from tests.cli.payloads import PAYLOADS
from wakelog.cli.chat.graphemes import GraphemePlaceholders, VisibleInput
from wakelog.cli.ui.safe_text import hostile_characters, visible

STAND_INS = GraphemePlaceholders()


def transformed(line):
    given_line = TransformationInput(BufferControl(), Document(line), 0, lambda at: at, [("", line)], 80, 24)
    return VisibleInput(STAND_INS).apply_transformation(given_line)


def picture(line):
    """Return the drawn text."""
    return "".join(STAND_INS.restore(Char(sign)).char for _, text, *_ in transformed(line).fragments for sign in text)


def laid_out(line):
    return "".join(fragment[1] for fragment in transformed(line).fragments)


@pytest.mark.parametrize("line", [payload.replace("\n", "") for payload in PAYLOADS])
def test_symbols(line):
    assert picture(line) == visible(line)
    assert not hostile_characters().search(picture(line))


@given(
    st.text(
        st.one_of(st.characters(codec="utf-8"), st.sampled_from("\u202e\x1b\ufe0f\ufe00a\u200d👩👧🇩🇪🏽1\u20e3")),
        max_size=12,
    )
)
def test_positions_map_from_the_text_to_the_drawing_and_back(line):
    line = line.replace("\n", "")
    made = transformed(line)
    places = [made.source_to_display(at) for at in range(len(line) + 2)]
    assert places[0] == 0
    assert places[len(line)] == len(laid_out(line))
    assert places == sorted(places)
    assert [made.display_to_source(places[at]) for at in range(len(line) + 1)][-1] == len(line)
    for at in range(len(line)):
        if places[at + 1] > places[at]:
            assert made.display_to_source(places[at]) == at


@pytest.mark.parametrize("sign", ["👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "1\ufe0f\u20e3", "❤\ufe0f\u200d🔥"])
def test_a_grapheme_of_many_characters_is_drawn_as_one(sign):
    """It is drawn whole, and the cursor is before or after it."""
    assert picture(f"a{sign}b") == f"a{sign}b"
    assert len(laid_out(f"a{sign}b")) == 3
    places = [transformed(f"a{sign}b").source_to_display(at) for at in range(1, len(sign) + 2)]
    assert places == [1, *[2] * len(sign)]


@given(st.text(st.sampled_from("ab\u200d👩👧🇩🇪🏽1\u20e3\ufe0f\u0301\u202e"), max_size=12))
def test_typed_text_is_drawn_as_it_would_be_printed(line):
    assert picture(line) == visible(line)

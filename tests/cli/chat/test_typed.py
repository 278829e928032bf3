"""What is being typed is shown through signs, and the cursor stands where it should (law 13)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.document import Document
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput

from tests.cli.payloads import PAYLOADS
from wakelog.cli.chat.typed import Visible
from wakelog.cli.safe import hostile, visible


def transformed(line):
    given_line = TransformationInput(BufferControl(), Document(line), 0, lambda at: at, [("", line)], 80, 24)
    return Visible().apply_transformation(given_line)


def picture(line):
    return "".join(fragment[1] for fragment in transformed(line).fragments)


@pytest.mark.parametrize("line", [payload.replace("\n", "") for payload in PAYLOADS])
def test_signs(line):
    assert picture(line) == visible(line)
    assert not hostile().search(picture(line))


@given(st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("\u202e\x1b\ufe0f\ufe00a")), max_size=12))
def test_every_place_in_the_text_has_one_in_the_picture_and_back(line):
    line = line.replace("\n", "")
    made = transformed(line)
    places = [made.source_to_display(at) for at in range(len(line) + 2)]
    assert places[0] == 0
    assert places[len(line)] == len(picture(line))
    assert places == sorted(places)
    assert [made.display_to_source(places[at]) for at in range(len(line) + 1)][-1] == len(line)
    for at in range(len(line)):
        if places[at + 1] > places[at]:
            assert made.display_to_source(places[at]) == at

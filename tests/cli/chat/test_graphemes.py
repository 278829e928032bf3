"""Graphemes of many characters in the frames of a chat: one cell each, never split, and text after them in place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.layout import FormattedTextControl
from prompt_toolkit.layout.mouse_handlers import MouseHandlers
from prompt_toolkit.layout.screen import Char, Screen, WritePosition
from prompt_toolkit.utils import get_cwidth

from tests.cli.ui.test_terminal import SIGNS
from wakelog.cli.chat.graphemes import GraphemePlaceholders, GraphemeWindow
from wakelog.cli.ui.terminal import text_width

ODD = ["\U0003f000", "\U00100000", "\U0003f001\u0301"]


def drawn(line, columns=20):
    """Return the cells of a line in a window."""
    screen = Screen()
    window = GraphemeWindow(FormattedTextControl(GraphemeWindow.placeholders.replace(line)))
    place = WritePosition(0, 0, columns, 1)
    window.write_to_screen(screen, MouseHandlers(), place, "", erase_bg=False, z_index=None)
    return screen, [screen.data_buffer[0][at] for at in range(columns)]


@given(st.lists(st.sampled_from([*SIGNS, *ODD, "a", "e\u0301", "·"]), max_size=20))
def test_a_line_is_laid_out_in_its_width(given_signs):
    """The text can be read back, also text that looks like a placeholder."""
    stand_ins = GraphemePlaceholders()
    line = "".join(given_signs)
    put = stand_ins.replace(line)
    assert get_cwidth(put) == text_width(line)
    assert "".join(stand_ins.restore(Char(sign)).char for sign in put) == line


@pytest.mark.parametrize("sign", SIGNS)
def test_a_grapheme_is_one_cell(sign):
    screen, row = drawn(f"a{sign}b")
    assert [cell.char for cell in row[:4]] == ["a", sign, "", "b"]
    assert row[1].width == 2
    assert screen.zero_width_escapes[0][3] in ("\x1b[4G", "")


def test_a_grapheme_without_room_is_left_out_whole():
    _, row = drawn("🇩🇪" * 5, 6)
    assert [cell.char for cell in row if cell.char.strip()] == ["🇩🇪"] * 3


def test_colours_stay():
    stand_ins = GraphemePlaceholders()
    assert stand_ins.replace("\x1b[2m🏽\x1b[0m").startswith("\x1b[2m")
    assert stand_ins.replace("\x1b[2m🏽\x1b[0m").endswith("\x1b[0m")


def test_placeholders_are_reused():
    """However many different graphemes were drawn, the last ones are drawn correctly."""
    stand_ins = GraphemePlaceholders()
    for number in range(10_000):
        last = "👍🏽" + chr(0x300 + number % 100) + chr(0x300 + number // 100)
        assert stand_ins.restore(Char(stand_ins.placeholder(last))).char == last
    assert len(stand_ins._placeholders) <= 0xF00

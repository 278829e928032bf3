"""The list of `chat --pick` on terminals of all sizes: rows first, and nothing beyond the last line."""

import pytest

from tests.cli.chat.test_picker import row
from wakelog.cli.chat.session_list import ROWS_MAX, ReadProgress, SessionList, page_layout, page_lines, page_of
from wakelog.cli.ui.quantities import now_ms
from wakelog.cli.ui.terminal import TerminalStyle, text_width

LONG = "please look at " * 30


def drawn(width, height, count=43, read=None, typed=""):
    shape = page_layout(height)
    picking = SessionList(shape.rows)
    rows = [row(number, title=f"Task {number}: {LONG}", cwd="/work/some/where") for number in range(count)]
    picking.update(read or ReadProgress(rows, is_complete=True))
    picking.set_filter(typed)
    return list(page_lines(TerminalStyle(width=width), page_of(picking), LONG * 9, now_ms(), shape))


@pytest.mark.parametrize("width", [12, 25, 30, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [1, 2, 3, 4, 5, 6, 8, 10, 12, 20, 24, 30, 100])
def test_every_size(width, height):
    """It fits below the heading, in lines that fit the terminal, and most of them are rows."""
    lines = drawn(width, height)
    assert len(lines) <= max(2, height - 1)
    assert max(map(text_width, lines)) <= width
    rows = page_layout(height).rows
    assert rows == ROWS_MAX or rows >= (height - 2) // 2
    assert sum("Task" in line for line in lines[1:]) >= (rows if width > 12 else 0)


@pytest.mark.parametrize(("width", "names", "models"), [(25, False, False), (40, True, False), (100, True, True)])
def test_names_can_be_read(width, names, models):
    """A narrow terminal has fewer columns, not narrower ones."""
    line = drawn(width, 24)[1]
    assert ("crab_user_0" in line) is names
    assert ("demo" in line) is models


def test_hidden_rows_are_counted():
    """Without the count, fifteen rows would look like all there are."""
    assert "── 1 of 43 ─" in drawn(80, 24)[-6]
    assert "── 1 of 1 ─" in drawn(80, 24, typed="task 42:")[2]
    assert "── 1 of 15+ ─" in drawn(80, 24, typed="task")[-6]
    assert "no session matches" in drawn(80, 24, typed="zzz")[1]
    assert "no sessions yet" in drawn(80, 24, count=0)[1]


def test_the_progress_of_reading():
    begun = drawn(80, 24, read=ReadProgress())
    assert begun[1].startswith("── reading sessions … ─")
    going = drawn(80, 24, read=ReadProgress([row(1), row(2)], 300, 10_000))
    assert going[3].startswith("── 1 of 2, reading sessions, 300 of 10,000 … ─")

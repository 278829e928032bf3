"""A terminal that becomes narrower during a live display: nothing of the last frame is left (RUN-13)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Char, Screen

from tests.cli.chat.inspection import READY
from wakelog.cli.chat.terminal import count_added_rows, count_rows, rewraps_lines

ABOVE = "\n\n".join(f"Above {number}." for number in range(20))


def fence(lines):
    return "```\n" + "\n".join(f"L{number:03d} " + "x" * 95 for number in range(lines)) + "\n```"


FENCE = fence(60)


def drawn(*lines):
    screen = Screen()
    for y, line in enumerate(lines):
        x = 0
        for sign in line:
            screen.data_buffer[y][x] = cell = Char(sign)
            # A wide character has an empty cell after it.
            screen.data_buffer[y].update({x + more: Char("") for more in range(1, cell.width)})
            x += cell.width
    screen.height = len(lines)
    return screen


# ── counted ──────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 2), max_size=60), st.integers(2, 30))
def test_a_line_is_broken_where_the_next_grapheme_has_no_room(widths, columns):
    rows = count_rows(widths, columns)
    assert -(-sum(widths) // columns) <= rows
    assert rows == max(1, -(-len(widths) // columns)) or 2 in widths
    assert count_rows(widths, max(2, sum(widths))) == 1


@pytest.mark.parametrize(
    ("lines", "cursor", "added"),
    [
        (["", "x" * 10, "> "], Point(2, 2), 0),
        (["", "x" * 11, "> "], Point(2, 2), 1),
        (["x" * 31, "x" * 20, "> "], Point(2, 2), 4),
        (["x" * 10 + " " * 5, "> "], Point(2, 1), 0),
        (["日本語日本", "> "], Point(2, 1), 0),
        (["x日本語日本", "> "], Point(2, 1), 1),
        (["x" * 40, "y" * 25], Point(25, 1), 5),
        (["> ", "x" * 40], Point(2, 0), 0),
    ],
)
def test_rows_above_the_cursor(lines, cursor, added):
    """Rows below the cursor do not count, and blanks at the end of a line take no room."""
    assert count_added_rows(drawn(*lines), cursor, 10) == added


@pytest.mark.parametrize(
    ("environment", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x,1,0", "XTERM_VERSION": "XTerm(390)"}, True),
        ({"TERM": "screen-256color", "TMUX": "/tmp/x,1,0"}, True),
        ({"TERM": "screen", "STY": "1.x"}, False),
        ({"TERM": "linux"}, False),
        ({}, True),
    ],
)
def test_terminals_that_break_lines(environment, breaks):
    """On a terminal that cuts lines instead, erasing more rows would erase printed text."""
    assert rewraps_lines(environment) is breaks


_CHATS_MAX = 5
_LINES_WATCHED = 150

# ── on a terminal ────────────────────────────────────────────────────────────────────────────────


def frame_of(seen):
    """Return the part after the last printed line: a blank line, the live area, the input, the status."""
    rows = seen.partition("Above 19.\n")[2].splitlines()
    # A frame may be seen half drawn.
    whole = len(rows) > 3 and rows[-2].startswith("›") and rows[-1].startswith("agent_user_")
    return rows if whole else None


@pytest.mark.parametrize("widths", [(60,), (90, 64, 50)])
def test_narrowed_during_a_reply(script, chat, widths):
    """However often: after the printed text there is one blank line, and then the frame.

    A frame that is on its way to the terminal when its width changes erases rows for the old width, whatever program
    draws it. That depends on how busy the machine is, so the chat is started again if it happened.
    """
    # Long enough to stream for the whole test.
    answer = {"text": f"{ABOVE}\n\n{fence(2_000)}", "deltaChars": 9, "delayMs": 8}
    for _ in range(_CHATS_MAX):
        pane = chat("--model", script(answer), columns=104, rows=36)
        pane.expect(READY)
        pane.say("go")
        pane.expect("L009")
        if all(_is_drawn_once(pane, columns) for columns in widths):
            return
    pytest.fail(f"in each of {_CHATS_MAX} chats rows were left behind")


def _is_drawn_once(pane, columns):
    """Narrow a terminal; return whether one frame is seen before the reply has grown by many lines."""
    pane.resize(columns, 36)
    line = last_line(pane.until(lambda seen: last_line(seen) >= 0, "a line"))
    seen = pane.until(
        lambda seen: last_line(seen) >= line + (6 if _is_one_frame(seen) else _LINES_WATCHED), f"line {line + 6}"
    )
    return _is_one_frame(seen)


def last_line(seen):
    """Return the number of the last line of the fence that is shown; -1 if there is none."""
    return max(map(int, re.findall(r"L(\d{3,})", seen)), default=-1)


def _is_one_frame(seen):
    """Return whether there is a blank line and one frame. A screen may be seen while it is drawn."""
    rows = frame_of(seen)
    if not rows:
        return False
    blank, *live, _, _ = rows
    return not blank.strip() and len(live) <= 8 and all(re.fullmatch(r"(L\d* ?)?x*", row.rstrip()) for row in live)


def test_narrowed_while_tools_run(script, chat, gate):
    """Each tool is there once, on a line of its own; typed text stays."""
    calls = [gate.call(f"cat {{gate}} number {number} " + "and so on " * 10) for number in range(5)]
    pane = chat("--yes", "--model", script({"text": ABOVE, "toolCalls": calls}), columns=110, rows=36)
    pane.expect(READY)
    pane.say("go")
    pane.expect("gate number 4")
    pane.type("half a line")
    pane.expect("› half a line")
    for columns in (80, 50):
        pane.resize(columns, 36)
        pane.until(lambda seen: _shows_five_tools(seen, columns), columns)  # noqa: B023


def _shows_five_tools(seen, columns):
    rows = frame_of(seen)
    if not rows or max(map(len, rows)) > columns:
        return False
    blank, *live, typing, _ = rows
    numbers = [found[1] for row in live if (found := re.search(r"number (\d)", row))]
    return (blank.strip(), typing.strip()) == ("", "› half a line") and numbers == list("01234") and len(live) == 5

"""One chat on many terminals: narrow, resized, without UTF-8, without colours, for a screen reader."""

import re

import pytest

from tests.cli.chat.inspection import READY
from wakelog.cli.ui.terminal import text_width

REPLY = {
    "text": "# Title\n\n" + "Words that are " * 12 + "\n\n- one\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code` é 日本"
}


def said(pane):
    pane.expect(READY[:20])
    pane.say("go")
    return pane.until(lambda seen: "code" in seen and pane.rests(seen))


@pytest.mark.parametrize("columns", [24, 40, 120])
def test_narrow_and_wide(script, chat, columns):
    """Nothing is wider than the terminal: the screen has what was printed, line by line."""
    pane = chat("--model", script(REPLY), columns=columns, rows=30)
    said(pane)
    assert all(text_width(line) <= columns for line in pane.scrolled().splitlines()[1:])
    assert "agent_user_1" in pane.screen().splitlines()[-1]


def test_resized(script, chat):
    """After the printed text, input and status are there once, at any width."""
    pane = chat("--model", script(REPLY, {"text": "Second."}), columns=100)
    said(pane)
    pane.resize(50)
    pane.type("ab")
    pane.expect("› ab")
    pane.resize(90, 30)
    pane.say("c")
    seen = pane.expect("› abc", "Second.")
    assert pane.screen().count("agent_user_1") == 1
    assert seen.splitlines()[-2].strip() == "›"


def test_a_small_terminal(script, chat, gate):
    """Twelve lines of forty: the end of the live area, the input and the status have room."""
    calls = [gate.call(f"cat {{gate}} {number}") for number in range(8)]
    pane = chat("--model", script({"toolCalls": calls}), "--yes", columns=40, rows=12)
    pane.expect(READY[:20])
    pane.say("go")
    pane.expect("shell cat gate 5")
    for number in range(6):
        pane.say(f"message {number}")
    pane.expect("2 more queued messages")
    for number in range(8):
        pane.type(f"line {number}")
        pane.press("C-j")
    pane.expect("line 7")
    for columns, rows in ((40, 8), (24, 6), (80, 24)):
        pane.resize(columns, rows)
        pane.until(lambda _: "line 7" in (seen := pane.screen()) and "agent_user_1" in seen.splitlines()[-1])
    assert b"too small" not in pane.written(b"line 7")


def test_without_utf8(script, chat):
    """ASCII where the locale has nothing else; a character that cannot be shown is shown as its code point."""
    pane = chat("--model", script(REPLY), env={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}, rows=40)
    said(pane)
    assert pane.written(b"\\xe9", b"> go").isascii()


def test_without_colours(script, chat):
    """NO_COLOR: bold and reverse may stay, colours may not; without it there are colours."""
    colour = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38|4[0-7]|48)[;m]")
    plain = chat("--model", script(REPLY), env={"NO_COLOR": "1"})
    said(plain)
    assert not colour.search(plain.written(b"code"))
    coloured = chat("--model", script(REPLY))
    said(coloured)
    assert colour.search(coloured.written(b"code"))


def test_for_a_screen_reader(script, chat, gate):
    """ACCESSIBLE=1: no spinner, no boxes."""
    model = script({**REPLY, "toolCalls": [gate.call()]}, {"text": "Finished."})
    pane = chat("--model", model, "--yes", env={"ACCESSIBLE": "1"})
    pane.expect(READY)
    pane.say("go")
    pane.expect("• shell cat gate")
    gate.open()
    pane.expect("Finished.")
    assert not re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏─│━]", pane.written(b"Finished.").decode())

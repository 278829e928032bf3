"""No stored or pasted text controls the terminal (law 13). tmux would have obeyed it."""

import re

from tests.cli.chat.inspection import READY, prompts
from tests.cli.payloads import PAYLOADS, READER, TERMINAL
from wakelog.session import Session

# Sequences that the program itself may send: colours, cursor, erasing lines, terminal modes.
_OURS = re.compile(
    rb"\x1b\[[0-9;]*[ABCDGHJKm]|\x1b\[\?[0-9;]+[hl]|\x1b\[[0-9]* ?q|\x1b\[>[0-9;]*[mu]|[\r\n\x08]"
    # The last sequence that was read may be incomplete.
    rb"|\x1b(?:\[[?0-9;]*)?$"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
# Modes that no chat sets: other screens, the mouse.
_FORBIDDEN = (
    b"\x1b[?1049",
    b"\x1b[?1000",
    b"\x1b[?47h",
    b"\x1b[2J",
    b"\x1b[8;",
    b"\x1b[5n",
    b"\x1b[21t",
    b"\x1b]",
    b"\x1bP",
    b"\x08\x08\x08",
)


def harmless(pane):
    """Assert that no stored text became a command: not the title, not the clipboard, no unknown sequence."""
    raw = bytes(pane.raw)
    assert [found for found in _FORBIDDEN if found in raw] == []
    rest = _OURS.sub(b"", raw).decode(errors="replace")
    assert _HIDDEN.findall(rest) == []
    assert (pane.told("pane_title") in ("title", "evil"), pane.copied()) == (False, 0)


HOSTILE = "".join(f"{payload}\n\n" for payload in PAYLOADS)


def test_in_everything_that_a_model_sends(shell, script, chat):
    call = {
        "name": "shell",
        "input": {"command": "printf '\\033]0;evil\\007\\033[2J\\n\\033[31mred'", TERMINAL[4]: READER[0]},
    }
    odd = {"name": f"tool {TERMINAL[0]}", "input": {"path": READER[0]}}
    model = script(
        {"thinking": " ".join(PAYLOADS), "text": HOSTILE, "deltaChars": 7, "toolCalls": [call, odd]},
        {"text": f"# {TERMINAL[3]}\n\n```{READER[0]}\n{HOSTILE}\n```\n\nThe end."},
    )
    pane = chat("--model", model, rows=50)
    pane.expect(READY)
    pane.say("go")
    pane.expect("✗ tool ␛[31mred", "shell: Run it?")
    pane.say("y")
    pane.expect("The end.")
    pane.until(pane.rests)
    harmless(pane)


def test_in_pasted_text(shell, chat):
    """The text is sent as it was pasted; in the input and afterwards it is drawn as symbols."""
    pasted = "".join(f"{text} " for text in READER[:8]) + "\x07bell\x08back"
    pane = chat("--model", "demo", rows=40, columns=120)
    pane.expect(READY)
    pane.paste(pasted)
    pane.expect("admin⟨U+202E⟩nimda", "␇bell")
    pane.press("Enter")
    pane.expect("I did not understand")
    harmless(pane)
    assert prompts(shell)[0] == pasted


def test_in_titles_names_and_queues(shell, store, chat):
    """Opened, picked and listed: titles, prompts, models and folders may come from other programs."""
    for payload in (TERMINAL[3], TERMINAL[6], READER[0], READER[-1], "x" * 5_000):
        session = Session.create(store, agent="crab", sender="user")
        session.rename(payload)
        session.say(f"{payload} asked")
        Session.create(
            store, agent="crab", sender="user", cwd=f"/{payload[:50]}", title=payload, model=payload, provider="x"
        )
    pane = chat("--pick", columns=100)
    pane.expect("Open which session?")
    for _ in range(9):
        pane.press("Down")
    pane.type("asked")
    pane.expect("Open which session? asked_")
    harmless(pane)
    pane.press("Escape")
    pane.ended(0)
    other = chat("--model", "demo", columns=100)
    other.expect(READY)
    other.type("/open ")
    other.expect("crab_user_1")
    other.press("C-c", "C-c")
    harmless(other)


def test_a_very_long_line(shell, script, chat):
    """A line of a megabyte is printed whole, and the chat continues."""
    pane = chat("--model", script({"text": "y" * 1_000_000 + "Z", "deltaChars": 50_000}, {"text": "Fine."}))
    pane.expect(READY)
    pane.say("x" * 2_000)
    pane.until(lambda seen: "yyyZ" in seen and pane.rests(seen))
    pane.say("go on")
    pane.expect("Fine.")

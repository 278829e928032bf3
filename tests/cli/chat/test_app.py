"""A chat on a real terminal: screens are compared, and every action is an entry (RUN-12, RUN-13)."""

import os
import re
import signal
import stat

import pytest

from tests.cli.chat.inspection import READY, entries, kinds, prompts, steady
from wakelog.cli.chat.screen import history_path
from wakelog.version import APP

# ── talking ──────────────────────────────────────────────────────────────────────────────────────

SCREEN = """\
wakelog/VERSION, STORE
· /help lists commands and keys; Ctrl-D leaves

› go

∴ thought, 4 words: Let me think first.

A plan

First this, then that:

 • one
 • two

 x = 1

✓ read notes.txt · * · 2 lines

It says hello.

›"""


def test_a_screen(shell, script, chat):
    """Prompt, thinking, Markdown, tool and status as they are displayed."""
    (shell.folder / "notes.txt").write_text("hello\nthere\n")
    plan = "# A plan\n\nFirst *this*, then that:\n\n- one\n- two\n\n```python\nx = 1\n```\n"
    read = {"name": "read", "input": {"path": "notes.txt"}}
    model = script(
        {"thinking": "Let me think first.", "text": plan, "deltaChars": 3, "toolCalls": [read]},
        {"text": "It says **hello**."},
    )
    pane = chat("--model", model)
    pane.expect(READY)
    pane.say("go")
    pane.expect("It says hello.")
    pane.until(pane.rests)
    seen = steady(pane.screen())
    *above, status = seen.splitlines()
    assert "\n".join(above) == SCREEN.replace("wakelog/VERSION, STORE", f"{APP}, {shell.store}")
    assert re.fullmatch(r"agent_user_1 · …\S+script.jsonl · context \d+ · spent \d+", status)
    assert (entries(shell)[-1]["type"], prompts(shell)) == ("activity", ["go"])
    pane.press("C-d")
    assert "`wakelog chat agent_user_1` continues this session" in pane.ended(0)


def test_nothing_is_written_before_the_first_message(shell, chat):
    """The first message creates the session: opening a chat leaves no trace."""
    pane = chat("--model", "demo")
    pane.expect(READY)
    for command in ("/tree", "/context", "/new", "/xyzzy"):
        pane.say(command)
    pane.expect("no session yet; send a message first", "begins a new session", "unknown command /xyzzy")
    pane.press("C-d")
    pane.ended(0)
    assert not shell.store.exists() or not list(shell.store.glob("*.jsonl"))


def test_lines_and_pastes(shell, chat):
    """Alt-Enter and Ctrl-J insert a line end; pasted text stays one message, whatever it contains."""
    pane = chat("--model", "demo")
    pane.expect(READY)
    pane.type("one")
    pane.press("M-Enter")
    pane.type("two")
    pane.press("C-j")
    pane.say("three")
    pane.expect("› one\n  two\n  three")
    pane.paste("first\nsecond\n\nthird")
    pane.expect("  third")
    pane.press("Enter")
    pane.until(lambda seen: seen.count("I did not understand that") == 2)
    assert prompts(shell) == ["one\ntwo\nthree", "first\nsecond\n\nthird"]


def test_history_over_sessions(shell, chat):
    """Earlier messages come back with Up, also those of another chat; only the owner may read the file."""
    first = chat("--model", "demo")
    first.expect(READY)
    first.say("something said before")
    first.until(lambda seen: first.rests(seen) and "I did not understand" in seen)
    first.press("C-d")
    first.ended(0)
    path = history_path()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    second = chat("--model", "demo")
    second.expect(READY)
    second.press("Up")
    second.expect("› something said before")


# ── questions ────────────────────────────────────────────────────────────────────────────────────


def test_the_answers_once_always_and_no(shell, script, chat):
    """The input of the tool is shown, a key decides, and the decision is an entry."""
    calls = [{"name": "shell", "input": {"command": f"echo {word} >> ran"}} for word in ("one", "two", "three", "four")]
    model = script(*({"toolCalls": [call]} for call in calls), {"text": "Finished."})
    pane = chat("--model", model)
    pane.expect(READY)
    pane.say("go")
    pane.expect(
        "command: echo one >> ran", "shell: Run it?  [y] once  [a] always shell, in this session  [n] no", "1 question"
    )
    pane.say("y")
    pane.expect("✓ shell echo one >> ran", "command: echo two >> ran")
    pane.say("n")
    pane.expect("✗ shell echo two >> ran · denied", "command: echo three >> ran")
    pane.say("a")
    pane.expect("✓ shell echo three >> ran", "✓ shell echo four >> ran", "Finished.")
    pane.until(pane.rests)
    decided = lines_of_decisions(pane.scrolled())
    assert decided == [
        "· decided: approve · shell echo one >> ran",
        "· decided: deny · shell echo two >> ran",
        "· context: shell runs without approval",
        "· decided: approve · shell echo three >> ran",
    ]
    again = chat("agent_user_1")
    again.expect(READY)
    assert lines_of_decisions(again.scrolled()) == decided
    assert (shell.folder / "ran").read_text() == "one\nthree\nfour\n"
    decisions = [entry["decision"] for entry in entries(shell) if entry["type"] == "attention_resolved"]
    assert decisions == ["approve", "deny", "approve"]


def lines_of_decisions(seen):
    return [line.rstrip() for line in seen.splitlines() if line.startswith(("· decided", "· context"))]


def test_a_decision_of_another_process_is_shown(shell, script, chat):
    """The line is drawn from the log, so it does not matter which process wrote it."""
    pane = chat("--model", script({"toolCalls": [TOUCH]}, {"text": "Finished."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("[y] once")
    assert shell.process("questions", "agent_user_1", "--deny").code == 0
    pane.expect("· decided: deny · shell touch ran")
    assert not (shell.folder / "ran").exists()


TOUCH = {"name": "shell", "input": {"command": "touch ran"}}


def test_a_message_is_not_an_answer(shell, script, chat):
    """Whatever its first letter is (RUN-13); an open question stays open, and the exit code says so."""
    pane = chat("--model", script({"toolCalls": [TOUCH]}, {"text": "Finished."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("Run it?  [y] once  [a] always shell, in this session  [n] no, then Enter")
    pane.say("always look before you run")
    pane.expect("» queued: always look")
    pane.type("y")
    pane.press("C-c", "C-d")
    assert "agent_user_1 has an open question" in pane.ended(6)
    assert "attention_resolved" not in kinds(shell)
    assert not (shell.folder / "ran").exists()
    again = chat("agent_user_1")
    again.expect("command: touch ran", "Run it?  [y] once")
    again.say("y")
    again.expect("Finished.")
    assert (shell.folder / "ran").exists()


def test_text_typed_before_a_question_does_not_answer_it(shell, script, chat, gate):
    """RUN-13: a letter that is in the input when the question comes is a message, though it would be an answer."""
    pane = chat("--model", script({"toolCalls": [gate.call()]}, {"toolCalls": [TOUCH]}, {"text": "Finished."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("[y] once")
    pane.say("y")
    pane.expect("shell cat gate ·")
    pane.type("y")
    pane.expect("› y")
    gate.open()
    pane.expect("command: touch ran", "send or clear the typed text, then answer")
    pane.press("Enter")
    pane.expect("» queued: y", "[y] once")
    assert not (shell.folder / "ran").exists()
    pane.say("no")
    pane.expect("✗ shell touch ran · denied")


def test_keys_in_the_buffer_do_not_answer(shell, script, chat, gate):
    """RUN-13: keys pressed before the question was drawn, in whatever order the program reads them."""
    pane = chat("--model", script({"toolCalls": [gate.call()]}, {"toolCalls": [TOUCH]}, {"text": "Finished."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("[y] once")
    pane.say("y")
    pane.expect("shell cat gate ·")
    os.kill(pane.pid(), signal.SIGSTOP)
    gate.open()
    pane.say("y")
    os.kill(pane.pid(), signal.SIGCONT)
    pane.expect("» queued: y", "[y] once")
    assert not (shell.folder / "ran").exists()


def test_a_change_is_shown_before_it_is_approved(shell, script, chat):
    """As a diff, whole and once."""
    (shell.folder / "x.py").write_text("a = 1\nb = 2\n")
    edit = {"name": "edit", "input": {"path": "x.py", "old": "b = 2", "new": "b = 3"}}
    write = {"name": "write", "input": {"path": "y.py", "content": "".join(f"line {at}\n" for at in range(30))}}
    model = script({"toolCalls": [edit]}, {"toolCalls": [write]}, {"text": "Finished."})
    pane = chat("--model", model, "--yes")
    pane.expect(READY)
    pane.say("go")
    seen = pane.expect("Finished.")
    assert "✓ edit x.py" in seen
    assert "  - b = 2\n  + b = 3" in seen
    assert "  … 14 more lines" in seen
    other = chat("--model", model)
    other.expect(READY)
    (shell.folder / "x.py").write_text("a = 1\nb = 2\n")
    other.say("go")
    other.expect("path: x.py\n    - b = 2\n    + b = 3")
    other.say("a")
    seen = other.expect("+ line 29", "Run it?")
    assert seen.count("- b = 2") == 1


# ── busy ─────────────────────────────────────────────────────────────────────────────────────────


def test_queued_and_steered_while_busy(shell, script, chat, gate):
    """Typing continues; Enter queues, /steer and Alt-S are used at the next step (RUN-11)."""
    model = script({"toolCalls": [gate.call()]}, {"text": "One."}, {"text": "Two."})
    pane = chat("--model", model, "--yes")
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell cat")
    pane.say("later, please")
    pane.expect("» queued: later, please")
    pane.say("/steer at once, please")
    pane.expect("» next step: at once, please")
    pane.type("this too")
    pane.press("M-s")
    pane.expect("» next step: this too")
    gate.open()
    pane.expect("Two.")
    pane.until(pane.rests)
    assert prompts(shell)[0] == "go"
    assert prompts(shell).index("at once, please") < prompts(shell).index("later, please")
    assert [entry.get("mode", "followUp") for entry in entries(shell) if entry["type"] == "queued"] == [
        "followUp",
        "steer",
        "steer",
    ]


def test_a_message_is_queued_though_the_instructions_changed(shell, script, chat, gate):
    """LOG-14: an agent that rewrites AGENTS.md continues with the old text; the next run reads the new one."""
    instructions = shell.folder / "AGENTS.md"
    instructions.write_text("Be brief.\n")
    model = script(
        {"toolCalls": [gate.call("echo Be kind. > AGENTS.md; cat {gate}")]}, {"text": "One."}, {"text": "Two."}
    )
    pane = chat("--model", model, "--yes")
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell echo Be kind.")
    pane.until(lambda _: instructions.read_text() == "Be kind.\n")
    pane.say("and this")
    pane.expect("» queued: and this")
    gate.open()
    pane.expect("Two.")
    pane.until(pane.rests)
    assert kinds(shell).count("context") == 1


def test_live_output_of_a_tool(shell, script, chat, gate):
    """Its last line, for as long as it runs."""
    model = script({"toolCalls": [gate.call("echo begun; echo half way; cat {gate}")]}, {"text": "Finished."})
    pane = chat("--model", model, "--yes", columns=120)
    pane.expect(READY)
    pane.say("go")
    pane.expect("· half way")
    gate.open()
    seen = pane.expect("Finished.")
    assert "· half way" not in seen


@pytest.mark.parametrize("key", ["Escape", "C-c"])
def test_a_turn_is_cancelled_as_an_entry(shell, script, chat, gate, key):
    model = script({"toolCalls": [gate.call()]}, {"text": "Never."}, {"text": "Next."})
    pane = chat("--model", model, "--yes")
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell cat")
    pane.press(key)
    pane.expect("· cancelled")
    pane.until(pane.rests)
    assert kinds(shell).count("cancelled") == 1
    pane.say("and now?")
    pane.expect("Never.")


def test_a_second_press_leaves_and_wake_continues(shell, script, chat, gate):
    """A tool that does not stop at once does not delay leaving: the log is like that of a killed process."""
    stubborn = "trap '' TERM INT; cat {gate}"
    model = script({"toolCalls": [gate.call(stubborn)]}, {"text": "Never."})
    pane = chat("--model", model, "--yes")
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell trap")
    pane.press("C-c", "C-c")
    assert "left while the agent works; `wakelog wake agent_user_1` continues it" in pane.ended(130)
    assert shell("wake", "agent_user_1").code in (0, 130)
    assert "cancelled" in kinds(shell)


def test_leaving_while_busy_says_how_to_continue(shell, script, chat, gate):
    model = script({"toolCalls": [gate.call()]}, {"text": "Finished."})
    pane = chat("--model", model, "--yes")
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell cat")
    pane.press("C-d")
    assert "left while the agent works; `wakelog wake agent_user_1` continues it" in pane.ended(0)
    assert "Finished." in shell("wake", "agent_user_1").out


def test_an_idle_chat_takes_two_presses_to_leave(chat):
    pane = chat("--model", "demo")
    pane.expect(READY)
    pane.press("C-c")
    pane.expect("Ctrl-C again leaves")
    pane.press("C-c")
    pane.ended(0)

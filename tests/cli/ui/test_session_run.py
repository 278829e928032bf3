"""Runs on a real pseudo-terminal: questions, and Ctrl-C once and twice (RUN-12, RUN-13)."""

import json
import os
import subprocess
import sys

from tests.cli.payloads import ESC, PAYLOADS
from tests.cli.running import Conversation
from wakelog.cli.ui.safe_text import hostile_characters, visible

ASK = "Run it? [y]es / [n]o / [a]lways in this session: "


def shell_call(command):
    return {"name": "shell", "input": {"command": command}}


def kinds(shell, name="agent_user_1"):
    return [json.loads(line)["type"] for line in (shell.store / f"{name}.jsonl").read_bytes().splitlines()]


def test_yes_and_no(shell, script):
    """The tool and its input are shown; each answer is an entry; anything else is asked again."""
    model = script(
        {"text": "One.", "toolCalls": [shell_call("touch one")]},
        {"text": "Two.", "toolCalls": [shell_call("touch two")]},
        {"text": "Done."},
    )
    talk = shell.talk("run", "--model", model, "hi", "--color", "never")
    talk.expect("shell requests approval")
    talk.expect("command: touch one")
    talk.expect(ASK)
    talk.type("what?\n")
    talk.expect(ASK)
    talk.type("y\n")
    talk.expect("command: touch two")
    talk.expect(ASK)
    talk.type("n\n")
    answer = talk.end()
    assert answer.code == 0
    assert "shell  touch two  denied" in answer.out
    assert answer.out.endswith("Done.\nsession agent_user_1\n")
    assert [(shell.folder / name).exists() for name in ("one", "two")] == [True, False]
    assert kinds(shell).count("attention_resolved") == 2


def test_always(shell, script):
    """From then on the tool runs for the rest of the session, also in another process: it is in the log."""
    model = script(
        {"toolCalls": [shell_call("echo 1 >> ran"), shell_call("echo 2 >> ran")]},
        {"toolCalls": [shell_call("echo 3 >> ran")]},
        {"text": "Done."},
        {"toolCalls": [shell_call("echo 4 >> ran"), {"name": "write", "input": {"path": "x", "content": "y"}}]},
        {"text": "Again."},
    )
    talk = shell.talk("run", "--model", model, "hi")
    talk.expect(ASK)
    talk.type("a\n")
    answer = talk.end()
    assert (answer.code, answer.out.count(ASK)) == (0, 1)
    assert sorted((shell.folder / "ran").read_text().split()) == ["1", "2", "3"]
    assert kinds(shell).count("context") == 2
    assert shell.process("run", "-q", "-s", "agent_user_1", "more", typed=b"").code == 6
    assert len((shell.folder / "ran").read_text().split()) == 4
    assert not (shell.folder / "x").exists()


def test_always_for_a_sub_agent(shell):
    """A permission that a sub-agent asked for also holds for its parent."""
    talk = shell.talk("run", "ask a sub-agent to run `touch one` then run `touch two`")
    talk.expect(ASK)
    talk.type("y\n")
    talk.expect("agent_user_2:")
    talk.expect(ASK)
    talk.type("a\n")
    answer = talk.end()
    assert answer.code == 0
    assert (shell.folder / "two").exists()


def test_the_end_of_input_decides_nothing(shell, script):
    """Ctrl-D at a question: exit code 6, and the session waits."""
    talk = shell.talk("run", "--model", script({"toolCalls": [shell_call("touch ran")]}), "hi")
    talk.expect(ASK)
    talk.type("\x04")
    assert talk.end().code == 6
    assert shell("questions").code == 6
    assert not (shell.folder / "ran").exists()


def test_ctrl_c_at_a_question_leaves_it_open(shell, script):
    """RUN-13: nothing is decided or cancelled, and one line says how to decide."""
    talk = shell.talk("run", "--model", script({"toolCalls": [shell_call("touch ran")]}), "hi")
    talk.expect(ASK)
    talk.type("\x03")
    answer = talk.end()
    last = answer.out.rstrip("\n").split("\n")[-1]
    assert answer.code == 130
    assert last.startswith("wakelog: the question stays open; agent_user_1 waits for a decision: shell(")
    assert "`wakelog questions agent_user_1` with `--approve` or `--deny` decides" in last
    assert shell("questions").code == 6
    assert not {"attention_resolved", "cancelled", "queued"} & set(kinds(shell))


def test_an_unknown_outcome_is_asked_about(shell, script):
    """RUN-6: after a crash a person is asked in the terminal, and the answer is the result."""
    os.mkfifo(shell.folder / "begun")
    model = script({"toolCalls": [shell_call("echo it has > begun; sleep 600")]}, {"text": "So be it."})
    child = shell.start("run", "--yes", "--unknown", "ask", "--model", model, "hi", stdin=subprocess.DEVNULL)
    (shell.folder / "begun").read_text()
    child.kill()
    child.wait()
    child.stdout.close()
    child.stderr.close()
    talk = shell.talk("wake", "agent_user_1")
    talk.expect("may or may not have run")
    talk.expect("[l]ater: ")
    talk.type("n\n")
    talk.expect("So be it.")
    assert talk.end().code == 0


def test_hostile_questions(shell, script):
    """Law 13: names and inputs are escaped; colours are the only codes, and they are wakelog's own."""
    unknown_tools = [{"name": text, "input": {text: text}} for text in PAYLOADS[:6]]
    calls = [{"name": "shell", "input": {text: text, "more": "\n".join(PAYLOADS)}} for text in PAYLOADS[:6]]
    model = script({"toolCalls": unknown_tools}, {"toolCalls": calls}, {"text": "Done."})
    talk = shell.talk("run", "--model", model, "--color", "never", "hi", columns=120)
    for text in PAYLOADS[:6]:
        talk.expect(visible(text)[:10])
    for text in PAYLOADS[:6]:
        talk.expect(visible(text)[:10])
        talk.expect(ASK)
        talk.type("n\n")
    shown = talk.end().out
    assert not hostile_characters().search(shown.replace("\n", "").replace("\r", ""))
    assert ESC not in shown


def test_notices_are_on_their_own_lines(shell, script):
    """An interrupted reply, and the line that says why, are not on one line."""
    fault = {"kind": "busy", "message": "try later", "retryable": True, "delayMs": 1}
    model = script({"text": "I beg", "error": fault}, {"text": "I begin again."})
    shown = shell.terminal("run", "--model", model, "--color", "never", "hi").out.splitlines()
    assert shown == [
        "I beg",
        "(starting over)",
        "· the model call failed: try later; next attempt in 1 ms at the earliest",
        "· retrying (attempt 2)",
        "I begin again.",
        "session agent_user_1",
    ]


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────────────


def test_ctrl_c_during_a_reply(shell, script):
    """RUN-12: the turn is ended by entries, the displayed text is kept, and the session continues when asked."""
    model = script({"text": "word " * 4_000, "deltaChars": 5, "delayMs": 20}, {"text": "x"})
    talk = shell.talk("run", "--model", model, "hi")
    talk.expect("word word")
    talk.type("\x03")
    answer = talk.end()
    assert (answer.code, "the turn was cancelled" in answer.out) == (130, True)
    assert kinds(shell)[-5:] == ["queued", "partial", "cancelled", "sent", "activity"]
    assert shell("ls", "--json").json["state"] == "idle"


def test_ctrl_c_while_a_tool_runs(shell, script):
    """The tool and its child processes are stopped; its call is settled as interrupted."""
    model = script({"toolCalls": [shell_call("echo $$ > pid; sleep 600")]}, {"text": "x"})
    talk = shell.talk("run", "--yes", "--model", model, "hi")
    talk.expect("sleep 600")
    talk.type("\x03")
    assert talk.end().code == 130
    results = [row for row in shell("show", "agent_user_1", "--json").rows if "toolResult" in json.dumps(row)]
    assert [row["message"]["status"] for row in results] == ["interrupted"]


def test_ctrl_c_while_waiting_to_retry(shell, script):
    fault = {"kind": "busy", "message": "later", "retryable": True, "delayMs": 3_600_000}
    talk = shell.talk("run", "--model", script({"error": fault}), "hi")
    talk.expect("the model call failed: later")
    talk.type("\x03")
    assert talk.end().code == 130
    assert kinds(shell)[-2:] == ["cancelled", "activity"]


DEAF = """
import asyncio, sys
import wakelog.runtime.live
async def never(runtime, session, seq):
    await asyncio.Event().wait()
wakelog.runtime.live.LiveRuntime.wait_for_cancel = never
from wakelog.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_a_second_ctrl_c_leaves_at_once(shell, script):
    """The first is not handled here: the second exits with 130, and the session is woken like one that was killed."""
    model = script({"text": "word " * 4_000, "deltaChars": 5, "delayMs": 20}, {"text": "x"})
    words = [sys.executable, "-c", DEAF, "run", "--model", model, "hi"]
    talk = Conversation(words, 80, dict(os.environ))
    talk.expect("word word")
    talk.type("\x03")
    talk.expect("press Ctrl-C again to leave at once")
    talk.type("\x03")
    talk.expect("`wakelog wake agent_user_1` continues the session")
    assert talk.end().code == 130
    assert "cancelled" not in kinds(shell)
    assert shell.process("wake", "agent_user_1").code == 130
    assert kinds(shell).count("cancelled") == 1

"""A chat that is killed, run by another process, or opened again (laws 5 and 15)."""

import os
import shlex
import signal

from tests.cli.chat.inspection import READY, entries, kinds, prompts
from tests.cli.chat.tmux import Pane
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import Message
from wakelog.session import Session

SLOW = {"text": "\n\n".join(f"Part {number} of it." for number in range(60)), "deltaChars": 5, "delayMs": 5}


def test_a_killed_chat_is_continued(shell, script, chat):
    """SIGKILL in the middle of a stream: a new chat shows the displayed text, and the turn continues by itself."""
    pane = chat("--model", script(SLOW, {"text": "Hello again."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("Part 3 of it.")
    os.kill(pane.pid(), signal.SIGKILL)
    killed = pane.ended(137)
    assert "Part 59" not in killed
    again = chat("-c")
    seen = again.expect("reply interrupted; starting over")
    assert "› go" in seen
    assert "Part 3 of it." in seen[: seen.index("starting over")]
    again.expect("Part 59 of it.")
    again.until(again.rests)
    assert kinds(shell).count("partial") == 1
    assert kinds(shell).count("resumed") == 1
    again.say("and now?")
    again.expect("Hello again.")
    assert prompts(shell) == ["go", "and now?"]


def test_a_killed_chat_is_resumed(shell, script, chat):
    """A model that can resume finishes the interrupted block; nothing is printed twice."""
    pane = chat("--resume", "--model", script({"options": {"canResume": True}}, SLOW))
    pane.expect(READY)
    pane.say("go")
    pane.expect("Part 3 of it.")
    os.kill(pane.pid(), signal.SIGKILL)
    pane.ended(137)
    again = chat("-c")
    again.expect("Part 59 of it.")
    again.until(again.rests)
    lines = [line for line in again.scrolled().splitlines() if line.startswith("Part")]
    assert lines == [f"Part {number} of it." for number in range(60)]


def test_options_wait_until_an_interrupted_turn_is_over(shell, script, chat, gate):
    """RUN-11: a message to a busy agent is queued without them; the first message to an idle agent applies them."""
    cut = {**SLOW, "toolCalls": [gate.call()]}
    pane = chat("--yes", "--model", script(cut, {"text": "One."}, {"text": "Two."}, {"text": "Three."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("Part 3 of it.")
    os.kill(pane.pid(), signal.SIGKILL)
    pane.ended(137)
    again = chat("-c", "--unknown", "ask", columns=120)
    again.expect("shell cat gate")
    again.say("and this")
    again.expect("the agent is busy; new options apply to the first message sent when idle", "» queued: and this")
    again.say("/model demo")
    again.expect("the agent is busy; wait until it is idle, or cancel the turn with Esc")
    again.say("/steer and that")
    again.expect("» next step: and that")
    gate.open()
    again.expect("› and that", "› and this")
    again.until(again.rests)
    assert (kinds(shell).count("context"), kinds(shell).count("model_change")) == (1, 0)
    again.say("now")
    again.expect("› now")
    again.until(again.rests)
    assert [entry["policy"].get("unknown") for entry in entries(shell) if entry["type"] == "context"][1:] == ["ask"]
    assert again.scrolled().count("new options apply to") == 1


def test_a_terminated_chat_restores_the_terminal(shell, script, chat):
    """SIGTERM in the middle of a stream: the lease is released, and the shell has its terminal back."""
    pane = chat("--model", script(SLOW))
    pane.expect(READY)
    pane.say("go")
    pane.expect("Part 3 of it.")
    os.kill(pane.pid(), signal.SIGTERM)
    assert "left while the agent works; `wakelog wake agent_user_1` continues it" in pane.ended(143)
    assert b"\x1b[?2004l" in pane.written(b"[exit 143]")
    assert entries(shell)[-1]["event"] == "left"


def test_suspended_and_continued(shell, script, tmp_path_factory):
    """Ctrl-Z gives the terminal to the shell, and `fg` gives it back with everything on it."""
    model = script({"text": "One."})
    folder = tmp_path_factory.mktemp("t", numbered=True)
    pane = Pane(folder, ["bash", "--norc", "--noprofile", "-i"], dict(os.environ), store=shell.store)
    try:
        pane.say(shlex.join(shell.command("chat", "--model", model)))
        pane.expect(READY)
        pane.type("hel")
        pane.expect("› hel")
        pane.press("C-z")
        pane.expect("Stopped")
        pane.say("echo $((6 * 7)) in the shell; fg")
        pane.expect("42 in the shell")
        pane.until(lambda seen: "› hel" in seen[seen.index("42 in the shell") :])
        pane.say("lo")
        pane.expect("› hello", "One.")
    finally:
        pane.close()


def test_a_session_that_another_process_runs(shell, script, chat, gate):
    """It looks the same; a message is queued, and is answered by the process that runs the session (RUN-11)."""
    model = script({"text": "First I look.", "toolCalls": [gate.call()]}, {"text": "Seen."}, {"text": "Answered."})
    other = shell.start("run", "--yes", "--model", model, "go", "--json")
    for line in other.stdout:
        if b'"tool_started"' in line:
            break
    pane = chat("agent_user_1")
    pane.expect("› go", "First I look.", "shell cat gate", "running in another process")
    pane.say("and this?")
    pane.expect("» queued: and this?")
    gate.open()
    pane.expect("✓ shell cat gate", "Seen.", "› and this?", "Answered.")
    other.communicate()
    assert len({entry["holder"] for entry in entries(shell) if entry["type"] == "activity"}) <= 2


def test_a_store_that_is_unreachable_for_a_while(shell, script, chat):
    """It is reported once, typed text stays, and the chat continues when the store is back."""
    pane = chat("--model", script({"text": "One."}, {"text": "Two."}), columns=160)
    pane.expect(READY)
    pane.say("go")
    pane.until(lambda seen: "One." in seen and pane.rests(seen))
    shell.store.rename(shell.folder / "away")
    pane.expect("cannot follow agent_user_1")
    pane.type("and now?")
    pane.expect("› and now?")
    (shell.folder / "away").rename(shell.store)
    pane.press("Enter")
    seen = pane.expect("Two.")
    assert seen.count("cannot follow agent_user_1") == 1
    assert prompts(shell) == ["go", "and now?"]


def test_cancelled_by_another_process(shell, script, chat, gate):
    """The chat shows it as its own."""
    pane = chat("--yes", "--model", script({"toolCalls": [gate.call()]}, {"text": "Next."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell cat gate")
    assert shell.process("cancel", "agent_user_1").code == 0
    pane.expect("· cancelled")


def test_decided_by_another_process(shell, script, chat):
    """The question is not asked here any more, and the session continues there."""
    call = {"name": "shell", "input": {"command": "echo hi"}}
    pane = chat("--model", script({"toolCalls": [call]}, {"text": "Finished."}))
    pane.expect(READY)
    pane.say("go")
    pane.expect("[y] once")
    assert shell.process("questions", "agent_user_1", "--approve", "--wake").code == 0
    pane.expect("✓ shell echo hi", "Finished.")
    pane.until(lambda seen: "[y] once" not in seen)


def test_the_beginning_of_an_opened_session(shell, script, chat):
    """The last exchange, and the number of messages above it."""
    model = script({"text": "One."}, {"text": "Two."}, {"text": "Three."})
    for word in ("first", "second", "third"):
        words = ("-s", "agent_user_1") if word != "first" else ("--model", model)
        assert shell.process("run", *words, word, typed=b"").code == 0
    pane = chat("agent_user_1")
    seen = pane.expect("4 messages not shown; `wakelog show agent_user_1` shows all", "› third", "Three.", READY)
    assert "second" not in seen
    before = (shell.store / "agent_user_1.jsonl").read_bytes()
    pane.press("C-d")
    pane.ended(0)
    assert (shell.store / "agent_user_1.jsonl").read_bytes() == before


def test_a_long_exchange_is_shown_from_its_end(shell, script, chat):
    long = {"text": "\n\n".join(f"Part {number}." for number in range(100))}
    assert shell.process("run", "--model", script(long), "go", typed=b"").code == 0
    seen = chat("@latest").expect("Part 99.", READY)
    assert "61 blocks of the last exchange not shown" in seen
    assert "Part 10." not in seen


def test_the_latest_in_this_folder(shell, chat, monkeypatch):
    """`-c` means the last changed session of this agent and sender in this folder, and never a sub-agent's."""
    assert shell.process("run", "--yes", "--model", "demo", "ask an agent to list .", typed=b"").code == 0
    elsewhere = shell.folder / "elsewhere"
    elsewhere.mkdir()
    assert shell.process("run", "--model", "demo", "--cwd", str(elsewhere), "list .", typed=b"").code == 0
    assert shell.process("run", "--model", "demo", "--agent", "crab", "list .", typed=b"").code == 0
    chat("-c").expect("› ask an agent to list .", READY)
    chat("-c", "--agent", "crab").expect("crab_user_1", READY)
    chat("-c", "--sender", "nobody").ended(3)
    seen = shell.terminal("chat", "-c", "--sender", "nobody", columns=300).out
    assert "`wakelog chat` creates one; `wakelog chat --pick` lists the others" in seen


def test_the_latest_is_of_exactly_this_agent_and_sender(shell, chat):
    """ST-1: neither a sender whose name looks alike, nor a fork without a message of a person, is continued."""
    for sender, text in (("TG 1", "list ."), ("tg:1", "list src"), ("Иван", "list docs"), ("Мария", "list tests")):
        assert shell.process("run", "--model", "demo", "--sender", sender, text, typed=b"").code == 0
    chat("-c", "--sender", "TG 1").expect("› list .", READY)
    chat("-c", "--sender", "Иван").expect("› list docs", READY)
    chat("-c", "--sender", "tg-1").ended(3)
    spoken = shell("ls", "--sender", "Иван", "--json").rows[0]["name"]
    forked = shell("fork", spoken, "--new-session").out.strip()
    assert shell("rename", forked, "later").code == 0
    chat("-c", "--sender", "Иван").expect(spoken, READY)
    assert shell("append", forked, "what now?").code == 0
    chat("-c", "--sender", "Иван").expect(forked, READY)


def test_an_unknown_outcome_is_asked_about(shell, script, chat, gate):
    """Killed while a tool ran that may not run twice: a person says whether it did (law 6)."""
    model = script({"toolCalls": [gate.call()]}, {"text": "Finished."})
    pane = chat("--yes", "--unknown", "ask", "--model", model)
    pane.expect(READY)
    pane.say("go")
    pane.expect("shell cat gate")
    os.kill(pane.pid(), signal.SIGKILL)
    pane.ended(137)
    again = chat("-c")
    again.expect("Did it run?  [y] yes  [n] no  [r] run it again  [l] later")
    # A session that waits for a person has no spinner and no seconds.
    again.until(lambda seen: "• shell cat gate" in map(str.rstrip, seen.splitlines()))
    again.say("l")
    again.until(lambda seen: "[y] yes" not in seen and "1 question" in seen and "• shell cat gate" in seen)
    again.say("/questions")
    again.expect("[y] yes")
    again.say("n")
    again.expect("Finished.")


# ── sessions with another model ──────────────────────────────────────────────────────────────────


def test_an_imported_session_is_opened_and_continued(shell, store, chat):
    """ST-9: /open shows a session whatever its model; the next message uses the configured one, which a line says."""
    session = imported(store)
    pane = chat(columns=200)
    pane.expect(READY)
    pane.say(f"/open {session.name}")
    pane.expect(f"opened {session.name}", "Fixed it.")
    pane.until(pane.rests)
    pane.say("hello")
    pane.expect(f"{session.name} continues with demo", "I am the demo model")
    assert kinds(shell, session.name).count("context") == 1


def test_a_session_whose_model_cannot_be_called_is_shown(shell, store, chat):
    """ST-9: from the command line, too; a message is refused, and nothing is written, until /model chooses another."""
    session = Session.create(store, agent="own", provider="openrouter", model="kimi-k2")
    session.append(Message(message=Prompt(content="Fix it.")))
    session.append(Message(message=Reply(content="Fixed it.")))
    before = kinds(shell, session.name)
    pane = chat(session.name, columns=200)
    pane.expect("Fixed it.", "unknown provider 'openrouter'; /model PROVIDER:NAME chooses another model")
    pane.say("hello")
    pane.expect("use one of anthropic:NAME")
    pane.expect("› hello")
    assert kinds(shell, session.name) == before
    pane.press("C-u")
    pane.say("/model demo")
    pane.expect("model changed to demo")
    pane.say("hello")
    pane.expect("I am the demo model")


def imported(store):
    session = Session.create(store, agent="codex", settings={"imported": "codex"})
    session.append(Message(message=Prompt(content="Fix it.")))
    session.append(Message(message=Reply(content="Fixed it.", model="kimi-k2", provider="openrouter")))
    return session

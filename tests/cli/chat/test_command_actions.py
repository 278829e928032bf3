"""The commands of a chat: each change is an entry, and the output is that of the command line."""

from tests.cli.chat.inspection import READY, entries, kinds, prompts


def begun(chat, model, *words):
    pane = chat("--model", model, *words, rows=40)
    pane.expect(READY)
    return pane


def said(pane, text, answer):
    pane.say(text)
    pane.expect(answer)
    pane.until(pane.rests)


def test_branches(shell, script, chat):
    """/head continues from an earlier entry, /fork in a new session; nothing is copied and nothing is lost."""
    pane = begun(chat, script({"text": "One."}, {"text": "Two."}, {"text": "Three."}))
    said(pane, "first", "One.")
    said(pane, "second", "Two.")
    one = next(entry["seq"] for entry in entries(shell) if entry.get("message", {}).get("role") == "assistant")
    pane.say(f"/head {one}")
    pane.expect("head moved; the next message continues from there", "moves it back")
    pane.say("another way")
    pane.until(lambda seen: seen.count("Two.") == 2 and pane.rests(seen))
    pane.say("/tree")
    pane.expect("├─○ user", "◀ head")
    assert kinds(shell).count("head") == 1
    pane.say("/fork")
    pane.expect("forked into agent_user_2; /open agent_user_1 returns to the original")
    said(pane, "in the fork", "Three.")
    assert (prompts(shell, "agent_user_2"), "in the fork" in prompts(shell)) == (["in the fork"], False)
    pane.say("/open agent_user_1")
    pane.expect("opened agent_user_1")
    pane.until(lambda seen: seen.splitlines()[-1].startswith("agent_user_1"))
    pane.say("/open ./sessions/agent_user_1.jsonl")
    pane.expect("agent_user_1.jsonl is in another store")
    pane.say("/head nowhere")
    pane.expect("no entry nowhere in agent_user_1")


def test_settings(shell, script, chat):
    """VIEW-12: /model, /rename and /compact are entries; a model that cannot be opened changes nothing."""
    long = [{"text": f"{word} " + "word " * 4_000} for word in ("One.", "Two.")]
    pane = begun(chat, script(*long, {"text": "A summary of it."}))
    said(pane, "first", "One.")
    said(pane, "second", "Two.")
    pane.say("/rename The parser")
    pane.expect("renamed to The")
    pane.until(lambda seen: "The" in seen.splitlines()[-1])
    pane.say("/compact Mind the names.")
    pane.expect("· compacted from about")
    pane.until(pane.rests)
    asked = next(entry for entry in entries(shell) if entry["type"] == "queued")
    assert (asked["mode"], asked["message"]["content"][0]["text"]) == ("compact", "Mind the names.")
    pane.say("/model nobody:x")
    pane.expect("unknown provider 'nobody'")
    pane.say("/model demo")
    pane.expect("model changed to demo")
    pane.until(lambda seen: "· demo ·" in seen.splitlines()[-1])
    assert kinds(shell).count("model_change") == 1
    said(pane, "hello", "I am the demo model")
    (*_, context) = [entry for entry in entries(shell) if entry["type"] == "context"]
    (*_, call) = [entry for entry in entries(shell) if entry["type"] == "call"]
    assert [context["environment"][key] for key in ("provider", "model")] == [call["provider"], call["model"]]
    assert call["model"] == "demo"


def test_always_is_named_and_revoked(shell, script, chat):
    """RUN-13: `always` allows every call of one tool, and says so; `show` and `tree` name it; /ask revokes it."""
    calls = [{"toolCalls": [{"name": "shell", "input": {"command": f"echo {at} >> ran"}}]} for at in range(3)]
    pane = begun(chat, script(*calls[:2], {"text": "One."}, calls[2], {"text": "Two."}))
    pane.say("go")
    pane.expect("shell: Run it?  [y] once  [a] always shell, in this session  [n] no, then Enter")
    pane.say("a")
    pane.expect("✓ shell echo 1 >> ran", "One.")
    pane.until(pane.rests)
    assert "context: shell runs without approval" in shell("show", "agent_user_1").out
    assert "context: shell runs without approval" in shell("tree", "agent_user_1").out
    pane.say("/ask")
    pane.expect("run without approval in this session: read, list, grep, shell;")
    pane.say("/ask shel")
    pane.expect("the session has no tool 'shel'")
    pane.say("/ask shell")
    pane.expect("run without approval in this session: read, list, grep;")
    assert "context: shell needs approval" in shell("tree", "agent_user_1").out
    pane.say("go on")
    pane.expect("command: echo 2 >> ran", "shell: Run it?")
    pane.say("n")
    pane.expect("Two.")
    assert (shell.folder / "ran").read_text() == "0\n1\n"


def test_a_failed_turn_is_retried(shell, script, chat):
    """RUN-12: from where it began to fail, as `wakelog wake --retry` does; without a failure that is said."""
    pane = begun(chat, script({"error": {"kind": "auth", "message": "no such key"}}, {"text": "Better."}))
    pane.say("go")
    pane.expect("the turn failed: no such key; /retry runs it again")
    pane.until(pane.rests)
    pane.say("/retry")
    pane.until(lambda seen: seen.count("the turn failed: no such key") == 2)
    script({"text": "Better."})
    pane.say("/retry")
    assert "head moved" not in pane.expect("Better.")
    pane.until(pane.rests)
    assert prompts(shell) == ["go"]
    pane.say("/retry")
    pane.expect("the last turn of agent_user_1 did not fail")


def test_a_retry_with_a_model_that_cannot_be_used_writes_nothing(shell, script, chat):
    """RUN-12: the turn stays failed, and can be retried when the model can be used again."""
    pane = begun(chat, script({"error": {"kind": "auth", "message": "no such key"}}))
    pane.say("go")
    pane.expect("the turn failed: no such key; /retry runs it again")
    pane.until(pane.rests)
    before = kinds(shell)
    (shell.folder / "script.jsonl").unlink()
    pane.say("/retry")
    pane.expect("· the script /")
    pane.until(pane.rests)
    assert kinds(shell) == before
    script({"text": "Better."})
    pane.say("/retry")
    pane.expect("Better.")


def test_sessions(shell, script, chat):
    """/new creates another session, with the same settings, at the next message."""
    pane = begun(chat, script({"text": "One."}), "--agent", "crab")
    said(pane, "first", "One.")
    pane.say("/new")
    pane.expect("the next message begins a new session; /open crab_user_1 returns")
    assert not (shell.store / "crab_user_2.jsonl").exists()
    said(pane, "again", "One.")
    assert prompts(shell, "crab_user_2") == ["again"]


def test_commands_that_only_read(script, chat):
    pane = begun(chat, script({"text": "One."}), "--system", "Be very brief.")
    said(pane, "first", "One.")
    pane.say("/context")
    pane.expect("sha256:", "instructions  4 tokens", "user  2 tokens")
    pane.say("/usage")
    pane.expect("agent_user_1: 1 call, ")
    pane.say("/questions")
    pane.expect("no open questions")
    pane.say("/head")
    pane.expect("the head is ")
    pane.say("/model")
    pane.expect("/model PROVIDER:NAME changes it")
    pane.say("/help")
    pane.expect("/compact [INSTRUCTIONS]", "Alt-Enter, Ctrl-J")
    pane.say("/quit")
    pane.ended(0)


def test_a_busy_session_is_not_left(script, chat, gate):
    """Commands that would leave a running session wait; commands that only read do not."""
    pane = begun(chat, script({"toolCalls": [gate.call()]}, {"text": "Finished."}), "--yes")
    pane.say("go")
    pane.expect("shell cat gate")
    for command in ("/new", "/fork", "/head 1", "/open agent_user_1"):
        pane.say(command)
    pane.until(lambda seen: seen.count("the agent is busy") == 4)
    pane.say("/tree")
    pane.expect("◀ head")
    gate.open()
    pane.expect("Finished.")


def test_completion(script, chat):
    """Commands, and after them entries, models and sessions; Tab takes the first."""
    pane = begun(chat, script({"text": "One."}))
    said(pane, "first of all", "One.")
    pane.type("/f")
    pane.expect("/fork [ENTRY]")
    pane.press("Tab")
    pane.type(" ")
    pane.expect("first of all")
    pane.press("C-c", "C-c")
    pane.type("/model ")
    pane.expect("anthropic:", "demo")
    pane.press("C-c", "C-c")
    pane.type("/open ")
    pane.expect("agent_user_1  first of all")


def test_a_refused_message_is_not_lost(shell, script, chat):
    """A session that was ended meanwhile takes no message; the text stays in the input."""
    pane = begun(chat, script({"text": "One."}))
    said(pane, "first", "One.")
    (shell.folder / "script.jsonl").unlink()
    pane.say("precious words")
    seen = pane.expect("script.jsonl")
    pane.until(lambda seen: "› precious words" in seen)
    pane.press("C-c")
    pane.say("/steer at once")
    pane.until(lambda seen: seen.count("· the script") > 1 and "› /steer at once" in seen)
    assert prompts(shell) == ["first"]
    assert seen


def test_the_last_named_model_answers(shell, script, chat):
    """/model replaces a model of the command line that no message has used yet."""
    pane = begun(chat, script({"text": "One."}))
    said(pane, "first", "One.")
    pane.press("C-d")
    pane.ended(0)
    again = begun(chat, f"scripted:{shell.folder}/script.jsonl", "-c")
    again.say("/model demo")
    again.expect("model changed to demo")
    said(again, "hello", "I am the demo model")
    assert kinds(shell).count("model_change") == 1

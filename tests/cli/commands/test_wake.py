"""`wake`: a session continues with nothing but its name, in another process (RUN-2, RUN-4, RUN-19, law 15)."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from tests.patience import PATIENCE_S
from wakelog.log.content import Reply, Text, ToolCall
from wakelog.log.entry import ContextEntry, Failed, Message, ModelCall, ModelChange
from wakelog.runtime.context_entry import store_declarations
from wakelog.session import Session
from wakelog.tools import builtin_tools


def unanswered_session(store, model, prompt="hi", **more):
    """Create a session with an unanswered prompt."""
    provider, _, name = model.partition(":")
    session = Session.create(store, agent="crab", provider=provider, model=name, **more)
    session.append(ContextEntry())
    session.say(prompt)
    return session


def begun(shell, *words):
    """Start a run; return it when it has begun to print."""
    child = shell.start("run", *words, stdin=subprocess.DEVNULL)
    assert child.stdout.read(10)
    return child


def killed(child):
    child.kill()
    child.wait()
    child.stdout.close()
    child.stderr.close()


def test_after_a_kill_in_the_middle_of_a_reply(shell, script):
    """RUN-8, RUN-20: killed while it streams; woken without an argument, with the configuration removed."""
    model = script({"text": "word " * 40, "deltaChars": 5, "delayMs": 20})
    killed(begun(shell, "--model", model, "hi"))
    assert shell("ls", "--json").json["state"] == "interrupted"
    woken = shell.process("wake", "agent_user_1", env={"WAKELOG_MODEL": "nosuch:model"})
    assert (woken.code, woken.out) == (0, "word " * 40 + "\n")
    kinds = [entry["type"] for entry in shell("show", "agent_user_1", "--json").rows]
    assert kinds.index("partial") < kinds.index("resumed")
    assert shell("verify", "agent_user_1").code == 0


def test_a_wake_without_work_writes_nothing(shell, story):
    """RUN-4: it takes no lease and writes nothing."""
    log = shell.store / "crab_user_1.jsonl"
    before = log.read_bytes()
    answer = shell.process("wake", "crab_user_1")
    assert (answer.code, answer.out, log.read_bytes()) == (0, "", before)


def test_a_session_that_another_process_runs(shell, store, script):
    session = unanswered_session(store, script({"text": "x"}))
    lease = session.acquire("a worker", ttl_s=60)
    assert shell.process("wake", session.name).code == 5
    session.release(lease)
    assert shell.process("wake", session.name).out == "x\n"


def test_one_session_or_all(shell):
    assert [shell.process(*words).code for words in (("wake",), ("wake", "x", "--all"))] == [2, 2]
    assert (shell.process("wake", "--all").code, shell.process("wake", "nobody").code) == (0, 3)


def test_all(shell, store, script):
    """A line for each after its text; one that fails does not stop the others; nothing is woken twice."""
    unanswered_session(store, script({"text": "first"}, name="1.jsonl"))
    unanswered_session(store, "scripted:/gone.jsonl")
    busy = unanswered_session(store, script({"text": "busy"}, name="3.jsonl"))
    asks = unanswered_session(store, script({"toolCalls": [{"name": "shell", "input": {}}]}, name="4.jsonl"))
    asks.append(ContextEntry(policy={"approval": "ask"}, tools=store_declarations(store, builtin_tools("", ["shell"]))))
    away = unanswered_session(store, script({"text": "away"}, name="5.jsonl"))
    away.archive()
    unanswered_session(store, script({"text": "last"}, name="6.jsonl"))
    lease = busy.acquire("a worker", ttl_s=60)
    answer = shell.process("wake", "--all")
    assert told(answer.out) == {
        "crab_user_1": ["| first", " idle"],
        "crab_user_2": [" failed"],
        "crab_user_3": [" another process runs it"],
        "crab_user_4": [" waiting"],
        "crab_user_6": ["| last", " idle"],
    }
    assert answer.code == 1
    assert "/gone.jsonl" in answer.err
    busy.release(lease)
    script({"text": "back"}, name="gone.jsonl")
    moved = Session(store, "crab_user_2")
    moved.append(ModelChange(provider="scripted", model=str(shell.folder / "gone.jsonl")))
    again = shell.process("wake", "--all", "--json")
    ends = {row["name"]: row["state"] for row in again.rows if row["event"] == "end"}
    assert ends == {"crab_user_2": "idle", "crab_user_3": "idle", "crab_user_4": "waiting"}
    assert again.code == 6


@pytest.mark.parametrize("address", ["crab_me_1", "--all"])
def test_a_session_of_a_configured_agent_is_woken(shell, mine, script, monkeypatch, address):
    """RUN-15, law 2: `new`, `append`, `wake`: the configuration creates the first `context` entry of the session."""
    monkeypatch.delenv("WAKELOG_MODEL")
    mine(f'[agents.crab]\nmodel = "{script({"text": "Here I am."})}"\nsystem = "Be brief."\n')
    assert shell.process("new", "--agent", "crab", "--sender", "me").out == "crab_me_1\n"
    shell.process("append", "crab_me_1", "What can you do?")
    answer = shell.process("wake", address)
    assert (answer.code, "Here I am." in answer.out) == (0, True)
    assert shell("export", "crab_me_1").raw.count(b'"type":"context"') == 1
    assert shell.process("wake", address).code == 0


def test_a_model_that_cannot_be_asked_changes_nothing(shell, store, monkeypatch):
    """RUN-2: nothing is written by an attempt that cannot succeed, however often a timer makes it."""
    monkeypatch.delenv("WAKELOG_MODEL")
    nobody = Session.create(store, agent="nobody")
    nobody.say("Is anybody there?")
    keyless = unanswered_session(store, "anthropic:x")
    sizes = [len(session.read().entries) for session in (nobody, keyless)]
    alone = shell.process("wake", nobody.name)
    assert (alone.code, "run -s nobody_user_1 --model" in alone.err) == (2, True)
    assert "ANTHROPIC_API_KEY" in shell.process("wake", keyless.name).err
    together = shell.process("wake", "--all")
    assert told(together.out)["nobody_user_1"] == [" has no model that can be called"]
    assert (together.code, "nobody" in together.err) == (1, False)
    assert [len(session.read().entries) for session in (nobody, keyless)] == sizes


@pytest.mark.parametrize("words", [("crab_user_1",), ("--all",)])
def test_a_failed_turn_is_retried_on_request(shell, store, script, words):
    """RUN-12: a timer does not retry it for ever; `--retry` does, and the failure stays in the log."""
    model = script({"error": {"kind": "auth", "message": "no such key"}})
    session = unanswered_session(store, model)
    assert shell.process("wake", session.name).code == 1
    script({"text": "here"})
    assert "here" not in shell.process("wake", *words).out
    assert "here" in shell.process("wake", "--retry", *words).out
    assert [entry.value.reason for entry in session.read().entries if isinstance(entry.value, Failed)] == ["call"]
    assert shell.process("wake", "--retry", session.name).code == 0


def told(out):
    """Return the lines of each session, in their order."""
    lines = [line.partition(" ") for line in out.splitlines()]
    return {name: [rest for other, _, rest in lines if other == name] for name, _, _ in lines}


LATER = {"error": {"kind": "busy", "message": "come back later", "retryable": True, "delayMs": 3_600_000}}


def read_to(stream, words):
    """Read lines until one contains this text; return them."""
    lines: list[str] = []
    while not lines or words not in lines[-1]:
        lines.append(stream.readline().decode())
        assert lines[-1], lines
    return "".join(lines)


def test_all_run_at_once(shell, store, script):
    """One that waits an hour for its provider does not delay the others; the output of each is whole and in order."""
    unanswered_session(store, script(LATER, name="1.jsonl"))
    for number in (2, 3, 4):
        spoken = {"text": f"one {number}\ntwo\n\x1b[2J", "deltaChars": 1, "delayMs": 1}
        unanswered_session(store, script(spoken, name=f"{number}.jsonl"))
    with shell.start("wake", "--all", "--jobs", "3", stdin=subprocess.DEVNULL) as child:
        heard = "".join(read_to(child.stdout, "  idle") for _ in range(3))
        assert shell("cancel", "crab_user_1").code == 0
        heard += child.stdout.read().decode()
        assert child.wait(PATIENCE_S) == 0
    for number in (2, 3, 4):
        assert told(heard)[f"crab_user_{number}"] == [f"| one {number}", "| two", "| \u241b[2J", " idle"]
    assert told(heard)["crab_user_1"] == [" cancelled"]


def test_all_with_a_limit(shell, store, script):
    """The next one is started when one has ended; the oldest first."""
    for number in (1, 2):
        unanswered_session(store, script(LATER, name=f"{number}.jsonl"))
    unanswered_session(store, script({"text": "Mine."}, name="3.jsonl"))
    with shell.start("wake", "--all", "--jobs", "2", stdin=subprocess.DEVNULL) as child:
        for _ in range(2):
            read_to(child.stderr, "next attempt in")
        shell("cancel", "crab_user_2")
        assert read_to(child.stdout, "idle") == "crab_user_2  cancelled\ncrab_user_3 | Mine.\ncrab_user_3  idle\n"
        shell("cancel", "crab_user_1")
        assert child.wait(PATIENCE_S) == 0
    assert shell("wake", "@latest", "--jobs", "2").code == 2


def test_all_interrupted(shell, store, script):
    """RUN-12: Ctrl-C ends the running turns with entries; sessions that were not started are unchanged."""
    for number in (1, 2):
        unanswered_session(store, script(LATER, name=f"{number}.jsonl"))
    unanswered_session(store, script({"text": "Mine."}, name="3.jsonl"))
    untouched = (shell.store / "crab_user_3.jsonl").read_bytes()
    with shell.start("wake", "--all", "--json", "--jobs", "2", stdin=subprocess.DEVNULL) as child:
        heard = read_to(child.stdout, '"failed"')
        heard += read_to(child.stdout, '"failed"')
        child.send_signal(signal.SIGINT)
        heard += child.stdout.read().decode()
        assert child.wait(PATIENCE_S) == 130
    ends = [row for row in map(json.loads, heard.splitlines()) if row["event"] == "end"]
    assert sorted((end["name"], end["state"]) for end in ends) == [
        ("crab_user_1", "cancelled"),
        ("crab_user_2", "cancelled"),
    ]
    assert (shell.store / "crab_user_3.jsonl").read_bytes() == untouched
    assert shell.process("wake", "--all").out == "crab_user_3 | Mine.\ncrab_user_3  idle\n"


def test_all_as_events(shell, store, script):
    """Each event is a line that names its session; each session has one end, also one that could not be woken."""
    unanswered_session(store, script({"text": "word " * 20, "deltaChars": 5, "delayMs": 1}, name="1.jsonl"))
    unanswered_session(store, script({"text": "word " * 20, "deltaChars": 5, "delayMs": 1}, name="2.jsonl"))
    unanswered_session(store, "scripted:/gone.jsonl")
    busy = unanswered_session(store, script({"text": "busy"}, name="4.jsonl"))
    lease = busy.acquire("a worker", ttl_s=60)
    answer = shell.process("wake", "--all", "--json")
    busy.release(lease)
    states = [row["state"] for row in sorted(answer.rows, key=lambda row: row.get("name", "")) if row["event"] == "end"]
    assert (answer.code, states) == (1, ["idle", "idle", "failed", "running"])
    for name in ("crab_user_1", "crab_user_2"):
        own = [row for row in answer.rows if row["session"] == Session(store, name).id]
        assert "".join(row["text"] for row in own if row["event"] == "delta") == "word " * 20
        assert own[-1]["event"] == "end"


def test_all_wakes_parents_before_their_sub_agents(shell, script):
    """TREE-6: an interrupted sub-agent continues once, for its parent."""
    model = script(
        {"text": "I ask.", "toolCalls": [{"name": "agent", "input": {"prompt": "list ."}}]},
        {"text": "It is done."},
    )
    child = shell.start("run", "--yes", "--model", model, "hi", stdin=subprocess.DEVNULL)
    assert child.wait(PATIENCE_S) == 0
    child.stdout.close()
    child.stderr.close()
    # As if the machine had died right after the sub-agents got their tasks.
    for number, kept in ((1, "spawned"), (2, "message")):
        log = shell.store / f"agent_user_{number}.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        last = next(at for at, line in enumerate(lines) if json.loads(line)["type"] == kept)
        log.write_bytes(b"".join(lines[: last + 1]))
    for log in shell.store.glob("agent_user_[3-9].jsonl"):
        log.unlink()
    shutil.rmtree(shell.folder / "cache", ignore_errors=True)
    answer = shell.process("wake", "--all")
    assert answer.code == 0
    assert "agent_user_1  idle" in answer.out
    runs = shell("tree", "agent_user_1", "--runs", "--json").json
    assert (runs["state"], [run["name"] for run in runs["runs"]]) == ("idle", ["agent_user_2"])


def test_foreign_calls_are_never_run(shell, store):
    """Law 6: a hand-made log with an open call is settled, not executed."""
    session = Session.create(store, agent="crab", provider="demo", model="demo")
    session.say("go")
    made = Reply(content=(Text(text="now"), ToolCall(id="t1", name="shell", input={"command": "touch ran"})))
    session.append(Message(message=made))
    assert shell.process("wake", session.name).code == 0
    assert not (shell.folder / "ran").exists()
    assert b"does not show whether it ran" in (shell.store / f"{session.name}.jsonl").read_bytes()
    assert not any(
        isinstance(entry.value, ModelCall) and not entry.value.context_digest for entry in session.read().entries
    )


def test_a_cancel_from_another_process(shell, script):
    """RUN-12: `cancel` reaches the process that runs the session, and the turn ends with an entry; exit code 130."""
    model = script({"text": "word " * 4_000, "deltaChars": 5, "delayMs": 20}, {"text": "still here"})
    child = begun(shell, "--model", model, "hi")
    assert shell("cancel", "agent_user_1", "--json").json["mode"] == "cancel"
    assert child.wait(PATIENCE_S) == 130
    assert b"cancelled" in child.stderr.read()
    child.stdout.close()
    child.stderr.close()
    shown = shell("show", "agent_user_1").out
    assert "assistant, interrupted" in shown
    assert shell("cancel", "agent_user_1").err.startswith("wakelog: agent_user_1 has no turn to cancel")


def test_a_cancel_while_waiting_to_retry(shell, script):
    """A cancel ends the wait: the provider asked for an hour."""
    fault = {"kind": "busy", "message": "come back later", "retryable": True, "delayMs": 3_600_000}
    child = shell.start("run", "--model", script({"error": fault}), "hi", stdin=subprocess.DEVNULL)
    line = child.stderr.readline()
    assert b"the model call failed: come back later; next attempt in 60 min at the earliest" in line
    assert shell("cancel", "agent_user_1").code == 0
    assert child.wait(PATIENCE_S) == 130
    child.stdout.close()
    child.stderr.close()


def test_a_cancel_without_a_worker(shell, script):
    """RUN-12: it stays in the log, and the next wake ends the turn instead of continuing it."""
    model = script({"text": "word " * 400, "deltaChars": 5, "delayMs": 20})
    killed(begun(shell, "--model", model, "hi"))
    assert "`wakelog wake agent_user_1` ends the turn" in shell("cancel", "agent_user_1").err
    assert shell.process("wake", "agent_user_1").code == 130
    assert shell("ls", "--json").json["state"] == "idle"


def test_sigterm_leaves_a_session_to_be_woken(shell, script):
    model = script({"text": "word " * 40, "deltaChars": 5, "delayMs": 20})
    child = begun(shell, "--model", model, "hi")
    os.kill(child.pid, signal.SIGTERM)
    child.wait()
    child.stdout.close()
    child.stderr.close()
    assert shell.process("wake", "@latest").out == "word " * 40 + "\n"


def _at_rest_after_a_cancel(shell, script):
    model = script({"toolCalls": [{"name": "shell", "input": {"command": "echo hi"}}]}, {"text": "Never said."})
    assert shell("run", "Go.", "--model", model, "--tools", "shell").code == 6
    assert shell("cancel", "@latest").code == 0
    assert shell("wake", "@latest").code == 130


def test_a_cancelled_turn_is_reported_once(shell, script):
    """RUN-12: the process that ends the turn reports it; waking again does nothing, prints nothing, and succeeds."""
    _at_rest_after_a_cancel(shell, script)
    (path,) = shell.store.glob("*.jsonl")
    before = path.read_bytes()
    answer = shell("wake", "@latest", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert path.read_bytes() == before


def test_waking_an_idle_session_notes_no_torn_tail(shell, script):
    """Law 9: nothing was written, so the output does not say that damage was noted."""
    _at_rest_after_a_cancel(shell, script)
    (path,) = shell.store.glob("*.jsonl")
    torn = path.read_bytes()[:-40]
    path.write_bytes(torn)
    answer = shell("wake", "@latest", "--quiet")
    assert answer.code == 0
    assert "noted now" not in answer.err
    assert "damaged" in answer.err
    assert path.read_bytes() == torn


@pytest.mark.parametrize("words", [("crab_user_1",), ("--all",)])
def test_a_retry_that_cannot_be_asked_writes_nothing(shell, store, script, words):
    """RUN-2: the model is checked before `--retry` moves the head."""
    session = unanswered_session(store, script({"error": {"kind": "auth", "message": "no such key"}}))
    assert shell.process("wake", session.name).code == 1
    os.remove(shell.folder / "script.jsonl")
    before = [entry.raw for entry in session.read().entries]
    answer = shell.process("wake", "--retry", *words)
    assert (answer.code != 0, "cannot be read" in answer.err) == (True, True)
    assert [entry.raw for entry in session.read().entries] == before

"""`context --exact` and `--diff`, `tree --runs`, `compact` by the model: what happened, read from the log (VIEW-9)."""

import json

import pytest

from wakelog.cli.ui.safe_text import hostile_characters
from wakelog.log.entry import ModelCall
from wakelog.session import Session


@pytest.fixture
def talked(shell, script):
    """Three turns: a tool, plain text, and a failure; other instructions from the second turn on."""
    (shell.folder / "a.txt").write_text("long words " * 100)
    model = script(
        {"text": "I look.", "toolCalls": [{"name": "read", "input": {"path": "a.txt"}}]},
        {"text": "It says so.\x1b[2J"},
        {"text": "Yes."},
        {"error": {"kind": "down", "message": "no line"}},
        {"text": "In short."},
        {"text": "After the fold."},
    )
    shell.process("run", "-q", "--model", model, "--system", "Be brief.", "What does a.txt say?", typed=b"")
    shell.process("run", "-q", "-s", "agent_user_1", "--system", "Be kind.", "Sure?", typed=b"")
    shell.process("run", "-q", "-s", "agent_user_1", "And now?", typed=b"")
    return shell


def seqs(shell, kind):
    return [str(row["seq"]) for row in shell("show", "agent_user_1", "--json").rows if row["type"] == kind]


def rows(shell, kind):
    return [row for row in shell("show", "agent_user_1", "--json").rows if row["type"] == kind]


def test_every_call_is_rebuilt(talked):
    """VIEW-9: the request of each call is rebuilt, and the digest in the log says that it is the same."""
    for at in seqs(talked, "call"):
        answer = talked("context", "agent_user_1", "--at", at, "--exact", "--json")
        told = answer.json
        assert (answer.code, told["same"], told["digest"] == told["logged"]) == (0, True, True)
    assert told["system"] == "Be kind."
    assert [tool["name"] for tool in told["tools"]][:3] == ["read", "list", "grep"]
    assert told["messages"][-1]["content"][0]["text"] == "And now?"


def test_a_call_by_its_reply_or_failure(talked):
    """A reply or a failure stands for its call; without an entry the last call is meant."""
    calls = [row["id"] for row in rows(talked, "call")]
    replies = [row["id"] for row in rows(talked, "message") if row["message"]["role"] == "assistant"]
    exact = [talked("context", f"agent_user_1:{reply}", "--exact", "--json").json["call"] for reply in replies]
    assert exact == calls[:3]
    failed = rows(talked, "failed")[0]["id"]
    assert talked("context", "agent_user_1", "--at", failed, "--exact", "--json").json["call"] == calls[3]
    assert talked("context", "agent_user_1", "--exact", "--json").json["call"] == calls[3]
    assert talked("context", "agent_user_1", "--at", "2", "--exact").code == 2


def test_a_request_as_text(talked):
    shown = talked.process("context", "agent_user_1", "--at", seqs(talked, "call")[2], "--exact")
    assert shown.code == 0
    for words in ("digest ok", "Be kind.", "What does a.txt say?", '[read] {"path":"a.txt"}', "long words", "␛[2J"):
        assert words in shown.out
    assert not hostile_characters().search(shown.out.replace("\n", ""))


def test_a_changed_log_is_found(talked):
    """Exit code 4: the rebuilt request differs from the digest in the log."""
    log = talked.store / "agent_user_1.jsonl"
    log.write_bytes(log.read_bytes().replace(b"Sure?", b"Fine."))
    answer = talked("context", "agent_user_1", "--exact", "--json")
    assert (answer.code, answer.json["same"]) == (4, False)
    assert "digest differs" in talked("context", "agent_user_1", "--exact").out


def test_difference(talked):
    first, second, third, _ = seqs(talked, "call")
    kept = talked("context", "agent_user_1", "--diff", first, second, "--json").json
    assert (kept["kept"], kept["common"], len(kept["added"])) == (True, 1, 2)
    broken = talked("context", "agent_user_1", "--diff", second, third, "--json").json
    assert (broken["kept"], broken["breaksAt"], broken["breaksBy"]) == (False, 0, "system")
    shown = talked.process("context", "agent_user_1", "--diff", second, third)
    assert "broke before the first message: the system changed" in shown.out
    assert "+ " in shown.out
    assert not hostile_characters().search(shown.out.replace("\n", ""))
    assert talked("context", "agent_user_1", "--diff", first, second, "--exact").code == 2


def test_compacted_by_the_model(talked):
    """RUN-16: `compact` asks the session's own model; a difference across the compaction says what it replaces."""
    answer = talked("compact", "agent_user_1", "--instructions", "Names!", "--json")
    assert (answer.code, answer.json["type"], answer.json["trigger"]) == (0, "compaction", "manual")
    assert "compacted from about" in answer.err
    assert talked.process("run", "-q", "-s", "agent_user_1", "More?", typed=b"").out == "After the fold.\n"
    calls = seqs(talked, "call")
    assert talked("context", "agent_user_1", "--at", calls[-2], "--exact", "--json").json["purpose"] == "compaction"
    found = talked("context", "agent_user_1", "--diff", calls[2], calls[-1], "--json").json
    assert (found["breaksAt"], found["breaksBy"]) == (1, "fold")
    assert {lost["why"] for lost in found["dropped"]} == {"fold"}
    assert "a compaction replaces" in talked("context", "agent_user_1", "--diff", calls[2], calls[-1]).out


def test_a_compaction_that_fails(shell, script):
    """Exit code 1: nothing to compact, or a useless summary. Nothing is changed."""
    shell.process("run", "-q", "--model", script({"text": "Hello."}, {"text": "long " * 500}), "hi", typed=b"")
    answer = shell("compact", "agent_user_1")
    assert (answer.code, "no shorter" in answer.err) == (1, True)
    shell("new")
    assert shell("compact", "agent_user_2").code == 1
    assert shell("compact", "agent_user_1", "--summary", "x", "--instructions", "y").code == 2


@pytest.mark.meddled
def test_a_compaction_of_a_busy_session(talked, store):
    """While a worker holds it, the request is queued. With a turn to continue and no worker: exit code 5."""
    session = Session(store, "agent_user_1")
    lease = session.acquire("a worker", ttl_s=60)
    answer = talked("compact", "agent_user_1", "--json")
    assert (answer.code, answer.json["type"], answer.json["mode"]) == (0, "queued", "compact")
    assert "the compaction waits in its queue" in answer.err
    session.release(lease)
    talked.process("wake", "agent_user_1")
    assert len(rows(talked, "compaction")) == 1
    session.say("go on")
    session.append(ModelCall(call_id="c", reply_id="r"))
    assert talked("compact", "agent_user_1").code == 5


def test_the_tree_of_runs(shell):
    """TREE-6: sub-agents by the annotations of the session that started them, each with its state; one never began."""
    shell.process("run", "-q", "--yes", "ask a sub-agent to list .", typed=b"")
    lines = shell.process("tree", "agent_user_1", "--runs").out.splitlines()
    assert lines == ["agent_user_1  idle  ask a sub-agent to list .", "└─ agent_user_2  idle  list ."]
    runs = shell("tree", "agent_user_1", "--runs", "--json").json
    assert [(run["name"], run["state"], run["prompt"]) for run in runs["runs"]] == [("agent_user_2", "idle", "list .")]
    spawned = next(row for row in shell("show", "agent_user_1", "--json").rows if row["type"] == "spawned")
    assert (runs["runs"][0]["session"], runs["runs"][0]["entry"]) == (spawned["childSession"], spawned["replyId"])
    (shell.store / "agent_user_2.jsonl").unlink()
    assert "not created yet" in shell.process("tree", "agent_user_1", "--runs").out


def test_a_cycle_of_runs_ends(shell):
    """A log of another program may say that it is its own sub-agent; the cycle is not followed."""
    shell.process("run", "-q", "--yes", "ask a sub-agent to list .", typed=b"")
    log = shell.store / "agent_user_1.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    own = json.loads(lines[0])["id"].encode()
    child = json.loads(next(line for line in lines if b'"spawned"' in line))["childSession"].encode()
    log.write_bytes(b"".join(lines).replace(child, own))
    assert shell("tree", "agent_user_1", "--runs", "--json").json["runs"] == []


def test_an_interrupted_session_is_shown(shell, script, store):
    """`show` says what is queued, started and interrupted; in `tail` a call by itself is neither."""
    model = script({"text": "May I?", "toolCalls": [{"name": "shell", "input": {"command": "true"}}]}, {"text": "x"})
    shell.process("run", "-q", "--model", model, "hi", typed=b"")
    shell("append", "agent_user_1", "and hurry")
    shown = shell.process("show", "agent_user_1").out
    assert "shell  true  waiting" in shown
    assert "user, waiting in the queue" in shown
    assert "context: tools, approval ask" in shown
    assert "shell  true\n" in shell.process("tail", "agent_user_1").out
    shell("questions", "agent_user_1", "--approve")
    assert "shell  true  decided" in shell.process("show", "agent_user_1").out

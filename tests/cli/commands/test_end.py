"""`wakelog end`, dormant sessions and uptime on the command line (RUN-15, RUN-21, ST-3)."""

import json
import subprocess

import pytest

from tests.cli.commands.test_wake import unanswered_session
from wakelog.log.entry import Activity, Failed, Head, ModelCall
from wakelog.runtime.user_actions import retry_turn
from wakelog.session import Session


def test_end(shell, story):
    """RUN-21: a reason in the log, the state in lists, and one clear line for every later message."""
    story.user("hello")
    story.reply("hi")
    answer = shell("end", "crab_user_1", "--reason", "moved elsewhere")
    assert answer.code == 0
    entry = shell("show", "crab_user_1", "--json").rows[-1]
    assert (entry["type"], entry["reason"], entry["id"]) == ("terminated", "moved elsewhere", answer.out.strip())
    assert shell("ls", "--json").json["state"] == "terminated"
    refusals: tuple[tuple[str, ...], ...] = (
        ("append", "crab_user_1", "more"),
        ("end", "crab_user_1"),
        ("head", "crab_user_1", "1"),
        ("run", "-s", "crab_user_1", "more"),
        ("run", "-s", "crab_user_1"),
    )
    for words in refusals:
        refused = shell(*words)
        assert (refused.code, refused.out) == (5, "")
        assert "is terminated; `wakelog fork crab_user_1 --new-session` continues it in a new session" in refused.err
        assert refused.err.count("\n") == 1
    assert json.loads(shell("append", "crab_user_1", "more", "--json").err)["error"]["kind"] == "session_ended"
    assert shell("rename", "crab_user_1", "Over").code == 0
    assert shell("label", "crab_user_1", "1", "x").code == 0
    assert shell("archive", "crab_user_1").code == 0
    assert shell("fork", "crab_user_1", "--new-session").code == 0
    assert shell("wake", "crab_user_1").code == 0


def test_end_with_force_cancels_the_running_turn(shell, script):
    """RUN-21: refused while a process runs it; with --force that process ends the turn, and then the session ends."""
    model = script({"text": "word " * 400, "deltaChars": 5, "delayMs": 20})
    with shell.start("run", "--model", model, "hi", stdin=subprocess.DEVNULL) as child:
        assert child.stdout.read(10)
        refused = shell.process("end", "agent_user_1")
        assert (refused.code, "is being run by" in refused.err) == (5, True)
        ended = shell.process("end", "agent_user_1", "--force", "--json")
        assert child.wait() == 130
        child.stdout.read(), child.stderr.read()
    assert (ended.code, "was cancelled" in ended.err) == (0, True)
    assert ended.json["dropped"] == {"calls": [], "replies": [], "queued": []}
    kinds = [entry["type"] for entry in shell("show", "agent_user_1", "--json").rows]
    assert kinds.index("cancelled") < kinds.index("terminated")
    assert kinds[-1] == "terminated"


def test_a_fork_or_a_moved_head_is_not_woken_by_all(shell, store, script):
    """RUN-15: `wake --all` skips them, with --retry too; by name they are woken, and a message ends that."""
    parent = unanswered_session(store, script({"text": "first"}, name="1.jsonl"))
    assert shell.process("wake", "--all").code == 0
    prompt = next(node.id for node in parent.branch().nodes if node.type == "message")
    fork = shell("fork", f"{parent.name}:{prompt}", "--new-session").out.strip()
    shell("head", parent.name, prompt)
    sizes = [len(Session(store, name).read().entries) for name in (parent.name, fork)]
    assert {row["name"]: row["state"] for row in shell("ls", "--json").rows} == {
        parent.name: "dormant",
        fork: "dormant",
    }
    for words in (("wake", "--all"), ("wake", "--all", "--quiet"), ("wake", "--all", "--retry")):
        answer = shell.process(*words)
        assert (answer.code, answer.out) == (0, "")
    assert [len(Session(store, name).read().entries) for name in (parent.name, fork)] == sizes
    script({"text": "by name"}, name="1.jsonl")
    assert shell.process("wake", fork).out == "by name\n"
    assert {row["name"]: row["state"] for row in shell("ls", "--json").rows} == {parent.name: "dormant", fork: "idle"}


@pytest.mark.meddled
def test_failures_inherited_by_a_fork_are_not_retried(shell, store, script):
    """RUN-15: `wake --all --retry` does not retry in a fork what had failed in its parent."""
    parent = unanswered_session(store, script({"text": "first"}, name="1.jsonl"))
    parent.append(Failed(reason="call"))
    fork = shell("fork", parent.name, "--new-session").out.strip()
    answer = shell.process("wake", "--all", "--retry", "--json")
    ends = {row["name"]: row["state"] for row in answer.rows if row["event"] == "end"}
    assert ends == {parent.name: "idle", fork: "dormant"}
    assert len(Session(store, fork).read().entries) == 1


@pytest.mark.meddled
def test_a_retry_is_a_request_to_run(shell, store, script):
    """RUN-15: `retry` marks its `head`, so that `wake --all` wakes the session."""
    session = unanswered_session(store, script({"text": "again"}, name="1.jsonl"))
    session.append(Failed(reason="call"))
    assert retry_turn(session).value.reason == "retry"
    assert [entry.value.reason for entry in session.read().entries if isinstance(entry.value, Head)] == ["retry"]
    assert shell("ls", "--json").json["state"] == "pending"
    assert "again" in shell.process("wake", "--all").out


@pytest.mark.meddled
def test_uptime_is_shown(shell, story):
    """ST-3: in seconds in `ls --json`, in words in `show`; without the time after a worker died."""
    story.user("hello")
    story.session.append(Activity(holder="a", timestamp="2026-01-01T10:00:00.000Z"))
    story.session.append(ModelCall(reply_id="r", timestamp="2026-01-01T10:00:30.000Z"))
    story.session.append(Activity(holder="b", timestamp="2026-01-02T10:00:00.000Z"))
    story.session.append(Activity(holder="b", event="left", timestamp="2026-01-02T10:00:10.000Z"))
    assert shell("ls", "--json").json["uptime"] == 40
    assert "uptime 40.0 s" in shell("show", "crab_user_1").out

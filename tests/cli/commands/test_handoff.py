"""`export --to` and `handoff`: a session for another agent (ST-9), here for pi."""

import json
import os

import pytest

from wakelog.exchange import handoff as handing
from wakelog.log.entry import Cancelled


@pytest.fixture
def story(story):
    """A session with a tool call, and an entry that pi has no record for."""
    story.user("Which tests are flaky?")
    reply = story.reply("I will look.", calls=[("t1", "grep", {"pattern": "flaky"})])
    story.result(reply, "t1", "two of them")
    story.reply("Two of them.")
    story.session.append(Cancelled(reason="enough"))
    return story


@pytest.fixture
def pi(tmp_path, monkeypatch):
    """The folder of pi."""
    folder = tmp_path / "pi"
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(folder))
    return folder


def written(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def texts(message):
    return [part["text"] for part in message["content"] if part["type"] == "text"]


def test_export_writes_the_format_and_reports_losses(shell, story, tmp_path):
    answer = shell("export", "crab_user_1", "--to", "pi")
    assert (answer.code, json.loads(answer.out.splitlines()[0])["type"]) == (0, "session")
    assert "1 × cancelled" in answer.err
    assert shell("export", "crab_user_1", "--to", "pi", "-o", str(tmp_path / "out.jsonl")).code == 0
    assert (tmp_path / "out.jsonl").read_text() == answer.out
    again = shell("export", "crab_user_1", "--to", "pi", "-o", str(tmp_path / "out.jsonl"))
    assert (again.code, "already exists" in again.err) == (2, True)
    assert shell("export", "crab_user_1", "--to", "pi", "-f", "md").code == 2
    assert shell("export", "crab_user_1:2", "--to", "pi").code == 2


def test_handoff_writes_one_new_file_and_says_how_to_go_on(shell, story, pi):
    """The file is private, and is imported as the same conversation."""
    answer = shell("handoff", "crab_user_1", "--to", "pi", "--yes")
    (path,) = written(pi)
    assert answer.out.splitlines()[0] == f"wrote {path}"
    assert f"pi --session {path}" in answer.out.splitlines()[-1]
    assert (answer.code, os.stat(path).st_mode & 0o777) == (0, 0o600)
    imported = shell("import", str(path), "--json").json["name"]
    shown = [shell("context", name, "--json").json["messages"] for name in ("crab_user_1", imported)]
    ours, theirs = ([(message["role"], texts(message)) for message in messages] for messages in shown)
    assert (ours, len(ours)) == (theirs, 4)


def test_handoff_never_overwrites(shell, story, pi):
    shell("handoff", "crab_user_1", "--to", "pi", "--yes")
    (path,) = written(pi)
    path.write_text("continued there")
    answer = shell("handoff", "crab_user_1", "--to", "pi", "--yes")
    assert (answer.code, "already exists" in answer.err, path.read_text()) == (2, True, "continued there")
    story.user("More.")
    assert shell("handoff", "crab_user_1", "--to", "pi", "--yes").code == 0
    assert len(written(pi)) == 2


def test_handoff_asks_first(shell, story, pi):
    """Without a terminal and without --yes, nothing is written; neither by a dry run, nor after a no."""
    refused = shell("handoff", "crab_user_1", "--to", "pi")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    planned = shell("handoff", "crab_user_1", "--to", "pi", "--dry-run", "--json").json
    assert (planned["written"], planned["tool"]) == (False, "pi")
    talk = shell.talk("handoff", "crab_user_1", "--to", "pi")
    talk.expect("[y/N]")
    talk.type("n\n")
    assert talk.end().code != 0
    assert not pi.exists()


def test_what_was_written_is_compared(shell, story, pi, monkeypatch):
    """A session that the tool would read differently is reported, with the first turn that is missing."""
    monkeypatch.setattr(handing, "_read_back", lambda plan, environ: [("x", [("prompt", "Which tests are flaky?")])])
    answer = shell("handoff", "crab_user_1", "--to", "pi", "--yes")
    assert (answer.code, "the reply 'I will look.' is missing" in answer.err) == (1, True)


def test_a_tool_that_loads_sessions_must_be_installed(shell, story, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = shell("handoff", "crab_user_1", "--to", "opencode", "--yes")
    assert (answer.code, "is not installed" in answer.err) == (2, True)

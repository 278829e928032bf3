"""`export --to` and `handoff`: a session for another agent (ST-9), here for pi."""

import json
import os

import pytest

from wakelog.exchange import handoff as handing
from wakelog.log.entry import Cancelled, ModelChange
from wakelog.session import Session


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


# ── what the tool does not have here ─────────────────────────────────────────────────────────────


@pytest.fixture
def opencode(tmp_path, monkeypatch):
    """A stand-in for OpenCode that lists two models; the session of the tests names one of a third provider."""
    program = tmp_path / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntest \"$1\" = models || exit 1\nprintf 'acme/large\\nacme/small\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


def planned(shell, *options):
    answer = shell("handoff", "crab_user_1", "--dry-run", "--json", *options)
    assert answer.code == 0, answer.err
    return answer.json


def test_a_model_that_the_tool_does_not_have_is_replaced_in_the_command(shell, story, opencode):
    """OpenCode ends with an error where the provider of the last model is not configured."""
    story.session.append(ModelChange(model="claude-x", provider="anthropic"))
    plan = planned(shell, "--to", "opencode")
    assert plan["resume"][-2:] == ["--model", "PROVIDER/MODEL"]
    assert "opencode has no model anthropic/claude-x: it has acme/large, acme/small" in plan["warnings"]
    text = shell("handoff", "crab_user_1", "--to", "opencode", "--dry-run")
    assert "has no model anthropic/claude-x" in text.err
    assert text.out.rstrip().endswith("--model PROVIDER/MODEL")


def test_a_model_that_the_tool_has_is_not_named(shell, story, opencode):
    story.session.append(ModelChange(model="small", provider="acme"))
    plan = planned(shell, "--to", "opencode", "--cwd", ".")
    assert (plan["resume"][1], plan["warnings"]) == ("--session", [])
    assert "--model" not in plan["resume"]


def test_a_model_is_chosen(shell, story, opencode, pi):
    assert planned(shell, "--to", "opencode", "--model", "acme/large")["resume"][-2:] == ["--model", "acme/large"]
    refused = shell("handoff", "crab_user_1", "--to", "opencode", "--model", "acme/huge", "--dry-run")
    assert (refused.code, "it has acme/large, acme/small" in refused.err) == (2, True)
    assert planned(shell, "--to", "pi", "--model", "m2")["resume"][-2:] == ["--model", "m2"]


def test_a_tool_that_takes_no_model_says_so(shell, story, opencode):
    opencode.rename(opencode.with_name("goose"))
    refused = shell("handoff", "crab_user_1", "--to", "goose", "--model", "m2", "--dry-run")
    assert (refused.code, "goose takes no model for a session" in refused.err) == (2, True)


def test_a_tool_that_lists_no_models_is_no_error(shell, story, opencode):
    opencode.write_text("#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    story.session.append(ModelChange(model="claude-x", provider="anthropic"))
    [*_, warning] = planned(shell, "--to", "opencode")["warnings"]
    assert "the model anthropic/claude-x is not known: `opencode models` failed: no network" in warning


@pytest.mark.parametrize("target", ["pi", "codex", "claude-code", "gemini", "opencode"])
def test_a_folder_that_is_not_here_is_told_before_anything_is_written(shell, store, opencode, target, tmp_path):
    Session.create(store, agent="crab", cwd=str(tmp_path / "gone")).user("Go")
    answer = shell("handoff", "crab_user_1", "--to", target)
    assert f"the folder {tmp_path / 'gone'} does not exist here" in answer.err
    assert answer.err.index("does not exist here") < answer.err.index("--yes agrees")
    moved = planned(shell, "--to", target, "--cwd", str(tmp_path))
    assert (moved["cwd"], [each for each in moved["warnings"] if "folder" in each]) == (str(tmp_path), [])
    refused = shell("handoff", "crab_user_1", "--to", target, "--cwd", str(tmp_path / "gone"))
    assert (refused.code, "is not a folder" in refused.err) == (2, True)

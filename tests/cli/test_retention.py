"""The retention guard of `doctor` (ST-9): which tools delete their sessions, and what is not imported yet."""

import json
import os
import time

import pytest

from wakelog.exchange.retention import deletes_after_days
from wakelog.exchange.sync_index import SyncIndex

DAY_S = 86_400
RECORD = {
    "type": "user",
    "uuid": "0199aaaa-0000-4000-8000-000000000001",
    "parentUuid": None,
    "sessionId": "0199aaaa-0000-4000-8000-000000000000",
    "timestamp": "2026-03-01T10:00:00.000Z",
    "message": {"role": "user", "content": "hi"},
    "cwd": "/repo",
    "version": "2.1.0",
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with two sessions of Claude Code, one of them 28 days old."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "claude" / "projects" / "-repo"
    folder.mkdir(parents=True)
    for number, age in enumerate((1, 28)):
        path = folder / f"0199aaaa-0000-4000-8000-00000000000{number}.jsonl"
        path.write_text(json.dumps({**RECORD, "sessionId": path.stem}) + "\n")
        then = time.time() - age * DAY_S
        os.utime(path, (then, then))
    return tmp_path


def claude(answer):
    (found,) = (each for each in answer.json["tools"] if each["tool"] == "claude-code")
    return found


def test_doctor_says_what_will_be_deleted_and_is_not_imported(shell, home):
    before = claude(shell("doctor", "--json"))
    assert before == {
        "tool": "claude-code",
        "files": 2,
        "notImported": 2,
        "deletesAfterDays": 30,
        "deletedSoon": 1,
    }
    text = shell("doctor").out
    assert "2 session files, 2 not imported; it deletes them after 30 days, 1 within a week" in text
    shell("import", "--all")
    after = claude(shell("doctor", "--json"))
    assert (after["notImported"], after["deletedSoon"]) == (0, 0)


@pytest.mark.parametrize(
    ("tool", "settings", "days"),
    [
        ("claude-code", None, 30),
        ("claude-code", {"cleanupPeriodDays": 365}, 365),
        ("claude-code", {"cleanupPeriodDays": "x"}, 30),
        ("claude-code", [], 30),
        ("gemini-cli", None, 30),
        ("gemini-cli", {"general": {"sessionRetention": {"enabled": False}}}, None),
        ("gemini-cli", {"general": {"sessionRetention": {"maxAge": "48h"}}}, 2),
        ("gemini-cli", {"general": {"sessionRetention": {"maxAge": "2w"}}}, 14),
        ("gemini-cli", {"general": 7}, 30),
        ("pi", None, None),
    ],
)
def test_the_settings_of_the_tool_count(tmp_path, tool, settings, days):
    folder = tmp_path / {"claude-code": ".claude", "gemini-cli": ".gemini", "pi": ".pi/agent"}[tool]
    folder.mkdir(parents=True)
    if settings is not None:
        (folder / "settings.json").write_text(json.dumps(settings))
    assert deletes_after_days(tool, {"HOME": str(tmp_path)}) == days


def test_an_index_that_cannot_be_read_counts_as_empty(tmp_path):
    (tmp_path / "imports.db").write_bytes(b"not a database")
    with SyncIndex(str(tmp_path), "url") as index:
        assert index.unchanged("/nowhere") is None

"""Every command reports damage (law 9): each of them meets a damaged session here.

The commands and their flags are taken from the program itself (`reading_commands.py`).
"""

import pytest

from tests.cli.reading_commands import LISTS, READS_NO_ENTRIES, RUNS, WRITES, ways_to_read
from wakelog.cli import COMMANDS
from wakelog.testing.builders import SessionBuilder

pytestmark = pytest.mark.meddled


@pytest.fixture
def hurt(store):
    """A session of five entries whose fifth line cannot be read; return the offset of that line."""
    story = SessionBuilder(store)
    story.user("one")
    reply = story.reply("two", calls=[("t1", "grep", {})])
    story.result(reply, "t1")
    story.user("three")
    path = store.folder.log_path("crab_user_1")
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    with open(path, "wb") as file:
        file.write(b"".join([*lines[:4], b"\x00" * 30 + b"\n", *lines[4:]]))
    return sum(map(len, lines[:4]))


@pytest.mark.parametrize("words", list(ways_to_read()), ids=" ".join)
def test_reading_a_damaged_session_says_where_and_why(shell, hurt, words):
    """Law 9: line, byte and reason, exit code 4, and the output is still given."""
    answer = shell(*words)
    told = answer.out + answer.err if words[0] in ("verify", "doctor") else answer.err
    assert answer.code == 4, told
    assert f"{hurt}" in told
    assert "not JSON" in told
    assert "line 5" in told or '"line":5' in told
    assert "crab_user_1" in told or "--json" in words
    assert answer.raw or words[0] in ("questions", "replay", "show")


@pytest.mark.parametrize("name", LISTS)
def test_a_list_names_the_damaged_session(shell, hurt, name):
    """Law 9: the list is given, the damaged session is named on stderr, and the exit code is 0."""
    answer = shell(name, *LISTS[name])
    assert answer.code == 0
    assert "damaged" in answer.err
    assert "wakelog doctor crab_user_1" in answer.err


@pytest.mark.parametrize("name", WRITES)
def test_writing_to_a_damaged_session_says_so(shell, hurt, name):
    """Law 9: the entry is written, the damage is reported, and the exit code is 0."""
    answer = shell(name, *WRITES[name])
    assert answer.code == 0, answer.err
    assert "crab_user_1 has a damaged place" in answer.err


def test_waking_a_damaged_session_says_so(shell, hurt):
    """Law 9: a run of a damaged session reports the damage."""
    for words in (("run", "-s", "crab_user_1", "--model", "demo", "hi"), ("wake", "crab_user_1")):
        answer = shell(*words, typed="")
        assert answer.code == 0, answer.err
        assert "crab_user_1 has a damaged place" in answer.err


def test_every_command_is_in_one_place():
    """A new command reads a session, or is named in a table."""
    named = [*READS_NO_ENTRIES, *LISTS, *WRITES, *RUNS]
    assert set(named) <= set(COMMANDS)
    reading = {words[0] for words in ways_to_read()}
    assert set(COMMANDS) == reading | set(named)
    assert ["tree", "crab_user_1", "--runs"] in list(ways_to_read())


# ── more than one session ────────────────────────────────────────────────────────────────────────


def test_a_damaged_sub_agent_is_reported_by_the_tree_of_runs(shell, script, store):
    """Law 9: the tree of runs reads every session in it, and says which one is damaged, and where."""
    asks = {"toolCalls": [{"name": "agent", "input": {"prompt": "hi"}}]}
    shell("run", "--yes", "--model", script(asks, {"text": "done"}), "go", typed="")
    assert shell("tree", "agent_user_1", "--runs").code == 0
    (child,) = [run["name"] for run in shell("tree", "agent_user_1", "--runs", "--json").json["runs"]]
    with open(store.folder.log_path(child), "ab") as file:
        file.write(b"rubbish\n")
    answer = shell("tree", "agent_user_1", "--runs")
    assert answer.code == 4
    assert f"{child}: line" in answer.err
    assert "not JSON" in answer.err


def test_questions_continues_after_an_unreadable_session(shell, script, store, hurt):
    """Law 9: questions of other sessions are listed, and the unreadable one is reported."""
    asks = {"toolCalls": [{"name": "shell", "input": {"command": "true"}}]}
    assert shell("run", "--model", script(asks), "go", typed="").code == 6
    with open(store.folder.log_path("crab_user_1"), "wb") as file:
        file.write(b'{"v":99,"type":"session","id":"s","version":99}\n')
    answer = shell("questions")
    assert (answer.code, "agent_user_1" in answer.out) == (6, True)
    assert "format 99" in answer.err


def test_a_copy_reports_the_damage_of_each_session_and_copies_it(shell, hurt, store):
    """Law 9: damage is copied byte for byte, and reported with every copy."""
    for status in ("copied", "unchanged"):
        answer = shell("copy", "--all", "--to", "elsewhere", "--json")
        assert (answer.code, answer.json["status"]) == (4, status)
        assert [(found["line"], found["offset"], found["kind"]) for found in answer.json["damage"]] == [
            (5, hurt, "unreadable")
        ]
        assert f"crab_user_1: line 5, byte {hurt}: not JSON" in answer.err
        assert "copied as it is" in answer.err
    there = shell.folder / "elsewhere" / "crab_user_1.jsonl"
    assert there.read_bytes() == (shell.store / "crab_user_1.jsonl").read_bytes()

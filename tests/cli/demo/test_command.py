"""The demonstrations work, show what they promise, and leave nothing behind (RUN-20)."""

import re

import pytest


@pytest.fixture
def nothing_left(shell, tmp_path, monkeypatch):
    """Assert that the user's store is untouched, and that no temporary folder is left."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    yield
    assert not shell.store.exists()
    assert not (shell.folder / "data").exists()
    assert list(place.iterdir()) == []


@pytest.mark.usefixtures("nothing_left")
def test_the_agent_is_killed_twice_and_wakes(shell, monkeypatch):
    """RUN-20: killed in a stream and in a tool; the tool ran once; verify and replay pass; six answers from the log."""
    # The user's configuration does not matter here, whether it is missing or broken.
    monkeypatch.delenv("WAKELOG_MODEL")
    monkeypatch.setenv("WAKELOG_CONFIG", "/nowhere.toml")
    answer = shell.process("demo")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.count("(kill -9") == 2
    assert "Counted outside the log: ledger.txt has 1 line." in answer.out
    assert "shell  echo published >> ledger.txt; sleep 60  unknown" in answer.out
    assert re.search(r"demo_you_1: ok, \d+ entries", answer.out)
    assert re.search(r"ok  \d+ lines; \d+ entries reproduced exactly \(3 workers\)", answer.out)
    assert [int(number) for number in re.findall(r"^(\d)\. [A-Z]", answer.out, re.MULTILINE)] == [1, 2, 3, 4, 5, 6]
    assert "partial 1, resumed 1" in answer.out
    assert answer.out.count("(the worker was killed here)") == 2
    assert "def build_context(" in answer.out
    assert "demo_you_2" in answer.out
    assert "\x1b" not in answer.out


@pytest.mark.usefixtures("nothing_left")
def test_the_tour(shell):
    """Written, branched, compacted, damaged, salvaged, verified, searched, exported; the user's store is untouched."""
    answer = shell.process("demo", "--tour")
    assert (answer.code, answer.err) == (0, "")
    commands = re.findall(r"^\$ wakelog (\S+)", answer.out, re.MULTILINE)
    assert set(commands) >= {"new", "append", "fork", "tree", "compact", "doctor", "verify", "search", "export"}
    assert "NOT OK" in answer.out
    assert "clean.jsonl: ok" in answer.out
    assert "exit code 4" in answer.out
    assert "Where to go next" in answer.out
    assert "\x1b" not in answer.out


def test_the_tour_on_a_terminal(shell):
    answer = shell.terminal("demo", "--tour", columns=80)
    assert answer.code == 0
    assert "\x1b[1m$ wakelog new" in answer.out
    assert "├─" in answer.out

"""The tour: it works, it shows what it promises, and it leaves nothing behind (issue 2, item 10)."""

import os
import re
import tempfile


def test_the_tour(shell):
    """Written, branched, folded, damaged, salvaged, verified, searched, exported; nobody's store is touched."""
    before = set(os.listdir(tempfile.gettempdir()))
    answer = shell.process("demo")
    assert (answer.code, answer.err) == (0, "")
    commands = re.findall(r"^\$ wakelog (\S+)", answer.out, re.MULTILINE)
    assert set(commands) >= {"new", "append", "fork", "tree", "compact", "doctor", "verify", "search", "export"}
    assert "NOT OK" in answer.out
    assert "clean.jsonl: ok" in answer.out
    assert "exit code 4" in answer.out
    assert "Where to go next" in answer.out
    assert "\x1b" not in answer.out
    assert not shell.store.exists()
    assert not (shell.folder / "data").exists()
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("wakelog-demo-")]


def test_the_tour_on_a_terminal(shell):
    answer = shell.terminal("demo", columns=80)
    assert answer.code == 0
    assert "\x1b[1m$ wakelog new" in answer.out
    assert "├─" in answer.out

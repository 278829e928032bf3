"""Fixtures that run the command line: in this process, as a real process, and on a real terminal."""

import json
import sys

import pytest

from tests.cli.running import Shell
from tests.replays import everything_replays
from tests.tools.mcp.serving import PLAIN
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import SessionBuilder


@pytest.fixture
def shell(tmp_path, monkeypatch, request):
    """A command line with its own store, cache and folder. The sessions it wrote are replayed at the end."""
    made = Shell(tmp_path, monkeypatch)
    yield made
    made.close()
    if made.store.is_dir() and request.node.get_closest_marker("meddled") is None:
        opened = JsonlStore(str(made.store))
        everything_replays(opened, [stat.name for stat in opened.sessions()])


@pytest.fixture
def mine(shell):
    """Write the user's own configuration."""
    path = shell.folder / "config" / "wakelog" / "config.toml"
    path.parent.mkdir(parents=True)
    return path.write_text


@pytest.fixture
def starts(shell, mine):
    """Configure one MCP server, `plain`; return the processes it was started as, in order."""
    file = shell.folder / "starts"
    line = f"echo $$ >> {file}; exec {sys.executable} -I -S {PLAIN}"
    mine(
        "[agents.agent]\nmcp = ['plain']\napprovals = { mcp__plain__folder = 'auto', mcp__plain__hang = 'auto' }\n"
        f"[mcp.plain]\ncommand = {json.dumps(['/bin/sh', '-c', line])}\n"
    )
    return lambda: [int(word) for word in file.read_text().split()] if file.exists() else []


@pytest.fixture
def store(shell):
    """The store that the command line uses."""
    opened = JsonlStore(str(shell.store))
    yield opened
    opened.close()


@pytest.fixture
def story(store):
    """A session `crab_user_1` to write into."""
    return SessionBuilder(store)


@pytest.fixture
def script(shell):
    """Write a script of replies; return the model name that plays it."""

    def write(*replies, name="script.jsonl"):
        path = shell.folder / name
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return f"scripted:{path}"

    return write

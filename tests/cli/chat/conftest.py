"""Chats on real terminals, with a store of their own. The sessions they wrote are replayed at the end (`shell`)."""

import json
import os

import pytest

from tests.cli.chat.inspection import Gate
from tests.cli.chat.tmux import Pane


@pytest.fixture
def chat(shell, tmp_path_factory):
    """Start a chat; return its terminal. Several may run side by side."""
    panes = []

    def begin(*words, columns=80, rows=24, env=None, command="chat", ahead=()):
        environment = {**os.environ, **(env or {})}
        environment.pop("TMUX", None)
        # The path of a socket must be short, whatever the name of the test.
        folder = tmp_path_factory.mktemp("t", numbered=True)
        panes.append(Pane(folder, shell.command(command, *words), environment, columns, rows, shell.store, ahead))
        return panes[-1]

    yield begin
    for pane in panes:
        pane.close()


@pytest.fixture
def gate(shell):
    """A pipe that a tool waits at."""
    return Gate(shell.folder / "gate")


@pytest.fixture
def mcp_servers(shell):
    """Configure servers by name, each by a shell command."""

    def write(**commands):
        tables = [
            f"[mcp.{name}]\ncommand = {json.dumps(['/bin/sh', '-c', command])}\n" for name, command in commands.items()
        ]
        path = shell.folder / "config" / "wakelog" / "config.toml"
        path.parent.mkdir(parents=True)
        path.write_text(f"[agents.agent]\nmcp = {json.dumps(list(commands))}\n\n" + "\n".join(tables))

    return write

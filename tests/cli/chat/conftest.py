"""Chats on real terminals, in a store of their own. What they wrote can be replayed at the end (`shell`)."""

import json
import os

import pytest

from tests.cli.chat.inspection import Gate
from tests.cli.chat.tmux import Pane


@pytest.fixture
def chat(shell, tmp_path_factory):
    """Begins a chat; gives its terminal. Several may run side by side."""
    panes = []

    def begin(*words, columns=80, rows=24, env=None, command="chat", ahead=()):
        environment = {**os.environ, **(env or {})}
        environment.pop("TMUX", None)
        # A socket's path must be short, whatever the test is called.
        folder = tmp_path_factory.mktemp("t", numbered=True)
        panes.append(Pane(folder, shell.command(command, *words), environment, columns, rows, shell.store, ahead))
        return panes[-1]

    yield begin
    for pane in panes:
        pane.close()


@pytest.fixture
def gate(shell):
    """What a tool waits at."""
    return Gate(shell.folder / "gate")


@pytest.fixture
def mcp_servers(shell):
    """Configures servers by their names, each by a line for the shell."""

    def write(**commands):
        tables = [
            f"[mcp.{name}]\ncommand = {json.dumps(['/bin/sh', '-c', command])}\n" for name, command in commands.items()
        ]
        path = shell.folder / "config" / "wakelog" / "config.toml"
        path.parent.mkdir(parents=True)
        path.write_text(f"[agents.agent]\nmcp = {json.dumps(list(commands))}\n\n" + "\n".join(tables))

    return write

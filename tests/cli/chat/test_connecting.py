"""A session that begins with MCP servers: they are waited for beside the drawing, and none of them can hold it up."""

import json
import os
import sys

import pytest

from tests.cli.chat.seeing import READY, entries, kinds
from tests.tools.mcp.serving import PLAIN


@pytest.fixture
def servers(shell):
    """Configures servers by their names, each by a line for the shell."""

    def write(**commands):
        tables = [
            f"[mcp.{name}]\ncommand = {json.dumps(['/bin/sh', '-c', command])}\n" for name, command in commands.items()
        ]
        path = shell.folder / "config" / "wakelog" / "config.toml"
        path.parent.mkdir(parents=True)
        path.write_text(f"[agents.agent]\nmcp = {json.dumps(list(commands))}\n\n" + "\n".join(tables))

    return write


def test_the_line_lives_while_servers_start(shell, chat, gate, servers):
    """One that is dead is a line, one that is slow is waited for, and whoever types goes on typing."""
    slow = f"cat {shell.folder}/gate >&2; exec {sys.executable} -I -S {PLAIN}"
    servers(slow=slow, dead="echo no luck >&2; exit 1")
    pane = chat("--model", "demo", columns=160)
    pane.expect(READY)
    pane.say("list .")
    pane.expect("connecting to slow, dead", "The MCP server dead did not start")
    pane.say("list again")
    pane.expect("your last message still waits; send this one after it", "› list again")
    assert not list(shell.store.glob("*.jsonl"))
    gate.open()
    pane.expect("› list .", "✓ list .", "› list again")
    pane.until(lambda seen: pane.rests(seen) and "connecting" not in seen)
    told = next(entry for entry in entries(shell) if entry["type"] == "context")["tools"]
    assert "slow" in shell("context", "agent_user_1", "--exact", "--json").out
    assert told


def test_a_message_can_be_taken_back_while_servers_start(shell, chat, servers):
    """Nothing was written, the words stand in the line again, and the server has gone; so it is for who leaves."""
    os.mkfifo(shell.folder / "gate")
    servers(mute=f"echo $$ > {shell.folder}/gate; exec sleep 600")
    pane = chat("--model", "demo", columns=160)
    pane.expect(READY)
    pane.say("//list .")
    pane.expect("connecting to mute")
    begun = (shell.folder / "gate").read_text().strip()
    pane.press("Escape")
    pane.until(lambda seen: "› //list ." in seen and "connecting" not in seen)
    pane.press("Enter")
    pane.expect("connecting to mute")
    pane.press("C-d")
    pane.ended(0)
    assert not list(shell.store.glob("*.jsonl"))
    assert not os.path.exists(f"/proc/{begun}")


def test_a_server_that_is_slow_to_go_is_seen_to_be_stopped(shell, chat, servers):
    """Esc is answered at once, however long the server takes."""
    os.mkfifo(shell.folder / "gate")
    servers(mute=f"trap '' TERM INT; echo > {shell.folder}/gate; while :; do sleep 1; done")
    pane = chat("--model", "demo", columns=160)
    pane.expect(READY)
    pane.say("list .")
    pane.expect("connecting to mute")
    (shell.folder / "gate").read_text()
    pane.press("Escape")
    pane.expect("stopping mute")
    pane.until(lambda seen: "› list ." in seen and "stopping" not in seen)


def test_a_session_that_was_made_and_never_run_waits_for_them_too(shell, chat, gate, servers):
    servers(slow=f"cat {shell.folder}/gate >&2; exec {sys.executable} -I -S {PLAIN}")
    assert shell.process("new", "--model", "demo").code == 0
    pane = chat("agent_user_1", columns=160)
    pane.expect(READY)
    pane.say("list .")
    pane.expect("connecting to slow")
    assert kinds(shell) == ["session"]
    gate.open()
    pane.expect("✓ list .")

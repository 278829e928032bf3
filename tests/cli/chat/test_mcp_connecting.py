"""A session that begins with MCP servers: the chat stays responsive while they start."""

import os
import sys

from tests.cli.chat.inspection import READY, entries, kinds, prompts
from tests.tools.mcp.serving import PLAIN


def test_the_input_works_while_servers_start(shell, chat, gate, mcp_servers):
    """A dead server is reported in a line, a slow one is waited for; typed messages are sent afterwards."""
    slow = f"cat {shell.folder}/gate >&2; exec {sys.executable} -I -S {PLAIN}"
    mcp_servers(slow=slow, dead="echo no luck >&2; exit 1")
    pane = chat("--model", "demo", columns=160)
    pane.expect(READY)
    pane.say("hello there")
    pane.expect("connecting to slow, dead", "The MCP server dead did not start")
    pane.say("list .")
    pane.expect("» queued: hello there", "» queued: list .")
    pane.type("and so")
    pane.expect("› and so")
    assert not list(shell.store.glob("*.jsonl"))
    gate.open()
    pane.expect("› hello there", "› list .", "✓ list .", "› and so")
    pane.until(lambda seen: pane.rests(seen) and "connecting" not in seen)
    assert prompts(shell) == ["hello there", "list ."]
    told = next(entry for entry in entries(shell) if entry["type"] == "context")["tools"]
    assert "slow" in shell("context", "agent_user_1", "--exact", "--json").out
    assert told


def test_a_message_can_be_cancelled_while_servers_start(shell, chat, mcp_servers):
    """Nothing is written, the text is in the input again, and the server is stopped; the same when leaving."""
    os.mkfifo(shell.folder / "gate")
    mcp_servers(mute=f"echo $$ > {shell.folder}/gate; exec sleep 600")
    pane = chat("--model", "demo", columns=160)
    pane.expect(READY)
    pane.say("//list .")
    pane.expect("connecting to mute")
    begun = (shell.folder / "gate").read_text().strip()
    pane.say("and more")
    pane.expect("» queued: and more")
    pane.press("Escape")
    pane.until(lambda seen: "› //list .\n  and more" in seen and "connecting" not in seen)
    pane.press("Enter")
    pane.expect("connecting to mute")
    pane.press("C-d")
    pane.ended(0)
    assert not list(shell.store.glob("*.jsonl"))
    assert not os.path.exists(f"/proc/{begun}")


def test_a_server_that_is_slow_to_stop(shell, chat, mcp_servers):
    """Esc is answered at once, however long the server takes."""
    os.mkfifo(shell.folder / "gate")
    mcp_servers(mute=f"trap '' TERM INT; echo > {shell.folder}/gate; while :; do sleep 1; done")
    pane = chat("--model", "demo", columns=160)
    pane.expect(READY)
    pane.say("list .")
    pane.expect("connecting to mute")
    (shell.folder / "gate").read_text()
    pane.press("Escape")
    pane.expect("stopping mute")
    pane.until(lambda seen: "› list ." in seen and "stopping" not in seen)


def test_a_session_that_was_never_run_waits_for_servers_too(shell, chat, gate, mcp_servers):
    mcp_servers(slow=f"cat {shell.folder}/gate >&2; exec {sys.executable} -I -S {PLAIN}")
    assert shell.process("new", "--model", "demo").code == 0
    pane = chat("agent_user_1", columns=160)
    pane.expect(READY)
    pane.say("list .")
    pane.expect("connecting to slow")
    assert kinds(shell) == ["session"]
    gate.open()
    pane.expect("✓ list .")

"""A chat starts each MCP server once, keeps it between turns, restarts it when it died, and stops it at the end."""

import os
import signal
import sys

import pytest

from tests.cli.chat.inspection import READY, entries
from tests.kernel.watching import until
from tests.tools.mcp.serving import PLAIN, children
from tests.tools.test_commands_shell import Watched

SEE = [{"toolCalls": [{"name": "mcp__plain__folder", "input": {}}]}, {"text": "That is all."}]


@pytest.fixture
def turns(shell, script, chat):
    """A chat whose model calls a tool of the server, turn after turn."""
    pane = chat("--model", script(*SEE * 4), columns=120)
    pane.expect(READY)
    return Turns(shell, pane)


class Turns:
    def __init__(self, shell, pane):
        self.shell, self.pane, self.count = shell, pane, 0

    def take(self):
        """Play one more turn; return how its call was settled."""
        self.count += 1
        self.pane.say(f"look {self.count}")
        self.pane.until(lambda seen: seen.count("That is all.") == self.count and self.pane.rests(seen))
        said = [entry["message"] for entry in entries(self.shell) if entry["type"] == "message"]
        return [message.get("settled", "ok") for message in said if message["role"] == "toolResult"][-1]


def test_a_server_is_started_once_and_restarted_when_killed(starts, turns):
    """RUN-7: one process lists the tools and runs them in three turns; after a kill there is another one."""
    assert [turns.take() for _ in range(3)] == ["ok"] * 3
    (first,) = starts()
    os.kill(first, signal.SIGKILL)
    # Its guard process has ended, too, which is how the chat knows.
    until(lambda: not children(turns.pane.pid()))
    assert turns.take() == "ok"
    assert len(starts()) == 2
    left = Watched(starts()[1:])
    turns.pane.press("C-d")
    turns.pane.ended(0)
    assert left.all_end()


def test_a_new_session_of_the_chat_has_the_same_server(starts, turns):
    turns.take()
    turns.pane.say("/new")
    turns.pane.expect("the next message begins a new session")
    turns.pane.say("look")
    turns.pane.until(lambda seen: seen.count("That is all.") == 2 and turns.pane.rests(seen))
    assert len(starts()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_no_server_outlives_a_chat_that_is_ended(starts, turns, number):
    """By SIGTERM, SIGHUP or SIGKILL."""
    turns.take()
    left = Watched(starts())
    os.kill(turns.pane.pid(), number)
    assert left.all_end()
    turns.pane.expect("[exit 1")


def test_leaving_by_ctrl_c(starts, turns):
    turns.take()
    left = Watched(starts())
    turns.pane.press("C-c", "C-c")
    turns.pane.ended(0)
    assert left.all_end()


def test_a_server_that_failed_is_asked_again_by_the_next_chat(shell, script, mine, chat):
    """Once in a chat: it delays only the first message, and its tools are there for all that follow."""
    program = shell.folder / "serve"
    mine(
        "[agents.agent]\nmcp = ['plain']\napprovals = { mcp__plain__folder = 'auto' }\n"
        f"[mcp.plain]\ncommand = ['{program}', '-I', '-S', '{PLAIN}']\n"
    )
    first = chat("--model", script({"text": "One."}, {"text": "Two."}, *SEE), columns=160)
    first.expect(READY)
    first.say("hello")
    first.until(lambda seen: "One." in seen and first.rests(seen))
    first.say("hello again")
    seen = first.until(lambda seen: "Two." in seen and first.rests(seen))
    assert seen.count("The MCP server plain did not start") == 1
    first.press("C-d")
    first.ended(0)
    program.symlink_to(sys.executable)
    second = chat("agent_user_1", columns=160)
    second.expect(READY)
    second.say("look")
    second.until(lambda seen: "That is all." in seen and second.rests(seen))
    said = [entry["message"] for entry in entries(shell) if entry["type"] == "message"]
    assert said[-2]["role"] == "toolResult"
    assert said[-2].get("settled", "ok") == "ok"

"""A command starts each MCP server once, from the listing to the last wake, and stops it at its end (RUN-7)."""

import json
import signal
import subprocess
import sys

import msgspec
import pytest

from tests.faults.processes import PATIENCE_S
from tests.kernel.watching import until
from tests.tools.mcp.serving import PLAIN
from tests.tools.test_commands_shell import Watched
from wakelog.app.agent import Agent
from wakelog.projections.branch_state import branch_state


def calls(name, **given):
    return {"toolCalls": [{"name": f"mcp__plain__{name}", "input": given}]}


def test_a_run_starts_a_server_once(shell, script, starts):
    """The process that listed the tools also runs them."""
    answer = shell.process("run", "--model", script(calls("folder"), {"text": "Seen."}), "Look.")
    assert (answer.out, answer.code) == ("Seen.\n", 0)
    assert len(starts()) == 1


def test_a_server_lives_on_while_a_person_is_asked(shell, script, starts):
    """Each answer is followed by another wake, which uses the same server."""
    replies = (calls("pids"), calls("folder"), calls("pids"), {"text": "Seen."})
    talk = shell.talk("run", "--model", script(*replies), "Look.")
    for _ in range(2):
        talk.expect("mcp__plain__pids")
        talk.expect("Run it?")
        talk.type("y\n")
    talk.expect("Seen.")
    assert talk.end().code == 0
    assert len(starts()) == 1


def test_an_interrupted_run_leaves_no_server(shell, script, starts):
    """Ctrl-C cancels the call, and the server ends with the command."""
    file = shell.folder / "touched"
    model = script(calls("hang", file=str(file)))
    with shell.start("run", "--model", model, "Look.", stdin=subprocess.DEVNULL) as running:
        try:
            until(file.exists)
            left = Watched(starts())
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE_S) == 130
            assert left.all_end()
        finally:
            running.kill()


def test_a_malformed_tool_is_reported_in_one_line(shell, script, mine):
    """It is reported like other errors of servers, and the session begins with all other tools."""
    command = json.dumps([sys.executable, "-I", "-S", PLAIN, "malformed"])
    mine(f"[agents.agent]\nmcp = ['plain']\n[mcp.plain]\ncommand = {command}\n")
    answer = shell.process("run", "--yes", "--model", script(calls("folder"), {"text": "Seen."}), "Look.")
    assert (answer.out, answer.code) == ("Seen.\n", 0)
    why = "is left out: it is not described as the protocol asks"
    assert f"wakelog: the tool 'none' of the MCP server plain {why} (inputSchema)\n" in answer.err


# ── servers that were not there ──────────────────────────────────────────────────────────────────


def contexts(shell):
    return [row for row in shell("show", "agent_user_1", "--json").rows if row["type"] == "context"]


def test_a_server_that_failed_is_asked_again_by_the_next_run(shell, mine, script):
    """Law 2: the missing server is known from the log; once its tools are listed, that is a new entry."""
    program = shell.folder / "serve"
    mine(f"[agents.agent]\nmcp = ['plain']\n[mcp.plain]\ncommand = ['{program}', '-I', '-S', '{PLAIN}']\n")
    model = script({"text": "One."}, {"text": "Two."}, calls("folder"), {"text": "Three."}, {"text": "Four."})
    shell.process("run", "--model", model, "--yes", "Hi.")
    mine("")
    still = shell.process("run", "-s", "agent_user_1", "And now?")
    assert "cannot start" in still.err
    assert "continues without its tools for now" in still.err
    (begun,) = contexts(shell)
    assert [server["name"] for server in begun["environment"]["absentServers"]] == ["plain"]
    program.symlink_to(sys.executable)
    assert shell.process("run", "-s", "agent_user_1", "And now?").out == "Three.\n"
    _, whole = contexts(shell)
    assert "absentServers" not in whole["environment"]
    assert {key: whole["policy"][key] for key in begun["policy"]} == begun["policy"]
    names = [tool["name"] for tool in shell("context", "agent_user_1", "--exact", "--json").json["tools"]]
    assert "mcp__plain__folder" in names
    assert names[: names.index("mcp__plain__add")] == ["read", "list", "grep", "write", "edit", "shell", "agent"]
    program.unlink()
    assert shell.process("run", "-s", "agent_user_1", "And now?").err.count("plain") == 0
    assert len(contexts(shell)) == 2


# ── names in `approvals` ─────────────────────────────────────────────────────────────────────────


def asking(tool, program=sys.executable):
    return (
        f"[agents.agent]\nmcp = ['plain']\napproval = 'auto'\napprovals = {{ {tool} = 'ask' }}\n"
        f"[mcp.plain]\ncommand = ['{program}', '-I', '-S', '{PLAIN}']\n"
    )


def test_a_misspelt_tool_of_a_server_stops_the_first_run(shell, mine, script):
    """RUN-13: the tools of a server are known once it has answered; nothing is written and no tool runs."""
    mine(asking("mcp__plain__foldre"))
    assert shell("config", "check").code == 0
    answer = shell.process("run", "--model", script(calls("folder"), {"text": "Seen."}), "Look.")
    assert (answer.code, answer.out) == (2, "")
    assert "approvals names a tool 'mcp__plain__foldre' that does not exist" in answer.err
    assert "did you mean 'mcp__plain__folder'?" in answer.err
    assert shell("ls", "--json").rows == []


def test_a_misspelt_tool_of_a_server_that_was_missing_is_corrected_in_the_configuration(shell, mine, script):
    """RUN-13, decision 027: while the server is absent the name may be right; when it answers the name is checked."""
    program = shell.folder / "serve"
    mine(asking("mcp__plain__foldre", program))
    model = script({"text": "One."}, {"text": "Two."}, calls("folder"), {"text": "Four."})
    assert shell.process("run", "--model", model, "Hi.").out == "One.\n"
    program.symlink_to(sys.executable)
    answer = shell.process("run", "-s", "agent_user_1", "And now?")
    assert (answer.code, "'mcp__plain__foldre'" in answer.err, len(contexts(shell))) == (2, True, 1)
    mine(asking("mcp__plain__folder", program))
    answer = shell.process("run", "-s", "agent_user_1", "And now?")
    assert "the session now has the approvals of the configuration" in answer.err
    *_, last = contexts(shell)
    assert last["policy"]["approvals"] == {"mcp__plain__folder": "ask"}
    asked = shell.process("run", "-s", "agent_user_1", "Look.")
    assert [row["state"] for row in shell("ls", "--json").rows] == ["waiting"], asked.err


@pytest.mark.meddled
@pytest.mark.parametrize("value", ["plain", 3, ["plain"], [{"name": 3}], [{"name": "x"}], [{"name": "x", "url": "no"}]])
def test_a_malformed_missing_server_in_a_log_starts_nothing(shell, store, value):
    """Law 13: a value that describes no server starts nothing, and the run continues."""
    session = Agent(model="demo").begin(store, cwd=str(shell.folder))
    record = branch_state(session.branch()).context.without_envelope
    session.append(msgspec.structs.replace(record, environment={**record.environment, "absentServers": value}))
    answer = shell("run", "-s", session.name, "Hi.")
    assert answer.code == 0
    assert len(contexts(shell)) == 2

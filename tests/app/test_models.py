"""Configuration is written into a session when it begins, and then read from its log only (RUN-19)."""

import json
import signal
import subprocess
import sys

import pytest

from tests.faults.processes import PATIENCE_S
from tests.kernel.watching import until
from tests.loopback import Answer, Loopback, events
from tests.tools.mcp.serving import plain, running_servers
from tests.tools.test_commands_shell import Watched


def entries(shell, name="agent_user_1"):
    return shell("show", name, "--json").rows


def context(shell, name="agent_user_1"):
    return [row for row in entries(shell, name) if row["type"] == "context"][-1]


def test_without_a_model_one_line_says_how_to_name_one(shell, monkeypatch):
    """It also names what works without a key; nothing is written."""
    monkeypatch.delenv("WAKELOG_MODEL")
    answer = shell("run", "Hi.")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    for word in ("no model is set", "ANTHROPIC_API_KEY", "--model anthropic:NAME", "--model demo"):
        assert word in answer.err
    assert shell("ls", "--json").rows == []


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("anthropic:claude-x", "ANTHROPIC_API_KEY"),
        ("openai:gpt-x", "OPENAI_API_KEY"),
        ("openai-chat:gpt-x", "OPENAI_API_KEY"),
    ],
)
def test_without_a_key_one_line_names_the_variable(shell, monkeypatch, model, variable):
    """It also names what works without a key; no session with an unanswered prompt is left."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    answer = shell("run", "--model", model, "Hi.")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert variable in answer.err
    assert "--model demo" in answer.err
    assert shell("ls", "--json").rows == []


def test_the_configuration_of_an_agent_is_in_the_log(shell, mine):
    """RUN-19: all of it; the file can be removed."""
    mine(
        "agent = 'reviewer'\n"
        "[agents.reviewer]\nmodel = 'demo'\nsystem = 'Be strict.'\ntools = ['read']\napproval = 'deny'\n"
        "compact_at = 9000\n[agents.reviewer.hooks]\nmemory = false\n"
    )
    assert shell("run", "Hi.").code == 0
    found = context(shell, "reviewer_user_1")
    assert (found["policy"]["approval"], found["policy"]["compactAt"]) == ("deny", 9000)
    assert [hook["name"] for hook in found["policy"]["hooks"]] == ["environment", "agents"]
    mine("[agents.reviewer]\nsystem = 'Be lax.'\n")
    before = len(entries(shell, "reviewer_user_1"))
    shell("run", "-s", "reviewer_user_1", "And?")
    assert "context" not in [row["type"] for row in entries(shell, "reviewer_user_1")[before:]]


def test_options_win_over_the_file(shell, mine):
    """For the session that they were given for."""
    mine("[agents.agent]\nmodel = 'scripted:nowhere'\nsystem = 'From the file.'\n")
    shell("run", "--model", "demo", "--system", "Said.", "Hi.")
    request = shell("context", "agent_user_1", "--json").json
    assert request["model"] == "demo"
    exact = shell("context", "agent_user_1", "--exact").out
    assert "Said." in exact
    assert "From the file." not in exact


def test_instruction_files_are_read_at_each_run(shell):
    """LOG-14: AGENTS.md is read when a run begins; a change is a new entry, and the configured instructions stay."""
    (shell.folder / "AGENTS.md").write_text("Use tabs.")
    shell("run", "--system", "Be brief.", "Hi.")
    assert [source["scope"] for source in context(shell)["sources"]] == ["project"]
    (shell.folder / "AGENTS.md").write_text("Use spaces.")
    shell("run", "-s", "agent_user_1", "And?")
    exact = shell("context", "agent_user_1", "--exact").out
    assert "Be brief." in exact
    assert "Use spaces." in exact
    assert "Use tabs." not in exact
    before = len(entries(shell))
    shell("run", "-s", "agent_user_1", "And now?")
    assert "context" not in [row["type"] for row in entries(shell)[before:]]


def test_a_key_from_a_command_reaches_only_the_model(shell, mine, monkeypatch):
    """Law 14: the key is in the request header, not in the log, and not in the environment of tools."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said = {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    with Loopback() as server:
        server.play(Answer([*events(said, named=False), b"data: [DONE]\n\n"]))
        command = json.dumps([sys.executable, "-c", "print('k-' + 'secret')"])
        mine(
            f"model = 'openai-chat:local'\n[providers.openai-chat]\nbase_url = '{server.url}/v1'\n"
            f"key_command = {command}\n"
        )
        monkeypatch.delenv("WAKELOG_MODEL")
        answer = shell("run", "Hi.")
    assert "Hello." in answer.out
    assert server.asked[0].headers["authorization"] == "Bearer k-secret"
    assert "k-secret" not in json.dumps(entries(shell))
    assert context(shell)["params"] == {"endpoint": f"{server.url}/v1"}


def test_servers_of_an_agent(shell, mine):
    """RUN-19: the tools of a configured server are declared in the log, with all that is needed to start it again."""
    server = plain(trusted=True)
    mine(
        f"[agents.agent]\nmcp = ['{server.name}']\n[mcp.{server.name}]\ncommand = {json.dumps(list(server.command))}\n"
    )
    shell("run", "--tools", "none", "Hi.")
    shown = shell("context", "agent_user_1", "--exact", "--json").json
    names = [tool["name"] for tool in shown["tools"]]
    assert f"mcp__{server.name}__folder" in names
    shell("run", "-s", "agent_user_1", "--tools", "read", "And?")
    shown = shell("context", "agent_user_1", "--exact", "--json").json
    assert [tool["name"] for tool in shown["tools"]] == ["read", *names]


def test_a_server_that_does_not_start_is_reported(shell, mine):
    """It is named in one line, and the session continues without its tools."""
    mine("[agents.agent]\nmcp = ['gone']\n[mcp.gone]\ncommand = ['/nowhere/at/all']\n")
    answer = shell("run", "Hi.")
    assert answer.code == 0
    assert "gone" in answer.err
    assert "continues without its tools for now" in answer.err


def test_ctrl_c_while_a_server_does_not_start(shell, mine):
    """The command does not wait for a server that never answers: it ends at once, and nothing is left behind."""
    command = json.dumps(list(plain("mute").command))
    mine(f"[agents.agent]\nmcp = ['mute']\n[mcp.mute]\ncommand = {command}\ntimeout = 600\n")
    with shell.start("run", "Hi.", stdin=subprocess.DEVNULL) as running:
        try:
            (server,) = until(lambda: running_servers(running.pid))
            gone = Watched([server])
            running.send_signal(signal.SIGINT)
            assert running.wait(PATIENCE_S) == 130
            assert gone.all_end()
        finally:
            running.kill()

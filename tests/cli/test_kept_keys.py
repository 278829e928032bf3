"""LOG-13: a program that prints a key is run once in a process, and once more when what it printed was refused."""

import json
import sys

import pytest

from tests.loopback import Answer, Loopback, events

COUNTING = """
import pathlib
runs = pathlib.Path({path!r})
runs.write_text(runs.read_text() + "k" if runs.exists() else "k")
print(runs.read_text())
"""
REFUSED = Answer([b'{"error": {"message": "no such key"}}'], 401, {"content-type": "application/json"})


@pytest.fixture
def server(shell, mine, monkeypatch):
    """A server, and in the configuration a program that prints a longer key each time it is run."""
    command = json.dumps([sys.executable, "-c", COUNTING.format(path=str(shell.folder / "runs"))])
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("WAKELOG_MODEL", "openai-chat:x")
    with Loopback() as made:
        mine(f"[providers.openai-chat]\nbase_url = '{made.url}/v1'\nkey_command = {command}\n")
        yield made


def says(text):
    said = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
    return Answer([*events(said, named=False), b"data: [DONE]\n\n"])


def keys(server):
    return [asked.headers["authorization"].removeprefix("Bearer ") for asked in server.asked]


def test_a_program_is_run_once(shell, server):
    """A password manager may ask a person each time: to open, to check and to ask, one run is enough."""
    server.play(says("Hello."))
    assert shell.process("run", "Hi.").out == "Hello.\n"
    assert keys(server) == ["k"]
    assert shell.process("wake", "agent_user_1").code == 0
    assert (shell.folder / "runs").read_text() == "k"


def test_one_that_was_kept_and_is_refused_is_asked_for_anew(shell, server):
    """RUN-15: keys expire. A fresh one is worth another try; one that is refused while it is fresh is not."""
    server.play(REFUSED, says("Hello."))
    assert shell.process("run", "Hi.").out == "Hello.\n"
    assert keys(server) == ["k", "kk"]
    server.play(REFUSED, REFUSED, says("Never said."))
    answer = shell.process("run", "-s", "agent_user_1", "And?")
    assert (answer.code, keys(server)[2:]) == (1, ["kkk", "kkkk"])
    host = server.url.removeprefix("http://")
    told = f"{host} does not accept the key that the key_command of openai-chat printed, or not for this (401)"
    assert f"the turn failed: {told}: no such key (" in answer.err


def test_the_variable_that_is_configured_is_named(shell, mine, monkeypatch):
    """LOG-13: the one that somebody has to set, not the usual one."""
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setenv("KEY_OF_MY_HOUSE", "KEY")
    with Loopback() as server:
        mine(f"[providers.openai-chat]\nbase_url = '{server.url}/v1'\nkey_env = 'KEY_OF_MY_HOUSE'\n")
        server.play(REFUSED)
        answer = shell.process("run", "--model", "openai-chat:x", "Hi.")
        assert keys(server) == ["KEY"]
    assert "does not accept the key in KEY_OF_MY_HOUSE, or not for this (401): no such key (" in answer.err

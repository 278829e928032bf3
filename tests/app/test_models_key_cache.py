"""LOG-13: a program that prints a key is run once in a process, and once more when that key was refused."""

import asyncio
import contextlib
import json
import os
import sys
import threading

import pytest

from tests.loopback import Answer, Loopback, events
from tests.patience import PATIENCE_S
from wakelog.app.models import KeyCache, open_configured_provider, open_provider_lazily
from wakelog.log.content import Faulted, Finished
from wakelog.ports.runtime import ModelRequest

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
    """A password manager may ask a person each time: to open, to check and to send, one run is enough."""
    server.play(says("Hello."))
    assert shell.process("run", "Hi.").out == "Hello.\n"
    assert keys(server) == ["k"]
    assert shell.process("wake", "agent_user_1").code == 0
    assert (shell.folder / "runs").read_text() == "k"


def test_a_refused_cached_key_is_fetched_again(shell, server):
    """RUN-15: keys expire. A new key is tried once; a key that is refused while it is new is not."""
    server.play(REFUSED, says("Hello."))
    assert shell.process("run", "Hi.").out == "Hello.\n"
    assert keys(server) == ["k", "kk"]
    server.play(REFUSED, REFUSED, says("Never said."))
    answer = shell.process("run", "-s", "agent_user_1", "And?")
    assert (answer.code, keys(server)[2:]) == (1, ["kkk", "kkkk"])
    host = server.url.removeprefix("http://")
    told = f"{host} does not accept the key that the key_command of openai-chat printed, or not for this (401)"
    assert f"the turn failed: {told}: no such key (" in answer.err


def test_the_configured_variable_is_named(shell, mine, monkeypatch):
    """LOG-13: the error names the variable that the configuration names, not the default one."""
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    monkeypatch.setenv("KEY_OF_MY_HOUSE", "KEY")
    with Loopback() as server:
        mine(f"[providers.openai-chat]\nbase_url = '{server.url}/v1'\nkey_env = 'KEY_OF_MY_HOUSE'\n")
        server.play(REFUSED)
        answer = shell.process("run", "--model", "openai-chat:x", "Hi.")
        assert keys(server) == ["KEY"]
    assert "does not accept the key in KEY_OF_MY_HOUSE, or not for this (401): no such key (" in answer.err


# ── while a program takes its time ───────────────────────────────────────────────────────────────

WAITING = """
import pathlib, sys
runs, gate = pathlib.Path({runs!r}), {gate!r}
runs.write_text(runs.read_text() + "k" if runs.exists() else "k")
if len(runs.read_text()) == 2:
    open(gate).read()
    if {code}:
        sys.exit({code})
print(runs.read_text())
"""


@pytest.fixture
def waiting_server(shell, mine, monkeypatch):
    """A server that refuses the first key, and a program that waits at a gate before it prints the second."""
    gate = shell.folder / "gate"
    os.mkfifo(gate)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr("wakelog.app.models.KEY_CACHE", KeyCache())
    # A blocked event loop fails the test after this time.
    monkeypatch.setattr("wakelog.config.files._KEY_TIMEOUT_S", 20)
    with Loopback() as made:

        def begin(code=0):
            program = WAITING.format(runs=str(shell.folder / "runs"), gate=str(gate), code=code)
            command = json.dumps([sys.executable, "-c", program])
            mine(f"[providers.openai-chat]\nbase_url = '{made.url}/v1'\nkey_command = {command}\n")
            return made, gate

        yield begin


async def _asked():
    """Ask until the key is accepted, as the runtime does; return the last events."""
    request = ModelRequest(model="x", messages=())
    while True:
        reply = [delta async for delta in open_provider_lazily("openai-chat", "x").stream(request)]
        if not (isinstance(reply[-1], Faulted) and reply[-1].retryable):
            return reply


def test_the_event_loop_runs_while_a_program_prints_a_new_key(waiting_server):
    """RUN-15: the program runs in a thread, so even a program that waits for this process can finish."""
    server, gate = waiting_server()
    server.play(REFUSED, says("Hello."))

    async def main():
        open_configured_provider("openai-chat", "x")
        asked = asyncio.create_task(_asked())
        # Opening succeeds when the program has opened it, too, and only a running loop can find that out.
        opened = None
        while opened is None:
            await asyncio.sleep(0)
            assert not asked.done()
            with contextlib.suppress(OSError):
                opened = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        os.close(opened)
        return await asked

    assert isinstance(asyncio.run(main())[-1], Finished)
    assert keys(server) == ["k", "kk"]


def test_a_cached_key_does_not_wait_for_another_program():
    """One program runs at a time; a key in the cache is returned meanwhile."""
    held, free, kept = threading.Event(), threading.Event(), KeyCache()
    kept.get(["mine"], lambda: "k")

    def slow_program():
        held.set()
        assert free.wait(PATIENCE_S)
        return "s"

    slow = threading.Thread(target=kept.get, args=(["slow"], slow_program))
    slow.start()
    try:
        assert held.wait(PATIENCE_S)
        assert kept.get(["mine"], lambda: "never") == "k"
    finally:
        free.set()
        slow.join()


def test_a_program_that_fails_at_last_is_a_fault(waiting_server):
    """The turn ends with one line that says what happened; it is not retried."""
    server, gate = waiting_server(code=3)
    server.play(REFUSED, says("Never said."))

    async def main():
        open_configured_provider("openai-chat", "x")
        asked = asyncio.create_task(_asked())
        await asyncio.to_thread(gate.write_text, "go")
        return await asked

    (fault,) = asyncio.run(main())
    assert (fault.kind, fault.retryable) == ("auth", False)
    assert "exited with status 3; check key_command" in fault.message
    assert keys(server) == ["k"]

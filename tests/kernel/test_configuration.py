"""Law 2, RUN-19: with configuration changed or deleted between a kill and a wake, the settings in the log apply."""

import asyncio
import json
import os
import signal
import subprocess
from typing import Any

import pytest

from tests.faults.processes import INTERPRETER, PATIENCE_S, environment
from tests.kernel.holder import SESSION, Place
from tests.kernel.judging import judge
from tests.kernel.likeness import likeness
from tests.kernel.outside import Outside
from tests.kernel.watching import Watched, until
from wakelog.log.content import ToolResult
from wakelog.log.entry import Message
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import replay
from wakelog.stores.jsonl import JsonlStore

READS: dict[str, Any] = {
    "text": "Es steht alles da, schwarz auf weiß. " * 3,
    "toolCalls": [{"name": "read", "input": {"path": "notes.txt"}}],
    "deltaChars": 8,
}
READ = {"text": "I have read it."}
RUNS = {"text": "I run it.", "toolCalls": [{"name": "shell", "input": {"command": "touch ready; sleep 1000"}}]}
# A delay so long that the worker is killed before the second delta.
_HOUR_MS = 3_600_000


class Desk:
    """The machine of a person: a working folder, files that configure the agent, an environment."""

    def __init__(self, folder):
        self.folder = folder
        self.store = JsonlStore(str(folder / "store"))
        folder.mkdir()
        (folder / "notes.txt").write_text("all of it\n")
        (folder / "system.txt").write_text("Be brief.\n")
        config = folder / ".config" / "wakelog" / "config.toml"
        config.parent.mkdir(parents=True)
        # Two machines are compared, and hook text would differ by their folders.
        config.write_text("[agents.agent]\nkeep = 77\n[agents.agent.hooks]\nenvironment = false\nmemory = false\n")
        self.environment = environment(
            WAKELOG_STORE=str(folder / "store"),
            WAKELOG_MODEL=f"scripted:{folder.parent / 'script.jsonl'}",
            XDG_CACHE_HOME=str(folder / "cache"),
            HOME=str(folder),
        )
        self.cwd = folder

    def script(self, *replies):
        (self.folder.parent / "script.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))

    def run(self, *words):
        """Start `wakelog run`, which the test kills."""
        command = [INTERPRETER, "-m", "wakelog", "run", "--system", "@system.txt", "--yes", *words, "Go."]
        return subprocess.Popen(
            command, cwd=self.cwd, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )

    def change_everything(self):
        """Delete the instructions; change the default model, the working folder and the home folder."""
        (self.folder / "system.txt").unlink()
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "notes.txt").write_text("something else\n")
        (elsewhere / "system.txt").write_text("Be long.\n")
        self.cwd = elsewhere
        changed = {
            "WAKELOG_MODEL": "scripted:/nowhere.jsonl",
            "HOME": str(elsewhere),
            "XDG_CONFIG_HOME": str(elsewhere),
        }
        self.environment = {**self.environment, **changed}

    def wake(self):
        """Run `wakelog wake` with the name alone."""
        command = [INTERPRETER, "-m", "wakelog", "wake", "agent_user_1"]
        return subprocess.run(
            command, cwd=self.cwd, env=self.environment, capture_output=True, timeout=PATIENCE_S, check=False
        )


def _killed(child):
    child.kill()
    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    child.stdout.close()


def _ended(desk, change):
    if change:
        desk.change_everything()
    woken = desk.wake()
    return woken.returncode, woken.stdout, likeness(desk.store, ignored=("cwd",))


def _killed_in_its_reply(desk, *, change):
    desk.script({**READS, "delayMs": _HOUR_MS}, READ)
    child = desk.run("--tools", "read,grep", "--compact-at", "9000")
    shown = b""
    while READS["text"][:8].encode() not in shown:
        shown += os.read(child.stdout.fileno(), 4_096)
    _killed(child)
    # The delays of the model are not in the log.
    desk.script(READS, READ)
    return _ended(desk, change)


def _killed_in_its_tool(desk, *, change):
    desk.script(RUNS, {"text": "Never said."})
    child = desk.run("--tools", "shell", "--unknown", "ask")
    until((desk.folder / "ready").exists)
    _killed(child)
    (desk.folder / "ready").unlink()
    return _ended(desk, change)


@pytest.mark.parametrize("killed", [_killed_in_its_reply, _killed_in_its_tool])
def test_changed_configuration_does_not_change_the_turn(tmp_path, killed):
    """RUN-19, law 2: with the configuration changed and deleted, the same log and the same text result."""
    kept, changed = Desk(tmp_path / "kept"), Desk(tmp_path / "changed")
    as_it_was, as_it_is = killed(kept, change=False), killed(changed, change=True)
    assert as_it_is == as_it_was
    if killed is _killed_in_its_reply:
        code, out, _ = as_it_is
        assert (code, out.decode()) == (0, f"{READS['text']}\n{READ['text']}\n")
        assert _results(changed.store, "agent_user_1") == [("ok", "all of it\n")]
        assert as_it_is[2]["agent_user_1"][1]["policy"]["keep"] == 77
        judge(changed.store, Outside(str(tmp_path / "outside")), channel="terminal", delivered=())
    else:
        assert as_it_is[0] == 6, "that a person is asked was agreed, and stays agreed"
        assert not (changed.folder / "ready").exists()
        assert _replays(changed.store, "agent_user_1")


def _replays(store, name):
    return asyncio.run(replay(store, name)).ok


def test_a_started_tool_keeps_its_replay_word(tmp_path):
    """RUN-19, law 6: started as `never`, it is not run again, whatever its declaration says by now."""
    place = Place(tmp_path)
    place.begin("Pay.")
    with Watched(tmp_path, "paid", "die") as worker:
        assert worker.end()[0] == -signal.SIGKILL
    place.pays = "safe"
    place.wake()
    assert [status for status, _ in _results(place.store, SESSION)] == ["unknown"]
    assert len(place.outside.ledger) == 1
    judge(place.store, place.outside)


def _results(store, name):
    values = [entry.value for entry in read_log(store, name).entries]
    said = [value.message for value in values if isinstance(value, Message)]
    return [(message.status, message.text) for message in said if isinstance(message, ToolResult)]

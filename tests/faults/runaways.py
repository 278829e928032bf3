"""Commands whose processes leave the process group, and a pipe that shows when the last of them has ended.

Every process of a command inherits the writing end of the FIFO `alive`: it is at its end when the last one is gone.
Each process that has got away (`body`) writes a line to it, waits for the FIFO `gate` and then makes the file `EFFECT`.
So a test needs no clock: it waits for the lines, stops the command, and opens the gate. The effect happens if and only
if a process was left.

Run as a program, this is a worker: it wakes the session of a folder, whose model asks for one such command.

    python -m tests.faults.runaways FOLDER
"""

import asyncio
import json
import os
import select
import sys

from tests.faults.processes import PATIENCE_S
from tests.kernel.watching import until
from wakelog.app.agent import Agent
from wakelog.log.content import Prompt
from wakelog.log.entry import Message
from wakelog.ports.runtime import ToolInvocation
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.tools import builtin_tools

SESSION = "s"

# The programs of the folder: a process that has left the group, and a limited fork bomb.
PROGRAMS = {
    "body": "echo $$ >&9; read line < gate; touch EFFECT",
    "bomb": "[ $1 -gt 0 ] && for twin in a b; do setsid sh bomb $(($1 - 1)) & done; . ./body",
    "deaf": "trap '' TERM; . ./body",
    "comet": """
import os
gate = os.open("gate", os.O_RDONLY | os.O_NONBLOCK)
os.write(9, b"%d\\n" % os.getpid())
while not os.read(gate, 1):
    if os.fork():
        os._exit(0)
open("EFFECT", "w").close()
""",
}
BOMB_DEPTH = 4

# Each command by how its processes leave the group, and how many do.
RUNAWAYS = {
    "a group made by timeout": ("timeout 1000 sh body", 1),
    "a timeout in the background": ("timeout 1000 sh body & wait", 1),
    "a group made by job control": ("bash -c 'set -m; sh body & wait'", 1),
    "a session": ("setsid sh body & wait", 1),
    "a session without output": ("setsid sh body > /dev/null 2>&1 & wait", 1),
    "a double fork in a session": ("setsid sh -c 'sh body & exit'; sleep 1000", 1),
    "a session that ignores SIGTERM": ("setsid sh deaf & wait", 1),
    "a bounded fork bomb of sessions": (f"sh bomb {BOMB_DEPTH} & wait", 2 ** (BOMB_DEPTH + 1) - 1),
}

# A process that forks and exits all the time, so that its pid keeps changing.
COMET = "setsid python3 -I -S comet & sleep 1000"


class Rig:
    """The folder of one runaway command."""

    def __init__(self, folder, kind):
        self.folder = str(folder)
        line, self.planned = RUNAWAYS.get(kind, (kind, 1))
        self.command = f"exec 9> alive; {line}"
        self.pids = []
        self.is_over = False
        """Set by a test when the command has been stopped: no process will get away any more."""
        self._lines = b""
        for name in ("alive", "gate"):
            os.mkfifo(self._path(name))
        for name, text in PROGRAMS.items():
            with open(self._path(name), "w", encoding="ascii") as file:
                file.write(text)
        self._alive = os.open(self._path("alive"), os.O_RDONLY | os.O_NONBLOCK)

    def wait_until_away(self):
        """Wait until every planned process has left the group; return False if the command ended before that."""
        until(lambda: self._are_away() or self.is_over)
        self.pids = [int(word) for word in self._lines.split()]
        return self._are_away()

    def wait_until_gone(self):
        """Whether every process ends within the time limit of the tests."""
        assert select.select([self._alive], [], [], PATIENCE_S)[0], "a process of the command is still there"
        return self.is_gone()

    def is_gone(self):
        """Whether every process has ended by now."""
        return self._read() == b""

    def effect_happens(self):
        """Open the gate, wait until all processes have ended, and return whether one of them made the file."""
        # Opened for reading too, so that it neither waits for a reader nor fails without one.
        gate = os.open(self._path("gate"), os.O_RDWR)
        try:
            os.write(gate, b"go\n" * self.planned)
            assert self.wait_until_gone()
        finally:
            os.close(gate)
        return os.path.exists(self._path("EFFECT"))

    def close(self):
        """End every process, whatever the result of the test."""
        self.effect_happens()
        os.close(self._alive)

    def _are_away(self):
        self._lines += self._read() or b""
        return self._lines.count(b"\n") >= self.planned

    def _read(self):
        """The output of the processes; None if nothing more has come, empty if there is no process."""
        try:
            return os.read(self._alive, 4096)
        except BlockingIOError:
            return None

    def _path(self, name):
        return os.path.join(self.folder, name)


def shell_call(folder, command, show=lambda text: None, **more):
    """Run a command with the shell tool, as a coroutine."""
    (shell,) = builtin_tools(folder, ["shell"])
    return shell.run(ToolInvocation("reply-1", "call-1", {"command": command, **more}, show=show))


def store_of(folder):
    """The store of a rig's folder."""
    return JsonlStore(os.path.join(folder, "store"))


def begin_session(rig):
    """A session whose model asks for the rig's command."""
    script = os.path.join(rig.folder, "script.jsonl")
    call = {"toolCalls": [{"name": "shell", "input": {"command": rig.command}}]}
    with open(script, "w", encoding="utf-8") as file:
        file.write(json.dumps(call) + "\n" + json.dumps({"text": "I see."}) + "\n")
    session = Session.create(
        store_of(rig.folder), session_id=SESSION, agent="crab", provider="scripted", model=script, cwd=rig.folder
    )
    tools = builtin_tools(rig.folder, ["shell"])
    Agent(model=f"scripted:{script}", name="crab", tools=tools).enter(session)
    session.append(Message(message=Prompt(content="Run it.")))
    return session


def go_on(folder):
    """Wake the session of a folder, from its log alone."""
    return asyncio.run(wake(LiveRuntime(store_of(folder)), SESSION))


if __name__ == "__main__":
    go_on(sys.argv[1])

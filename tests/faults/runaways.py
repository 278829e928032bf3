"""Commands whose processes leave the process group, and a witness that knows when the last of them has ended.

Every process of a command inherits the writing end of the FIFO `alive`: it is at its end when the last one is gone.
Each process that has got away (`body`) writes a line to it, waits for the FIFO `gate` and then makes the file `EFFECT`.
So a test needs no clock: it waits for the lines, stops the command, and opens the gate. The effect happens if and only
if a process was left.

Run as a program, this is a harness that runs one such command with the shell tool: `python -m tests.faults.runaways
FOLDER COMMAND`.
"""

import asyncio
import os
import select
import sys

from tests.faults.processes import PATIENCE_S
from wakelog.ports import Invocation
from wakelog.tools import builtin_tools

# The programs of the folder: what a process does that has got away, and how a bounded fork bomb grows.
PROGRAMS = {
    "body": "echo $$ >&9; read line < gate; touch EFFECT",
    "bomb": "[ $1 -gt 0 ] && for twin in a b; do setsid sh bomb $(($1 - 1)) & done; . ./body",
    "deaf": "trap '' TERM; . ./body",
}
BOMB_DEPTH = 4

# Each command by what it makes its process group differ with, and how many processes get away.
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


class Rig:
    """The folder of one runaway command."""

    def __init__(self, folder, kind):
        self.folder = str(folder)
        line, self.planned = RUNAWAYS[kind]
        self.command = f"exec 9> alive; {line}"
        self.pids = []
        self._alive = None
        self._lines = b""
        for name in ("alive", "gate"):
            os.mkfifo(self._path(name))
        for name, text in PROGRAMS.items():
            with open(self._path(name), "w", encoding="ascii") as file:
                file.write(text)

    def wait_until_away(self):
        """Waits until every process that was planned has got away; False if all have ended before that."""
        self._alive = os.open(self._path("alive"), os.O_RDONLY)
        while self._lines.count(b"\n") < self.planned:
            if not (piece := self._read()):
                return False
            self._lines += piece
        self.pids = [int(word) for word in self._lines.split()]
        return True

    def wait_until_gone(self):
        """Whether every process ends within our patience."""
        return self._read() == b""

    def is_gone(self):
        """Whether every process has ended by now."""
        return bool(select.select([self._alive], [], [], 0)[0]) and os.read(self._alive, 1) == b""

    def effect_happens(self):
        """Opens the gate for all who come, waits until they are gone, and says whether one of them made the file."""
        # For reading too: then it neither waits for a reader nor fails without one.
        gate = os.open(self._path("gate"), os.O_RDWR)
        try:
            os.write(gate, b"go\n" * self.planned)
            assert self.wait_until_gone()
        finally:
            os.close(gate)
        return os.path.exists(self._path("EFFECT"))

    def close(self):
        """Leaves no process behind, whatever the test found."""
        if self._alive is not None:
            self.effect_happens()
            os.close(self._alive)

    def _read(self):
        assert select.select([self._alive], [], [], PATIENCE_S)[0], "a process of the command is still there"
        return os.read(self._alive, 4096)

    def _path(self, name):
        return os.path.join(self.folder, name)


def shell_call(folder, command, show=lambda text: None, **more):
    """Runs a command with the shell tool, as a coroutine."""
    (shell,) = builtin_tools(folder, ["shell"])
    return shell.run(Invocation("reply-1", "call-1", {"command": command, **more}, show=show))


if __name__ == "__main__":
    asyncio.run(shell_call(*sys.argv[1:]))

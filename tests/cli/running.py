"""Run `wakelog` in tests: through click's runner where that is enough, as processes where it is not."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios

import msgspec
from click.testing import CliRunner

from tests.patience import PATIENCE_S
from wakelog.cli.main import wakelog

_WITHOUT_PROGRESS_BARS = """
import math, sys
import wakelog.cli.ui.output as output
output._BAR_DELAY_S = math.inf
from wakelog.cli import main
sys.exit(main())
"""


class Answer(msgspec.Struct):
    """The result of a command."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self):
        return self.raw.decode()

    @property
    def json(self):
        return json.loads(self.raw)

    @property
    def rows(self):
        """The objects of JSON lines."""
        return [json.loads(line) for line in self.raw.splitlines()]

    @property
    def error(self):
        """The error object on stderr."""
        return json.loads(self.err)["error"]


class Shell:
    """Runs commands on a store of its own."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.store = folder / "sessions"
        self._started: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "WAKELOG_STORE": str(self.store),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "HOME": str(folder),
            "WAKELOG_MODEL": "demo",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        }
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PAGER", "WAKELOG_PAGER", "LC_ALL", "LC_CTYPE", "LESS"):
            monkeypatch.delenv(name, raising=False)
        for name in ("WAKELOG_CONFIG", "WAKELOG_AGENT", "WAKELOG_REDACT"):
            monkeypatch.delenv(name, raising=False)
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(folder)

    def __call__(self, *words, typed=None):
        """Run a command in this process."""
        done = CliRunner().invoke(wakelog, list(words), input=typed)
        return Answer(done.exit_code, done.stdout_bytes, done.stderr)

    def command(self, *words):
        """Return the words of a real process."""
        return [sys.executable, "-m", "wakelog", *words]

    def process(self, *words, typed=None, **more):
        """Run a command as a process."""
        environment = {**os.environ, **more.pop("env", {})}
        done = subprocess.run(
            self.command(*words), input=typed, capture_output=True, env=environment, check=False, **more
        )
        return Answer(done.returncode, done.stdout, done.stderr.decode())

    def start(self, *words, **more):
        """Start a process that runs on, at most until the end of the test."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(self.command(*words), stdout=pipe, stderr=pipe, **more)
        self._started.append(process)
        return process

    def close(self):
        """Kill the processes that still run, so that a failed test leaves none behind."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def terminal(self, *words, columns=80, env=None):
        """Run a command on a real terminal: stdin, stdout and stderr are one, as they are for people.

        Without progress bars, which are drawn if the command takes longer than a second.
        """
        command = [sys.executable, "-c", _WITHOUT_PROGRESS_BARS, *words]
        return run_on_terminal(command, columns, {**os.environ, **(env or {})})

    def talk(self, *words, columns=80, env=None):
        """Start a command on a real terminal, to be read from and typed to."""
        return Conversation(self.command(*words), columns, {**os.environ, **(env or {})})


def run_on_terminal(command, columns, environment):
    """Run a command on a pseudo-terminal that does not change its output; return everything that was shown."""
    return Conversation(command, columns, environment).end()


class Conversation:
    """A process on a terminal of its own, with methods to read and type. Waits for text, never for time."""

    def __init__(self, command, columns, environment):
        self._ours, theirs = pty.openpty()
        settings = termios.tcgetattr(theirs)
        settings[1] &= ~termios.OPOST
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        # Ctrl-C reaches the process only if the terminal is its controlling terminal.
        self.child = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - nothing here has threads
        )
        os.close(theirs)
        self._shown = bytearray()
        self._read_to = 0

    def expect(self, words):
        """Read until this text has been shown, after the text expected before."""
        while (at := self._shown.find(words.encode(), self._read_to)) < 0:
            assert self._take(), f"never shown: {words!r}; shown: {self._shown.decode()!r}"
        self._read_to = at + len(words.encode())

    def type(self, text):
        """Type a text."""
        os.write(self._ours, text.encode())

    def end(self):
        """Read to the end; return everything that was shown."""
        while self._take():
            pass
        # Closing the terminal sends SIGHUP to a process that has closed its output and is about to exit.
        code = self.child.wait(PATIENCE_S)
        os.close(self._ours)
        return Answer(code, bytes(self._shown), "")

    def _take(self):
        if not select.select([self._ours], [], [], PATIENCE_S)[0]:
            return False
        try:
            piece = os.read(self._ours, 65536)
        except OSError:
            return False
        self._shown += piece
        return bool(piece)

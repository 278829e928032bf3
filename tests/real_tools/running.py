"""Run a real tool with a home folder and an environment of its own, kill it, and hold a command that it runs."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.patience import PATIENCE_S
from tests.real_tools.installing import installed, node_folder
from tests.real_tools.pinned import PinnedTool
from wakelog.exchange.writing import WrittenSession

_PATH = "/usr/local/bin:/usr/bin:/bin"


class Ended(NamedTuple):
    """A run that is over."""

    code: int
    stdout: str
    stderr: str


class Run:
    """A tool that runs, in a process group of its own. Its output goes into files, so no child can hold it open.

    `child` is how a process of the tool is called that it starts in another group.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: dict[str, str], output: Path, child: str = ""
    ) -> None:
        self._child = child
        self._paths = output.with_suffix(".out"), output.with_suffix(".err")
        with self._paths[0].open("wb") as stdout, self._paths[1].open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def shown(self) -> str:
        """What the tool has printed so far."""
        return self._paths[0].read_text(errors="replace")

    def wait(self) -> Ended:
        """Wait for its end."""
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return Ended(code, self.shown, self._paths[1].read_text(errors="replace"))

    def kill(self) -> None:
        """End every process of the group with SIGKILL, and that of the child. Processes in other groups go on."""
        # The number of a process that has been waited for may belong to another one.
        if self._process.poll() is None:
            for group in (self._process.pid, *self._groups_of_child()):
                os.killpg(group, signal.SIGKILL)
            self._process.wait(PATIENCE_S)

    def _groups_of_child(self) -> list[int]:
        """Return the process groups of the tool's own child."""
        if not self._child:
            return []
        found = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        named = [pid for pid in found if _arguments_of(Path("/proc") / pid).startswith(self._child.encode())]
        return [os.getpgid(int(pid)) for pid in named]


class RealTool:
    """A tool below a folder: `home`, and `project`, in which it runs. Files and runs of one test use one of these."""

    def __init__(self, pinned: PinnedTool, folder: Path, url: str) -> None:
        self.pinned = pinned
        self.home, self.project = folder / "home", folder / "project"
        self._url = url
        self._runs: list[Run] = []
        self._program = _program(pinned)
        self.home.mkdir(parents=True)
        self.project.mkdir()
        for name, content in pinned.settings(url).items():
            self._write(self.home / name, content.encode())

    @property
    def environment(self) -> dict[str, str]:
        """All variables that the tool gets."""
        path = f"{node_folder()}:{_PATH}" if self.pinned.runs_on_node else _PATH
        fixed = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}
        return {**fixed, **self.pinned.environment(self._url)}

    @property
    def program_folder(self) -> str:
        """The folder of the tool's executable."""
        return os.path.dirname(self._program[-1])

    @property
    def data(self) -> Path:
        """The folder of its sessions; the project folder for a tool that keeps them there."""
        return self.home / self.pinned.data_folder if self.pinned.data_folder else self.project

    @property
    def session(self) -> str | None:
        """The id of its only session; None if it has written none."""
        return self.pinned.find_session(self.home)

    def start(self, prompt: str, session: str | None = None) -> Run:
        """Start a run with a prompt, in a new session or in one that exists."""
        return self.start_with(self.pinned.arguments(prompt, session))

    def start_with(self, arguments: Sequence[str]) -> Run:
        """Start a run with arguments of the caller."""
        output = self.home.parent / f"run-{len(self._runs) + 1}"
        command = [*self._program, *arguments]
        run = Run(command, self.project, self.environment, output, self.pinned.child)
        self._runs.append(run)
        return run

    def run(self, prompt: str, session: str | None = None) -> Ended:
        """Run a prompt to its end; the tool has to succeed."""
        return self._succeeded(self.start(prompt, session))

    def run_with(self, *arguments: str) -> Ended:
        """Run with arguments of the caller to the end; the tool has to succeed."""
        return self._succeeded(self.start_with(arguments))

    def _succeeded(self, run: Run) -> Ended:
        ended = run.wait()
        assert ended.code == 0, f"{self.pinned.title} ended with {ended.code}:\n{ended.stdout}{ended.stderr}"
        return ended

    def place(self, written: WrittenSession) -> list[Path]:
        """Write a session into the data folder, and load it with the tool's own command if it has one."""
        paths = [self.data / file.path for file in written.files]
        for path, file in zip(paths, written.files, strict=True):
            assert not path.exists(), path
            self._write(path, file.content)
        if written.load:
            arguments = [argument.replace("{file}", str(paths[0])) for argument in written.load[1:]]
            self.run_with(*arguments)
        return paths

    def close(self) -> None:
        """End what still runs."""
        for run in self._runs:
            run.kill()

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _program(pinned: PinnedTool) -> list[str]:
    """Return the command of a tool, which is installed if necessary; a module runs in this interpreter."""
    if pinned.module:
        return [sys.executable, "-m", pinned.module]
    folder = installed(pinned)
    program = str(folder / pinned.program)
    if pinned.interpreter:
        return [str(folder / pinned.interpreter), program]
    return [str(node_folder() / "node"), program] if pinned.runs_on_node else [program]


class HeldCommand:
    """A shell command that has an effect, says that it has begun, and ends only when the test lets it.

    `effects` has the lines that it appends to a file: `begun`, and `finished` at its end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._news, self._gate = folder / "news.fifo", folder / "gate.fifo"
        self._effects = folder / "effects.txt"
        os.mkfifo(self._news)
        os.mkfifo(self._gate)
        # Opened first, so that the command never waits for a reader, and only for a line.
        self._reading = os.open(self._news, os.O_RDONLY | os.O_NONBLOCK)
        self._letting_go = os.open(self._gate, os.O_RDWR | os.O_NONBLOCK)

    @property
    def mark(self) -> str:
        """A text that occurs in the command line and nowhere else."""
        return self._gate.name

    @property
    def text(self) -> str:
        """The command line."""
        effects, news = self._effects, self._news
        begin = f"echo begun >> {effects}; echo begun > {news}"
        return f"{begin}; read line < {self._gate}; echo finished >> {effects}; echo finished > {news}"

    def wait_until_begun(self) -> None:
        """Wait until the command runs."""
        assert self._wait_for_news(PATIENCE_S), "the tool did not run the command"

    def _wait_for_news(self, limit_s: float) -> bool:
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        if not poll.poll(limit_s * 1000):
            return False
        os.read(self._reading, 100)
        return True

    @property
    def effects(self) -> list[str]:
        """What the command did."""
        return self._effects.read_text().splitlines() if self._effects.exists() else []

    @property
    def is_running(self) -> bool:
        """Whether a process has the command in its arguments."""
        gate = str(self._gate).encode()
        return any(gate in _arguments_of(process) for process in Path("/proc").glob("[0-9]*"))

    def finish(self) -> None:
        """Let the command, which is running, go on to its end, and wait for that."""
        os.write(self._letting_go, b"go\n")
        assert self._wait_for_news(PATIENCE_S), "the command did not come to its end"

    def close(self) -> None:
        """Let the command end if it runs."""
        # Without the two files, no command waits for the other side of one.
        self._news.unlink()
        self._gate.unlink()
        os.close(self._letting_go)
        os.close(self._reading)


def _arguments_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""

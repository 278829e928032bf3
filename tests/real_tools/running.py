"""Run a real tool with a home folder and an environment of its own, kill it, and hold a command that it runs."""

import os
import select
import signal
import subprocess
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
    """A tool that runs, in a process group of its own. Its output goes into files, so no child can hold it open."""

    def __init__(self, command: Sequence[str], folder: Path, environment: dict[str, str], output: Path) -> None:
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
        """End every process of the group with SIGKILL. Processes in groups of their own go on."""
        # The number of a process that has been waited for may belong to another one.
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)


class RealTool:
    """A tool below a folder: `home`, and `project`, in which it runs. Files and runs of one test use one of these."""

    def __init__(self, pinned: PinnedTool, folder: Path, url: str) -> None:
        self.pinned = pinned
        self.home, self.project = folder / "home", folder / "project"
        self._url = url
        self._runs: list[Run] = []
        program = installed(pinned) / pinned.program
        self._program = [str(node_folder() / "node"), str(program)] if pinned.runs_on_node else [str(program)]
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
    def data(self) -> Path:
        """The folder of its sessions; the project folder for a tool that keeps them there."""
        return self.home / self.pinned.data_folder if self.pinned.data_folder else self.project

    def start(self, prompt: str, session: str | None = None) -> Run:
        """Start a run with a prompt, in a new session or in one that exists."""
        return self.start_with(self.pinned.arguments(prompt, session))

    def start_with(self, arguments: Sequence[str]) -> Run:
        """Start a run with arguments of the caller."""
        output = self.home.parent / f"run-{len(self._runs) + 1}"
        run = Run([*self._program, *arguments], self.project, self.environment, output)
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


class HeldCommand:
    """A shell command that has an effect, says that it has begun, and ends only when the test lets it.

    `effects` is the file that it appends to: `begun`, and `finished` at its end.
    """

    def __init__(self, folder: Path) -> None:
        self._begun, self._gate = folder / "begun.fifo", folder / "gate.fifo"
        self._effects = folder / "effects.txt"
        os.mkfifo(self._begun)
        os.mkfifo(self._gate)
        # Opened first, so that the command never waits for a reader.
        self._reading = os.open(self._begun, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def text(self) -> str:
        """The command line."""
        effects = self._effects
        return f"echo begun >> {effects}; echo begun > {self._begun}; cat < {self._gate}; echo finished >> {effects}"

    def wait_until_begun(self) -> None:
        """Wait until the command runs."""
        poll = select.poll()
        poll.register(self._reading, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), "the tool did not run the command"
        os.read(self._reading, 100)

    @property
    def effects(self) -> list[str]:
        """What the command did."""
        return self._effects.read_text().splitlines() if self._effects.exists() else []

    def finish(self) -> bool:
        """Let the command go on to its end; return whether it was still there."""
        try:
            gate = os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return False
        os.close(gate)
        return True

    def close(self) -> None:
        """Let the command end, if it is there."""
        self.finish()
        os.close(self._reading)

"""Real processes for the tests: started together, controlled line by line, and ended one by one.

A child is the real interpreter (never a shim: a tracer would count the shim's calls) running
`tests.faults.children`, or the module that a test names, with this process's own module path, so that it imports
the very code under test.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType

PATIENCE_S = 600
INTERPRETER = os.path.realpath(sys.executable)
CHILDREN = "tests.faults.children"


def environment(**more: str) -> dict[str, str]:
    """The environment of a child: the module path and code of this process, without buffering."""
    path = os.pathsep.join(place for place in sys.path if place)
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", **more}


def command(*words: str, module: str = CHILDREN) -> list[str]:
    """The command line of a child."""
    return [INTERPRETER, "-m", module, *words]


def run(*words: str, before: Sequence[str] = (), module: str = CHILDREN) -> "subprocess.CompletedProcess[str]":
    """Run a child to its end, under another program if given."""
    return subprocess.run(
        [*before, *command(*words, module=module)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment(),
        check=False,
    )


class Child:
    """A child process that reads words from its standard input and answers on its standard output."""

    def __init__(self, *words: str, module: str = CHILDREN) -> None:
        self.process = subprocess.Popen(
            command(*words, module=module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, word: str) -> None:
        """Send a word to the child."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """The next line of the child; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rest(self) -> list[str]:
        """Every line until the child ends."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().split("\n")[:-1]
        self.process.wait(PATIENCE_S)
        return lines

    def signal(self, number: int) -> None:
        """Send a signal to the child."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """Stop the child with SIGSTOP and wait until it is stopped."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self) -> None:
        """Kill the child and leave it as a zombie: its exit status is not collected."""
        self.signal(signal.SIGKILL)
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


@contextlib.contextmanager
def together(*words: Sequence[str], module: str = CHILDREN) -> Iterator[list[Child]]:
    """Children that have all reported `ready` before any of them is told to go."""
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child(*each, module=module)) for each in words]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.tell("go")
        yield children

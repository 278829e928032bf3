"""The tool `shell`: time limit, live output, and the process group killed on cancel, with real commands."""

import asyncio
import os
import select
import signal
import subprocess

import pytest

from tests.faults.processes import INTERPRETER, environment
from tests.tools.asking import ask, invocation
from wakelog.ports.runtime import ToolOutcome
from wakelog.processes import command
from wakelog.processes.command import KEPT_BYTES
from wakelog.tools import builtin_tools

PATIENCE_S = 600
# Prints the numbers of the shell and of a child of a child, and then waits for ever.
FAMILY = "sh -c 'sleep 1000 & echo $!; wait' & echo $$; wait"
# The same, but it takes more than a kind word to end it.
DEAF_FAMILY = f"trap '' TERM; {FAMILY}; while :; do sleep 1000; done"


@pytest.fixture
def shell(tmp_path):
    (made,) = builtin_tools(str(tmp_path), ["shell"])
    return made


class Watched:
    """Processes that were seen alive, and are waited for without polling."""

    def __init__(self, numbers):
        self.descriptors = [os.pidfd_open(number) for number in numbers]

    def all_end(self):
        """Whether each of them ends within the time limit of the tests."""
        try:
            return all(select.select([each], [], [], PATIENCE_S)[0] for each in self.descriptors)
        finally:
            self._close()

    def ended(self):
        """Which of them have ended by now. The others are killed: no test leaves a process behind."""
        found = [bool(select.select([each], [], [], 0)[0]) for each in self.descriptors]
        for each, is_over in zip(self.descriptors, found, strict=True):
            if not is_over:
                signal.pidfd_send_signal(each, signal.SIGKILL)
        self._close()
        return found

    def _close(self):
        for each in self.descriptors:
            os.close(each)


class Numbers:
    """Collects live output; `known` is set once two pids have been printed."""

    def __init__(self):
        self.text = ""
        self.known = asyncio.Event()

    def show(self, text):
        self.text += text
        if self.text.count("\n") == 2:
            self.known.set()

    def watched(self):
        return Watched([int(word) for word in self.text.split()])


def test_output_in_order_and_the_status(shell):
    outcome = ask(shell, command="echo out; echo err >&2; echo out; exit 3")
    assert outcome == ToolOutcome("out\nerr\nout\n[exit status 3]", is_error=True)
    assert ask(shell, command="printf no-newline; false").text == "no-newline\n[exit status 1]"
    assert ask(shell, command="printf fine") == ToolOutcome("fine")
    assert ask(shell, command="true") == ToolOutcome("[no output]")
    assert ask(shell, command="kill -9 $$") == ToolOutcome("[killed by signal 9]", is_error=True)
    assert ask(shell, command="no-such-command").text.endswith("[exit status 127]")


def test_it_runs_in_the_working_folder_without_input_or_terminal(shell, tmp_path):
    """With the default signal handling."""
    assert ask(shell, command="pwd -P").text == f"{os.path.realpath(tmp_path)}\n"
    assert ask(shell, command="cat; wc -c").text == "0\n"
    assert ask(shell, command="tty").text.startswith("not a tty")
    assert ask(shell, command="yes | head -1; echo done").text == "y\ndone\n"
    assert ask(shell, command="ls /proc/self/fd | wc -l").text == "4\n"


def test_an_invalid_command_is_refused(tmp_path):
    (shell,) = builtin_tools(str(tmp_path / "none"), ["shell"])
    assert ask(shell, command="true").text.startswith("cannot start the command")
    assert ask(shell, command="a\0b").text == "cannot start the command: embedded null byte"
    (shell,) = builtin_tools(str(tmp_path), ["shell"])
    assert "Argument list too long" in ask(shell, command="#" * 3_000_000).text
    assert ask(shell, command="true", timeout_s=0).text.startswith("bad arguments")


def test_live_output_comes_while_it_runs(shell, tmp_path):
    """Law 5: the command continues only after its first output was shown."""
    os.mkfifo(tmp_path / "gate")
    shown = []

    def show(text):
        shown.append(text)
        if len(shown) == 1:
            with open(tmp_path / "gate", "w") as gate:
                gate.write("open")

    outcome = asyncio.run(shell.run(invocation(show, command="echo first; cat gate; printf '\\342\\202\\254'")))
    assert shown[0] == "first\n"
    assert "".join(shown) == outcome.text == "first\nopen€"


def test_bytes_that_are_not_text_are_replaced(shell):
    assert ask(shell, command="printf 'a\\377b\\342'").text == "a\ufffdb\ufffd"


def test_output_at_the_end_is_kept(shell, monkeypatch):
    """Output that is still in the pipe when the command ends is part of the result."""
    monkeypatch.setattr(command, "_BLOCK_BYTES", 32)
    assert ask(shell, command="head -c 40000 /dev/zero | tr '\\0' x; printf end").text == "x" * 40_000 + "end"


def test_long_output_keeps_its_beginning_and_end(shell):
    size = 3 * KEPT_BYTES
    outcome = ask(shell, command=f"echo begin; head -c {size} /dev/zero | tr '\\0' x; echo; echo end")
    assert len(outcome.text) < KEPT_BYTES + 100
    assert outcome.text.startswith("begin\nxxx")
    assert outcome.text.endswith("xxx\nend\n")
    assert " bytes left out …]" in outcome.text


# ── ending it ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_a_time_limit_ends_the_group_and_keeps_the_output(shell, family):
    """The whole process group ends, and the result says why."""

    async def main():
        numbers = Numbers()
        task = asyncio.create_task(shell.run(invocation(numbers.show, command=family, timeout_s=2)))
        await asyncio.wait([task, asyncio.create_task(numbers.known.wait())], return_when="FIRST_COMPLETED")
        watched = numbers.watched()
        return await task, numbers.text, watched.all_end()

    outcome, shown, ended = asyncio.run(main())
    assert outcome == ToolOutcome(f"{shown}[stopped: the command took longer than 2 s]", is_error=True)
    assert ended


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_cancelling_ends_the_group_before_it_returns(shell, family):
    """RUN-12: when the cancelled call returns, no process of its group is alive."""

    async def main():
        numbers = Numbers()
        task = asyncio.create_task(shell.run(invocation(numbers.show, command=family)))
        await numbers.known.wait()
        watched = numbers.watched()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return watched.all_end()

    before = children()
    assert asyncio.run(main())
    assert children() == before


def children():
    """The child processes of this process, zombies included."""
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as file:
        return file.read().split()


def test_a_cancel_before_the_start(shell, tmp_path):
    async def main():
        task = asyncio.create_task(shell.run(invocation(command="sleep 1000")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_time_limit_that_is_over_before_the_start(shell):
    """Nothing runs, and the result says why."""
    assert ask(shell, command="echo x", timeout_s=1e-9).text.endswith("[stopped: the command took longer than 1e-09 s]")


def test_a_failing_output_callback_ends_the_command(shell):
    def show(text):
        raise RuntimeError("the callback fails")

    with pytest.raises(RuntimeError):
        asyncio.run(shell.run(invocation(show, command="echo x; sleep 1000")))


def test_background_processes_end_with_the_command(shell, tmp_path):
    """A call has one result: a background process is neither waited for nor left running."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    async def main():
        numbers = Numbers()
        # The shell waits in the foreground until the test has seen the child alive.
        line = "sleep 1000 & echo $!; echo 0; read line < gate"
        task = asyncio.create_task(shell.run(invocation(numbers.show, command=line)))
        await numbers.known.wait()
        watched = Watched([int(numbers.text.split()[0])])
        gate.write_text("\n")
        return await task, watched.all_end()

    outcome, ended = asyncio.run(main())
    assert (outcome.is_error, ended) == (False, True)


def test_a_daemon_is_named_and_not_waited_for(shell, tmp_path):
    """A process in a session of its own runs on and is named, and is not waited for though it has the pipe."""
    os.mkfifo(tmp_path / "gate")
    line = "setsid sh -c 'echo $$; echo away > gate; exec sleep 1000' & read line < gate"
    outcome = ask(shell, command=line, timeout_s=PATIENCE_S)
    number = int(outcome.text.split()[0])
    os.kill(number, signal.SIGKILL)
    assert not outcome.is_error
    assert outcome.text.startswith(f"{number}\n[still running after the command ended: {number} ")


def test_the_group_ends_with_a_killed_supervisor(shell):
    """No process stays, and the outcome is reported as unknown."""

    async def main():
        numbers = Numbers()
        line = "echo $$; echo $PPID; sleep 1000"
        task = asyncio.create_task(shell.run(invocation(numbers.show, command=line)))
        await numbers.known.wait()
        watched = numbers.watched()
        os.kill(int(numbers.text.split()[1]), signal.SIGKILL)
        return await task, watched.all_end()

    outcome, ended = asyncio.run(main())
    assert outcome.is_error
    assert outcome.text.endswith("[the command's supervisor was killed: how the command ended is not known]")
    assert ended


HARNESS = """
import asyncio, sys
from wakelog.ports.runtime import ToolInvocation
from wakelog.tools import builtin_tools
(shell,) = builtin_tools(".", ["shell"])
show = lambda text: print(text, end="", flush=True)
asyncio.run(shell.run(ToolInvocation("r", "c", {"command": sys.argv[1]}, show=show)))
"""


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_killing_the_worker_ends_the_command(tmp_path, family):
    """Law 6: a worker killed with SIGKILL leaves no command that goes on having effects."""
    harness = subprocess.Popen(
        [INTERPRETER, "-c", HARNESS, family], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    with harness:
        watched = Watched([int(harness.stdout.readline()), int(harness.stdout.readline())])
        harness.kill()
    assert harness.returncode == -signal.SIGKILL
    assert watched.all_end()

"""The shell (issue: timeout, live output, process group killed on cancel): real commands, really killed."""

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
    """Processes that were seen alive, and are waited for without asking again and again."""

    def __init__(self, numbers):
        self.descriptors = [os.pidfd_open(number) for number in numbers]

    def all_end(self):
        """Whether each of them ends within our patience."""
        try:
            return all(select.select([each], [], [], PATIENCE_S)[0] for each in self.descriptors)
        finally:
            self._close()

    def ended(self):
        """Which of them have ended by now. One that has not is killed: no test leaves a process behind."""
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
    """Takes live output; `known` is set once two process numbers have been printed."""

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


def test_where_and_how_it_runs(shell, tmp_path):
    """In the working directory, without input, without a terminal, with the usual signals."""
    assert ask(shell, command="pwd -P").text == f"{os.path.realpath(tmp_path)}\n"
    assert ask(shell, command="cat; wc -c").text == "0\n"
    assert ask(shell, command="tty").text.startswith("not a tty")
    assert ask(shell, command="yes | head -1; echo done").text == "y\ndone\n"
    assert ask(shell, command="ls /proc/self/fd | wc -l").text == "4\n"


def test_what_cannot_be_started(tmp_path):
    (shell,) = builtin_tools(str(tmp_path / "none"), ["shell"])
    assert ask(shell, command="true").text.startswith("cannot start the command")
    assert ask(shell, command="a\0b").text == "cannot start the command: embedded null byte"
    (shell,) = builtin_tools(str(tmp_path), ["shell"])
    assert "Argument list too long" in ask(shell, command="#" * 3_000_000).text
    assert ask(shell, command="true", timeout_s=0).text.startswith("bad arguments")


def test_live_output_comes_while_it_runs(shell, tmp_path):
    """Law 5: the command goes on only after its first words were shown."""
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


def test_bytes_that_are_no_text(shell):
    assert ask(shell, command="printf 'a\\377b\\342'").text == "a\ufffdb\ufffd"


def test_the_last_words_are_heard(shell, monkeypatch):
    """What is still in the pipe when the command ends belongs to its output."""
    monkeypatch.setattr(command, "_BLOCK_BYTES", 32)
    assert ask(shell, command="head -c 40000 /dev/zero | tr '\\0' x; printf end").text == "x" * 40_000 + "end"


def test_a_flood_is_kept_at_both_ends(shell):
    size = 3 * KEPT_BYTES
    outcome = ask(shell, command=f"echo begin; head -c {size} /dev/zero | tr '\\0' x; echo; echo end")
    assert len(outcome.text) < KEPT_BYTES + 100
    assert outcome.text.startswith("begin\nxxx")
    assert outcome.text.endswith("xxx\nend\n")
    assert " bytes left out …]" in outcome.text


# ── ending it ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("family", [FAMILY, DEAF_FAMILY], ids=["kind", "deaf"])
def test_time_is_up(shell, family):
    """The whole process group ends, the output until then is kept, and the model is told."""

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
    """RUN-12: when the cancelled call is back, nothing that it started in its group is alive."""

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
    """The processes that this one has started and not yet buried."""
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children", encoding="ascii") as file:
        return file.read().split()


def test_cancelled_before_it_began(shell, tmp_path):
    async def main():
        task = asyncio.create_task(shell.run(invocation(command="sleep 1000")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_no_time_at_all(shell):
    """Stopped before it began: nothing ran, and the model is told why."""
    assert ask(shell, command="echo x", timeout_s=1e-9).text.endswith("[stopped: the command took longer than 1e-09 s]")


def test_a_watcher_that_fails_ends_the_command(shell):
    def show(text):
        raise RuntimeError("nobody is there")

    with pytest.raises(RuntimeError):
        asyncio.run(shell.run(invocation(show, command="echo x; sleep 1000")))


def test_what_is_left_in_the_background_ends_with_the_command(shell, tmp_path):
    """A call has one result: nobody waits for a stray child, and it does not stay either."""
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


def test_a_daemon_that_got_away_does_not_hold_the_call(shell, tmp_path):
    """A process in a session of its own is left alone and named, and is not waited for though it has the pipe."""
    os.mkfifo(tmp_path / "gate")
    line = "setsid sh -c 'echo $$; echo away > gate; exec sleep 1000' & read line < gate"
    outcome = ask(shell, command=line, timeout_s=PATIENCE_S)
    number = int(outcome.text.split()[0])
    os.kill(number, signal.SIGKILL)
    assert not outcome.is_error
    assert outcome.text.startswith(f"{number}\n[still running after the command ended: {number} ")


def test_a_killed_supervisor_takes_the_group_along(shell):
    """Even then nothing stays, and the outcome is said to be unknown."""

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
def test_killing_the_harness_ends_the_command(tmp_path, family):
    """Law 6: a harness killed with SIGKILL leaves no command behind that goes on having effects."""
    harness = subprocess.Popen(
        [INTERPRETER, "-c", HARNESS, family], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    with harness:
        watched = Watched([int(harness.stdout.readline()), int(harness.stdout.readline())])
        harness.kill()
    assert harness.returncode == -signal.SIGKILL
    assert watched.all_end()

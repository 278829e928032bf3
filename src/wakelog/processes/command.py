"""Subprocess runner for tools: starts a program under the supervisor, streams its output and stops it on demand.

Rule 1: there is one way to stop a command, whatever the reason: the lifeline pipe closes. The supervisor does the rest,
also if this process is killed.
Rule 2: a command has ended when its supervisor has. The output printed until then is complete; a process that still
holds the pipe is not waited for.
Rule 3: when `run_command` returns or raises, every process of the command is gone, or the result (after a cancellation:
the live output) names those that may still be running. One exception: a caller that is cancelled a second time does not
wait; then the supervisor finishes alone.
"""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from wakelog.processes import supervisor
from wakelog.processes.output import Output

_BLOCK_BYTES = 64 * 1024
# A pipe buffer holds at most this much; more comes only from a process that keeps writing after the end.
_LAST_BYTES = 1024 * 1024
_LOOKS = 20
_ENDINGS = ("exited", "signalled", "remains", "unstarted", "lost")


class Ended(msgspec.Struct, frozen=True):
    """How a command ended.

    `remains`: it was stopped and may still be running. `unstarted`: it was stopped before it started. `lost`: its
    supervisor was killed. `left` are processes that still run, each with its PID and command line; `is_clear` says that
    there are no others.
    """

    how: Literal["exited", "signalled", "remains", "unstarted", "lost"]
    number: int
    output: str
    timed_out: bool
    left: tuple[str, ...] = ()
    is_clear: bool = True

    @property
    def doubt(self) -> str:
        """Message about processes that may still run although the command should have ended; empty if none may."""
        named = f": {'; '.join(self.left)}" if self.left else ""
        if self.how == "remains":
            return f"stopping the command did not work: it may still be running{named}"
        if self.how == "lost" and (self.left or not self.is_clear):
            return f"processes of the command may still be running{named}"
        return ""


async def run_command(
    argv: Sequence[str],
    *,
    cwd: str,
    timeout_s: float,
    show: Callable[[str], None] | None = None,
    env: Mapping[str, str] | None = None,
    with_errors: bool = True,
) -> Ended:
    """Run a program to its end. Raises `OSError` or `ValueError` if it cannot be started.

    The output includes standard error, unless `with_errors` is false.
    """
    output = Output()
    running = _Running(argv, cwd, env, with_errors=with_errors)
    alarm = asyncio.get_running_loop().call_later(timeout_s, running.time_is_up)
    try:
        while piece := await running.pieces.get():
            text = output.take(piece)
            if show and text:
                show(text)
    except asyncio.CancelledError:
        await running.end()
        if show and (doubt := running.doubt()):
            show(f"\n[{doubt}]\n")
        raise
    finally:
        alarm.cancel()
        await running.end()
    if show and (text := output.rest()):
        show(text)
    return running.ended(output.text())


class _Running:
    """A running command. `pieces` delivers its output, and an empty piece when it has ended."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str] | None, *, with_errors: bool) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._lines = b""
        self._said = _Said([])
        self._found: tuple[str, ...] = ()
        self._timed_out = False
        self._loop = asyncio.get_running_loop()
        lifeline, self._lifeline = os.pipe()
        self._output, output = os.pipe()
        self._report, report = os.pipe()
        try:
            words = [str(lifeline), str(report), str(supervisor.GRACE_S), *argv]
            self._process = subprocess.Popen(  # noqa: S603 - running what the agent asks for is the purpose
                [sys.executable, "-I", "-S", supervisor.__file__, *words],
                cwd=cwd or None,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if with_errors else subprocess.DEVNULL,
                pass_fds=(lifeline, report),
                start_new_session=True,
            )
        except (OSError, ValueError):
            for descriptor in (self._lifeline, self._output, self._report):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (lifeline, output, report):
                os.close(descriptor)
        os.set_blocking(self._output, False)
        self._loop.add_reader(self._output, self._read_output)
        self._loop.add_reader(self._report, self._read_report)

    def time_is_up(self) -> None:
        """Stop the command because its time limit is over."""
        self._timed_out = not self._gone.is_set()
        self._cut_lifeline()

    async def end(self) -> None:
        """Stop the command if it still runs, and wait for its end."""
        self._cut_lifeline()
        await self._gone.wait()

    def ended(self, output: str) -> Ended:
        """Return how the command ended; call this after its end. Raises `OSError` if it could not be started."""
        said = self._said
        if said.how == "failed":
            raise OSError(said.number, os.strerror(said.number))
        how = said.how if said.how in _ENDINGS else "lost"
        left = (*said.left, *self._found)
        is_clear = said.is_clear and said.how in _ENDINGS
        return Ended(how, said.number, output, self._timed_out and said.is_stopped, left, is_clear)  # type: ignore[arg-type]

    def doubt(self) -> str:
        """Return a message about processes that may still run after a stop; empty if there are none."""
        with contextlib.suppress(OSError):
            return self.ended("").doubt
        return ""

    def _cut_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            self._continue_supervisor()

    def _continue_supervisor(self) -> None:
        """Send SIGCONT: a command can stop both supervisor processes with SIGSTOP, and they must run to end it."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGCONT)

    def _read_output(self) -> None:
        piece = os.read(self._output, _BLOCK_BYTES)
        if piece:
            self.pieces.put_nowait(piece)
        else:
            self._loop.remove_reader(self._output)

    def _read_report(self) -> None:
        """Read the report. It closes when the supervisor ends; the last output is in the pipe by then."""
        piece = os.read(self._report, _BLOCK_BYTES)
        self._lines += piece
        if piece:
            return
        self._loop.remove_reader(self._report)
        self._loop.remove_reader(self._output)
        self._read_last()
        self._process.wait()
        self._said = _Said(self._lines.decode("utf-8", "replace").splitlines())
        if not self._said.how:
            self._found = _kill_unsupervised(self._said.leader, self._output)
        os.close(self._report)
        os.close(self._output)
        self._cut_lifeline()
        self._gone.set()
        self.pieces.put_nowait(b"")

    def _read_last(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LAST_BYTES // _BLOCK_BYTES):
                piece = os.read(self._output, _BLOCK_BYTES)
                if not piece:
                    return
                self.pieces.put_nowait(piece)


class _Said:
    """The parsed report of a supervisor."""

    def __init__(self, lines: list[str]) -> None:
        words = [line.partition(" ")[::2] for line in lines]
        self.leader = next((int(rest) for word, rest in words if word == "began"), 0)
        self.how, rest = next(((word, rest) for word, rest in words if word in (*_ENDINGS, "failed")), ("", ""))
        self.number = int(rest or 0)
        self.is_stopped = ("stopped", "") in words
        self.is_clear = ("blind", "") not in words
        more = tuple(f"and {rest} more" for word, rest in words if word == "more")
        self.left = (*(rest for word, rest in words if word == "left"), *more)


# ── killed supervisor ────────────────────────────────────────────────────────────────────────────


def _kill_unsupervised(leader: int, output: int) -> tuple[str, ...]:
    """Kill a command whose supervisor (both processes) was killed; return the processes that may still be running.

    Only the command's own session is known. Other processes are found if they still hold the output pipe.
    """
    for _ in range(_LOOKS if leader else 0):
        supervisor.freeze(lambda: supervisor.session(leader))
        found = supervisor.session(leader)
        for process in found:
            supervisor.send(process, signal.SIGKILL)
        if not found:
            break
    left = [*(supervisor.session(leader) if leader else ()), *_holders(output)][: supervisor.LEFT_LINES]
    return tuple(dict.fromkeys(f"{process.pid} {supervisor.command_line(process.pid)}" for process in left))


def _holders(output: int) -> list[supervisor.Process]:
    """Return the other processes that can write to a pipe."""
    pipe = os.fstat(output)
    others = (each for each in supervisor.processes().values() if each.pid != os.getpid() and each.is_alive)
    return [process for process in others if _holds(process.pid, pipe)]


def _holds(number: int, pipe: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return any(_is_pipe(f"/proc/{number}/fd/{name}", pipe) for name in os.listdir(f"/proc/{number}/fd"))
    return False


def _is_pipe(path: str, pipe: os.stat_result) -> bool:
    """Return whether a descriptor is the write end of the pipe."""
    with contextlib.suppress(OSError):
        found = os.stat(path)
        is_writable = bool(os.lstat(path).st_mode & stat.S_IWUSR)
        return is_writable and (found.st_dev, found.st_ino) == (pipe.st_dev, pipe.st_ino)
    return False

"""Subprocess runner for tools and hooks: starts a program under the supervisor, streams its output, stops it.

Rule 1: there is one way to stop a command, whatever the reason: the lifeline pipe closes. The supervisor does the
rest, also if this process is killed.
Rule 2: a command has ended when its supervisor has. The output printed until then is complete; a process that still
holds the pipe is not waited for.
Rule 3: when `run_command` returns or raises, every process of the command is gone, or the result (after a
cancellation: the live output) names those that may still be running. One exception: a caller that is cancelled a
second time does not wait; then the supervisor finishes alone.
Rule 4: below the bound, the returned text is exactly the text that was shown. Above it, the middle is left out and
live display stops; both are stated in the text.
"""

import asyncio
import codecs
import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from wakelog.decide.wording import clip_mark
from wakelog.processes import supervisor

KEPT_BYTES = 10 * 1024 * 1024


class CommandOutput:
    """The output of one command."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, piece: bytes) -> str:
        """Keep a piece; return the text to show for it, which ends at a complete character."""
        was_whole = not self._left_out
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._keep_last(piece[room:] if room < len(piece) else b"")
        if not self._left_out:
            return self._decoder.decode(piece)
        return "\n[the output is too long to be shown live]\n" if was_whole else ""

    def final_text(self) -> str:
        """Return the text still to be shown at the end: the replacement for an incomplete character."""
        return "" if self._left_out else self._decoder.decode(b"", final=True)

    def text(self) -> str:
        """Return the kept output."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self._left_out:
            return (head + tail).decode("utf-8", "replace")
        spare = max(0, len(tail) - self._half)
        left_out = clip_mark(self._left_out + spare)
        return head.decode("utf-8", "replace") + left_out + tail[spare:].decode("utf-8", "replace")

    def _keep_last(self, piece: bytes) -> None:
        """Append to the tail, and drop pieces that are no longer part of the last half."""
        if piece:
            self._tail.append(piece)
            self._tail_bytes += len(piece)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._half:
            dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self._left_out += len(dropped)


_BLOCK_BYTES = 64 * 1024
# A pipe buffer holds at most this much; more comes only from a process that keeps writing after the end.
_LAST_BYTES = 1024 * 1024
_KILL_ROUNDS = 20
_ENDINGS = ("exited", "signalled", "remains", "unstarted", "lost")


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended.

    `remains`: it was stopped and may still be running. `unstarted`: it was stopped before it started. `lost`: its
    supervisor was killed. `remaining` are processes that still run, each with its PID and command line; `is_complete`
    says that there are no others.
    """

    how: Literal["exited", "signalled", "remains", "unstarted", "lost"]
    number: int
    output: str
    timed_out: bool
    remaining: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def warning(self) -> str:
        """Message about processes that may still run although the command should have ended; empty if none may."""
        named = f": {'; '.join(self.remaining)}" if self.remaining else ""
        if self.how == "remains":
            return f"stopping the command did not work: it may still be running{named}"
        if self.how == "lost" and (self.remaining or not self.is_complete):
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
) -> CommandResult:
    """Run a program to its end. Raises `OSError` or `ValueError` if it cannot be started.

    The output includes standard error, unless `with_errors` is false.
    """
    output = CommandOutput()
    running = _RunningCommand(argv, cwd, env, with_errors=with_errors)
    alarm = asyncio.get_running_loop().call_later(timeout_s, running.stop_at_time_limit)
    try:
        while piece := await running.pieces.get():
            text = output.add(piece)
            if show and text:
                show(text)
    except asyncio.CancelledError:
        await running.end()
        if show and (warning := running.warning()):
            show(f"\n[{warning}]\n")
        raise
    finally:
        alarm.cancel()
        await running.end()
    if show and (text := output.final_text()):
        show(text)
    return running.ended(output.text())


class _RunningCommand:
    """A running command. `pieces` delivers its output, and an empty piece when it has ended."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str] | None, *, with_errors: bool) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._lines = b""
        self._supervisor_report = _SupervisorReport([])
        self._found: tuple[str, ...] = ()
        self._timed_out = False
        self._loop = asyncio.get_running_loop()
        lifeline, self._lifeline = os.pipe()
        self._output, output = os.pipe()
        self._report, report = os.pipe()
        try:
            arguments = [str(lifeline), str(report), str(supervisor.GRACE_S), *argv]
            self._process = subprocess.Popen(  # noqa: S603 - running what the agent asks for is the purpose
                [sys.executable, "-I", "-S", supervisor.__file__, *arguments],
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

    def stop_at_time_limit(self) -> None:
        """Stop the command because its time limit is over."""
        self._timed_out = not self._gone.is_set()
        self._close_lifeline()

    async def end(self) -> None:
        """Stop the command if it still runs, and wait for its end."""
        self._close_lifeline()
        await self._gone.wait()

    def ended(self, output: str) -> CommandResult:
        """Return how the command ended; call this after its end. Raises `OSError` if it could not be started."""
        report = self._supervisor_report
        if report.how == "failed":
            raise OSError(report.number, os.strerror(report.number))
        how = report.how if report.how in _ENDINGS else "lost"
        left = (*report.left, *self._found)
        is_clear = report.is_clear and report.how in _ENDINGS
        return CommandResult(how, report.number, output, self._timed_out and report.is_stopped, left, is_clear)  # type: ignore[arg-type]

    def warning(self) -> str:
        """Return a message about processes that may still run after a stop; empty if there are none."""
        with contextlib.suppress(OSError):
            return self.ended("").warning
        return ""

    def _close_lifeline(self) -> None:
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
        self._supervisor_report = _SupervisorReport(self._lines.decode("utf-8", "replace").splitlines())
        if not self._supervisor_report.how:
            self._found = _kill_unsupervised(self._supervisor_report.leader, self._output)
        os.close(self._report)
        os.close(self._output)
        self._close_lifeline()
        self._gone.set()
        self.pieces.put_nowait(b"")

    def _read_last(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LAST_BYTES // _BLOCK_BYTES):
                piece = os.read(self._output, _BLOCK_BYTES)
                if not piece:
                    return
                self.pieces.put_nowait(piece)


class _SupervisorReport:
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
    for _ in range(_KILL_ROUNDS if leader else 0):
        supervisor.freeze(lambda: supervisor.session_processes(leader))
        found = supervisor.session_processes(leader)
        for process in found:
            supervisor.send_signal(process, signal.SIGKILL)
        if not found:
            break
    left = [*(supervisor.session_processes(leader) if leader else ()), *_pipe_writers(output)][: supervisor.LEFT_LINES]
    return tuple(dict.fromkeys(f"{process.pid} {supervisor.command_line(process.pid)}" for process in left))


def _pipe_writers(output: int) -> list[supervisor.Process]:
    """Return the other processes that can write to a pipe."""
    pipe = os.fstat(output)
    others = (each for each in supervisor.processes().values() if each.pid != os.getpid() and each.is_alive)
    return [process for process in others if _can_write(process.pid, pipe)]


def _can_write(number: int, pipe: os.stat_result) -> bool:
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

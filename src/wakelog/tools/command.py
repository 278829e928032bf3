"""Running a program for a tool: started under the supervisor, read as it prints, ended when it must.

Rule 1: one way to end it, whatever the reason: the lifeline closes. The supervisor does the rest, and does it
as well if this process is killed.
Rule 2: a command has ended when its supervisor has. What it printed until then is there; nobody waits for a
stranger that still holds the pipe.
Rule 3: leaving `run_command` in any way means that the command is gone, unless the caller was cancelled a
second time and would not wait; then the supervisor finishes alone.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from wakelog.tools import supervisor
from wakelog.tools.output import Output

_BLOCK_BYTES = 64 * 1024
# A pipe holds no more than this, unless somebody goes on writing after the end.
_LAST_BYTES = 1024 * 1024
_LOOKS = 20
_ENDINGS = ("exited", "signalled", "remains")


class Ended(msgspec.Struct, frozen=True):
    """How a command ended. `lost`: its supervisor was killed, and the command after it."""

    how: Literal["exited", "signalled", "remains", "lost"]
    number: int
    output: str
    timed_out: bool


async def run_command(
    argv: Sequence[str], *, cwd: str, timeout_s: float, show: Callable[[str], None] | None = None
) -> Ended:
    """Runs a program to its end. `OSError` or `ValueError` if it cannot even be started."""
    output = Output()
    running = _Running(argv, cwd)
    alarm = asyncio.get_running_loop().call_later(timeout_s, running.time_is_up)
    try:
        while piece := await running.pieces.get():
            text = output.take(piece)
            if show and text:
                show(text)
    finally:
        alarm.cancel()
        await running.end()
    if show and (text := output.rest()):
        show(text)
    return running.ended(output.text())


class _Running:
    """A command under way. `pieces` gives what it prints, and an empty piece when it has ended."""

    def __init__(self, argv: Sequence[str], cwd: str) -> None:
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._said = b""
        self._timed_out = False
        self._loop = asyncio.get_running_loop()
        self._output, output = os.pipe()
        self._report, report = os.pipe()
        try:
            self._process = _start(argv, cwd, output, report)
        except (OSError, ValueError):
            os.close(self._output)
            os.close(self._report)
            raise
        finally:
            os.close(output)
            os.close(report)
        os.set_blocking(self._output, False)
        self._loop.add_reader(self._output, self._read_output)
        self._loop.add_reader(self._report, self._read_report)

    def time_is_up(self) -> None:
        """Asks for the end because it takes too long."""
        self._timed_out = not self._gone.is_set()
        self._cut_lifeline()

    async def end(self) -> None:
        """Asks for the end, if it has not come yet, and waits for it."""
        self._cut_lifeline()
        await self._gone.wait()

    def ended(self, output: str) -> Ended:
        """How it went, once it is over."""
        how, _, number = self._said.decode().strip().partition(" ")
        if how not in _ENDINGS:
            return Ended("lost", 0, output, self._timed_out)
        return Ended(how, int(number or 0), output, self._timed_out)  # type: ignore[arg-type]

    def _cut_lifeline(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _read_output(self) -> None:
        piece = os.read(self._output, _BLOCK_BYTES)
        if piece:
            self.pieces.put_nowait(piece)
        else:
            self._loop.remove_reader(self._output)

    def _read_report(self) -> None:
        """The report closes with the supervisor: that is the end, and the last output is in the pipe."""
        said = os.read(self._report, _BLOCK_BYTES)
        self._said += said
        if said:
            return
        self._loop.remove_reader(self._report)
        self._loop.remove_reader(self._output)
        self._read_last()
        os.close(self._report)
        os.close(self._output)
        self._process.wait()
        if not self._said:
            _kill_session(self._process.pid)
        self._gone.set()
        self.pieces.put_nowait(b"")

    def _read_last(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(_LAST_BYTES // _BLOCK_BYTES):
                piece = os.read(self._output, _BLOCK_BYTES)
                if not piece:
                    return
                self.pieces.put_nowait(piece)


def _kill_session(leader: int) -> None:
    """Somebody killed the supervisor before it could end the command: that is then done from here.

    The command is still in the supervisor's session. It may be making children, hence more than one look.
    """
    for _ in range(_LOOKS):
        members = [number for number in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_alive(number, leader)]
        for number in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number, signal.SIGKILL)
        if not members:
            return


def _is_alive(number: int, session: int) -> bool:
    """Whether a process belongs to a session and has not ended. Its name, in brackets, may hold anything."""
    try:
        with open(f"/proc/{number}/stat", "rb") as file:
            state, _, _, found, *_ = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(found) == session and state not in (b"Z", b"X")


def _start(argv: Sequence[str], cwd: str, output: int, report: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - running what the agent asks for is the purpose
        [sys.executable, "-I", "-S", supervisor.__file__, str(report), *argv],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        pass_fds=(report,),
        start_new_session=True,
    )

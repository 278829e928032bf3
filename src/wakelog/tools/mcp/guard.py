"""A program of its own: runs one server under the supervisor and passes on its output, line by bounded line.

Rule 1: it is started by its path (`python -I -S guard.py PARENT COMMAND…`), has one thread, and uses the standard
library alone, because it must start fast and be simple enough to trust.
Rule 2: the server has its own standard input and error. Its output goes through here, so that a line without end is
the end of the server and not of the reader's memory.
Rule 3: the server and every process that it started are ended (by `tools/supervisor.py`) when the guard gets SIGTERM or
is killed, or when PARENT is gone, even if by SIGKILL. When the server ends by itself, the rest of its session is.
Rule 4: how it ended is the last thing on standard error, written before the output closes.
"""

import contextlib
import os
import select
import signal
import sys
import time

GRACE_S = 1.0
LINE_BYTES = 8 * 1024 * 1024
_SUPERVISOR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "supervisor.py")
_BLOCK_BYTES = 64 * 1024
# A pipe holds no more than this, unless a process goes on writing after the end.
_LAST_BLOCKS = 16
_INPUT, _OUTPUT, _ERROR = 0, 1, 2


def main(parent: int, command: list[str]) -> int:
    """Runs the server to its end; gives the exit status."""
    try:
        parents_end = os.pidfd_open(parent)
    except ProcessLookupError:
        return 1
    if os.getppid() != parent:
        return 1
    asked = _sigterm()
    server = _Server(command, parents_end)
    why = _relay(server, asked)
    server.end()
    if server.failure:
        _say(f"cannot start {command[0]}: {os.strerror(server.failure)}")
        return 127
    _say(server.ending(why))
    return 0


def _sigterm() -> int:
    """A descriptor that is readable when SIGTERM has come."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    return readable


class _Server:
    """A server under its supervisor, which ends it when the lifeline closes or PARENT is gone, and reports how."""

    def __init__(self, command: list[str], parents_end: int) -> None:
        self.output, outgoing = os.pipe()
        self.report, report = os.pipe()
        end, self._lifeline = os.pipe()
        for descriptor in (report, end, parents_end):
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - the system's own signature
        words = [sys.executable, "-I", "-S", _SUPERVISOR, f"{end},{parents_end}", str(report), str(GRACE_S), *command]
        output = (os.POSIX_SPAWN_DUP2, outgoing, _OUTPUT)
        # In a session of its own, so that what ends the guard's group does not end the supervisor.
        os.posix_spawn(sys.executable, words, os.environ, file_actions=[output], setsid=True)
        for descriptor in (outgoing, report, end):
            os.close(descriptor)
        _leave_input()
        os.set_blocking(self.output, False)
        self._lines = b""

    def has_ended(self, seconds: float) -> bool:
        """Whether the server has ended, its supervisor included; waits so long for it."""
        until = time.monotonic() + seconds
        while select.select([self.report], [], [], max(0.0, until - time.monotonic()))[0]:
            piece = os.read(self.report, _BLOCK_BYTES)
            self._lines += piece
            if not piece:
                return True
        return False

    def end(self) -> None:
        """Has the server ended and waits for that; the supervisor has bounds of its own."""
        os.close(self._lifeline)
        while not self.has_ended(GRACE_S):
            pass

    @property
    def failure(self) -> int:
        """The system's number for why it could not be started; 0 if it was."""
        return next((int(rest) for word, rest in self._report() if word == "failed"), 0)

    def ending(self, why: str) -> str:
        """How it ended: `why` it was ended if it was, else how it did; and what is still running."""
        found = dict(self._report())
        left = "; ".join(rest for word, rest in self._report() if word == "left")
        if "remains" in found or "blind" in found:
            return f"[it may still be running: {left}]" if left else "[it may still be running]"
        return (why or _how(found)) + (f"[still running: {left}]" if left else "")

    def _report(self) -> list[tuple[str, str]]:
        lines = self._lines.decode("utf-8", "replace").splitlines()
        return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def _how(report: dict[str, str]) -> str:
    """How a server ended by itself."""
    if "exited" in report:
        return f"[exit status {report['exited']}]"
    if "signalled" in report:
        return f"[killed by signal {report['signalled']}]"
    # A report without an ending: both processes of the supervisor were killed.
    return "[its supervisor was killed]" if "lost" in report else "[its supervisor was killed: it may still be running]"


def _leave_input() -> None:
    """Closes the input, which is the server's alone; the number stays taken."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _INPUT)
    os.close(nothing)


def _relay(server: _Server, asked: int) -> str:
    """Passes on what the server writes until something ends it; gives what that was, unless it was the server."""
    line = 0
    while True:
        ready, _, _ = select.select([server.output, server.report, asked], [], [])
        if asked in ready:
            return "[ended]"
        ended = server.has_ended(0)
        # Once it has ended the last of its output is in the pipe; a process that still holds the pipe is not heard.
        for _ in range(_LAST_BLOCKS if ended else 1):
            piece = _read(server.output)
            if piece is None:
                break
            if not piece:
                return "" if server.has_ended(GRACE_S) else "[ended: it closed its output]"
            at = piece.rfind(b"\n")
            line = line + len(piece) if at < 0 else len(piece) - at - 1
            if line > LINE_BYTES:
                return f"[ended: it sent a message of more than {LINE_BYTES:,} bytes]"
            if not _write(piece):
                return "[ended]"
        if ended:
            return ""


def _read(output: int) -> bytes | None:
    """What is there; None if nothing is yet, empty at the end."""
    with contextlib.suppress(BlockingIOError):
        return os.read(output, _BLOCK_BYTES)
    return None


def _write(piece: bytes) -> bool:
    """Passes a piece on; False if there is no reader any more."""
    with contextlib.suppress(BrokenPipeError):
        while piece:
            piece = piece[os.write(_OUTPUT, piece) :]
        return True
    return False


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(_ERROR, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

"""Stand-alone guard program: runs one MCP server under the supervisor and relays its output, bounding each line.

Rule 1: it is started by its path (`python -I -S guard.py PARENT COMMAND…`), has one thread, and uses only the standard
library, because it must start fast and be simple enough to trust.
Rule 2: the server inherits standard input and error. Its output is relayed here, so that an endless line ends the
server instead of filling the reader's memory.
Rule 3: `processes/supervisor.py` ends the server and every process that it started when the guard gets SIGTERM or is
killed, or when PARENT is gone, even if by SIGKILL. When the server ends by itself, the rest of its session is ended.
Rule 4: the last line on standard error says how it ended; it is written before the output closes.
"""

import contextlib
import os
import select
import signal
import sys
import time

GRACE_S = 1.0
LINE_BYTES = 8 * 1024 * 1024
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SUPERVISOR = os.path.join(_PACKAGE, "processes", "supervisor.py")
_BLOCK_BYTES = 64 * 1024
# A pipe buffer holds at most this much; more comes only from a process that keeps writing after the end.
_LAST_BLOCKS = 16
_INPUT, _OUTPUT, _ERROR = 0, 1, 2


def main(parent: int, command: list[str]) -> int:
    """Run the server to its end; return the exit status."""
    try:
        parents_end = os.pidfd_open(parent)
    except ProcessLookupError:
        return 1
    if os.getppid() != parent:
        return 1
    sigterm = _sigterm_pipe()
    server = _Server(command, parents_end)
    why = _relay(server, sigterm)
    server.end()
    if server.failure:
        _write_error(f"cannot start {command[0]}: {os.strerror(server.failure)}")
        return 127
    _write_error(server.ending(why))
    return 0


def _sigterm_pipe() -> int:
    """Return a descriptor that is readable when SIGTERM has arrived."""
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
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - signature of the standard library
        arguments = [
            sys.executable,
            "-I",
            "-S",
            _SUPERVISOR,
            f"{end},{parents_end}",
            str(report),
            str(GRACE_S),
            *command,
        ]
        output = (os.POSIX_SPAWN_DUP2, outgoing, _OUTPUT)
        # In a session of its own, so that a signal to the guard's group does not end the supervisor.
        os.posix_spawn(sys.executable, arguments, os.environ, file_actions=[output], setsid=True)
        for descriptor in (outgoing, report, end):
            os.close(descriptor)
        _detach_input()
        os.set_blocking(self.output, False)
        self._lines = b""

    def has_ended(self, seconds: float) -> bool:
        """Return whether the server and its supervisor have ended; waits for at most `seconds`."""
        until = time.monotonic() + seconds
        while select.select([self.report], [], [], max(0.0, until - time.monotonic()))[0]:
            piece = os.read(self.report, _BLOCK_BYTES)
            self._lines += piece
            if not piece:
                return True
        return False

    def end(self) -> None:
        """Stop the server and wait for its end; the supervisor limits how long that takes."""
        os.close(self._lifeline)
        while not self.has_ended(GRACE_S):
            pass

    @property
    def failure(self) -> int:
        """The errno of a failed start; 0 if the server was started."""
        return next((int(rest) for word, rest in self._report() if word == "failed"), 0)

    def ending(self, why: str) -> str:
        """Return how it ended: `why` it was stopped, or else how it ended by itself; and what is still running."""
        report = dict(self._report())
        left = "; ".join(rest for word, rest in self._report() if word == "left")
        if "remains" in report or "blind" in report:
            return f"[it may still be running: {left}]" if left else "[it may still be running]"
        return (why or _ending_text(report)) + (f"[still running: {left}]" if left else "")

    def _report(self) -> list[tuple[str, str]]:
        lines = self._lines.decode("utf-8", "replace").splitlines()
        return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def _ending_text(report: dict[str, str]) -> str:
    """Return how a server ended by itself."""
    if "exited" in report:
        return f"[exit status {report['exited']}]"
    if "signalled" in report:
        return f"[killed by signal {report['signalled']}]"
    # A report without an ending: both processes of the supervisor were killed.
    return "[its supervisor was killed]" if "lost" in report else "[its supervisor was killed: it may still be running]"


def _detach_input() -> None:
    """Replace the input by /dev/null: it belongs to the server alone. Its number stays in use."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _INPUT)
    os.close(nothing)


def _relay(server: _Server, sigterm: int) -> str:
    """Relay the server's output until the end; return why it was stopped, empty if it ended by itself."""
    line = 0
    while True:
        ready, _, _ = select.select([server.output, server.report, sigterm], [], [])
        if sigterm in ready:
            return "[ended]"
        ended = server.has_ended(0)
        # After the end the last output is in the pipe; a process that still holds the pipe is not waited for.
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
    """Return the available output; None if there is none yet, empty at the end."""
    with contextlib.suppress(BlockingIOError):
        return os.read(output, _BLOCK_BYTES)
    return None


def _write(piece: bytes) -> bool:
    """Relay a piece; return False if the reader is gone."""
    with contextlib.suppress(BrokenPipeError):
        while piece:
            piece = piece[os.write(_OUTPUT, piece) :]
        return True
    return False


def _write_error(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(_ERROR, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

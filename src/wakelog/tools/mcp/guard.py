"""A program of its own: runs one server, which does not outlive whoever asked for it and cannot flood it.

Rule 1: it is started by its path (`python -I -S guard.py PARENT COMMAND…`), has one thread, and knows the standard
library alone, because it must start fast and be simple enough to trust.
Rule 2: the server has its own standard input and error. Its output goes through here, so that a line without end is
the end of the server and not of the reader's memory.
Rule 3: the server's group ends when the server does, when the guard gets SIGTERM, or when PARENT is gone, even if
by SIGKILL: first SIGTERM, and SIGKILL when the grace is over.
Rule 4: how it ended is the last thing on standard error, said before the output closes.
Rule 5: there are two processes. The one that PARENT starts passes SIGTERM on and waits; its child, in a group of its
own, runs the server. SIGKILL for the first (from `asyncio`, from the SDK) is seen by the second, which ends the server.
"""

import contextlib
import os
import select
import signal
import sys
import time

GRACE_S = 1.0
LINE_BYTES = 8 * 1024 * 1024
_BLOCK_BYTES = 64 * 1024
# A pipe holds no more than this, unless somebody goes on writing after the end.
_LAST_BLOCKS = 16
_LOOK_S = 0.01
_INPUT, _OUTPUT, _ERROR = 0, 1, 2


def main(parent: int, command: list[str]) -> int:
    """Runs the server to its end; gives the exit status."""
    try:
        parents_end = os.pidfd_open(parent)
    except ProcessLookupError:
        return 1
    if os.getppid() != parent:
        return 1
    first = os.getpid()
    # SIGTERM waits until each of the two processes can handle it.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    guarding = os.fork()
    return _wait_for(guarding) if guarding else _guard(first, parents_end, command)


def _wait_for(guarding: int) -> int:
    """The first process: passes SIGTERM on to the second until that one has ended; gives its exit status."""
    descriptor = os.pidfd_open(guarding)

    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    _leave_input()
    _, status = os.waitpid(guarding, 0)
    return os.waitstatus_to_exitcode(status)


def _guard(first: int, parents_end: int, command: list[str]) -> int:
    """The second process: starts the server and stays until the server has ended; gives the exit status."""
    os.setpgid(0, 0)
    wakes = _wakes()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    try:
        firsts_end = os.pidfd_open(first)
    except ProcessLookupError:
        return 1
    if os.getppid() != first:
        return 1
    try:
        group, output = _begin(command)
    except OSError as error:
        _say(f"cannot start {command[0]}: {error.strerror}")
        return 127
    why = _relay(group, output, wakes, [parents_end, firsts_end])
    _end(group)
    _say(why or _ending(group))
    return 0


def _wakes() -> int:
    """A descriptor that is readable when a child has changed or the end is asked for."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda _signal, _frame: None)
    return readable


def _begin(command: list[str]) -> tuple[int, int]:
    """Starts the server as the leader of a group; its input is its own from here on."""
    output, outgoing = os.pipe()
    group = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, outgoing, _OUTPUT)],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )
    os.close(outgoing)
    _leave_input()
    os.set_blocking(output, False)
    return group, output


def _leave_input() -> None:
    """Closes the input, which is the server's alone; the number stays taken."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, _INPUT)
    os.close(nothing)


def _relay(group: int, output: int, wakes: int, ends: list[int]) -> str:
    """Passes on what the server says until something ends it; what that was, unless it was the server itself."""
    line = 0
    while True:
        ready, _, _ = select.select([output, wakes, *ends], [], [])
        if any(each in ready for each in ends) or (wakes in ready and signal.SIGTERM in os.read(wakes, 512)):
            return "[ended]"
        exited = _exited(group)
        # Once it has ended its last words are in the pipe; nobody listens to a stranger who holds the other end.
        for _ in range(_LAST_BLOCKS if exited else 1):
            piece = _read(output)
            if piece is None:
                break
            if not piece:
                return "" if _wait(group) else "[ended: it closed its output]"
            at = piece.rfind(b"\n")
            line = line + len(piece) if at < 0 else len(piece) - at - 1
            if line > LINE_BYTES:
                return f"[ended: it sent a message of more than {LINE_BYTES:,} bytes]"
            if not _write(piece):
                return "[ended]"
        if exited:
            return ""


def _read(output: int) -> bytes | None:
    """What is there; None if nothing is yet, empty at the end."""
    with contextlib.suppress(BlockingIOError):
        return os.read(output, _BLOCK_BYTES)
    return None


def _write(piece: bytes) -> bool:
    """Passes a piece on; False if there is nobody any more."""
    with contextlib.suppress(BrokenPipeError):
        while piece:
            piece = piece[os.write(_OUTPUT, piece) :]
        return True
    return False


def _end(group: int) -> None:
    """Ends the group. Its leader is not reaped yet, so its number cannot belong to a stranger."""
    with contextlib.suppress(PermissionError):
        os.killpg(group, signal.SIGTERM)
    _wait(group)
    with contextlib.suppress(PermissionError):
        os.killpg(group, signal.SIGKILL)


def _wait(group: int) -> bool:
    """Whether the leader ends within the grace."""
    until = time.monotonic() + GRACE_S
    while not _exited(group) and time.monotonic() < until:
        time.sleep(_LOOK_S)
    return _exited(group)


def _exited(group: int) -> bool:
    return os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _ending(group: int) -> str:
    """How the leader ended."""
    found = os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG)
    if found is None:
        return "[it may still be running]"
    if found.si_code == os.CLD_EXITED:
        return f"[exit status {found.si_status}]"
    return f"[killed by signal {found.si_status}]"


def _say(line: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(_ERROR, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

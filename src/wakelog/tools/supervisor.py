"""A program of its own: runs one command in a process group that does not outlive whoever asked for it.

Rule 1: it is started by its path (`python -I -S supervisor.py REPORT COMMAND…`), has one thread, and knows
the standard library alone, because it must start fast and be simple enough to trust.
Rule 2: standard input is the lifeline. Nothing is written to it; it closes when the caller wants the end or
was killed, even with SIGKILL. Then the group gets SIGTERM, and SIGKILL when the grace is over.
Rule 3: what the command left running in its group is killed when the command ends. A process that made a
session of its own is out of reach.
Rule 4: how it went is said at the end on the descriptor REPORT: `exited N`, `signalled N`, or `remains`.
"""

import contextlib
import os
import select
import signal
import sys
import time

GRACE_S = 2.0
LIFELINE = 0


def main(report: int, command: list[str]) -> None:
    """Runs the command to its end, or to the end of the lifeline."""
    os.set_inheritable(report, False)  # noqa: FBT003 - the system's own signature
    exits = _exits()
    if select.select([LIFELINE], [], [], 0)[0]:
        return
    group = _begin(command)
    _wait(group, exits, lifeline=True)
    if not _exited(group):
        os.killpg(group, signal.SIGTERM)
        _wait(group, exits, lifeline=False)
    # The leader is not reaped yet: its number cannot belong to a stranger.
    with contextlib.suppress(PermissionError):
        os.killpg(group, signal.SIGKILL)
    _wait(group, exits, lifeline=False)
    _say(report, _ending(group))


def _exits() -> int:
    """A descriptor that is readable when a child has changed."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    return readable


def _begin(command: list[str]) -> int:
    """Starts the command as the leader of a group, with no input, and with the signals Python had ignored."""
    nothing = (os.POSIX_SPAWN_OPEN, LIFELINE, os.devnull, os.O_RDONLY, 0)
    return os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[nothing],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def _wait(group: int, exits: int, *, lifeline: bool) -> None:
    """Waits for the leader, as long as the lifeline holds; without it, as long as the grace lasts."""
    until = time.monotonic() + GRACE_S
    while not _exited(group):
        left = None if lifeline else max(0.0, until - time.monotonic())
        ready, _, _ = select.select([exits, LIFELINE] if lifeline else [exits], [], [], left)
        if LIFELINE in ready or not ready:
            return
        os.read(exits, 512)


def _exited(group: int) -> bool:
    """Whether the leader has ended; it stays to be reaped."""
    return os.waitid(os.P_PID, group, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _ending(group: int) -> str:
    """How the leader ended. One that even SIGKILL did not end runs with another user's rights, or in the kernel."""
    found = os.waitid(os.P_PID, group, os.WEXITED | os.WNOHANG)
    if found is None:
        return "remains"
    return f"{'exited' if found.si_code == os.CLD_EXITED else 'signalled'} {found.si_status}"


def _say(report: int, line: str) -> None:
    """Tells the caller, if there still is one."""
    with contextlib.suppress(BrokenPipeError):
        os.write(report, f"{line}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])

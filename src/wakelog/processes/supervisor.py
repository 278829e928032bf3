"""Stand-alone supervisor program: runs one command and ends every process that the command started.

Rule 1: it is started by its path (`python -I -S supervisor.py ENDS REPORT GRACE COMMAND…`), has one thread, and uses
only the standard library, because it must start fast and be simple enough to trust.
Rule 2: ENDS are descriptors (`3` or `3,4`). When one of them is readable, the command is stopped: a pipe whose other
end the caller holds (it closes with the caller, even after SIGKILL) or a pidfd.
Rule 3: every orphan below this program becomes its child (PR_SET_CHILD_SUBREAPER). So a process of the command cannot
escape with its own process group, session or a double fork, and "no child left" (ECHILD) means that no process of the
command is left.
Rule 4: a stopped command gets SIGTERM, and SIGKILL after GRACE seconds: all of its processes do, parents first, so that
no parent continues because its child has ended.
Rule 5: when the command ends by itself, the rest of its session is killed. Processes in a session of their own are left
alone and reported.
Rule 6: there are two processes. The inner one runs the command in a session of the command's own, so that a signal of
the command to its group or session reaches neither. The outer one waits. When the inner one is killed, the kernel kills
the command's first process and the outer one ends the rest; when the outer one is killed, the inner one stops the
command.
Rule 7: REPORT gets lines: `began PID`; how it ended, `exited N`, `signalled N`, `remains`, `failed ERRNO` (not
started), `unstarted` (stopped before that) or `lost` (the inner process was killed); `stopped` if it was stopped; `left
PID COMMAND LINE` for each process that is left, up to a bound, and `more N`; `blind` if processes may be left that
cannot be seen.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable

GRACE_S = 2.0
KILL_S = 10.0
LEFT_LINES = 8
_LEFT_BYTES = 200
_PAUSE_S = 0.02
_ROUNDS = 10
_QUICK_ROUNDS = 200
_INPUT, _OUTPUT = 0, 1
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(ends: list[int], report: int, grace_s: float, command: list[str]) -> None:
    """Run the outer process: start the inner one and wait for it; end the command if the inner one was killed."""
    for descriptor in (*ends, report):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - signature of the standard library
    is_reaper = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    outer = os.getpid()
    try:
        inner = os.fork()
    except OSError as error:
        Report(report).write(f"failed {error.errno}")
        return
    if inner == 0:
        _run_inner(outer, Report(report), ends, grace_s, command)
    _detach_streams()
    if os.waitpid(inner, 0)[1] != 0:
        _end_after_inner(Report(report), is_reaper=is_reaper)


def _run_inner(outer: int, report: "Report", ends: list[int], grace_s: float, command: list[str]) -> None:
    """Run the inner process; never returns."""
    is_reaper = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    changes = _signal_pipe()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == outer:
        run_command(Command(changes, ends, is_reaper=is_reaper), command, grace_s, report)
    os._exit(0)


def _end_after_inner(report: "Report", *, is_reaper: bool) -> None:
    """Kill what a killed inner process has left; as a subreaper, this process has become the parent of its orphans."""
    rest = Command(_signal_pipe(), [], is_reaper=is_reaper)
    rest.kill_all()
    report.write("lost")
    report.write_left(rest)
    if not is_reaper:
        report.write("blind")


def run_command(running: "Command", command: list[str], grace_s: float, report: "Report") -> None:
    """Run the command to its end, or until it is to be stopped."""
    if running.is_to_stop():
        report.write("unstarted")
        report.write("stopped")
        return
    try:
        running.start(command, report)
    except OSError as error:
        report.write(f"failed {error.errno}")
        return
    running.wait_for_end()
    if running.is_to_stop():
        running.stop_all(grace_s)
        report.write(running.ending() if running.is_reaper and running.is_childless() else "remains")
        report.write("stopped")
    else:
        running.kill_session()
        report.write(running.ending())
    report.write_left(running)


class Report:
    """Report lines for the caller; dropped when the caller is gone."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, line: str) -> None:
        """Write a line."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._descriptor, f"{line}\n".encode("utf-8", "surrogateescape"))

    def write_left(self, running: "Command") -> None:
        """Report the processes that are left, up to `LEFT_LINES`, and whether there may be others."""
        left = running.left()
        for process in left[:LEFT_LINES]:
            self.write(f"left {process.pid} {command_line(process.pid)}")
        if len(left) > LEFT_LINES:
            self.write(f"more {len(left) - LEFT_LINES}")
        if not left and not running.is_childless():
            self.write("blind")


class Command:
    """The command and every process below this one."""

    def __init__(self, changes: int, ends: list[int], *, is_reaper: bool) -> None:
        self.leader = 0
        self.is_reaper = is_reaper
        self._changes = changes
        self._ends = ends
        self._is_terminated = False
        self._ending = ""

    # ── running ──────────────────────────────────────────────────────────────────────────────────

    def start(self, command: list[str], report: Report) -> None:
        """Start the command as a session leader. Raises `OSError` if it cannot be started."""
        failed, failure = os.pipe()
        parent = os.getpid()
        self.leader = os.fork()
        if self.leader == 0:
            _exec_command(command, parent, report, failure)
        os.close(failure)
        _detach_streams()
        with os.fdopen(failed, "rb") as file:
            number = file.read()
        if number:
            os.waitpid(self.leader, 0)
            raise OSError(int(number), os.strerror(int(number)))

    def wait_for_end(self) -> None:
        """Wait until the command has ended or is to be stopped. Orphans that end meanwhile are reaped."""
        while not self._leader_ended() and not self.is_to_stop():
            self._wait(None)

    def is_to_stop(self) -> bool:
        """Return whether the caller is gone or requests the end, or this process got SIGTERM."""
        return self._is_terminated or bool(select.select(self._ends, [], [], 0)[0])

    def ending(self) -> str:
        """Return how the command ended. One that survives SIGKILL runs with another user's rights, or in the kernel."""
        self.is_childless()
        return self._ending or "remains"

    def _leader_ended(self) -> bool:
        """Return whether the command has ended; other children that have ended are reaped."""
        while True:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            if found is None or found.si_pid == self.leader:
                return found is not None
            os.waitpid(found.si_pid, 0)

    def _wait(self, seconds: float | None) -> None:
        """Wait for a change of a child, a signal or (without a limit) a stop request of the caller."""
        watched = [self._changes] if seconds is not None else [self._changes, *self._ends]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._changes in ready:
            self._is_terminated = signal.SIGTERM in os.read(self._changes, 512) or self._is_terminated

    # ── ending ───────────────────────────────────────────────────────────────────────────────────

    def stop_all(self, grace_s: float) -> None:
        """End every process of the command: SIGTERM, and SIGKILL after `grace_s`."""
        self._send_all(signal.SIGTERM)
        until = time.monotonic() + grace_s
        while not self.is_childless() and time.monotonic() < until:
            self._wait(max(0.0, until - time.monotonic()))
        self.kill_all()

    def kill_all(self) -> None:
        """Kill until no process is left or `KILL_S` is over: a process may fork while it is being killed."""
        until = time.monotonic() + KILL_S
        while not self.is_childless() and time.monotonic() < until:
            freeze(self._living)
            self._send_all(signal.SIGKILL)
            self._kill_children()
            self._wait(_PAUSE_S)

    def _kill_children(self) -> None:
        """Kill children of this process in quick succession, for a process that forks and exits all the time.

        Only this process reaps them, so their PIDs cannot belong to other processes.
        """
        for _ in range(_QUICK_ROUNDS):
            children = _children()
            for number in children:
                with contextlib.suppress(PermissionError):
                    os.kill(number, signal.SIGKILL)
            if not children or self.is_childless():
                return

    def kill_session(self) -> None:
        """Kill what the command has left in its own session."""
        until = time.monotonic() + KILL_S
        while not self.is_childless() and time.monotonic() < until:
            freeze(self._session)
            found = self._session()
            for process in found:
                send_signal(process, signal.SIGKILL)
            if not found:
                return
            self._wait(_PAUSE_S)

    def left(self) -> "list[Process]":
        """Return the processes that are left."""
        return [] if self.is_childless() else self._living()

    def is_childless(self) -> bool:
        """Return whether no process is left below this one. Children that have ended are reaped."""
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                if found.si_pid == self.leader:
                    how = "exited" if found.si_code == os.CLD_EXITED else "signalled"
                    self._ending = f"{how} {found.si_status}"
            return False
        return True

    def _session(self) -> "list[Process]":
        """Return the command's session, limited to descendants: an empty session's number can be reused."""
        return [process for process in self._living() if process.session == self.leader]

    def _living(self) -> "list[Process]":
        return [process for process in descendants(os.getpid(), processes()) if process.is_alive]

    def _send_all(self, number: int) -> None:
        found = self._living()
        for process in found:
            send_signal(process, number)
        if not found and not self._ending and self.leader:
            # Without /proc only the command's own group is known; the command is not reaped yet.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, number)


def freeze(find: "Callable[[], list[Process]]") -> None:
    """Stop processes until none of them runs: a stopped process can neither fork nor continue."""
    for _ in range(_ROUNDS):
        found = [process for process in find() if process.runs]
        for process in found:
            send_signal(process, signal.SIGSTOP)
        if not found:
            return


# ── processes ────────────────────────────────────────────────────────────────────────────────────


class Process:
    """A process as /proc shows it."""

    __slots__ = ("parent", "pid", "session", "started", "state")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name, in parentheses, may hold any character.
        fields = stat.rpartition(b")")[2].split()
        self.pid = pid
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.state not in (b"Z", b"X", b"x")

    @property
    def runs(self) -> bool:
        """Whether it is alive and not stopped."""
        return self.is_alive and self.state not in (b"T", b"t")


def processes() -> dict[int, Process]:
    """Return every visible process by PID; none without /proc."""
    try:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    found = ((number, read_process(number)) for number in numbers)
    return {number: process for number, process in found if process is not None}


def read_process(number: int) -> Process | None:
    """Return a process, or None if it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{number}/stat", "rb") as file:
        return Process(number, file.read())
    return None


def descendants(root: int, table: dict[int, Process]) -> list[Process]:
    """Return every process below another, parents before their children."""
    children: dict[int, list[Process]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(root, ()))
    for process in found:
        found += children.get(process.pid, ())
    return found


def session_processes(leader: int) -> list[Process]:
    """Return the living processes of a session, parents before children, because a parent is always older."""
    found = [process for process in processes().values() if process.session == leader and process.is_alive]
    return sorted(found, key=lambda process: (process.started, process.pid))


def send_signal(process: Process, number: int) -> None:
    """Send a signal to a process, but not to another one that has got its PID since."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        descriptor = os.pidfd_open(process.pid)
        try:
            now = read_process(process.pid)
            if now is not None and now.started == process.started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def command_line(number: int) -> str:
    """Return the command line of a process as one bounded line."""
    with contextlib.suppress(OSError), open(f"/proc/{number}/cmdline", "rb") as file:
        line = file.read(_LEFT_BYTES).rstrip(b"\0").decode("utf-8", "replace")
        return "".join(letter if letter.isprintable() else " " for letter in line)
    return ""


def _children() -> list[int]:
    """Return the children of this process, if the kernel lists them."""
    number = os.getpid()
    with contextlib.suppress(OSError), open(f"/proc/{number}/task/{number}/children", "rb") as file:
        return [int(word) for word in file.read().split()]
    return []


# ── operating system ─────────────────────────────────────────────────────────────────────────────


def _prctl(option: int, value: int) -> bool:
    """Set a property of this process; return False if that is not possible here."""
    try:
        # Not imported at the top, because the caller imports this module too and does not need it.
        import ctypes  # noqa: PLC0415

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def _signal_pipe() -> int:
    """Return a descriptor that is readable when a child has changed or SIGTERM has come; it yields signal numbers."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda _signal, _frame: None)
    return readable


def _exec_command(command: list[str], parent: int, report: Report, failure: int) -> None:
    """Turn a forked child into the command: in its own session, and killed by the kernel when its parent dies."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Python ignores these signals; the command must not.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        # Written before the command's first instruction: its session is known whatever it does to its supervisor.
        report.write(f"began {os.getpid()}")
        if os.getppid() == parent:
            os.execvp(command[0], command)  # noqa: S606 - running a command is the purpose
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(127)


def _detach_streams() -> None:
    """Replace input and output by /dev/null: they belong to the command alone. Their numbers stay in use."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, _INPUT)
    os.dup2(nothing, _OUTPUT)
    os.close(nothing)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1].split(",")], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])

"""Watching other processes: started, waited for by their effects, and ended one by one, without fixed delays."""

import json
import os
import signal
import subprocess
import time

from tests.faults.processes import INTERPRETER, PATIENCE_S, environment


def until(happened, why="it never happened"):
    """Call a function until it returns a true value; return that value."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < deadline, why
        time.sleep(0.005)
    return found


class Watched:
    """A worker in a process of its own."""

    def __init__(self, *words, module="tests.kernel.holder", **more):
        command = [INTERPRETER, "-m", module, *map(str, words)]
        given = {"stdin": subprocess.DEVNULL, "env": environment(), **more}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **given)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            pipe.close()

    def signal(self, number):
        self.process.send_signal(number)

    def stopped(self):
        """Wait until it has stopped itself, or has been stopped."""
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it did not stop but end: {status}"

    def stop(self):
        """Stop it at a moment when it holds no file lock, so that others do not wait for a stopped process."""
        self.signal(signal.SIGSTOP)
        self.stopped()
        while _holds_file_lock(self.process.pid):
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGSTOP)
            self.stopped()

    def kill(self):
        """Kill it, stopped or not."""
        self.process.kill()
        assert self.process.wait(PATIENCE_S) == -signal.SIGKILL

    def end(self):
        """Wait for its end; return its exit code and its last line."""
        said = self.process.communicate(timeout=PATIENCE_S)[0].splitlines()
        return self.process.returncode, json.loads(said[-1]) if said else None


def _holds_file_lock(pid):
    """Return whether the kernel lists a lock that a process holds (waiting requests are marked with an arrow)."""
    with open("/proc/locks", encoding="ascii") as file:
        rows = [line.split() for line in file]
    return any(row[1] != "->" and row[4] == str(pid) for row in rows)


def is_alive(pid):
    """Whether a process exists and has not ended."""
    return _state(pid)[0] not in ("Z", "X", "gone")


def in_group(group):
    """The processes of a group that have not ended; zombies do not count."""
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if _state(number)[1] == group and is_alive(number)]


def left_in(group):
    """The same, and kill them: no test leaves a process behind."""
    found = in_group(group)
    for number in found:
        os.kill(number, signal.SIGKILL)
    return found


def _state(pid):
    """The state and the group of a process. Its name, in brackets, may contain any character."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, _, group, *_ = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "gone", 0
    return state, int(group)

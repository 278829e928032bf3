"""The crash sweep: a worker is killed before every write-class system call, and another one continues.

    python -m tests.kernel.sweep FOLDER FIRST STRIDE [early]
                                                        the points FIRST, FIRST + STRIDE, …, as lines of JSON
    python -m tests.kernel.sweep FOLDER trace           one undisturbed run, for strace to watch

Every call through which Python can change a file system is counted as it is about to be made; the one whose number
was planned is not made: the process kills itself with SIGKILL instead, and its parent sees that it did (planned =
applied). `test_sweep.py` compares the count with what strace sees, so that no call goes by uncounted. `early` is
the control: entries are acknowledged before they are written.
"""

import json
import os
import shutil
import signal
import sys

from tests.kernel.judging import judge
from tests.kernel.long_session import drive
from tests.kernel.outside import Outside
from wakelog.decide import timing
from wakelog.stores.jsonl import JsonlStore

RAISES = ("All three are done.", "Another way.")
CALLS = (
    "write",
    "pwrite",
    "writev",
    "fsync",
    "fdatasync",
    "link",
    "symlink",
    "rename",
    "replace",
    "unlink",
    "remove",
    "rmdir",
    "mkdir",
    "utime",
    "truncate",
    "ftruncate",
    "chmod",
    "fchmod",
)
_write, _open = os.write, os.open


class Counter:
    """Counts calls, and kills the process before the planned one."""

    def __init__(self, planned=None):
        self.planned = planned
        self.count = 0
        self.names = {}

    def watch(self):
        """Count every write-class call from now on."""
        for name in CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))
        os.open = self._counted_open

    def _counted(self, name, call):
        def counted(*args, **kwargs):
            self.step(name)
            return call(*args, **kwargs)

        return counted

    def _counted_open(self, path, flags, *args, **kwargs):
        # Opening a file counts as a write only where it creates the file.
        if flags & os.O_CREAT and not os.path.exists(path):
            self.step("open")
        return _open(path, flags, *args, **kwargs)

    def step(self, name):
        if self.count == self.planned:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1
        self.names[name] = self.names.get(name, 0) + 1


class Acknowledging(JsonlStore):
    """A store that records, outside of it, what it has acknowledged."""

    def __init__(self, folder, acks):
        super().__init__(folder)
        self._acks = _open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, session, body, **more):
        sealed = super().append(session, body, **more)
        self._acknowledge(sealed.line.raw)
        return sealed

    def append_early(self, session, body, **more):
        """Control: the acknowledgement is recorded before the append."""
        self._acknowledge(body)
        return super().append(session, body, **more)

    def _acknowledge(self, body):
        _write(self._acks, json.dumps(json.loads(body)["id"]).encode() + b"\n")


def _child(work):
    """Run a function in a process of its own; return its exit status, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:  # noqa: BLE001 - the parent is told by the exit code, a reader by the line
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def sweep(folder, first, stride):
    """Kill at one point after the other, until a run completes without a kill."""
    point = first
    while True:
        place = os.path.join(folder, str(point))
        store, outside, acks = (os.path.join(place, name) for name in ("store", "outside", "acks"))
        os.makedirs(place)

        def dying(store=store, outside=outside, acks=acks, point=point):
            made = Outside(outside)
            Counter(point).watch()
            drive(Acknowledging(store, acks), made, raises=RAISES)

        status = _child(dying)
        if status == 0:
            shutil.rmtree(place)
            return
        rows_path = os.path.join(place, "rows")

        def waking(store=store, outside=outside, acks=acks, rows_path=rows_path):
            rows: list[str] = []
            opened, made = JsonlStore(store), Outside(outside)
            drive(opened, made, rows, raises=RAISES)
            with open(rows_path, "w", encoding="utf-8") as file:
                json.dump(rows, file)
            with open(acks, encoding="utf-8") as file:
                acknowledged = [json.loads(line) for line in file]
            judge(opened, made, acknowledged)

        woken = _child(waking)
        rows = []
        if os.path.exists(rows_path):
            with open(rows_path, encoding="utf-8") as file:
                rows = json.load(file)
        killed = status == -signal.SIGKILL
        print(json.dumps({"planned": point, "killed": killed, "woken": woken, "rows": rows}), flush=True)
        if woken == 0:
            shutil.rmtree(place)
        point += stride


def trace(folder):
    """Count the calls of one run without kills."""
    counter = Counter()
    counter.watch()
    drive(JsonlStore(os.path.join(folder, "store")), Outside(os.path.join(folder, "outside")), raises=RAISES)
    print(json.dumps(counter.names), flush=True)


if __name__ == "__main__":
    # The channel raises in every run; the back-off is short, or the sweep would wait for most of its time. Set only in
    # a process of its own: tests that import this file measure the real back-off.
    timing.RETRY_FIRST_MS = 8
    if "early" in sys.argv:
        Acknowledging.append = Acknowledging.append_early  # type: ignore[method-assign]
    if sys.argv[2] == "trace":
        trace(sys.argv[1])
    else:
        sweep(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

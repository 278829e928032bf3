"""The crash sweep as a test: a worker dies before every write-class system call, and nothing acknowledged is lost."""

import json
import re
import shutil
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import INTERPRETER, environment
from tests.kernel.sweep import CALLS
from wakelog.decide.open_tool_calls import TOOL_CALL_RULES
from wakelog.decide.table import DECISION_RULES

PARTS = 2
CONTROL_STRIDE = 25
TRACED = (
    "write,pwrite64,writev,fsync,fdatasync,link,linkat,symlink,symlinkat,rename,renameat,renameat2,unlink,unlinkat,"
)
TRACED += "rmdir,mkdir,mkdirat,utimensat,truncate,ftruncate,chmod,fchmod"
# System call names that differ from the names of the Python functions.
SAME = {"pwrite64": "pwrite", "linkat": "link", "symlinkat": "symlink", "renameat": "rename", "renameat2": "rename"}
SAME |= {"replace": "rename", "unlinkat": "unlink", "remove": "unlink", "mkdirat": "mkdir", "utimensat": "utime"}


# A limit that only ends a worker that hangs; a sweep on a busy machine takes less.
PATIENCE_S = 1_800


def _run(*words, before=()):
    command = [*before, INTERPRETER, "-m", "tests.kernel.sweep", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment(), check=False)


def _counted(names):
    total: Counter[str] = Counter()
    for name, count in names.items():
        total[SAME.get(name, name)] += count
    return total


def test_the_sweep_counts_every_call(tmp_path):
    """Control: the sweep counts the calls that strace sees, so every kill point can be planned."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is needed: install it with your package manager"
    report, place = tmp_path / "report", tmp_path / "place"
    place.mkdir()
    before = [strace, "-f", "-qq", "-y", "-s", "0", "-o", str(report), "-e", f"trace={TRACED}"]
    done = _run(str(place), "trace", before=before)
    assert done.returncode == 0, done.stderr
    seen: Counter[str] = Counter()
    for line in report.read_text(errors="replace").splitlines():
        call = re.match(r"^\d+\s+(\w+)\(", line)
        if call is not None and str(place) in line and "ENOENT" not in line and "EEXIST" not in line:
            seen[SAME.get(call[1], call[1])] += 1
    counted = _counted(json.loads(done.stdout))
    del counted["open"]
    assert set(counted) <= {SAME.get(name, name) for name in CALLS}
    for name, count in seen.items():
        assert counted[name] >= count, f"{name}: strace saw {count}, the sweep counts {counted[name]}"
    assert sum(seen.values()) > 250


def figure(points, control=""):
    """The figures of a sweep."""
    woken, wrong = (len(points), "sessions woken"), (sum(point["woken"] != 0 for point in points), "that broke a law")
    killed = sum(point["killed"] for point in points)
    return Figure("kill -9 before the n-th call", "files", len(points), killed, woken, wrong, control)


@pytest.mark.slow
def test_control_entries_that_are_acknowledged_too_early(tmp_path, record):
    """The sweep can fail: entries acknowledged before they are written are lost at some points."""
    done = _run(str(tmp_path), "0", str(CONTROL_STRIDE), "early")
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "acknowledged and lost" in done.stderr
    points = [json.loads(line) for line in done.stdout.splitlines()]
    record(figure(points, control="acknowledged before it is written"))


@pytest.mark.slow
def test_a_worker_may_die_before_some_calls(tmp_path):
    """Laws 4, 6, 7, 11, RUN-4, RUN-6, RUN-9: every third write-class call; each of them in `make test-faults`."""
    points = _swept(str(tmp_path), stride=3)
    assert [point["planned"] for point in points] == list(range(0, 3 * len(points), 3))
    assert len(points) > 130


@pytest.mark.faults
def test_a_worker_may_die_before_any_call(tmp_path, record):
    """Laws 4, 6, 7, 11, RUN-4, RUN-6, RUN-9: before every write-class call; the wakes took every row of the tables."""
    points = _swept(str(tmp_path), stride=1)
    record(figure(points))
    assert [point["planned"] for point in points] == list(range(len(points)))
    assert len(points) > 400
    rows = Counter(row for point in points for row in set(point["rows"]))
    print(f"planned {len(points)}, applied {len(points)}; wakes that took each row: {dict(rows.most_common())}")
    missing = {row.name for row in (*DECISION_RULES, *TOOL_CALL_RULES)} - {"open calls", "damage"} - set(rows)
    assert not missing, f"no wake took these rows: {missing}"


def _swept(folder, stride):
    """Kill a worker before every n-th write-class call and wake the session; return the points.

    Nothing acknowledged is lost, every call has exactly one result, a tool that may not run twice ran at most
    once and one with receipts exactly once, every reply was delivered under its own id, the session rests, and
    replay gives the same log.
    """
    with ThreadPoolExecutor(PARTS) as pool:
        parts = list(pool.map(lambda part: _run(folder, str(part * stride), str(PARTS * stride)), range(PARTS)))
    told = "".join(part.stderr for part in parts)
    assert [part.returncode for part in parts] == [0] * PARTS, told[-2_000:]
    points = [json.loads(line) for part in parts for line in part.stdout.splitlines()]
    assert [point["planned"] for point in points if not point["killed"]] == [], "planned = applied"
    assert [point["planned"] for point in points if point["woken"] != 0] == [], told[-4_000:]
    return sorted(points, key=lambda point: point["planned"])

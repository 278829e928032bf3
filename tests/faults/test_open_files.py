"""Many sessions under a low limit of open files: the store adapts, or raises a typed error before any write.

ST-2, LOG-4. The process of each test may open 64 files and has 100 sessions.
"""

import json
import subprocess

import pytest

from tests.faults.figures import Figure
from tests.faults.open_files import LIMIT, SESSIONS
from tests.faults.processes import INTERPRETER, PATIENCE_S, environment
from wakelog.log.content import Reply
from wakelog.log.entry import ContextEntry, Message
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.jsonl.store import JsonlStore


def figure(left, said, wrong, control=""):
    """The figures of one process with few free descriptors."""
    tried, found = (SESSIONS, "appends"), (wrong, "refused without need, or half done")
    return Figure("process with few free descriptors", "files", 1, int(said["free"] == left), tried, found, control)


def _run(folder, left, *more):
    command = [INTERPRETER, "-m", "tests.faults.open_files", str(folder), str(left), *more]
    ended = subprocess.run(command, env=environment(), capture_output=True, timeout=PATIENCE_S, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("left", "more"),
    [(40, ("threads",)), (40, ()), (12, ()), (5, ()), (3, ())],
    ids=["threads", "40", "12", "5", "3"],
)
def test_few_descriptors_are_enough(tmp_path, left, more, record):
    """Unused logs are closed. Of threads that append at once, as many have their logs open as the limit allows."""
    said = _run(tmp_path / "store", left, *more)
    assert said["scarce"] == {"sealed": SESSIONS, "kinds": [], "hints": []}
    assert said["lines"] == [3]
    assert said["again"]["sealed"] == SESSIONS
    record(figure(left, said, SESSIONS - said["scarce"]["sealed"]))


def test_control_a_store_that_opens_as_many_logs_as_it_is_asked_for(tmp_path, record):
    """The test above can fail: appends are refused although there are enough descriptors for one after the other."""
    said = _run(tmp_path / "store", 40, "threads", "greedy")
    record(figure(40, said, SESSIONS - said["scarce"]["sealed"], control="all logs are opened at once"))


@pytest.mark.parametrize("left", [0, 1, 2])
def test_no_descriptor_is_a_typed_error_and_nothing_is_written(tmp_path, left, record):
    """No entry of the group is written; with free descriptors the same store appends again."""
    said = _run(tmp_path / "store", left)
    assert (said["scarce"]["sealed"], said["scarce"]["kinds"]) == (0, ["too_many_files"])
    (hint,) = said["scarce"]["hints"]
    assert "ulimit -n" in hint
    assert said["lines"] == [2]
    assert said["again"]["sealed"] == SESSIONS
    record(figure(left, said, said["scarce"]["sealed"]))


def test_many_sessions_are_woken_under_the_limit(tmp_path):
    """RUN-1: `wake --all` answers the prompts of all sessions, many at a time."""
    store = JsonlStore(str(tmp_path / "store"))
    for _ in range(40):
        session = Session.create(store, agent="crab", provider="demo", model="demo")
        session.append(ContextEntry())
        session.say("Hello.")
    store.close()
    given = {"WAKELOG_STORE": str(tmp_path / "store"), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    limited = ["bash", "-c", f'ulimit -n {LIMIT}; exec "$@"', "-", INTERPRETER, "-m", "wakelog"]
    command = [*limited, "wake", "--all", "--jobs", "32"]
    env = environment() | given
    ended = subprocess.run(command, env=env, capture_output=True, timeout=PATIENCE_S, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    for stat in store.sessions():
        said = [entry.value for entry in read_log(store, stat.name).entries if isinstance(entry.value, Message)]
        assert isinstance(said[-1].message, Reply), stat.name

"""LOG-10: while a stopped process (SIGSTOP) holds a lock, others wait for a limited time and name the holder.

The holder is a real process that takes the lock through the store's own code. The others are real `wakelog` commands
with a limit of two seconds. Nothing here measures time: what would hang runs into the timeout of its process.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.figures import Figure, store_name
from tests.faults.lock_holders import MODULE
from tests.faults.processes import PATIENCE_S, Child, environment
from tests.stores.faults.logs import body
from wakelog.errors import StoreBusy
from wakelog.ports.stores import SealedLine
from wakelog.session import Session
from wakelog.stores import open_store, process_identity
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.log_locks import OpenLogs
from wakelog.stores.locking import LockWait, LockWaitNotice

LIMIT_S = "2"
KINDS = ("files", "sqlite", "postgresql")
BUSY = 5


@pytest.fixture(params=KINDS)
def url(request, tmp_path) -> str:
    """A store of each kind with two sessions, `s` and `other`."""
    if request.param == "postgresql":
        return filled(request.getfixturevalue("postgres_url"))
    return filled(f"jsonl:{tmp_path}/store" if request.param == "files" else f"sqlite:{tmp_path}/store.db")


@pytest.fixture
def folder_url(tmp_path) -> str:
    """A folder with two sessions."""
    return filled(f"jsonl:{tmp_path}/store")


@pytest.fixture
def sqlite_url(tmp_path) -> str:
    """A SQLite store with two sessions."""
    return filled(f"sqlite:{tmp_path}/store.db")


def filled(url: str) -> str:
    store = open_store(url)
    for session in ("s", "other"):
        Session.create(store, session_id=session).say("hello")
    store.close()
    return url


@pytest.fixture(autouse=True)
def _cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("WAKELOG_LOCK_TIMEOUT", LIMIT_S)


@contextlib.contextmanager
def stopped(lock: str, url: str) -> Iterator[Child]:
    """A process that holds a lock and is stopped."""
    with Child(lock, url, "s", module=MODULE) as holder:
        assert holder.hear() == f"held {holder.pid}"
        holder.stop()
        yield holder


def let_go(holder: Child) -> None:
    """Continue the holder and wait until the lock is free."""
    holder.signal(signal.SIGCONT)
    holder.tell("go")
    assert holder.hear() == "free"


def wakelog(url: str, *words: str, patience_s: float = PATIENCE_S) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end. One that hangs fails the test."""
    return subprocess.run(
        [sys.executable, "-m", "wakelog", "--store", url, *words],
        capture_output=True,
        text=True,
        timeout=patience_s,
        env=environment(WAKELOG_CONFIG=os.devnull),
        stdin=subprocess.DEVNULL,
        check=False,
    )


def figure(url: str, holder: Child, commands: int, hanging: int = 0, control: str = "") -> Figure:
    """The figures of commands beside one stopped process."""
    with open(f"/proc/{holder.pid}/stat", encoding="ascii") as file:
        is_stopped = file.read().rpartition(")")[2].split()[0] == "T"
    ended, found = (commands, "commands"), (hanging, "that did not end")
    return Figure("process stopped while it holds a lock", store_name(url), 1, int(is_stopped), ended, found, control)


def check_busy(done: "subprocess.CompletedProcess[str]", holder: Child, url: str) -> None:
    """The command ended by itself: one line that it waits, one line that says why it gave up."""
    assert done.returncode == BUSY, done.stderr
    waiting, failed = done.stderr.splitlines()
    assert waiting.startswith("wakelog: waiting for")
    assert "gave up after " in failed
    if url.startswith("postgresql:"):
        for line in (waiting, failed):
            assert "backend " in line
            assert "(wakelog, idle in transaction)" in line
        assert "pg_terminate_backend(" in failed
    else:
        for line in (waiting, failed):
            assert f"process {holder.pid} (python" in line
            assert "stopped)" in line
        assert f"kill -CONT {holder.pid}" in failed


# ── the append lock ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words", [("append", "s", "and on"), ("run", "-s", "s", "--model", "demo", "and on")], ids=["append", "run"]
)
def test_a_writer_gives_up_and_names_the_stopped_process(url, words, record):
    """LOG-10: `append` and `run -s` end after the limit with the holder's pid and state; a later try succeeds."""
    with stopped("append_lock", url) as holder:
        check_busy(wakelog(url, *words), holder, url)
        record(figure(url, holder, 1))
        let_go(holder)
    done = wakelog(url, *words)
    assert done.returncode == 0
    assert "waiting" not in done.stderr


def test_control_a_wait_without_a_limit(url, monkeypatch, record):
    """The test above can fail: a command with a much longer limit is still waiting after twice the usual limit."""
    monkeypatch.setenv("WAKELOG_LOCK_TIMEOUT", str(PATIENCE_S))
    with stopped("append_lock", url) as holder:
        with pytest.raises(subprocess.TimeoutExpired):
            wakelog(url, "append", "s", "and on", patience_s=2 * float(LIMIT_S))
        record(figure(url, holder, 1, 1, control="the wait has no limit"))


def test_other_sessions_are_written(url, record):
    """LOG-10: with files and PostgreSQL the lock of one session blocks no other; SQLite has one writer per file."""
    with stopped("append_lock", url) as holder:
        for words in (("append", "other", "and on"), ("new",)):
            done = wakelog(url, *words)
            if url.startswith("sqlite:"):
                check_busy(done, holder, url)
            else:
                assert (done.returncode, done.stderr) == (0, "")
        record(figure(url, holder, 2))


def test_readers_do_not_wait(url, record):
    """Law 9: no reader takes the append lock, or waits for it."""
    readers = (("show", "s"), ("tail", "s"), ("verify", "s"), ("export", "s"), ("context", "s"))
    with stopped("append_lock", url) as holder:
        for words in readers:
            done = wakelog(url, *words)
            assert (done.returncode, done.stderr) == (0, ""), words
            assert done.stdout
        record(figure(url, holder, len(readers)))


def test_sessions_are_listed(url):
    """ST-5: where the catalog cannot be written in time, the list is made without it."""
    with stopped("append_lock", url):
        done = wakelog(url, "ls", "--all", "--json")
        assert done.returncode == 0, done.stderr
        assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {"s", "other"}


def test_the_error_kind_is_busy_in_json(url):
    """`docs/cli.md`: the kind of the error is `busy`."""
    with stopped("append_lock", url):
        done = wakelog(url, "append", "s", "and on", "--json")
        assert json.loads(done.stderr.splitlines()[-1])["error"]["kind"] == "busy"


def test_control_without_a_stopped_process_nothing_is_busy(url):
    """Without a stopped process the same commands are not busy and report nothing."""
    with Child("append_lock", url, "s", module=MODULE) as holder:
        assert holder.hear() == f"held {holder.pid}"
        holder.tell("go")
        assert holder.hear() == "free"
        holder.stop()
        done = wakelog(url, "append", "s", "and on")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_holder_that_runs_is_waited_for(url):
    """LOG-10: a running holder is waited for with one notice; the append is not refused."""
    told: list[LockWaitNotice] = []
    with Child("append_lock", url, "s", module=MODULE) as holder:
        assert holder.hear() == f"held {holder.pid}"

        def tell(waiting: LockWaitNotice) -> None:
            told.append(waiting)
            holder.tell("go")

        store = open_store(url, lock_wait=LockWait(PATIENCE_S, tell))
        assert isinstance(store.append("s", body("m1"), after=1), SealedLine)
        store.close()
    assert len(told) == 1
    assert told[0].holder is not None


# ── the other locks ──────────────────────────────────────────────────────────────────────────────


def test_a_process_stopped_outside_of_a_transaction_blocks_no_writer(sqlite_url):
    """LOG-10: only SQLite's own lock excludes writers; the lock file orders those that wait."""
    with stopped("queue", sqlite_url):
        for words in (("append", "s", "and on"), ("append", "other", "and on"), ("new",)):
            done = wakelog(sqlite_url, *words)
            assert (done.returncode, done.stderr) == (0, "")


def test_creating_a_session_gives_up_and_names_the_holder(folder_url):
    """ST-7: `new` names the process that holds the lock for new sessions."""
    with stopped("creating", folder_url) as holder:
        check_busy(wakelog(folder_url, "new"), holder, folder_url)
        assert wakelog(folder_url, "append", "s", "and on").returncode == 0
        let_go(holder)
    assert wakelog(folder_url, "new").returncode == 0


def test_waiting_for_the_blob_lock_is_limited(folder_url):
    """LOG-12: the lock of the blobs has the same limit."""
    with stopped("blobs", folder_url) as holder:
        store = open_store(folder_url, lock_wait=LockWait(0.1))
        with pytest.raises(StoreBusy, match="stopped") as found:
            store.blobs.put(b"content")
        assert found.value.holder_pid == holder.pid
        let_go(holder)
        assert store.blobs.put(b"content").bytes == 7


def test_a_list_is_made_without_a_locked_index(folder_url):
    """ST-5: an `ls` that was stopped while it read sessions blocks no other `ls`."""
    with stopped("index", folder_url) as holder:
        done = wakelog(folder_url, "ls", "--all", "--json")
        assert done.returncode == 0
        assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {"s", "other"}
        assert f"process {holder.pid} (python" in done.stderr


def test_a_reader_does_not_wait_for_a_half_written_line(folder_url):
    """Law 9: where a writer was stopped in the middle of a line, the lines before it are read."""
    with stopped("torn_append", folder_url):
        done = wakelog(folder_url, "show", "s")
        assert "hello" in done.stdout


def test_readers_take_no_lock(folder_url, monkeypatch):
    """Law 9: to read a log that ends with a complete line, no lock is taken, not even briefly."""
    taken: list[int] = []
    monkeypatch.setattr("fcntl.flock", lambda _, how: taken.append(how))
    store = open_store(folder_url)
    assert len(list(store.load("s"))) == len(list(store.tail("s"))) == 2
    assert store.held("s") is None
    assert store.journals("s") == {}
    assert taken == []


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


def test_one_stuck_session_delays_no_other(folder_url, monkeypatch):
    """LOG-10: a thread that waits for a log does not lead a group meanwhile."""
    monkeypatch.setattr("wakelog.stores.group_commit.LEAD_AFTER_S", PATIENCE_S)
    with ThreadPoolExecutor(2) as pool, stopped("append_lock", folder_url):
        waits = threading.Event()
        store = open_store(folder_url, lock_wait=LockWait(PATIENCE_S, lambda _: waits.set()))
        stuck = pool.submit(store.append, "s", body("m1"), after=1)
        assert waits.wait(PATIENCE_S)
        assert pool.submit(store.append, "other", body("m1"), after=1).result(PATIENCE_S).seq == 2
        assert not stuck.done()
    assert stuck.result(PATIENCE_S).seq == 2


def test_threads_share_the_limit(folder_url):
    """LOG-10: the waits of threads behind a stopped process do not add up."""
    with stopped("append_lock", folder_url) as holder:
        store = open_store(folder_url, lock_wait=LockWait(1.0))
        found: list[int | None] = []

        def append(number: int) -> None:
            with pytest.raises(StoreBusy) as busy:
                store.append("s", body(f"m{number}"), after=1)
            found.append(busy.value.holder_pid)

        threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert found == [holder.pid] * 4
        let_go(holder)
        assert store.append("s", body("m9"), after=1).seq == 2


def test_the_holder_is_known_to_a_thread_whose_log_was_closed(folder_url):
    """Law 4: a thread that gives up closes the log; another one that gives up then still names the holder."""
    with stopped("append_lock", folder_url) as holder:
        store = JsonlStore(folder_url.partition(":")[2], lock_wait=LockWait(0.0))
        logs = OpenLogs(store.folder)
        log, waiting = logs.look_up("agent_user_1"), logs.wait("agent_user_1")
        log.close()
        with pytest.raises(StoreBusy) as busy:
            waiting.left_s()
        assert busy.value.holder_pid == holder.pid


def test_a_stopped_process_costs_one_thread_for_each_lock(folder_url):
    """LOG-10: repeated attempts behind a stopped process do not accumulate threads or descriptors."""
    with stopped("append_lock", folder_url) as holder:
        store = open_store(folder_url, lock_wait=LockWait(0.05))
        for _ in range(3):
            with pytest.raises(StoreBusy):
                store.append("s", body("m1"), after=1)
        threads, files = threads_and_files()
        for _ in range(10):
            with pytest.raises(StoreBusy):
                store.append("s", body("m1"), after=1)
        # Fewer than before is possible: objects of earlier tests are collected at any time.
        now = threads_and_files()
        assert now[0] <= threads
        assert now[1] <= files
        let_go(holder)
        assert store.append("s", body("m1"), after=1).seq == 2
        assert JsonlStore(folder_url.partition(":")[2]).append("s", body("m2"), after=2).seq == 3


def threads_and_files() -> tuple[int, int]:
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


# ── without /proc ────────────────────────────────────────────────────────────────────────────────


def test_without_proc_the_holder_is_not_named(folder_url, monkeypatch, tmp_path):
    """LOG-10: the same error, without the holder."""
    monkeypatch.setattr(process_identity, "_LOCK_TABLE", str(tmp_path / "none"))
    with stopped("append_lock", folder_url):
        with pytest.raises(StoreBusy, match="another process holds the append lock of agent_user_1") as found:
            open_store(folder_url, lock_wait=LockWait(0.1)).append("s", body("m1"), after=1)
        assert found.value.holder_pid is None


@pytest.mark.parametrize("given", ["soon", "-1", "0", "nan", "1e300"])
def test_an_invalid_limit_is_a_usage_error(folder_url, monkeypatch, given):
    """`docs/cli.md`: one line, exit code 2."""
    monkeypatch.setenv("WAKELOG_LOCK_TIMEOUT", given)
    done = wakelog(folder_url, "append", "s", "and on")
    assert done.returncode == 2
    assert done.stderr.startswith("wakelog: WAKELOG_LOCK_TIMEOUT must be a number of seconds")

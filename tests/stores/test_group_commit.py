"""Laws 3 and 4: threads that append at the same time share a commit; each gets its own result, in its own order."""

import contextlib
import errno
import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.patience import PATIENCE_S
from tests.stores.groups import HeldLead, append_in_one_group, count_arrivals
from wakelog.errors import Conflict, LeaseLost, NotFound, StoreError, Unavailable
from wakelog.log.seal import find_seq, unseal
from wakelog.ports.stores import SealedLine, Store
from wakelog.stores import group_commit, locking
from wakelog.stores.database.tables import AppendRequest
from wakelog.stores.group_commit import GroupCommit, GroupFailed
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.file_sync import ThreadSync
from wakelog.stores.locking import LockWait
from wakelog.stores.sqlite import SqliteStore
from wakelog.testing.store_rig import activity_body, body, make


@pytest.fixture(params=["files", "sqlite"])
def store(request, tmp_path):
    opens: dict[str, Callable[[], Store]] = {
        "files": lambda: JsonlStore(str(tmp_path / "store")),
        "sqlite": lambda: SqliteStore(str(tmp_path / "store.db")),
    }
    made = opens[request.param]()
    yield made
    made.close()


def new_commits(**limits: int) -> GroupCommit[Any, Any]:
    return GroupCommit(**limits)


def gathered(commits, requests, commit):
    """Submit requests from as many threads while another thread leads; return the results and errors."""

    def work(request):
        try:
            return commits.submit(request, commit)
        except (GroupFailed, StoreError, ValueError) as error:
            return error

    with ThreadPoolExecutor(len(requests)) as pool:
        with HeldLead(commits) as held:
            answers = []
            for request in requests:
                answers.append(pool.submit(work, request))
                assert held.arrived.acquire(timeout=PATIENCE_S)
        return [answer.result(PATIENCE_S) for answer in answers]


class Recorder:
    """A commit that records its groups and answers with the requests."""

    def __init__(self):
        self.groups = []

    def __call__(self, group):
        requests = group.take()
        self.groups.append(requests)
        return [f"done {request}" for request in requests]


# ── groups ───────────────────────────────────────────────────────────────────────────────────────


def test_requests_that_arrive_during_a_commit_share_the_next_one():
    """Law 3: in the order of their arrival, each with its own answer."""
    commit = Recorder()
    assert gathered(new_commits(), range(20), commit) == [f"done {number}" for number in range(20)]
    assert commit.groups == [list(range(20))]


def test_a_single_request_is_committed_at_once():
    """Law 4: without other threads there is no wait and no group."""
    commit, commits = Recorder(), new_commits()
    assert [commits.submit(number, commit) for number in range(3)] == ["done 0", "done 1", "done 2"]
    assert commit.groups == [[0], [1], [2]]


def test_the_size_of_a_group_is_limited():
    """Law 4: what does not fit goes into the next group."""
    commit = Recorder()
    assert len(gathered(new_commits(group_max=4), range(10), commit)) == 10
    assert commit.groups == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_every_thread_gets_its_own_entry(store):
    """Law 3, LOG-10: 64 threads; each acknowledged entry exists once, in its session, without a gap."""
    for number in range(64):
        make(store, f"s{number}")
    gate = threading.Barrier(64)

    def write(number):
        gate.wait()
        after = 0
        for step in range(5):
            sealed = store.append(f"s{number}", body(f"m{number}-{step}"), after=after)
            assert unseal(sealed.line.raw) == body(f"m{number}-{step}")
            after = sealed.seq

    with ThreadPoolExecutor(64) as pool:
        list(pool.map(write, range(64)))
    for number in range(64):
        assert [find_seq(line.raw) for line in store.load(f"s{number}")] == [0, 1, 2, 3, 4, 5]


def test_a_group_is_one_commit(tmp_path):
    """Law 4, decision 019: the appends of a group are one transaction."""
    store = SqliteStore(str(tmp_path / "store.db"))
    names = [f"s{number}" for number in range(8)]
    for name in names:
        make(store, name)
    commits: list[str] = []
    with store.file.turn() as db:
        db.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
    answers = append_in_one_group(store, [AppendRequest(name, body("m1"), 0) for name in names])
    assert [answer.seq for answer in answers if isinstance(answer, SealedLine)] == [1] * 8
    assert commits == ["COMMIT"]
    store.close()


def test_errors_go_to_their_caller(store):
    """LOG-10, law 6: a conflict, a missing session and a lost lease affect no other append of the group."""
    for name in ("a", "b", "c"):
        make(store, name)
    first = store.acquire("c", activity_body("l1", "one"), after=0, holder="one", ttl_s=60)
    store.release(first)
    store.acquire("c", activity_body("l2", "two"), after=1, holder="two", ttl_s=60)
    answers = append_in_one_group(
        store,
        [
            AppendRequest("a", body("m1"), 7),
            AppendRequest("nothing", body("m1"), 0),
            AppendRequest("c", body("m1"), 2, fence=first.fence),
            AppendRequest("b", body("m1"), 0),
        ],
    )
    assert [type(answer) for answer in answers] == [Conflict, NotFound, LeaseLost, SealedLine]
    assert [len(list(store.load(name))) for name in "abc"] == [1, 2, 3]


# ── failures ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("failure", [StoreError("the disk is full"), RuntimeError("a bug"), None])
def test_a_failing_commit_is_told_to_every_member(failure):
    """Law 4: whatever happens to a commit, no thread waits for ever, and the next group is tried."""

    def commit(group):
        group.take()
        if failure is not None:
            raise failure
        # Fewer answers than requests.
        return []

    commits = new_commits()
    assert [type(answer) for answer in gathered(commits, range(4), commit)] == [GroupFailed] * 4
    with pytest.raises(type(failure) if failure else ValueError):
        commits.submit(1, commit)
    assert commits.submit(2, Recorder()) == "done 2"


def test_appends_of_a_failed_group_are_tried_one_by_one(tmp_path, monkeypatch):
    """LOG-10: no append fails because of another one in its group."""
    store = SqliteStore(str(tmp_path / "store.db"))
    for name in "abc":
        make(store, name)

    def failing(*_):
        raise sqlite3.OperationalError("a statement that fails")

    monkeypatch.setattr(store._tables, "_add_together", failing)
    answers = append_in_one_group(store, [AppendRequest(name, body("m1"), 0) for name in "abc"])
    assert [answer.seq for answer in answers if isinstance(answer, SealedLine)] == [1, 1, 1]
    store.close()


def test_the_logs_of_an_interrupted_sync_are_in_doubt(tmp_path):
    """Law 4: without a result of the sync nothing is acknowledged; a retry writes the bytes again and succeeds."""

    class Interrupted(ThreadSync):
        def sync(self, descriptors):
            raise MemoryError

    store = JsonlStore(str(tmp_path / "store"))
    store._syncs = Interrupted()
    for name in "abc":
        make(store, name)
    answers = append_in_one_group(store, [AppendRequest(name, body("m1"), 0) for name in "abc"])
    assert [type(answer) for answer in answers] == [StoreError] * 3
    assert [os.path.getsize(store._leases.files(store.name(name))[0]) > 0 for name in "abc"] == [True] * 3
    assert [store.append(name, body("m1"), after=0).seq for name in "abc"] == [1, 1, 1]
    store.close()


def test_an_error_of_one_file_is_its_own(tmp_path):
    """Law 4: of logs that are synced together."""

    class OneFails(ThreadSync):
        def sync(self, descriptors):
            return [*super().sync(descriptors)[:-1], OSError(errno.EIO, "lost")]

    store = JsonlStore(str(tmp_path / "store"))
    store._syncs = OneFails()
    for name in "abc":
        make(store, name)
    answers = append_in_one_group(store, [AppendRequest(name, body("m1"), 0) for name in "abc"])
    assert [type(answer) for answer in answers] == [SealedLine, SealedLine, StoreError]
    store.close()


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def interrupted_after(semaphore):
    """Raise `KeyboardInterrupt` once in this thread, the main one, after the semaphore was released.

    A signal that comes just before a wait begins does not end the wait, so it is sent until it has an effect.
    """
    is_over, main = threading.Event(), threading.get_ident()

    def handle(*_):
        if not is_over.is_set():
            is_over.set()
            raise KeyboardInterrupt

    def interrupt():
        assert semaphore.acquire(timeout=PATIENCE_S)
        while not is_over.wait(0.01):
            signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, handle)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(PATIENCE_S)
        signal.signal(signal.SIGINT, before)


def test_an_interrupted_thread_withdraws_its_request():
    """Law 4: Ctrl-C while a thread waits for its turn; nothing of it is committed, and the others are not affected."""
    commits, commit = new_commits(), Recorder()
    with ThreadPoolExecutor(1) as pool:
        with HeldLead(commits) as held:
            stays = pool.submit(commits.submit, "stays", commit)
            assert held.arrived.acquire(timeout=PATIENCE_S)
            with interrupted_after(held.arrived), pytest.raises(KeyboardInterrupt):
                commits.submit("left", commit)
        assert stays.result(PATIENCE_S) == "done stays"
    assert commit.groups == [["stays"]]


def test_an_interrupted_leader_leaves_no_thread_waiting():
    """Law 4: Ctrl-C in the thread that commits; the others learn that their group failed, and a new one leads."""
    commits = new_commits()
    arrived = count_arrivals(commits)

    def interrupted(group):
        group.take()
        raise KeyboardInterrupt

    def work():
        with pytest.raises(GroupFailed):
            commits.submit("follows", interrupted)
        return commits.submit("again", Recorder())

    def lead(group):
        follower.append(pool.submit(work))
        assert arrived.acquire(timeout=PATIENCE_S)
        return interrupted(group)

    follower: list[Future[str]] = []
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            commits.submit("leads", lead)
        assert follower[0].result(PATIENCE_S) == "done again"


def test_a_commit_that_does_not_end_holds_up_no_other(monkeypatch):
    """LOG-10: a thread that has waited long enough leads a group of its own."""
    monkeypatch.setattr(group_commit, "LEAD_AFTER_S", 0.01)
    commits, commit = new_commits(), Recorder()
    begun, ends = threading.Event(), threading.Event()

    def stuck(group):
        begun.set()
        assert ends.wait(PATIENCE_S)
        return commit(group)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(commits.submit, "stuck", stuck)
        assert begun.wait(PATIENCE_S)
        assert [commits.submit(number, commit) for number in range(3)] == ["done 0", "done 1", "done 2"]
        assert not first.done()
        ends.set()
        assert first.result(PATIENCE_S) == "done stuck"
    # The one that lost the lead leaves no leader behind.
    assert commits.submit("last", commit) == "done last"
    assert commit.groups == [[0], [1], [2], ["stuck"], ["last"]]


def test_a_thread_under_a_lease_does_not_wait_longer_than_the_lease(monkeypatch):
    """Law 6: without an answer in time the call ends, so that the tools of its run can be stopped."""
    commits = new_commits()
    arrived = count_arrivals(commits)
    begun, is_taken, is_over = threading.Event(), threading.Event(), threading.Event()
    monkeypatch.setattr(locking, "seconds_since_boot", lambda: 2.0 if is_taken.is_set() else 1.0)
    monkeypatch.setattr(group_commit, "LEAD_AFTER_S", PATIENCE_S)

    def hangs(group):
        begun.set()
        assert arrived.acquire(timeout=PATIENCE_S)
        group.take()
        is_taken.set()
        assert is_over.wait(PATIENCE_S)
        return [None, None]

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(commits.submit, "leads", hangs)
        assert begun.wait(PATIENCE_S)
        locking.set_stop_time(pool, 2.0)
        try:
            with pytest.raises(Unavailable, match="in time"):
                commits.submit("follows", hangs)
        finally:
            locking.clear_stop_time(pool)
            is_over.set()
        assert first.result(PATIENCE_S) is None


def test_only_the_leader_waits_for_a_lock_of_another_process(tmp_path, monkeypatch):
    """LOG-10: others join its group when it has the lock; until then they may still withdraw."""
    monkeypatch.setattr(group_commit, "LEAD_AFTER_S", PATIENCE_S)
    path, waits = str(tmp_path / "store.db"), threading.Event()
    store = SqliteStore(path, lock_wait=LockWait(PATIENCE_S, lambda _: waits.set()))
    for name in "ab":
        make(store, name)
    arrived = count_arrivals(store._commits)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(2) as pool:
        appends = [pool.submit(store.append, "a", body("m1"), after=0)]
        assert waits.wait(PATIENCE_S)
        appends.append(pool.submit(store.append, "b", body("m1"), after=0))
        assert arrived.acquire(timeout=PATIENCE_S)
        assert [place.is_taken for place in store._commits._waiting] == [False]
        other.execute("ROLLBACK")
        assert [append.result(PATIENCE_S).seq for append in appends] == [1, 1]
    other.close()
    store.close()


def test_a_forked_child_starts_anew(store):
    """LOG-11: the threads that lead and wait in the parent are not in the child."""
    make(store)
    with HeldLead(store._commits):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if store.append("s", body("m1"), after=0).seq == 1 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.append("s", body("m2"), after=1).seq == 2

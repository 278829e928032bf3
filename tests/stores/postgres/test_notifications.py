"""RUN-10: following in PostgreSQL: a notification wakes followers, and where none can arrive, polling is enough."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from tests.stores.groups import append_in_one_group
from tests.stores.postgres.rig import PATIENCE_S, PostgresRig
from wakelog.log.seal import find_seq
from wakelog.ports.stores import StopSignal
from wakelog.stores.database.tables import AppendRequest
from wakelog.testing.store_rig import activity_body, body, make

LISTENING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query ~ '^LISTEN' AND pid <> pg_backend_pid()
"""


@pytest.fixture
def rig(postgres_url):
    rig = PostgresRig(postgres_url)
    make(rig.store)
    yield rig
    rig.close()


class Follower:
    """A follower of session `s`. `look_s`: how long it waits before it polls without a notification."""

    def __init__(self, store, *, look_s):
        self.store = store
        self.on_wait = lambda: None
        self._waits = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._news = store._tables._notifications
        self.look_every(look_s)
        self._watching = self._news.watching
        self._news.watching = self._noted

    def look_every(self, seconds):
        self._news.look_s = seconds

    @contextlib.contextmanager
    def _noted(self, session, follower):
        with self._watching(session, follower) as wait:

            def noted():
                self._waits.set()
                self.on_wait()
                wait()

            yield noted

    def follow(self, *, after=0, pieces=None):
        """Start to follow; returns when it has read and waits: entries that come now are new."""
        self._waits.clear()
        found = self._pool.submit(self.store.follow, "s", after=after, pieces=pieces or {}, timeout_s=PATIENCE_S + 10)
        assert self._waits.wait(PATIENCE_S)
        return found

    def close(self):
        self._pool.shutdown()


@pytest.fixture
def follower(rig):
    """One that never polls: only a notification can wake it."""
    follower = Follower(rig.again(), look_s=1_000.0)
    yield follower
    follower.close()


ACTS = {
    "append": lambda store: store.append("s", body("m1"), after=0),
    "append of many": lambda store: append_in_one_group(
        store, [AppendRequest("t", body("m1"), 0), AppendRequest("s", body("m1"), 0)]
    ),
    "lease": lambda store: store.acquire("s", activity_body("a1", "one"), after=0, holder="one", ttl_s=10),
    "journal": lambda store: store.journal("s", "r1", b"piece"),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_notification_wakes_a_follower(rig, follower, act):
    """RUN-10: without polling."""
    make(rig.store, "t")
    news = follower.follow()
    ACTS[act](rig.store)
    got = news.result(PATIENCE_S)
    assert [find_seq(line.raw) for line in got.lines] == ([] if act == "journal" else [1])
    assert [piece.raw for piece in got.pieces] == ([b"piece"] if act == "journal" else [])


def test_a_follower_is_woken_again(rig, follower):
    """RUN-10: the listening connection is kept from one wait to the next, also for another session."""
    for number in range(3):
        news = follower.follow(after=number)
        rig.store.append("s", body(f"m{number}"), after=number)
        assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [number + 1]
    assert len(rig.run(LISTENING)) == 1


def test_notifications_work_with_a_pooler(rig, pgbouncer, postgres_url):
    """RUN-10: a follower listens on a direct connection, and writers notify through the pooler."""
    pooled = f"{pgbouncer.url(postgres_url)}?pooler=transaction&direct={quote(postgres_url, safe='')}"
    through = PostgresRig(pooled, direct=postgres_url)
    follower = Follower(through.store, look_s=1_000.0)
    news = follower.follow()
    through.again().append("s", body("m1"), after=0)
    assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [1]
    follower.close()
    through.close()


def test_no_notification_is_sent_without_followers(rig):
    """ST-6: a notification makes commits of the server wait for one another."""
    with psycopg.connect(rig.url, autocommit=True) as other:
        other.execute("LISTEN wakelog")
        rig.store.append("s", body("m1"), after=0)
        rig.store.journal("s", "r1", b"piece")
        rig.run("NOTIFY wakelog, 'the end'")
        heard = list(other.notifies(timeout=PATIENCE_S, stop_after=1))
    assert [notice.payload for notice in heard] == ["the end"]


def test_a_follower_renews_its_registration(rig, follower, monkeypatch):
    """RUN-10: before it expires and writers stop to notify it."""
    monkeypatch.setattr("wakelog.stores.postgres.notifications._FOLLOWED_S", 0.4)
    follower.look_every(0.05)
    follower.follow()
    first = rig.run("SELECT followed FROM wakelog.logs")[0][0]
    rig.wait_for("SELECT true FROM wakelog.logs WHERE followed > %(first)s + interval '1 second'", first=first)
    rig.store.append("s", body("m1"), after=0)


def test_a_follower_without_notifications_polls(rig, postgres):
    """RUN-10: with a cut connection or a lost registration it sees new entries all the same."""
    follower = Follower(rig.again(), look_s=0.1)
    news = follower.follow()
    rig.run("UPDATE wakelog.logs SET followed = NULL")
    rig.store.append("s", body("m1"), after=0)
    assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [1]
    news = follower.follow(after=1)
    for (pid,) in rig.run(LISTENING):
        postgres.terminate(pid)
    rig.store.append("s", body("m2"), after=1)
    assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [2]
    news = follower.follow(after=2)
    rig.store.append("s", body("m3"), after=2)
    assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [3]
    follower.close()


def test_pieces_that_are_not_announced_are_read(rig, follower, monkeypatch):
    """RUN-10: of pieces in quick succession only the first is announced, so a follower reads once more."""
    monkeypatch.setattr("wakelog.stores.postgres.notifications._PIECES_S", 1_000.0)
    told: list[Any] = []
    monkeypatch.setattr(rig.store._tables._notifications, "notify", told.append)
    follower.on_wait = lambda: rig.store.journal("s", "r1", b"piece") if len(told) < 2 else None
    rig.store.append("s", body("m1"), after=0)
    first = follower.follow(after=1).result(PATIENCE_S).pieces
    second = follower.follow(after=1, pieces={"r1": len(first)}).result(PATIENCE_S).pieces
    assert [piece.offset for piece in (*first, *second)] == [0, 1]
    assert told == [["s"]]


def test_a_follower_that_waits_sends_no_statement(rig, follower, monkeypatch):
    """RUN-10: notifications of other sessions do not make it read; one of its own session does."""
    waits = threading.Semaphore(0)
    follower.on_wait = waits.release
    news = follower.follow()
    # The second wait is the long one.
    assert waits.acquire(timeout=PATIENCE_S)
    assert waits.acquire(timeout=PATIENCE_S)
    sent, connections = list[Any](), follower.store._tables._database.connections
    run = connections.run

    def counted_run(*given, **more):
        sent.append(given)
        return run(*given, **more)

    monkeypatch.setattr(connections, "run", counted_run)
    listener, heard = follower.store._tables._notifications._listener, threading.Event()
    dispatch = listener._dispatch

    def dispatch_and_note(names):
        dispatch(names)
        if "last" in names:
            heard.set()

    monkeypatch.setattr(listener, "_dispatch", dispatch_and_note)
    for name in (*(f"other{number}" for number in range(20)), "last"):
        rig.run(f"NOTIFY wakelog, '{name}'")
    assert heard.wait(PATIENCE_S)
    assert sent == []
    rig.store.append("s", body("m1"), after=0)
    assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [1]
    assert sent


def test_followers_of_a_process_share_one_connection(rig, follower):
    """The number of connections does not grow with the number of followed sessions."""
    make(rig.store, "t")
    stop = StopSignal()
    with ThreadPoolExecutor(1) as pool:
        follower._waits.clear()
        other = pool.submit(follower.store.follow, "t", after=0, pieces={}, timeout_s=PATIENCE_S, stop=stop)
        assert follower._waits.wait(PATIENCE_S)
        news = follower.follow()
        assert len(rig.run(LISTENING)) == 1
        rig.store.append("s", body("m1"), after=0)
        assert [find_seq(line.raw) for line in news.result(PATIENCE_S).lines] == [1]
        stop.set()
        assert other.result(PATIENCE_S).lines == ()


def test_a_process_that_follows_nothing_does_not_listen(rig, follower, monkeypatch):
    """The server keeps no notices for a process that follows nothing any more."""
    monkeypatch.setattr("wakelog.stores.postgres.notifications._KEPT_S", 0.01)
    news = follower.follow()
    rig.store.append("s", body("m1"), after=0)
    news.result(PATIENCE_S)
    rig.wait_for(f"SELECT true WHERE NOT EXISTS ({LISTENING})")

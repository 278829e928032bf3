"""Broken connections: no acknowledged entry is lost or stored twice, and most breaks are not visible to the caller."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import PATIENCE_S
from tests.stores.postgres.rig import PostgresRig
from wakelog.errors import Conflict, StoreError, Unavailable
from wakelog.log.lines import EntryReader
from wakelog.log.seal import find_seq
from wakelog.stores.locking import clear_stop_time, set_stop_time
from wakelog.stores.process_identity import seconds_since_boot
from wakelog.testing.store_rig import body, log_bytes, make, take_lease

CLIENTS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'wakelog'"
WAITING = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'wakelog'
"""


@pytest.fixture
def rig(postgres_url):
    rig = PostgresRig(postgres_url)
    yield rig
    rig.close()


@pytest.fixture
def own(own_postgres):
    rig = PostgresRig(own_postgres.new_database())
    yield rig
    rig.close()


def ids(store, session="s"):
    return [entry.id for entry in EntryReader().feed_all(store.load(session))]


# ── between calls ────────────────────────────────────────────────────────────────────────────────

CALLS = {
    "append": lambda store, lease: store.append("s", body("m1"), after=1, fence=lease.fence),
    "journal": lambda store, lease: store.journal("s", "r1", b"piece", fence=lease.fence),
    "renew": lambda store, lease: store.renew(lease, ttl_s=10),
    "load": lambda store, lease: list(store.load("s")),
    "blob": lambda store, lease: store.blobs.put(b"content"),
    "create": lambda store, lease: make(store, "t"),
    "follow": lambda store, lease: store.follow("s", after=0, pieces={}, timeout_s=0),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_after_a_broken_connection_succeeds(rig, postgres, call):
    """Law 4: the first call after a connection was cut uses another one."""
    make(rig.store)
    lease = take_lease(rig.store, "a1", "one", after=0)
    for pid in postgres.backends(rig.url):
        postgres.terminate(pid)
    CALLS[call](rig.store, lease)


def test_an_append_after_a_server_restart_succeeds(own, own_postgres):
    """Law 4: all connections of a store end with the server, and the next append succeeds."""
    make(own.store)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: log_bytes(own.store), range(8)))
    own_postgres.restart()
    assert own.store.append("s", body("m1"), after=0).seq == 1
    own_postgres.restart(immediate=True)
    assert own.store.append("s", body("m2"), after=1).seq == 2


# ── in the middle of one ─────────────────────────────────────────────────────────────────────────


def test_an_append_whose_connection_is_cut_is_retried(rig, postgres):
    """Law 4: an append without an answer is settled by its id, and exists once."""
    make(rig.store)
    with ThreadPoolExecutor(1) as pool:
        with rig.holding("s"):
            answer = pool.submit(rig.store.append, "s", body("m1"), after=0)
            postgres.terminate(rig.waiting())
        assert answer.result(PATIENCE_S).seq == 1
    assert ids(rig.store) == ["s", "m1"]


def test_an_append_that_lost_its_acknowledgement_is_found_by_its_id(rig, monkeypatch):
    """Law 4: the connection is lost after the commit; the retry finds the entry and returns its position."""
    make(rig.store)
    tables = rig.store._tables
    told = tables._database.write
    lost: list[str] = []

    def cut(statement, given, **options):
        rows = told(statement, given, **options)
        if "id" in given and not lost:
            lost.append(given["id"])
            return told(statement, given, **options)  # what a second try would get
        return rows

    monkeypatch.setattr(tables._database, "write", cut)
    sealed = rig.store.append("s", body("m1"), after=0)
    assert (sealed.seq, lost) == (1, ["m1"])
    assert list(rig.store.load("s"))[-1].raw == sealed.line.raw
    assert ids(rig.store) == ["s", "m1"]


def test_an_append_that_is_cut_twice_has_an_unknown_outcome(rig, postgres):
    """Law 6: the error says that the outcome is unknown; a later try settles it."""
    make(rig.store)
    with ThreadPoolExecutor(1) as pool, rig.holding("s"):
        answer = pool.submit(rig.store.append, "s", body("m1"), after=0)
        first = rig.waiting()
        postgres.terminate(first)
        postgres.terminate(rig.wait_for(f"SELECT pid FROM ({WAITING}) w WHERE pid <> %(first)s", first=first)[0][0])
        with pytest.raises(StoreError, match="outcome is unknown") as caught:
            answer.result(PATIENCE_S)
    assert caught.value.hint == "try again"
    assert rig.store.append("s", body("m1"), after=0).seq == 1
    assert ids(rig.store) == ["s", "m1"]


def test_a_piece_is_never_journalled_twice(rig, postgres):
    """Law 5: a journal has no ids to tell pieces apart, so a piece whose connection was cut is not sent again."""
    make(rig.store)
    with ThreadPoolExecutor(1) as pool, rig.holding("s"):
        answer = pool.submit(rig.store.journal, "s", "r1", b"piece")
        postgres.terminate(rig.waiting())
        with pytest.raises(StoreError, match="outcome is unknown"):
            answer.result(PATIENCE_S)
    assert rig.store.journals("s") == {}


def test_an_append_is_given_up_when_a_lease_of_this_thread_runs_out(rig):
    """Law 6: a server that does not answer blocks no run beyond its lease; the append is settled by its id later."""
    make(rig.store)
    holder = object()
    with rig.holding("s"):
        set_stop_time(holder, seconds_since_boot() + 0.3)
        try:
            with pytest.raises(Unavailable, match="did not answer in time"):
                rig.store.append("s", body("m1"), after=0)
        finally:
            clear_stop_time(holder)
    assert rig.store.append("s", body("m1"), after=0).seq == 1
    assert ids(rig.store) == ["s", "m1"]


# ── a storm ──────────────────────────────────────────────────────────────────────────────────────


def write_until(store, worker, is_over):
    """Append with a retry by id until told to stop; return the acknowledged entries."""
    acknowledged = {}
    number = 0
    while not is_over.is_set():
        entry = f"w{worker}-{number}"
        with contextlib.suppress(Conflict, StoreError):
            last = next(find_seq(line.raw) for line in store.tail("s"))
            acknowledged[entry] = store.append("s", body(entry), after=last).seq
            number += 1
    return acknowledged


def storm(rig, strike, rounds):
    """Two writers, and a function that disturbs the server while they write."""
    make(rig.store)
    is_over = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write_until, store, at, is_over) for at, store in enumerate((rig.store, rig.again()))]
        try:
            for done in range(1, rounds + 1):
                # Entries are written between two disturbances, so that each of them meets a working writer.
                rig.wait_for("SELECT true FROM wakelog.logs WHERE rows > %(rows)s", rows=done * 5)
                strike()
        finally:
            is_over.set()
        acknowledged = {entry: seq for writer in writers for entry, seq in writer.result(PATIENCE_S).items()}
    entries = {entry.id: entry.seq for entry in EntryReader().feed_all(rig.store.load("s"))}
    assert len(ids(rig.store)) == len(entries) == len({*entries.values()})
    assert acknowledged.items() <= entries.items()
    assert len(acknowledged) >= rounds


def test_cut_connections_lose_no_acknowledged_entry(rig):
    """Law 4, LOG-10: all connections are cut 30 times under two writers; acknowledged entries exist once."""
    storm(rig, lambda: rig.run(f"SELECT pg_terminate_backend(pid) FROM ({CLIENTS}) clients"), 30)


def test_server_crashes_lose_no_acknowledged_entry(own, own_postgres):
    """Law 4, LOG-10: five crashes of the server under two writers; acknowledged entries exist once."""
    storm(own, lambda: own_postgres.restart(immediate=True), 5)

"""The PostgreSQL store passes the suite, directly and through a pooler; other tests are about this store alone."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import PATIENCE_S
from tests.stores.groups import GivenGroup, HeldLead, append_in_one_group
from tests.stores.postgres.rig import PostgresRig
from wakelog.errors import LeaseLost
from wakelog.log.seal import find_seq
from wakelog.ports.stores import Lease, SealedLine
from wakelog.stores import open_store
from wakelog.stores.database.tables import Addition, AppendRequest, Row, StoredRow
from wakelog.stores.postgres import PostgresStore
from wakelog.stores.postgres.connections import Connections
from wakelog.testing.store_rig import body, log_bytes, make, take_lease
from wakelog.testing.store_suite import StoreSuite


@pytest.fixture
def direct(postgres_url):
    """A store with a direct connection."""
    rig = PostgresRig(postgres_url)
    yield rig
    rig.close()


@pytest.fixture
def pooled(pgbouncer_url, postgres_url):
    """A store behind a pooler: settings that one transaction leaves in a connection may be met by another client."""
    rig = PostgresRig(f"{pgbouncer_url}?pooler=transaction", direct=postgres_url)
    yield rig
    rig.close()


class TestPostgresStore(StoreSuite):
    @pytest.fixture
    def rig(self, direct):
        return direct


class TestThroughAPooler(StoreSuite):
    @pytest.fixture
    def rig(self, pooled):
        return pooled


def test_both_url_schemes_open_the_store(postgres_url):
    """ST-6."""
    for url in (postgres_url, postgres_url.replace("postgresql:", "postgres:")):
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        assert list(store.sessions()) == []
        store.close()


def test_an_append_is_one_round_trip(direct, monkeypatch):
    """ST-6: a writer that knows the end of a log sends one request for an append."""
    make(direct.store)
    direct.store.append("s", body("m1"), after=0)
    asked = []
    run = Connections.run

    def noted(*given, **options):
        asked.append(given[1])
        return run(*given, **options)

    monkeypatch.setattr(Connections, "run", noted)
    direct.store.append("s", body("m2"), after=1)
    assert len(asked) == 1


# ── many at once ─────────────────────────────────────────────────────────────────────────────────


ROUNDS = 10


def test_appends_in_opposite_orders_cause_no_deadlock(direct):
    """LOG-10: writers of the same sessions, one forwards and one backwards."""
    sessions = [f"s{number:02}" for number in range(12)]
    for session in sessions:
        make(direct.store, session)
    writers = [direct.again(), direct.again()]
    begun = threading.Barrier(2)

    def write(worker):
        let_in = 0
        for number in range(ROUNDS):
            order = sessions if worker else sessions[::-1]
            appends = [AppendRequest(session, body(f"w{worker}-{number}", session), number) for session in order]
            begun.wait()
            answers = append_in_one_group(writers[worker], appends)
            let_in += sum(isinstance(answer, SealedLine) for answer in answers)
        return let_in

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(write, range(2))) == ROUNDS * len(sessions)
    direct.run("SELECT pg_stat_force_next_flush()")
    assert direct.run("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]
    for session in sessions:
        assert [find_seq(line.raw) for line in direct.store.load(session)] == list(range(ROUNDS + 1))


def test_each_addition_is_accepted_or_refused_separately(direct):
    """LOG-10: of several additions to one log, the first."""
    for session in ("a", "b", "c"):
        make(direct.store, session)
    tables = direct.store._tables
    sizes = {session: tables.end(session).size for session in ("a", "b", "c")}
    additions = [
        Addition("c", sizes["c"], (Row(b"one\n", 1, "c1"), Row(b"two\n", 2, "c2"))),
        Addition("b", sizes["b"] + 1, (Row(b"elsewhere\n", 1, "b1"),)),
        Addition("a", sizes["a"], (Row(b"twice\n", 1, "a"),)),
        Addition("nobody", 0, (Row(b"nowhere\n", 1, "n1"),)),
        Addition("c", sizes["c"] + 8, (Row(b"three\n", 3, "c3"),)),
        Addition("b", sizes["b"], (Row(b"fenced\n", 1, "b2"),), fence=3),
        Addition("c", sizes["c"] + 8, (Row(b"three again\n", 3, "c4"),)),
    ]
    assert tables.add_group(GivenGroup(additions)) == [True, False, False, False, False, False, False]
    assert tables.add(additions[4])
    assert not tables.add(additions[6])
    assert log_bytes(direct.store, "c")[sizes["c"] :] == b"one\ntwo\nthree\n"
    assert [log_bytes(direct.store, session)[sizes[session] :] for session in ("a", "b")] == [b"", b""]
    assert [row.number for row in tables.rows("c", after=0, budget=10**6)] == [1, 2, 3, 4]


def test_rows_with_a_taken_id_or_seq_are_stored(direct):
    """Law 12: they are kept like any others, whether they come together or later."""
    make(direct.store)
    tables = direct.store._tables
    size = tables.end("s").size
    rows = (Row(b"1\n", 1, "x"), Row(b"2\n", None, "x"), Row(b"3\n", 0, "s"))
    assert tables.add(Addition("s", size, rows, refuse_known=False))
    assert tables.add(Addition("s", size + 6, (Row(b"4\n", 1, "y"),)))
    assert log_bytes(direct.store)[size:] == b"1\n2\n3\n4\n"
    assert (tables.row_of("s", "x").raw, tables.row_of("s", "y").raw) == (b"1\n", b"4\n")
    assert tables.number_of("s", seq=1) == 2


def test_a_locked_log_delays_no_other_log_of_its_group(direct):
    """LOG-10: a log that another transaction has locked is left out, and its thread waits for it alone."""
    for session in ("s", "t"):
        make(direct.store, session)
    with ThreadPoolExecutor(2) as pool, direct.holding("s"):
        with HeldLead(direct.store._commits) as held:
            waits = []
            for session in ("s", "t"):
                waits.append(pool.submit(direct.store.append, session, body("m1"), after=0))
                assert held.arrived.acquire(timeout=PATIENCE_S)
        assert waits[1].result(PATIENCE_S).seq == 1
        assert not waits[0].done()
    assert waits[0].result(PATIENCE_S).seq == 1


FENCED = {
    "append": lambda store, fence: store.append("s", body("m1"), after=1, fence=fence),
    "append of many": lambda store, fence: list_of(store, AppendRequest("s", body("m1"), 1, fence=fence)),
    "journal": lambda store, fence: store.journal("s", "r1", b"piece", fence=fence),
    "renew": lambda store, fence: store.renew(Lease("s", "one", fence), ttl_s=10),
}


def list_of(store, append):
    answers = append_in_one_group(store, [append, AppendRequest("t", body("m1"), 0)])
    if isinstance(answers[0], Exception):
        raise answers[0]


@pytest.mark.parametrize("act", FENCED)
def test_a_fence_is_checked_under_the_lock(direct, act):
    """Law 6: a writer that waited while another took the lease is refused."""
    make(direct.store)
    make(direct.store, "t")
    lease = take_lease(direct.store, "a1", "one", after=0)
    before = log_bytes(direct.store)
    with ThreadPoolExecutor(1) as pool:
        with direct.holding("s") as other:
            asked = pool.submit(FENCED[act], direct.store, lease.fence)
            direct.waiting()
            other.execute("UPDATE wakelog.logs SET fence = fence + 1 WHERE session = 's'")
        with pytest.raises(LeaseLost):
            asked.result(PATIENCE_S)
    assert (log_bytes(direct.store), direct.store.journals("s")) == (before, {})


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_fetched_in_limited_pages(direct):
    """LOG-16: neither a long log nor long lines are fetched at once, and no row is left out."""
    lines = [b"%d %s\n" % (number, b"x" * (number % 7 * 1_000)) for number in range(2_500)]
    direct.store.adopt("s", "crab_user_1", b"".join(lines))
    tables = direct.store._tables
    forwards: list[StoredRow] = []
    backwards: list[StoredRow] = []
    while rows := tables.rows("s", after=forwards[-1].number if forwards else 0, budget=50_000):
        assert len(rows) <= 1_000
        assert sum(len(row.raw) for row in rows) <= 50_000
        forwards += rows
    while rows := tables.rows_before("s", before=backwards[-1].number if backwards else 2_501, budget=50_000):
        assert sum(len(row.raw) for row in rows) <= 50_000
        backwards += rows
    assert [row.raw for row in forwards] == [row.raw for row in reversed(backwards)] == lines
    assert [len(tables.rows("s", after=6, budget=1)), len(tables.rows_before("s", before=8, budget=1))] == [1, 1]


def test_a_deleted_row_affects_no_other_row(direct):
    """Law 9: it is reported as missing; everything after it is still served."""
    make(direct.store)
    for number in range(5):
        direct.store.append("s", body(f"m{number}"), after=number)
    direct.run("DELETE FROM wakelog.lines WHERE session = 's' AND number IN (1, 3, 4)")
    fresh = direct.again()
    assert [find_seq(line.raw) for line in fresh.load("s")] == [1, 4, 5]
    assert [find_seq(line.raw) for line in fresh.tail("s")] == [5, 4, 1]


def test_a_listing_is_fetched_in_pages(direct, monkeypatch):
    """ST-5: every session is listed once, however many there are."""
    monkeypatch.setattr("wakelog.stores.postgres.tables._SESSIONS_PAGE_MAX", 3)
    names = {make(direct.store, f"s{number}") for number in range(10)}
    listed = [stat.name for stat in direct.store.sessions()]
    assert (len(listed), set(listed)) == (10, names)


def test_numbers_too_large_for_a_column_do_no_harm(direct):
    """Law 13: in a name or a seq."""
    name = "crab_user_" + "9" * 40
    assert direct.store.adopt("s", name, b'{"type":"session","id":"s"}\n') == name
    assert make(direct.store, "t") == "crab_user_1"
    assert list(direct.store.load("s", after=10**30)) == []


# ── durability ───────────────────────────────────────────────────────────────────────────────────


def test_appends_are_synced_where_the_server_default_is_not(own_postgres):
    """Law 4: on a server with asynchronous commits an append waits for the disk; a crash loses none."""
    url = own_postgres.new_database()
    with own_postgres.connect() as server:
        server.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        server.execute("ALTER SYSTEM SET synchronous_commit = off")
        server.execute("SELECT pg_reload_conf()")
    store = PostgresStore(url)
    for session in ("s", "t", "u"):
        make(store, session)
    own_postgres.restart()
    for kind in (_append_one, _append_many, _make_one):
        kept = kind(store)
        own_postgres.restart(immediate=True)
        assert {session: log_bytes(store, session) for session in kept} == kept
    store.close()


def _append_one(store):
    store.append("s", body("m1"), after=0)
    return {"s": log_bytes(store, "s")}


def _append_many(store):
    append_in_one_group(store, [AppendRequest("t", body("m1"), 0), AppendRequest("u", body("m1"), 0)])
    return {"t": log_bytes(store, "t"), "u": log_bytes(store, "u")}


def _make_one(store):
    make(store, "v")
    return {"v": log_bytes(store, "v")}


# ── processes ────────────────────────────────────────────────────────────────────────────────────


def backend(store):
    """The process of the server that serves this store."""
    return store.database.connections.run("SELECT pg_backend_pid()")[0][0]


def _append_in_child(store, parents):
    assert backend(store) != parents
    store.append("s", body("child"), after=0)
    store.close()


def test_a_forked_process_has_connections_of_its_own(direct):
    """LOG-10: parent and child use the same store object, and neither disturbs the other."""
    make(direct.store)
    parents = backend(direct.store)
    child = multiprocessing.get_context("fork").Process(target=_append_in_child, args=(direct.store, parents))
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 0
    assert backend(direct.store) == parents
    assert direct.store.append("s", body("parent"), after=1).seq == 2
    assert [find_seq(line.raw) for line in direct.store.load("s")] == [0, 1, 2]


def test_a_closed_store_holds_no_connection(direct):
    """It opens one when it is used again."""
    make(direct.store)
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'wakelog'"
    assert direct.run(others)[0][0] > 0
    direct.store.close()
    direct.wait_for(f"SELECT true WHERE ({others}) = 0")
    assert direct.store.append("s", body("m1"), after=0).seq == 1


def test_more_threads_than_connections(direct):
    """LOG-10: a thread waits for a free connection."""
    sessions = [f"s{number}" for number in range(24)]
    for session in sessions:
        make(direct.store, session)

    def write(session):
        return [direct.store.append(session, body(f"m{number}"), after=number).seq for number in range(10)]

    with ThreadPoolExecutor(24) as pool:
        assert list(pool.map(write, sessions)) == [list(range(1, 11))] * 24
    assert direct.run("SELECT count(*) <= 9 FROM pg_stat_activity WHERE datname = current_database()") == [(True,)]

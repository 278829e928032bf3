"""The servers of the tests work as described, so that the tests on them mean something."""

import importlib.util
import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.patience import PATIENCE_S
from tests.servers import binaries
from tests.servers.pgbouncer import POOL_SIZE, pooling
from tests.servers.place import Place, Unavailable
from tests.servers.postgres import name_of

CLIENTS = 4 * POOL_SIZE
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OWNER = """
import os, sys
from tests.servers.pgbouncer import pooling
from tests.servers.place import Place
from tests.servers.postgres import own_server, shared_server
place = Place(os.getpid())
with own_server(place) as own, pooling(place, own.url()) as pool:
    shared = shared_server(place)
    with shared.connect() as connection:
        [(data,)] = connection.execute("SHOW data_directory")
    with open(f"{data}/postmaster.pid") as file:
        print(own.pid(), pool.process.pid, int(file.readline()), open(place.path("kept")).read().strip(), place.folder)
    sys.stdout.flush()
    sys.stdin.read()
"""


def asked(url: str, words: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(words).fetchall()


def done(url: str, words: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(words)


def count(url: str) -> int:
    return int(asked(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")[0][0])


def rows(url: str) -> list[int]:
    return [n for (n,) in asked(url, "SELECT n FROM t ORDER BY n")]


def ended(pid: int) -> bool:
    """Wait for the end of a process."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], 120)[0])
    finally:
        os.close(watch)


def backends_at_once(url: str) -> set[int]:
    """The backends that many clients get when all of them connect at the same time."""
    together = threading.Barrier(CLIENTS)

    def meet(_: int) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            together.wait(PATIENCE_S)
            [(pid,)] = connection.execute("SELECT pg_backend_pid() FROM pg_sleep(0.05)").fetchall()
            return int(pid)

    with ThreadPoolExecutor(CLIENTS) as threads:
        return set(threads.map(meet, range(CLIENTS)))


class Writer(threading.Thread):
    """Commits row after row until the server is gone, and records which were acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.acknowledged: list[int] = []
        self.under_way = threading.Event()
        self._connection = psycopg.connect(url, autocommit=True)

    def run(self) -> None:
        try:
            for n in range(1_000_000):
                self._connection.execute("INSERT INTO t VALUES (%s)", [n])
                self.acknowledged.append(n)
                if n == 50:
                    self.under_way.set()
        except psycopg.OperationalError:
            self._connection.close()


class TestDatabases:
    """Databases for tests of law 4 are independent of each other."""

    def test_a_database_is_empty(self, postgres_url):
        """Two runs of this cannot share a database: the table of one would fail the other."""
        assert count(postgres_url) == 0
        done(postgres_url, "CREATE TABLE t (n int)")
        assert count(postgres_url) == 1

    def test_the_next_database_is_empty_too(self, postgres_url):
        """As above, whichever runs first."""
        assert count(postgres_url) == 0
        done(postgres_url, "CREATE TABLE t (n int)")

    def test_a_copy_has_what_its_template_has(self, postgres, postgres_url):
        """A prepared database can be copied, and the copies are independent."""
        done(postgres_url, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        copy = postgres.new_database(postgres_url)
        done(copy, "INSERT INTO t VALUES (2)")
        assert (rows(copy), rows(postgres_url)) == ([1, 2], [1])
        postgres.drop(copy)

    def test_a_dropped_database_is_gone_with_its_clients(self, postgres):
        """A connection that a test left open does not prevent the drop."""
        url = postgres.new_database()
        with psycopg.connect(url) as left_open:
            postgres.drop(url)
            with pytest.raises(psycopg.OperationalError):
                left_open.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            psycopg.connect(url)

    def test_the_password_is_checked(self, own_postgres):
        """A wrong password is refused, and other users of the machine cannot connect."""
        right = own_postgres.url().partition(":")[2].partition(":")[2].partition("@")[0]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(own_postgres.url().replace(right, "wrong"))

    def test_non_ascii_letters_are_letters(self, postgres_url):
        """Search and lower case work as usual; the encoding is UTF-8 (law 12)."""
        assert asked(postgres_url, "SELECT lower('ÄPFEL'), getdatabaseencoding()") == [("äpfel", "UTF8")]
        assert asked(postgres_url, "SELECT to_tsvector('english', 'Running') @@ to_tsquery('english', 'run')") == [
            (True,)
        ]


class TestBackends:
    """One client can lose its backend."""

    def test_a_terminated_backend_is_gone_and_no_other(self, postgres, postgres_url):
        """A test on the shared server can end its own clients without affecting others."""
        with psycopg.connect(postgres_url) as one, psycopg.connect(postgres_url) as other:
            pids = [one.info.backend_pid, other.info.backend_pid]
            assert sorted(postgres.backends(postgres_url)) == sorted(pids)
            postgres.terminate(pids[0])
            assert postgres.backends(postgres_url) == pids[1:]
            with pytest.raises(psycopg.OperationalError):
                one.execute("SELECT 1")
            assert other.execute("SELECT 1").fetchone() == (1,)

    def test_a_killed_backend_is_gone_and_the_server_recovers(self, own_postgres):
        """kill -9 of a backend: committed rows stay (law 4), open transactions and all connections end."""
        url = own_postgres.new_database()
        done(url, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)")
        with psycopg.connect(url) as one, psycopg.connect(url) as other:
            one.execute("INSERT INTO t VALUES (2)")
            own_postgres.kill(one.info.backend_pid)
            assert ended(one.info.backend_pid)
            assert ended(other.info.backend_pid)
            with pytest.raises(psycopg.OperationalError):
                one.execute("SELECT 1")
        own_postgres.wait()
        assert rows(url) == [1]

    @pytest.mark.parametrize("attempt", ["kill", "stop", "start", "restart", "running", "pid"])
    def test_the_shared_server_cannot_be_stopped(self, postgres, attempt):
        """A test cannot stop the server of other tests."""
        with pytest.raises(RuntimeError, match="own_postgres"):
            getattr(postgres, attempt)(*([0] if attempt == "kill" else []))


class TestOwnServer:
    """A server that may crash, and keeps what it acknowledged (law 4)."""

    def test_it_is_durable(self, own_postgres):
        """Tests of durability need a server that syncs."""
        words = (
            "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')"
        )
        assert dict(asked(own_postgres.url(), words)) == dict.fromkeys(
            ["fsync", "full_page_writes", "synchronous_commit"], "on"
        )

    @pytest.mark.parametrize("way", ["immediate stop", "SIGKILL"])
    def test_no_acknowledged_row_is_lost(self, own_postgres, way):
        """The server ends in the middle of appends, and starts again on the same URL."""
        url = own_postgres.new_database()
        done(url, "CREATE TABLE t (n int)")
        writer = Writer(url)
        writer.start()
        assert writer.under_way.wait(PATIENCE_S)
        own_postgres.stop(immediate=True) if way == "immediate stop" else own_postgres.kill(own_postgres.pid())
        writer.join(PATIENCE_S)
        assert not own_postgres.running()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        own_postgres.start()
        # One row more may be there: it was committed, and the word of it was lost.
        assert rows(url)[: len(writer.acknowledged)] == writer.acknowledged
        assert len(rows(url)) - len(writer.acknowledged) in {0, 1}

    def test_it_restarts_after_a_clean_stop(self, own_postgres):
        """On the same URL, as another process."""
        url, before = own_postgres.new_database(), own_postgres.pid()
        own_postgres.restart()
        assert (own_postgres.running(), own_postgres.pid() != before, count(url)) == (True, True, 0)


class TestPgbouncer:
    """Between two transactions a client may get another connection."""

    def test_many_clients_share_few_backends(self, postgres_url, pgbouncer_url):
        """Direct clients have a backend each; through the pool they wait for one of a few."""
        assert len(backends_at_once(postgres_url)) == CLIENTS
        assert len(backends_at_once(pgbouncer_url)) <= POOL_SIZE

    def test_it_is_the_same_database(self, postgres_url, pgbouncer_url):
        """A row that is written on one way is read on the other."""
        done(pgbouncer_url, "CREATE TABLE t (n int); INSERT INTO t VALUES (7)")
        assert rows(postgres_url) == [7]
        assert name_of(pgbouncer_url) == name_of(postgres_url)

    def test_a_setting_does_not_stay_with_its_client(self, pgbouncer_url):
        """A setting stays with the backend: another client gets it, and the first one may not have it."""
        look = "SELECT current_setting('wakelog.mine', true)"
        with psycopg.connect(pgbouncer_url, autocommit=True) as first, psycopg.connect(pgbouncer_url) as second:
            first.execute("SET wakelog.mine = 'first'")
            assert second.execute(look).fetchone() == ("first",)
            assert first.execute(look).fetchone() == (None,)

    def test_a_prepared_statement_does_not_stay_with_its_client(self, pgbouncer_url):
        """A store that prepares statements fails here, as behind any transaction pool."""
        with psycopg.connect(pgbouncer_url, autocommit=True) as first, psycopg.connect(pgbouncer_url) as second:
            first.execute("SELECT 1", prepare=True)
            second.execute("SELECT 2")
            with pytest.raises(psycopg.errors.InvalidSqlStatementName):
                first.execute("SELECT 1", prepare=True)

    def test_it_ends_although_signals_are_ignored(self, servers, postgres):
        """A shell without job control starts its jobs with SIGQUIT and SIGINT ignored, and servers inherit that."""
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
        try:
            with pooling(servers, postgres.url()) as pool:
                assert pool.answers()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        assert pool.process.returncode == -signal.SIGKILL


class TestRun:
    """Servers start and end with a test run."""

    def test_nothing_survives_an_owner_that_is_killed(self):
        """However a run ends, its servers end and their folder is removed."""
        env = {name: value for name, value in os.environ.items() if name != "WAKELOG_TEST_POSTGRES"}
        command = [sys.executable, "-c", OWNER]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, text=True) as owner:
            *pids, folder = owner.stdout.readline().split()
            assert len(pids) == 4
            assert os.path.isdir(folder)
            owner.send_signal(signal.SIGKILL)
        assert all(ended(int(pid)) for pid in pids)
        assert not os.path.exists(folder)

    def test_servers_do_not_run_as_root(self, own_postgres, pgbouncer):
        """They refuse to; root runs them as another user."""
        for pid in (own_postgres.pid(), pgbouncer.process.pid):
            assert os.stat(f"/proc/{pid}").st_uid != 0

    def test_the_workers_of_a_run_share_a_place(self, servers):
        """Each call for the place of an owner returns the same one, with one keeper."""
        again = Place(int(servers.folder.rpartition("/")[2].split("-")[1]))
        assert again.folder == servers.folder
        assert os.stat(servers.folder).st_mode & 0o077 == 0

    def test_the_wheel_is_copied_where_the_server_user_cannot_read_it(self, servers):
        """A checkout in root's home is closed to the server's user: a copy of the server is complete."""
        spec = importlib.util.find_spec(binaries.WHEEL)
        assert spec is not None
        [package] = spec.submodule_search_locations or []
        with servers.lock():
            copy = binaries._brought(servers, binaries._newest_first(f"{package}/pginstall*")[0])
        data = f"{copy}/data"
        servers.run(f"{copy}/bin/initdb", "-D", data, "--no-sync")
        assert os.path.exists(f"{data}/PG_VERSION")


class TestMissing:
    """A missing server fails the run with one line (never a skip)."""

    def test_missing_programs_are_an_error_with_a_hint(self, servers, monkeypatch):
        """The line says what to do."""
        monkeypatch.setattr(binaries, "_candidates", lambda place: iter(["/nowhere"]))
        with pytest.raises(Unavailable, match="make test"):
            binaries.programs(servers)

    def test_a_server_that_does_not_answer(self):
        """With an unreachable WAKELOG_TEST_POSTGRES a test ends with an error of one line, not with a skip."""
        test = f"{__file__}::TestDatabases::test_a_database_is_empty"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", test]
        env = os.environ | {"WAKELOG_TEST_POSTGRES": "postgresql://127.0.0.1:1/nowhere"}
        ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert ran.returncode == 1
        assert "1 error" in ran.stdout
        assert "skipped" not in ran.stdout
        assert "WAKELOG_TEST_POSTGRES names does not answer" in ran.stdout
        assert "Traceback" not in ran.stdout

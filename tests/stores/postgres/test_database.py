"""The schema in PostgreSQL: created by the first write, by one process, from any earlier version; never by a reader."""

import multiprocessing
import uuid

import psycopg
import pytest

from tests.patience import PATIENCE_S
from tests.stores.postgres.rig import PostgresRig
from wakelog.errors import NewerFormat, NotFound, StoreError
from wakelog.stores.database.migrations import migrations, newest
from wakelog.stores.postgres import PostgresStore
from wakelog.testing.store_rig import body, log_bytes, make

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('wakelog') ORDER BY relname"


@pytest.fixture
def rig(postgres_url):
    rig = PostgresRig(postgres_url)
    yield rig
    rig.close()


def test_reading_creates_nothing(rig):
    """Law 9: an empty database reads as an empty store, and is still empty afterwards."""
    assert list(rig.store.sessions()) == []
    for ask in (rig.store.name, rig.store.held, lambda session: list(rig.store.load(session))):
        with pytest.raises(NotFound):
            ask("s")
    assert rig.run(TABLES) == []
    make(rig.again())
    assert [stat.name for stat in rig.store.sessions()] == ["crab_user_1"]


def _make(url, number, begin):
    begin.wait()
    store = PostgresStore(url)
    make(store, f"s{number}")
    store.close()


def test_concurrent_first_writes_all_succeed(rig):
    """LOG-10: twelve processes write to an empty database at the same moment."""
    fork = multiprocessing.get_context("fork")
    begin = fork.Barrier(12)
    starters = [fork.Process(target=_make, args=(rig.url, number, begin)) for number in range(12)]
    for starter in starters:
        starter.start()
    for starter in starters:
        starter.join(PATIENCE_S)
    assert [starter.exitcode for starter in starters] == [0] * 12
    assert {stat.name for stat in rig.store.sessions()} == {f"crab_user_{number}" for number in range(1, 13)}
    assert rig.run("SELECT version FROM wakelog.schema_version") == [(step.version,) for step in migrations("postgres")]


def test_a_newer_schema_is_left_alone(rig):
    """Law 10: a schema of a newer wakelog is neither read nor written; the error says so."""
    make(rig.store)
    rig.run("INSERT INTO wakelog.schema_version VALUES (%(version)s, now())", version=newest("postgres") + 1)
    for ask in (lambda store: list(store.sessions()), make):
        with pytest.raises(NewerFormat) as caught:
            ask(rig.again())
        assert caught.value.hint == "upgrade wakelog"


@pytest.mark.parametrize("version", [0, *(step.version for step in migrations("postgres"))])
def test_every_earlier_schema_is_read_and_upgraded(rig, version):
    """LOG-11: a database of any earlier version is read as it is, and upgraded by the first write."""
    rig.store.database.bring_up_to_date(to=version)
    if version:
        rig.run("INSERT INTO wakelog.directory VALUES ('s', 'crab_user_1', 'crab_user_', 1)")
        rig.run("INSERT INTO wakelog.logs (session, rows, size) VALUES ('s', 0, 0)")
        rig.plant("s", b'{"type":"session","id":"s"}\n')
        assert log_bytes(rig.again()) == b'{"type":"session","id":"s"}\n'
    store = rig.again()
    assert store.database.version() == version
    make(store)
    store.append("s", body("m1"), after=0)
    assert store.database.version() == newest("postgres")
    assert log_bytes(rig.again()).count(b"\n") == 2
    assert rig.run("SELECT max(version) FROM wakelog.schema_version") == [(newest("postgres"),)]


def test_a_failed_migration_leaves_nothing(rig):
    """Law 2: the next writer starts the migration again."""
    rig.run("CREATE SCHEMA wakelog")
    rig.run("CREATE TABLE wakelog.blobs (in_the_way text)")
    with pytest.raises(StoreError, match="already exists"):
        make(rig.store)
    assert rig.run(TABLES) == [("blobs",)]
    rig.run("DROP TABLE wakelog.blobs")
    make(rig.store)
    assert log_bytes(rig.store)


def test_a_database_with_a_limited_encoding_is_refused(rig, postgres):
    """Law 10: text that could not be stored later is refused at the beginning."""
    name = f"wakelog_{uuid.uuid4().hex}"
    with postgres.connect() as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    store = PostgresStore(postgres.url(name))
    with pytest.raises(StoreError, match="does not use the encoding UTF8"):
        make(store)
    store.close()
    postgres.drop(postgres.url(name))


def test_a_database_without_an_encoding_returns_the_same_bytes(postgres):
    """Law 12: the encoding SQL_ASCII keeps all bytes."""
    name = f"wakelog_{uuid.uuid4().hex}"
    with postgres.connect() as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    store = PostgresStore(postgres.url(name))
    make(store)
    store.append("s", body("m1", "ä ☃ \U0001f600"), after=0)
    assert "ä ☃ \U0001f600".encode() in log_bytes(store)
    assert store.name("s") == "crab_user_1"
    store.close()
    postgres.drop(postgres.url(name))


def test_the_isolation_level_does_not_depend_on_the_role(rig):
    """LOG-10: with another default a role would get serialization errors after another writer."""
    make(rig.store)
    user = psycopg.conninfo.conninfo_to_dict(rig.url)["user"]
    database = psycopg.conninfo.conninfo_to_dict(rig.url)["dbname"]
    rig.run(f"ALTER ROLE {user} IN DATABASE {database} SET default_transaction_isolation = 'serializable'")
    store = rig.again()
    with store.database.connections.using() as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)

"""ST-6, law 14: errors of a PostgreSQL server are one line with a hint, and contain no password."""

import subprocess
import sys
import threading
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest

from tests.patience import PATIENCE_S
from tests.stores.postgres.rig import PostgresRig
from wakelog.errors import Damaged, NoAccess, StoreError, Unavailable, UsageError
from wakelog.stores.postgres import PostgresStore
from wakelog.stores.postgres.errors import connection_error
from wakelog.stores.postgres.url import PostgresUrl
from wakelog.testing.store_rig import body, log_bytes, make

SECRET = "s3cret-w0rd"


@pytest.fixture
def rig(postgres_url):
    rig = PostgresRig(postgres_url)
    yield rig
    rig.close()


@pytest.fixture
def role(rig):
    """The URL of the rig's database for a role that may only log in."""
    name = f"role_{uuid.uuid4().hex[:12]}"
    rig.run(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
    yield changed(rig.url, user=name, password=SECRET), name
    rig.run(f"DROP OWNED BY {name}")
    rig.run(f"DROP ROLE {name}")


def changed(url, *, user=None, password=None, port=None, database=None):
    parts = urlsplit(url)
    who = f"{user or parts.username}:{quote(password or parts.password or '', safe='')}"
    place = parts._replace(netloc=f"{who}@{parts.hostname}:{port or parts.port}")
    return urlunsplit(place._replace(path=f"/{database}") if database else place)


def failure(act, kind=StoreError):
    """The error of an action: one line, one hint, and none of the secrets anywhere in its chain."""
    with pytest.raises(kind) as caught:
        act()
    error = caught.value
    assert "\n" not in error.message + error.hint
    assert error.hint
    story = "".join(traceback.format_exception(error)) + repr(error)
    assert SECRET not in story.replace(repr(act), "")
    return f"{error.message} ({error.hint})"


def listed(url):
    store = PostgresStore(url)
    try:
        return list(store.sessions())
    finally:
        store.close()


def created(url):
    store = PostgresStore(url)
    try:
        return make(store)
    finally:
        store.close()


# ── connecting ───────────────────────────────────────────────────────────────────────────────────


def test_an_unreachable_server_is_named(rig):
    """ST-6: with its port."""
    said = failure(lambda: listed(changed(rig.url, port=1, password=SECRET)))
    assert "cannot connect to PostgreSQL at 127.0.0.1:1: Connection refused (check host and port" in said


def test_an_unknown_host_is_named():
    """ST-6: a host name that cannot be resolved."""
    assert "nowhere.invalid" in failure(lambda: listed(f"postgresql://u:{SECRET}@nowhere.invalid/db"))


def test_a_wrong_password_is_refused_with_the_user_name(rig):
    """ST-6: the error names the user, and not the password."""
    assert "the password is wrong" in failure(lambda: listed(changed(rig.url, password=SECRET)), NoAccess)


def test_an_unknown_user_is_refused_like_a_wrong_password(rig):
    """ST-6: PostgreSQL does not distinguish them."""
    said = failure(lambda: listed(changed(rig.url, user="nobody_at_all", password=SECRET)))
    assert "nobody_at_all" in said


def test_a_missing_database_is_named(rig):
    """ST-6: with a hint how to create it."""
    said = failure(lambda: listed(changed(rig.url, database="not_there")))
    assert "there is no such database" in said
    assert "not_there" in said
    assert "createdb" in said


def test_too_many_connections_are_reported(rig, role):
    """ST-6: a server without a free connection."""
    url, name = role
    rig.run(f"ALTER ROLE {name} CONNECTION LIMIT 0")
    assert "too many connections" in failure(lambda: listed(url))


def test_a_stopped_server_is_reported_and_used_again_when_it_is_back(own_postgres):
    """ST-6."""
    rig = PostgresRig(own_postgres.new_database())
    make(rig.store)
    own_postgres.stop()
    assert "cannot connect" in failure(lambda: rig.store.append("s", body("m1"), after=0))
    own_postgres.start()
    assert rig.store.append("s", body("m1"), after=0).seq == 1
    rig.close()


def test_an_unannounced_pooler_is_reported(pgbouncer_url):
    """ST-6: a pooler refuses some parameters; the hint names the missing URL parameter."""
    assert "pooler=transaction" in failure(lambda: listed(pgbouncer_url))


# ── rights ───────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_create_right_is_reported(rig, role):
    """ST-6: the hint names the grant; reading an empty database needs no right."""
    url, name = role
    assert listed(url) == []
    said = failure(lambda: created(url))
    assert name in said
    assert "GRANT CREATE ON DATABASE" in said


def test_a_missing_schema_right_is_reported(rig, role):
    """ST-6: the hint names the grant."""
    make(rig.store)
    assert "GRANT USAGE ON SCHEMA wakelog" in failure(lambda: listed(role[0]), NoAccess)


def test_a_read_only_role_can_read(rig, role):
    """ST-6, law 9: its writes are refused with a hint."""
    url, name = role
    make(rig.store)
    rig.run(f"GRANT USAGE ON SCHEMA wakelog TO {name}")
    rig.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA wakelog TO {name}")
    reader = PostgresStore(url)
    assert log_bytes(reader) == log_bytes(rig.store)
    assert reader.follow("s", after=0, pieces={}, timeout_s=0.1).lines == ()
    assert "lacks a permission (permission denied" in failure(lambda: reader.append("s", body("m1"), after=0), NoAccess)
    reader.close()


def test_the_grants_of_the_hint_are_sufficient(rig, role):
    """ST-6: a role with these grants can do everything but change the schema."""
    url, name = role
    make(rig.store)
    rig.run(f"GRANT USAGE ON SCHEMA wakelog TO {name}")
    rig.run(f"GRANT ALL ON ALL TABLES IN SCHEMA wakelog TO {name}")
    rig.run(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA wakelog TO {name}")
    store = PostgresStore(url)
    make(store, "t")
    assert store.append("s", body("m1"), after=0).seq == 1
    store.journal("s", "r1", b"piece")
    store.blobs.put(b"content")
    assert store.follow("s", after=1, pieces={"r1": 1}, timeout_s=0.1).lines == ()
    store.close()


def test_a_read_only_server_can_be_read(rig, role):
    """ST-6: the error of a standby for writes is recognised."""
    url, name = role
    make(rig.store)
    rig.run(f"GRANT ALL ON SCHEMA wakelog TO {name}")
    rig.run(f"GRANT ALL ON ALL TABLES IN SCHEMA wakelog TO {name}")
    rig.run(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    store = PostgresStore(url)
    assert log_bytes(store) == log_bytes(rig.store)
    assert "read-only" in failure(lambda: store.append("s", body("m1"), after=0))
    assert store.follow("s", after=0, pieces={}, timeout_s=0.1).lines == ()
    store.close()


# ── while it runs ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("53100", "the server's disk is full"),
        ("53200", "out of memory"),
        ("57P03", "does not accept connections"),
        ("55P03", "holds a lock in PostgreSQL"),
        ("XX001", "reports damaged files"),
        ("22000", "reports: something else"),
    ],
)
def test_errors_inside_the_server_are_reported(rig, code, said):
    """ST-6, law 4: the error is passed on, and nothing was appended."""
    make(rig.store)
    before = log_bytes(rig.store)
    rig.run(f"""CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION E'something\\nelse' USING ERRCODE = '{code}'; END $$""")
    rig.run("CREATE TRIGGER fail BEFORE INSERT ON wakelog.lines FOR EACH ROW EXECUTE FUNCTION fail()")
    kind = Damaged if code == "XX001" else StoreError
    assert said in failure(lambda: rig.store.append("s", body("m1"), after=0), kind)
    assert log_bytes(rig.store) == before
    rig.run("DROP TRIGGER fail ON wakelog.lines")
    assert rig.store.append("s", body("m1"), after=0).seq == 1


def test_a_statement_timeout_is_named(rig, role):
    """ST-6: a limit of the role."""
    url, name = role
    make(rig.store)
    rig.run(f"GRANT ALL ON SCHEMA wakelog TO {name}")
    rig.run(f"GRANT ALL ON ALL TABLES IN SCHEMA wakelog TO {name}")
    rig.run(f"ALTER ROLE {name} SET statement_timeout = '200ms'")
    store = PostgresStore(url)
    with rig.holding("s"):
        assert "statement_timeout" in failure(lambda: store.append("s", body("m1"), after=0))
    store.close()


def test_dropped_tables_are_not_created_anew(rig):
    """Law 2: a store with missing tables is an error."""
    make(rig.store)
    rig.run("DROP TABLE wakelog.lines")
    assert "tables of wakelog are missing" in failure(lambda: rig.again().append("s", body("m1"), after=0))


def test_waiting_for_a_connection_is_limited(rig, monkeypatch):
    """ST-6: the error says why."""
    make(rig.store)
    connections = rig.store.database.connections

    def hold(_):
        with connections.using():
            taken.release()
            free.wait(PATIENCE_S)

    taken, free = threading.Semaphore(0), threading.Event()
    with ThreadPoolExecutor(8) as pool:
        held = [pool.submit(hold, at) for at in range(8)]
        for _ in held:
            assert taken.acquire(timeout=PATIENCE_S)
        monkeypatch.setattr("wakelog.stores.postgres.connections._POOL_TIMEOUT_S", 0.1)
        said = failure(lambda: log_bytes(rig.store))
        free.set()
    assert "all 8 connections" in said


# ── URLs ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}%zz@h/db",
        f"postgresql://u:{SECRET}/x@h/db",
        f"postgresql://u:x@{SECRET}@h/db",
        f"postgresql://u:x?{SECRET}@h/db",
        f"postgresql://u:{SECRET} x@h/db",
        f"postgresql://u:x/{SECRET}@h/db",
    ],
)
def test_a_password_with_url_characters_is_not_shown(url):
    """Law 14: it is not shown as a host, a port or a database."""
    assert "reserved characters percent-encoded" in failure(lambda: PostgresStore(url), UsageError)


def test_an_unknown_parameter_is_named():
    """ST-6: parameters of wakelog are removed before the driver gets the URL."""
    said = failure(lambda: PostgresStore(f"postgresql://u:{SECRET}@h/db?pooler=transaction&colour=red"), UsageError)
    assert "colour" in said
    assert "transaction" in failure(lambda: PostgresStore(f"postgresql://u:{SECRET}@h/db?pooler=session"), UsageError)


def test_the_repr_of_a_store_has_no_url():
    """Law 14: text that is printed by mistake has no password either."""
    direct = quote(f"postgresql://u:{SECRET}@i/db", safe="")
    store = PostgresStore(f"postgresql://u:{SECRET}@h/db?pooler=transaction&direct={direct}")
    seen = [store, store.database, store.database.url, store.database.url.listening, store.database.connections]
    assert SECRET not in "".join(f"{thing!r} {thing}" for thing in seen)
    assert str(store.database.url.listening) == "PostgreSQL at i:5432"


def test_a_missing_driver_is_an_error_with_a_hint():
    """ST-6: the hint says how to install it."""
    without = "import sys; sys.modules['psycopg_pool'] = None; from wakelog.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-c", without, "ls", "--store", "postgresql://h/db"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert "pip install 'wakelog[postgres]'" in done.stderr
    assert "Traceback" not in done.stderr


# ── what passes by itself ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("connection failed: Connection refused", Unavailable),
        ("connection failed: FATAL:  the database system is starting up", Unavailable),
        ("connection failed: FATAL:  the database system is shutting down", Unavailable),
        ("connection failed: server closed the connection unexpectedly", Unavailable),
        ("connection failed: SSL SYSCALL error: EOF detected", Unavailable),
        ("connection timeout expired", Unavailable),
        ("connection failed: FATAL:  sorry, too many clients already", Unavailable),
        ("connection failed: server does not support SSL, but SSL was required", StoreError),
        ("connection failed: SSL error: certificate verify failed", StoreError),
        ('connection failed: FATAL:  password authentication failed for user "x"', NoAccess),
        ('connection failed: FATAL:  database "x" does not exist', StoreError),
    ],
)
def test_only_temporary_errors_are_retried(text, kind):
    """Law 4: a server that is down may come back; a wrong password, name or certificate stays wrong."""
    error = connection_error(psycopg.OperationalError(text), PostgresUrl("postgresql://user@host/name"))
    assert type(error) is kind

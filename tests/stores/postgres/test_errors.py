"""What goes wrong with a PostgreSQL server, said in one line each that tells what to do; and nobody's password."""

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
    """The error of an act: one line, one hint, and none of the secrets anywhere in its story."""
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


def test_nobody_listens(rig):
    """ST-6: a server that is not there is named, with its port."""
    said = failure(lambda: listed(changed(rig.url, port=1, password=SECRET)))
    assert "cannot connect to PostgreSQL at 127.0.0.1:1: Connection refused (check host and port" in said


def test_no_such_host():
    """ST-6: neither is a name that nobody knows."""
    assert "nowhere.invalid" in failure(lambda: listed(f"postgresql://u:{SECRET}@nowhere.invalid/db"))


def test_a_wrong_password(rig):
    """ST-6: who may not come in is told which user it was, and not what password."""
    assert "the password is wrong" in failure(lambda: listed(changed(rig.url, password=SECRET)), NoAccess)


def test_an_unknown_user(rig):
    """ST-6: PostgreSQL does not tell an unknown user from a wrong password, and neither do we."""
    said = failure(lambda: listed(changed(rig.url, user="nobody_at_all", password=SECRET)))
    assert "nobody_at_all" in said


def test_no_such_database(rig):
    """ST-6: a database that is not there is named, and how to make it."""
    said = failure(lambda: listed(changed(rig.url, database="not_there")))
    assert "there is no such database" in said
    assert "not_there" in said
    assert "createdb" in said


def test_too_many_connections(rig, role):
    """ST-6: a server that has no connection left says so."""
    url, name = role
    rig.run(f"ALTER ROLE {name} CONNECTION LIMIT 0")
    assert "too many connections" in failure(lambda: listed(url))


def test_a_server_that_is_down(own_postgres):
    """ST-6: a server that was there a moment ago is said to be gone, and found again when it is back."""
    rig = PostgresRig(own_postgres.new_database())
    make(rig.store)
    own_postgres.stop()
    assert "cannot connect" in failure(lambda: rig.store.append("s", body("m1"), after=0))
    own_postgres.start()
    assert rig.store.append("s", body("m1"), after=0).seq == 1
    rig.close()


def test_a_pooler_that_was_not_announced(pgbouncer_url):
    """ST-6: a pooler does not take what a server takes; the word that is missing is named."""
    assert "pooler=transaction" in failure(lambda: listed(pgbouncer_url))


# ── rights ───────────────────────────────────────────────────────────────────────────────────────


def test_no_right_to_make_the_schema(rig, role):
    """ST-6: a role that may not make anything is told what to grant it; reading an empty database needs no right."""
    url, name = role
    assert listed(url) == []
    said = failure(lambda: created(url))
    assert name in said
    assert "GRANT CREATE ON DATABASE" in said


def test_no_right_to_the_schema(rig, role):
    """ST-6: a role that was not let in is told what to grant it."""
    make(rig.store)
    assert "GRANT USAGE ON SCHEMA wakelog" in failure(lambda: listed(role[0]), NoAccess)


def test_a_right_to_read(rig, role):
    """ST-6, law 9: who may only read does; who may not write is told so."""
    url, name = role
    make(rig.store)
    rig.run(f"GRANT USAGE ON SCHEMA wakelog TO {name}")
    rig.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA wakelog TO {name}")
    reader = PostgresStore(url)
    assert log_bytes(reader) == log_bytes(rig.store)
    assert reader.follow("s", after=0, pieces={}, timeout_s=0.1).lines == ()
    assert "lacks a permission (permission denied" in failure(lambda: reader.append("s", body("m1"), after=0), NoAccess)
    reader.close()


def test_the_rights_that_are_named_are_enough(rig, role):
    """ST-6: a role that was granted what the hint says can do everything but change the schema."""
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


def test_a_read_only_server(rig, role):
    """ST-6: what a standby says is understood; reading goes on."""
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
def test_what_the_server_meets(rig, code, said):
    """ST-6, law 4: what the server itself cannot do is told as it is, and nothing was appended."""
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


def test_a_statement_that_takes_too_long(rig, role):
    """ST-6: a limit that somebody set for the role is named."""
    url, name = role
    make(rig.store)
    rig.run(f"GRANT ALL ON SCHEMA wakelog TO {name}")
    rig.run(f"GRANT ALL ON ALL TABLES IN SCHEMA wakelog TO {name}")
    rig.run(f"ALTER ROLE {name} SET statement_timeout = '200ms'")
    store = PostgresStore(url)
    with rig.holding("s"):
        assert "statement_timeout" in failure(lambda: store.append("s", body("m1"), after=0))
    store.close()


def test_tables_that_are_gone(rig):
    """Law 2: tables that somebody dropped are not made anew over what is left."""
    make(rig.store)
    rig.run("DROP TABLE wakelog.lines")
    assert "tables of wakelog are missing" in failure(lambda: rig.again().append("s", body("m1"), after=0))


def test_all_connections_are_in_use(rig, monkeypatch):
    """A bound on everything: who waits too long for a connection is told why."""
    make(rig.store)
    connections = rig.store.database.connections

    def hold(_):
        with connections.using():
            taken.release()
            free.wait(120)

    taken, free = threading.Semaphore(0), threading.Event()
    with ThreadPoolExecutor(8) as pool:
        held = [pool.submit(hold, at) for at in range(8)]
        for _ in held:
            assert taken.acquire(timeout=120)
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
def test_a_password_that_means_something_else(url):
    """Law 14: a password with signs that a URL uses is not shown as a host, a port or a database."""
    assert "reserved characters percent-encoded" in failure(lambda: PostgresStore(url), UsageError)


def test_parameters_that_nobody_knows():
    """ST-6: the name of an unknown parameter is told; ours are taken out before."""
    said = failure(lambda: PostgresStore(f"postgresql://u:{SECRET}@h/db?pooler=transaction&colour=red"), UsageError)
    assert "colour" in said
    assert "transaction" in failure(lambda: PostgresStore(f"postgresql://u:{SECRET}@h/db?pooler=session"), UsageError)


def test_a_store_shows_no_url():
    """Law 14: what is printed by mistake holds no password either."""
    direct = quote(f"postgresql://u:{SECRET}@i/db", safe="")
    store = PostgresStore(f"postgresql://u:{SECRET}@h/db?pooler=transaction&direct={direct}")
    seen = [store, store.database, store.database.url, store.database.url.listening, store.database.connections]
    assert SECRET not in "".join(f"{thing!r} {thing}" for thing in seen)
    assert str(store.database.url.listening) == "PostgreSQL at i:5432"


def test_a_driver_that_is_not_installed():
    """ST-6: who has not installed the driver is told how to."""
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
def test_what_is_worth_another_try(text, kind):
    """Law 4: a server that is away may come back; a wrong password, name or certificate stays wrong."""
    error = connection_error(psycopg.OperationalError(text), PostgresUrl("postgresql://user@host/name"))
    assert type(error) is kind

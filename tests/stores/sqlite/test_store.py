"""The SQLite store passes the suites; the tests below them are about its file, its modes and its schema."""

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from typing import Any

import pytest

from tests.stores.groups import GivenGroup, append_in_one_group
from wakelog.errors import Conflict, NewerFormat, NotFound, StoreBusy, StoreError
from wakelog.log.integrity import verify_seals
from wakelog.log.seal import find_seq
from wakelog.stores.database.migrations import migrations, newest
from wakelog.stores.database.tables import Addition, AppendRequest, Row
from wakelog.stores.locking import LockWait
from wakelog.stores.sqlite import SqliteStore
from wakelog.stores.sqlite.schema import apply_migration
from wakelog.stores.sqlite.tables import _FIRST_ROWS
from wakelog.testing.blob_suite import BlobSuite
from wakelog.testing.store_rig import body, make
from wakelog.testing.store_suite import StoreSuite


class SqliteRig:
    def __init__(self, path):
        self.now = 1000.0
        self.path = str(path)
        self.store = self.again()

    def again(self):
        return SqliteStore(self.path, now=lambda: self.now)

    def advance(self, seconds):
        self.now += seconds

    def plant(self, session, raw):
        """Add rows as another program would: bytes and nothing derived."""
        with self.store.file.writing() as db:
            key, rows, size = db.execute(
                "SELECT session, max(lines.number), size FROM lines JOIN logs ON session = logs.key WHERE logs.id = ?",
                (session,),
            ).fetchone()
            for line in re.findall(rb"[^\n]*\n|[^\n]+", raw):
                rows, size = rows + 1, size + len(line)
                db.execute(
                    "INSERT INTO lines (session, number, size, bytes) VALUES (?, ?, ?, ?)", (key, rows, size, line)
                )

    def files(self, session):
        return [self.path + ending for ending in ("", "-wal", "-shm", "-lock")]

    def corrupt(self, session, old, new):
        with self.store.file.writing() as db:
            for key, raw in db.execute("SELECT key, bytes FROM lines").fetchall():
                db.execute("UPDATE lines SET bytes = ? WHERE key = ?", (raw.replace(old, new), key))


class TestSqliteStore(StoreSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return SqliteRig(tmp_path / "store.db")


class SqliteBlobRig:
    def __init__(self, path):
        self.path = str(path)
        self.store = SqliteStore(self.path)
        self.blobs = self.store.blobs

    def again(self):
        return SqliteStore(self.path).blobs

    def age(self, digest, seconds):
        with self.store.file.writing() as db:
            db.execute("UPDATE blobs SET put_s = put_s - ? WHERE digest = ?", (seconds, digest))

    def replace(self, digest, content):
        with self.store.file.writing() as db:
            db.execute("UPDATE blobs SET bytes = ? WHERE digest = ?", (content, digest))


class TestSqliteBlobs(BlobSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return SqliteBlobRig(tmp_path / "store.db")


# ── what is its own ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "deep" / "store.db")


def test_files_are_private(path):
    """ST-2: 0600 in a folder of 0700, and nothing beside it but SQLite's own files and the lock."""
    store = SqliteStore(path)
    make(store)
    store.append("s", body("m1"), after=0)
    store.journal("s", "r1", b"{}")
    folder = os.path.dirname(path)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert {name: stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for name in os.listdir(folder)} == {
        "store.db": 0o600,
        "store.db-wal": 0o600,
        "store.db-shm": 0o600,
        "store.db-lock": 0o600,
    }


def test_reading_creates_nothing(path):
    """Law 9: reading a store that does not exist returns nothing, and creates nothing."""
    store = SqliteStore(path)
    assert list(store.sessions()) == []
    assert list(store.blobs.stored()) == []
    with pytest.raises(NotFound):
        store.name("s")
    assert not os.path.exists(os.path.dirname(path))
    make(store)
    assert [stat.name for stat in store.sessions()] == ["crab_user_1"]


def test_commits_are_synced(path):
    """Law 4: a write-ahead log, synced at every commit; journals and entries that need no sync are not."""
    store = SqliteStore(path)
    make(store)
    kept = {"sync": 2, "quick": 1}
    for durable in (True, False):
        with store.file.writing(durable=durable) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert db.execute("PRAGMA synchronous").fetchone() == (kept["sync" if durable else "quick"],)


def test_columns_are_derived(path):
    """Law 12: the columns beside the bytes are derived from them, or empty; hostile text stays out of the columns."""
    store = SqliteStore(path)
    make(store)
    said = b'{"type":"message","id":"m1","parentId":"s","timestamp":"2026-01-01T10:00:00.250Z","message":null}'
    odd = b'{"type":"a\\u0000b","id":"m2","parentId":"../x","timestamp":"soon"}'
    for at, raw in enumerate((said, odd, b'{"type":5,"id":"m3"}')):
        store.append("s", raw, after=at)
    with store.file.reading() as db:
        rows = db.execute("SELECT seq, id, parent, type, time_ms FROM lines WHERE seq > 0 ORDER BY number").fetchall()
    assert rows == [
        (1, "m1", "s", "message", 1_767_261_600_250),
        (2, "m2", None, None, None),
        (3, None, None, None, None),
    ]


def test_an_id_is_stored_once(path):
    """Law 4: an entry is in a log once, also for a writer that expects an older end of the log."""
    store = SqliteStore(path)
    make(store)
    for at in range(3):
        store.append("s", body(f"m{at}"), after=at)
    assert store.append("s", body("m1"), after=3).seq == 2
    with pytest.raises(Conflict, match="other content"):
        store.append("s", body("m1", "something else"), after=3)
    assert store.append("s", body("m3"), after=3).seq == 4


def test_each_append_of_a_group_has_its_own_result(path):
    """LOG-10: a refused one affects no other, and nothing of a first try is left."""
    store = SqliteStore(path)
    for name in "abc":
        make(store, name, sender=name)
    tables: Any = store._tables
    sizes = {name: tables.end(name).size for name in "abc"}
    sizes["b"] -= 1
    additions = [Addition(name, sizes[name], (Row(b"a row\n", None, f"m-{name}"),)) for name in "abc"]
    assert tables.add_group(GivenGroup(additions)) == [True, False, True]
    assert [tables.end(name).last.number for name in "abc"] == [2, 1, 2]


def test_a_replaced_file_is_read_anew(path, tmp_path):
    """LOG-10: cached state of a file is not used for another one in its place, such as a backup."""
    store, other = SqliteStore(path), SqliteStore(str(tmp_path / "other.db"))
    for name in ("s", "t"):
        make(store, name, sender=name)
        store.append(name, body("m1"), after=0)
    for name in ("t", "s"):
        make(other, name, sender=name)
        other.append(name, body("m1"), after=0)
    store.close()
    other.close()
    os.replace(tmp_path / "other.db", path)
    assert store.append("s", body("m2"), after=1).seq == 2
    assert [len(list(store.load(name))) for name in "st"] == [3, 2]
    append_in_one_group(store, [AppendRequest("s", body("m3"), 2), AppendRequest("t", body("m2"), 1)])
    assert [len(list(store.load(name))) for name in "st"] == [4, 3]


@pytest.mark.parametrize("version", [step.version for step in migrations("sqlite")])
def test_every_earlier_schema_is_read_and_upgraded(path, version):
    """Laws 1 and 12: entries written under an older schema are read as they are, and the store is upgraded."""
    os.makedirs(os.path.dirname(path))
    raw = b'{"v":1,"seq":0,"type":"session","id":"s","version":1,"number":1}\n'
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for step in migrations("sqlite")[:version]:
            apply_migration(db, step)
        if version < 3:
            db.execute(
                "INSERT INTO logs (id, name, stem, number, rows, size) VALUES ('s', 'n_1', 'n_', 1, 1, ?)", (len(raw),)
            )
        else:
            db.execute("INSERT INTO logs (id, name, stem, number) VALUES ('s', 'n_1', 'n_', 1)")
        db.execute(
            "INSERT INTO lines (session, number, size, seq, id, bytes) VALUES (1, 1, ?, 0, 's', ?)", (len(raw), raw)
        )
        db.commit()
    store = SqliteStore(path)
    assert b"".join(line.bytes for line in store.load("s")) == raw
    assert store.file.version() == version
    assert store.append("s", body("m1"), after=0).seq == 1
    assert store.file.version() == newest("sqlite")
    assert b"".join(line.bytes for line in store.load("s")).startswith(raw)


def test_a_newer_schema_is_left_alone(path):
    """Law 10: a store of a newer wakelog is neither read nor written."""
    make(SqliteStore(path))
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {newest('sqlite') + 1}")
    for use in (lambda store: list(store.sessions()), make, lambda store: store.blobs.put(b"x")):
        with pytest.raises(NewerFormat, match="has schema") as caught:
            use(SqliteStore(path))
        assert caught.value.hint == "upgrade wakelog"


def test_another_programs_database_is_left_alone(tmp_path):
    """Law 13: nothing is written into a database of another program."""
    path = str(tmp_path / "theirs.db")
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE logs (theirs TEXT)")
    for use in (lambda store: list(store.sessions()), make):
        with pytest.raises(StoreError, match="another program"):
            use(SqliteStore(path))
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("logs",)]


@pytest.mark.parametrize("use", [make, lambda store: list(store.sessions())], ids=["written", "read"])
def test_a_file_that_is_not_a_store_is_left_alone(tmp_path, use):
    """Law 13: a text file, or a database with another application id, is refused, and no file is left beside it."""
    (tmp_path / "text").write_text("# Words\n" * 500)
    with contextlib.closing(sqlite3.connect(tmp_path / "theirs")) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("PRAGMA application_id = 7")
    for name, said in (("text", "is not a database"), ("theirs", "another program")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(StoreError, match=said):
            use(SqliteStore(str(tmp_path / name)))
        assert (tmp_path / name).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["text", "theirs"]


def test_a_forked_child_opens_its_own_connection(path):
    """Law 4: connections and locks belong to the process that opened them; parent and child both continue."""
    store = SqliteStore(path)
    make(store)
    store.append("s", body("m1"), after=0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if store.append("s", body("m2"), after=1).seq == 2 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.append("s", body("m3"), after=2).seq == 3
    assert verify_seals(store.load("s")).broken == ()


def test_a_closed_store_opens_again(path):
    """Law 12: using a closed store opens it again."""
    store = SqliteStore(path)
    make(store)
    store.close()
    assert store.append("s", body("m1"), after=0).seq == 1
    store.close()
    assert len(list(store.load("s"))) == 2


def test_a_long_log_is_read_in_parts(path):
    """Law 12: rows are read a few at a time, whatever their size; none is left out at a boundary."""
    store = SqliteStore(path)
    make(store)
    texts = ["x" * size for size in (10, 9_000_000, 10, 5_000_000)] + ["short"] * 2_500
    for at, text in enumerate(texts):
        assert store.append("s", body(f"m{at}", text), after=at, durable=False).seq == at + 1
    forwards = list(store.load("s"))
    assert [find_seq(line.raw) for line in forwards] == list(range(len(texts) + 1))
    assert [(line.offset, line.raw) for line in store.tail("s")] == [(line.offset, line.raw) for line in forwards[::-1]]
    assert len(list(store.load("s", after=700))) == len(texts) - 700


def test_a_closed_store_is_one_file(path):
    """ST-6: a copy of the file of an unused store is complete."""
    program = (
        "import sys; from wakelog.stores.sqlite import SqliteStore; from wakelog.testing.store_rig import body, make\n"
        "store = SqliteStore(sys.argv[1]); make(store); store.append('s', body('m1'), after=0)"
    )
    subprocess.run([sys.executable, "-c", program, path], check=True)
    folder = os.path.dirname(path)
    assert sorted(os.listdir(folder)) == ["store.db", "store.db-lock"]
    other = os.path.join(folder, "copied.db")
    shutil.copyfile(path, other)
    assert len(list(SqliteStore(other).load("s"))) == 2


def test_first_lines_are_found_by_an_index(tmp_path):
    """ST-1: `latest` reads the sessions of one stem, however many others there are."""
    store = SqliteStore(str(tmp_path / "store.db"))
    make(store)
    with store.file.reading() as db:
        plan = [row[-1] for row in db.execute(f"EXPLAIN QUERY PLAN {_FIRST_ROWS}", ("crab_user_", 9, "", 1))]
    assert any(re.match(r"SEARCH logs USING INDEX logs_by_number \(stem=\? AND number", step) for step in plan)
    assert not any(step.startswith("SCAN") for step in plan)
    store.close()


def test_a_file_that_another_program_locks_is_busy(tmp_path):
    """Law 4: a lock of another program is waited for up to the limit; a refused append can be repeated."""
    store = SqliteStore(str(tmp_path / "s.db"), lock_wait=LockWait(timeout_s=0.01))
    make(store)
    with contextlib.closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="write lock"):
            store.append("s", body("m1"), after=0)
        other.execute("ROLLBACK")
        assert store.append("s", body("m1"), after=0).seq == 1
    store.close()

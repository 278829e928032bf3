"""ST-9: files and databases of other agents are read with limits; nothing beside them is opened, made or followed."""

import os
import sqlite3
import subprocess
import sys

import pytest
import zstandard

from wakelog.errors import NotFound, StoreError, UsageError
from wakelog.exchange import files
from wakelog.exchange.files import DiskDatabase, DiskFile
from wakelog.exchange.records import BadRecord, json_records
from wakelog.exchange.sync_index import SyncIndex, signature_of


def test_lines_have_their_places(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n\ntwo\nthree")
    file = DiskFile(str(path))
    found = [(line.number, line.offset, line.raw, line.size) for line in file.lines()]
    assert found == [(1, 0, b"one", 3), (2, 4, b"", 0), (3, 5, b"two", 3), (4, 9, b"three", 5)]
    assert list(file.lines()) == list(file.lines())


def test_a_file_that_grows_is_read_to_the_size_it_had(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\n")
    file = DiskFile(str(path))
    path.write_bytes(b"one\ntwo\n")
    assert [line.raw for line in file.lines()] == [b"one"]


def test_a_file_that_shrinks_is_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\n")
    file = DiskFile(str(path))
    path.write_bytes(b"one\n")
    with pytest.raises(StoreError, match="became shorter while it was read"):
        list(file.lines())


def test_a_very_long_line_costs_no_memory(tmp_path):
    """A line of a gigabyte is reported and the next one is read, in a process with little memory."""
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"a":1}\n')
    code = f"""
import pathlib, re, resource
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
from wakelog.exchange.files import DiskFile
from wakelog.exchange.records import json_records
print([type(found).__name__ for found in json_records(DiskFile({str(path)!r}).lines())])
print(int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) < 256 << 10)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("['BadRecord', 'Record']\nTrue\n", "")


def test_a_line_of_many_small_objects_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":[' + b"{}," * 600_000 + b"{}]}\n")
    (bad,) = json_records(DiskFile(str(path)).lines())
    assert isinstance(bad, BadRecord)
    assert "objects and lists" in bad.reason


@pytest.mark.parametrize(
    "relative", ["../secret.txt", "/etc/passwd", "sub/../../secret.txt", "link.txt", "dir/x.txt", ".."]
)
def test_nothing_outside_of_the_folder_is_opened(tmp_path, relative):
    """Paths in a session file cannot lead out of its folder, by their words or through links."""
    folder = tmp_path / "sessions"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "x.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "dir").symlink_to(tmp_path)
    (folder / "a.jsonl").write_text("{}\n")
    file = DiskFile(str(folder / "a.jsonl"))
    assert file.beside(relative) is None
    assert list(file.list_beside(os.path.dirname(relative) or "dir")) == []


def test_files_beside_are_found(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a.jsonl").write_text("{}\n")
    (tmp_path / "a" / "b" / "two.jsonl").write_text("2")
    (tmp_path / "a" / "b" / "one.jsonl").write_text("1")
    file = DiskFile(str(tmp_path / "a.jsonl"))
    assert [os.path.basename(other.path) for other in file.list_beside("a/b")] == ["one.jsonl", "two.jsonl"]
    found = file.beside("a/b/one.jsonl")
    assert found is not None
    assert found.content() == b"1"
    assert {os.path.basename(path) for path in file.opened} >= {"a.jsonl", "one.jsonl", "two.jsonl", "b"}


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        DiskFile(str(tmp_path / "pipe"))
    with pytest.raises(UsageError, match="not a regular file"):
        DiskFile(str(tmp_path))
    with pytest.raises(NotFound):
        DiskFile(str(tmp_path / "absent"))


def test_compressed_files(tmp_path):
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstandard.compress(b'{"a":1}\n{"b":2}\n'))
    file = DiskFile(str(path))
    assert [line.raw for line in file.lines()] == [b'{"a":1}', b'{"b":2}']
    path.write_bytes(zstandard.compress(b"\0" * (300 << 20)))
    with pytest.raises(UsageError, match="times as large"):
        list(DiskFile(str(path)).lines())
    path.write_bytes(zstandard.compress(b"text" * 1000)[:-5])
    assert len(list(DiskFile(str(path)).lines())) <= 1


def _database(path, *, wal=False):
    db = sqlite3.connect(path, isolation_level=None)
    if wal:
        db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE message (id TEXT, time INTEGER, data TEXT)")
    db.executemany("INSERT INTO message VALUES (?, ?, ?)", [("b", 2, "two"), ("a", 1, "one")])
    return db


def test_rows_of_a_database(tmp_path):
    path = str(tmp_path / "a.db")
    _database(path).close()
    with DiskDatabase(path) as database:
        assert database.columns("message") == ("id", "time", "data")
        assert list(database.rows("message", ["id", "absent"], order=["time"])) == [("a", None), ("b", None)]
        assert list(database.rows("message", ["data"], where={"id": "a"})) == [("one",)]
        assert list(database.rows("absent", ["id"])) == []


def test_a_column_that_a_table_lacks_has_no_value(tmp_path):
    """Rows of other sessions are not given out because the table has no column for sessions."""
    path = str(tmp_path / "a.db")
    _database(path).close()
    with DiskDatabase(path) as database:
        assert list(database.rows("message", ["id"], where={"session_id": "s"})) == []


def test_a_cell_that_cannot_be_read_does_not_stop_the_others(tmp_path, monkeypatch):
    """One that is too large is None; bytes that are not text become U+FFFD."""
    monkeypatch.setattr(files, "LINE_BYTES_MAX", 100_000)
    path = str(tmp_path / "a.db")
    db = _database(path)
    db.execute("INSERT INTO message VALUES ('c', 3, ?)", ("x" * 200_000,))
    db.execute("INSERT INTO message VALUES ('d', 4, CAST(x'61ff62' AS TEXT))")
    db.close()
    with DiskDatabase(path) as database:
        found = list(database.rows("message", ["id", "data", "absent"], order=["time"]))
        again = list(database.rows("message", ["data"], where={"id": "c"}))
    assert found == [("a", "one", None), ("b", "two", None), ("c", None, None), ("d", "a\ufffdb", None)]
    assert again == [(None,)]


@pytest.mark.parametrize("state", ["closed", "in use", "killed"])
def test_a_database_with_a_log_is_read_and_nothing_is_made_beside_it(tmp_path, state):
    """While the tool runs, after it has ended, and after it was killed: all rows, and no file made or changed."""
    path = str(tmp_path / "tool" / "a.db")
    os.mkdir(os.path.dirname(path))
    db = _database(path, wal=True)
    if state == "closed":
        db.close()
    elif state == "killed":
        for ending in ("", "-wal"):
            (tmp_path / f"kept{ending}").write_bytes((tmp_path / "tool" / f"a.db{ending}").read_bytes())
        db.close()
        for ending in ("", "-wal"):
            (tmp_path / f"kept{ending}").rename(f"{path}{ending}")
    before = {name: signature_of(os.path.join(os.path.dirname(path), name)) for name in os.listdir(tmp_path / "tool")}
    with DiskDatabase(path) as database:
        assert len(list(database.rows("message", ["id"]))) == 2
        if state == "in use":
            db.execute("INSERT INTO message VALUES ('c', 3, 'three')")
            assert len(list(database.rows("message", ["id"]))) == 2
    if state != "in use":
        after = {
            name: signature_of(os.path.join(os.path.dirname(path), name)) for name in os.listdir(tmp_path / "tool")
        }
        assert after == before
    db.close()


def test_views_triggers_and_virtual_tables_are_not_read(tmp_path):
    path = str(tmp_path / "a.db")
    db = _database(path)
    db.execute("CREATE VIEW session AS SELECT id FROM message")
    db.execute("CREATE VIRTUAL TABLE part USING fts5(text)")
    db.execute("CREATE TRIGGER t AFTER INSERT ON message BEGIN DELETE FROM message; END")
    db.close()
    with DiskDatabase(path) as database:
        assert (database.columns("session"), database.columns("part")) == ((), ())
        assert len(list(database.rows("message", ["id"]))) == 2


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "a.db").write_bytes(b"SQLite format 3\0" + b"\0" * 500)
    with pytest.raises(UsageError, match="not a readable SQLite database"):
        DiskDatabase(str(tmp_path / "a.db"))


def test_the_index_of_imported_files(tmp_path):
    """A file that is as it was is not read again; a changed one, or a file that has appeared beside it, is."""
    path, other = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    (tmp_path / "a.jsonl").write_text("{}\n")
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        assert index.unchanged(path) is None
        index.remember(path, {path: signature_of(path), other: signature_of(other)}, ["s1"])
        assert index.unchanged(path) == ["s1"]
    with SyncIndex(str(tmp_path / "cache"), "other store") as index:
        assert index.unchanged(path) is None
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        assert index.unchanged(path) == ["s1"]
        (tmp_path / "b.jsonl").write_text("{}\n")
        assert index.unchanged(path) is None


def test_an_index_that_cannot_be_used_is_empty(tmp_path):
    (tmp_path / "imports.db").write_text("no database")
    with SyncIndex(str(tmp_path), "store") as index:
        index.remember("x", {"x": (1, 2)}, [])
        assert index.unchanged("x") is None


def test_the_index_has_no_password_and_is_not_made_by_readers(tmp_path):
    """Law 14: the URL of a store may have one."""
    with SyncIndex(str(tmp_path), "postgresql://me:secret-word@host/db", create=False) as index:
        assert index.unchanged("/nowhere") is None
    assert list(tmp_path.iterdir()) == []
    with SyncIndex(str(tmp_path), "postgresql://me:secret-word@host/db") as index:
        index.remember("/a", {"/a": (1, 2)}, ["s"])
    assert all(b"secret-word" not in path.read_bytes() for path in tmp_path.iterdir())

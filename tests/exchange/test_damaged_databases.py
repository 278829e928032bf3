"""Databases of other agents with pages that cannot be read (law 9: damage is reported, the rest is served)."""

import gc
import os
import sqlite3

from wakelog.exchange.files import DiskDatabase
from wakelog.exchange.sync import import_files
from wakelog.stores import open_store

_PAGE = 4096


def _database(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE session (id TEXT PRIMARY KEY, time_created INTEGER)")
    db.execute("CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT)")
    db.execute("CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT)")
    db.execute("CREATE INDEX by_message ON part (message_id)")
    db.execute("INSERT INTO session VALUES ('ses_1', 1)")
    db.execute("BEGIN")
    for at in range(300):
        message = f"msg_{at:04}"
        db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (message, at + 1, '{"role": "user"}'))
        data = '{"type": "text", "text": "%s"}' % (f"text {at} " * 20)
        db.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (f"prt_{at:04}", message, data))
    db.execute("COMMIT")
    pages = [number for (number,) in db.execute("SELECT pageno FROM dbstat WHERE name = 'part' AND pagetype = 'leaf'")]
    index = [number for (number,) in db.execute("SELECT pageno FROM dbstat WHERE name = 'by_message'")]
    db.close()
    return pages, index


def _damage(path, page):
    with open(path, "r+b") as file:
        file.seek((page - 1) * _PAGE)
        file.write(os.urandom(_PAGE))


def test_one_bad_page_takes_only_its_own_rows(tmp_path):
    """Law 9: the rows of the other pages are read, each once, and the damage is noted."""
    path = str(tmp_path / "a.db")
    pages, _ = _database(path)
    _damage(path, pages[len(pages) // 2])
    with DiskDatabase(path) as database:
        found = [row[0] for row in database.rows("part", ["id"], where={"session_id": "ses_1"}, order=["id"])]
        again = [row[0] for row in database.rows("part", ["id"], where={"message_id": "msg_0299"})]
        damage = list(database.damage)
    assert found == sorted(set(found))
    assert 240 < len(found) < 300
    assert again == ["prt_0299"]
    assert len(damage) == 1
    assert "the table part is damaged" in damage[0]


def test_a_bad_page_of_an_index_takes_no_rows(tmp_path):
    """Law 9: what an index repeats is read from the table."""
    path = str(tmp_path / "a.db")
    _, index = _database(path)
    for page in index:
        _damage(path, page)
    with DiskDatabase(path) as database:
        assert [list(database.rows("part", ["id"], where={"message_id": f"msg_{at:04}"})) for at in range(300)] == [
            [(f"prt_{at:04}",)] for at in range(300)
        ]


def test_a_database_with_a_bad_page_keeps_its_largest_session(tmp_path, capsys):
    """Law 9: an import takes what can be read, says what is lost at each import, and prints no traceback."""
    path = str(tmp_path / "opencode.db")
    pages, _ = _database(path)
    _damage(path, pages[len(pages) // 2])
    store = open_store(str(tmp_path / "store"))
    (first,) = import_files(store, [path])
    (second,) = import_files(store, [path])
    gc.collect()
    assert capsys.readouterr().err == ""
    assert first.status == second.status == "imported"
    assert [each.error for each in first.sessions] == [None]
    assert first.sessions[0].added > 240
    assert first.damage
    assert second.damage == first.damage
    assert second.sessions[0].added == 0

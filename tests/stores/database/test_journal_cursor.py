"""RUN-10: following a long reply reads the new pieces only, and not all of it again for every piece."""

import pytest

from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.sqlite import SqliteStore
from wakelog.stores.sqlite.tables import SqliteTables
from wakelog.testing.builders import SessionBuilder

PIECES, SIZE = 500, 1_000


def spoken(story, reply_id="r"):
    """A long reply in progress, followed to its end so far; return the number of its pieces."""
    for _ in range(PIECES):
        story.store.journal(story.session.name, reply_id, b"x" * SIZE)
    return {reply_id: len(heard(story, {}))}


def heard(story, had):
    return story.store.follow(story.session.name, after=story.session.last_seq, pieces=had, timeout_s=0).pieces


def bytes_read():
    """The number of bytes that this process has read so far."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def test_following_a_journal_file_reads_new_bytes_only(tmp_path):
    story = SessionBuilder(JsonlStore(str(tmp_path / "sessions")))
    had = spoken(story)
    story.store.journal(story.session.name, "r", b"y")
    before = bytes_read()
    assert [piece.raw for piece in heard(story, had)] == [b"y"]
    assert bytes_read() - before < PIECES * SIZE / 10
    story.store.close()


@pytest.fixture
def rows(monkeypatch):
    """The number of journal rows that each query of a database returned."""
    counted, ask = [], SqliteTables.journals

    def journals(self, *words, **named):
        found = ask(self, *words, **named)
        counted.append(len(found))
        return found

    monkeypatch.setattr(SqliteTables, "journals", journals)
    return counted


def test_following_a_journal_in_a_database_reads_new_rows_only(tmp_path, rows):
    story = SessionBuilder(SqliteStore(str(tmp_path / "sessions.db")))
    had = spoken(story)
    story.store.journal(story.session.name, "r", b"y")
    rows.clear()
    assert [piece.raw for piece in heard(story, had)] == [b"y"]
    # The last one that was had, to see that it still stands there, and the new one.
    assert rows == [2]
    story.store.close()

"""From a store to a log: everything, or as much as the head needs; damage is reported, nothing is written (law 9)."""

import os

import pytest

from wakelog.errors import NewerFormat, NotFound
from wakelog.log.entry import Message
from wakelog.projections.context import active_part
from wakelog.reading import read_active, read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import SessionBuilder


class CountingStore(JsonlStore):
    """A store that counts the bytes of the lines it returns."""

    read = 0

    def load(self, session, *, after=-1):
        for line in super().load(session, after=after):
            self.read += len(line.raw)
            yield line

    def tail(self, session):
        for line in super().tail(session):
            self.read += len(line.raw)
            yield line


@pytest.fixture
def story(tmp_path):
    return SessionBuilder(CountingStore(str(tmp_path)))


def test_all_entries_and_the_active_part(story):
    """VIEW-3: two reads of one log: everything that happened, and what follows the last compaction."""
    for number in range(5):
        story.user(f"p{number}")
    kept = story.session.tree.head
    story.session.compact("sum", first_kept=kept)
    story.user("last")
    log = story.session.read()
    part = active_part(log.tree.branch())
    assert len(log.entries) == 8
    assert part.compaction.summary == "sum"
    assert [node.value.message.text for node in part.nodes if isinstance(node.value, Message)] == ["p4", "last"]


def test_reading_the_tail_does_not_grow_with_the_log(story):
    """VIEW-3: the bytes read for the active part depend on the part after the last compaction."""

    def cost():
        fresh = CountingStore(story.store.folder.path)
        log = read_active(fresh, story.session.id)
        assert log.tree.partial
        return fresh.read

    for _ in range(3):
        story.user("x" * 50)
    story.session.compact("sum")
    story.user("short")
    before = cost()
    story.session.move_head(story.session.id)
    for _ in range(300):
        story.user("y" * 500)
    story.user("x" * 50)
    story.session.compact("sum")
    story.user("short")
    assert cost() < before * 1.2


def test_a_log_without_a_compaction_is_read_once(story):
    """Reading backwards to the beginning is the whole read; nothing is read twice."""
    for _ in range(50):
        story.user("x")
    size = os.path.getsize(story.store.folder.log_path(story.session.name))
    fresh = CountingStore(story.store.folder.path)
    log = read_active(fresh, story.session.id)
    assert not log.tree.partial
    assert len(log.entries) == 51
    assert fresh.read < size * 1.1


def test_newer_logs_name_both_versions(tmp_path):
    """LOG-7: the version is checked when a log is opened."""
    (tmp_path / "n.jsonl").write_bytes(b'{"type":"session","id":"n","version":3}\n')
    for read in (read_log, read_active):
        with pytest.raises(NewerFormat, match=r"format 3.* up to 1"):
            read(JsonlStore(str(tmp_path)), "n")


def test_reading_changes_nothing(story, tmp_path):
    """Law 9: not a byte, not a file, not a folder."""
    story.user("x")
    story.session.compact("sum")
    path = story.store.folder.log_path(story.session.name)
    with open(path, "ab") as log:
        log.write(b'garbage\n{"torn')

    def seen():
        return {
            name: (os.lstat(name).st_size, os.lstat(name).st_mtime_ns)
            for folder, folders, files in os.walk(tmp_path)
            for name in [os.path.join(folder, item) for item in (*folders, *files)]
        }

    before = seen()
    store = JsonlStore(str(tmp_path))
    for read in (read_log, read_active):
        assert [hurt.kind for hurt in read(store, story.session.id).damage] == ["unreadable", "torn"]
    Session(store, story.session.id).branch()
    list(store.sessions())
    store.held(story.session.id)
    store.journals(story.session.id)
    assert seen() == before


def test_a_session_without_its_first_line_is_found_by_name(tmp_path):
    """Law 9: its id is lost with the line."""
    (tmp_path / "hurt.jsonl").write_bytes(
        b'gone\n{"type":"message","id":"m","message":{"role":"user","content":"x"}}\n'
    )
    log = read_active(JsonlStore(str(tmp_path)), "hurt")
    assert (log.id, log.header, len(log.entries)) == ("hurt", None, 1)


def test_an_unknown_session_is_not_found(tmp_path):
    with pytest.raises(NotFound):
        read_log(JsonlStore(str(tmp_path)), "nobody")

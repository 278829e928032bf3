"""ST-7: sessions created with their first entries at once, and lookups of thousands of ids that no log has."""

import os

import pytest

from wakelog.errors import Conflict, NotFound
from wakelog.log.codec import encode
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import Message
from wakelog.log.integrity import LogEnd
from wakelog.session import Session
from wakelog.session_header import new_header
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.session_names import SessionNames


def _content(session):
    """Return the content of a session with two entries, by its number."""
    header = new_header(id=session, now_ms=0, agent="agent", sender="user")
    message = Message(id=f"{session}-1", parent_id=session, message=Prompt(content=(Text(text="hello"),)))

    def content(number):
        end, lines = LogEnd(), []
        for body in (encode(header), encode(message)):
            lines.append(end.seal(body.replace(b'"number":0', b'"number":%d' % number)))
            end.advance(lines[-1])
        return b"".join(lines)

    return content


@pytest.fixture
def store(tmp_path):
    opened = JsonlStore(str(tmp_path / "store"))
    yield opened
    opened.close()


def test_a_session_is_created_with_its_entries(store):
    assert store.create_whole("s1", "agent", "user", _content("s1")) == "agent_user_1"
    session = Session(store, "s1")
    assert [entry.id for entry in session.entries()] == ["s1", "s1-1"]
    assert session.verify().ok
    session.append(Message(message=Prompt(content="more")))
    assert Session(store, "agent_user_1").verify().ok


def test_a_session_that_exists_is_not_created_again(store):
    """The content would not be in the log: a creator that believes it is would go on behind it."""
    store.create_whole("s1", "agent", "user", _content("s1"))
    before = [line.raw for line in store.load("s1")]
    with pytest.raises(Conflict):
        store.create_whole("s1", "agent", "user", lambda number: pytest.fail("content was asked for"))
    assert [line.raw for line in store.load("s1")] == before


def test_a_number_that_was_taken_meanwhile_gives_content_with_the_next(store):
    asked = []

    def content(number):
        asked.append(number)
        if number == 1:
            # Another program takes the name between the choice of the number and the creation.
            with open(os.path.join(store.folder.path, "agent_user_1.jsonl"), "wb") as file:
                file.write(b"{}\n")
        return _content("s1")(number)

    assert store.create_whole("s1", "agent", "user", content) == "agent_user_2"
    assert asked == [1, 2]
    assert store.name("s1") == "agent_user_2"


@pytest.fixture
def reads(monkeypatch):
    """The names of the logs whose first lines are read."""
    found, real = [], SessionNames._first_line

    def first_line(self, name):
        found.append(name)
        return real(self, name)

    monkeypatch.setattr(SessionNames, "_first_line", first_line)
    return found


def test_a_search_reads_each_log_once(store, reads):
    for number in range(5):
        store.create_whole(f"s{number}", "agent", "user", _content(f"s{number}"))
    for number in range(5, 10):
        with pytest.raises(NotFound):
            store.name(f"s{number}")
        store.create_whole(f"s{number}", "agent", "user", _content(f"s{number}"))
    assert len(reads) == len(set(reads)) == 9


def test_a_log_that_was_added_moved_or_replaced_by_hand_is_found(store):
    store.create_whole("s1", "agent", "user", _content("s1"))
    with pytest.raises(NotFound):
        store.name("s2")
    folder = store.folder.path
    with open(os.path.join(folder, "copied.jsonl"), "wb") as file:
        file.write(_content("s2")(7))
    assert store.name("s2") == "copied"
    other = JsonlStore(folder)
    assert other.name("s2") == "copied"
    with pytest.raises(NotFound):
        other.name("s3")
    os.rename(os.path.join(folder, "copied.jsonl"), os.path.join(folder, "moved.jsonl"))
    other._naming._names.clear()
    assert other.name("s2") == "moved"
    other.close()


def test_folders_are_listed_once_for_many_sessions(store, monkeypatch):
    listed, real = [], os.listdir

    def counted(function):
        def count(path):
            listed.append(path)
            return function(path)

        return count

    monkeypatch.setattr(os, "listdir", counted(os.listdir))
    monkeypatch.setattr(os, "scandir", counted(os.scandir))
    store.create_whole("s0", "agent", "user", _content("s0"))
    store.set_title("s0", "old")
    listed.clear()
    with store.listed_once():
        for number in range(1, 10):
            with pytest.raises(NotFound):
                store.name(f"s{number}")
            store.create_whole(f"s{number}", "agent", "user", _content(f"s{number}"))
            assert store.name(f"s{number}") == f"agent_user_{number + 1}"
            store.set_title(f"s{number}", f"title {number}")
        store.set_title("s0", "new")
        store.set_title("s0", "newest")
    assert len(listed) == 2
    titles = real(os.path.join(store.folder.path, "by-title"))
    assert len(titles) == 10
    assert [title for title in titles if title.endswith("--agent_user_1.jsonl")] == ["newest--agent_user_1.jsonl"]


def test_a_log_that_was_added_by_hand_is_found_by_the_next_import(store):
    """What one listing found holds only for the operation that made it."""
    store.create_whole("s0", "agent", "user", _content("s0"))
    store.set_title("s0", "old")
    with store.listed_once(), pytest.raises(NotFound):
        store.name("by-hand")
    with open(os.path.join(store.folder.path, "copy.jsonl"), "wb") as file:
        file.write(_content("by-hand")(1))
    with store.listed_once():
        assert store.name("by-hand") == "copy"

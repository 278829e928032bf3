"""ST-7: creating thousands of sessions in a folder, and looking up ids that no log has."""

import os

import pytest

from wakelog.errors import NotFound
from wakelog.log.integrity import sealed_lines
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.session_names import SessionNames
from wakelog.testing.store_rig import body, first_line, make


@pytest.fixture
def store(tmp_path):
    opened = JsonlStore(str(tmp_path / "store"))
    yield opened
    opened.close()


def create(store, session):
    return make(store, session, "agent", "user")


def test_a_number_that_was_taken_meanwhile_gives_a_header_with_the_next(store):
    asked = []

    def header(number):
        asked.append(number)
        if number == 1:
            # Another program takes the name between the choice of the number and the creation.
            with open(os.path.join(store.folder.path, "agent_user_1.jsonl"), "wb") as file:
                file.write(b"{}\n")
        return first_line("s1")(number)

    assert store.create("s1", "agent", "user", header, [body("m1")]) == "agent_user_2"
    assert asked == [1, 2]
    assert b'"number":2' in next(store.load("s1")).raw
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
        create(store, f"s{number}")
    for number in range(5, 10):
        with pytest.raises(NotFound):
            store.name(f"s{number}")
        create(store, f"s{number}")
    assert len(reads) == len(set(reads)) == 9


def test_a_log_that_was_added_moved_or_replaced_by_hand_is_found(store):
    create(store, "s1")
    with pytest.raises(NotFound):
        store.name("s2")
    folder = store.folder.path
    with open(os.path.join(folder, "copied.jsonl"), "wb") as file:
        file.write(sealed_lines([first_line("s2")(7)]))
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
    create(store, "s0")
    store.set_title("s0", "old")
    listed.clear()
    with store.listed_once():
        for number in range(1, 10):
            with pytest.raises(NotFound):
                store.name(f"s{number}")
            create(store, f"s{number}")
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
    create(store, "s0")
    store.set_title("s0", "old")
    with store.listed_once(), pytest.raises(NotFound):
        store.name("by-hand")
    with open(os.path.join(store.folder.path, "copy.jsonl"), "wb") as file:
        file.write(sealed_lines([first_line("by-hand")(1)]))
    with store.listed_once():
        assert store.name("by-hand") == "copy"

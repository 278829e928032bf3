"""The latest session is found without waiting for the index of large logs (ST-5)."""

import pytest

from wakelog.app import stores
from wakelog.app.stores import StoreLocation
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import FixedClock


@pytest.fixture
def read(monkeypatch):
    """The number of bytes that are read of each log, by name."""
    read: dict[str, int] = {}
    load, tail = JsonlStore.load, JsonlStore.tail

    def counted(lines, name):
        for line in lines:
            read[name] = read.get(name, 0) + len(line.raw)
            yield line

    monkeypatch.setattr(
        JsonlStore, "load", lambda self, name, *, after=-1: counted(load(self, name, after=after), name)
    )
    monkeypatch.setattr(JsonlStore, "tail", lambda self, name: counted(tail(self, name), name))
    return read


@pytest.fixture
def clock():
    """One clock for all sessions, so that no two entries have the same time."""
    return FixedClock()


@pytest.fixture
def large(store, clock, monkeypatch):
    """A session with a log that is larger than what is read before a run."""
    session = Session.create(store, agent="whale", clock=clock)
    for _ in range(1_000):
        session.say("word " * 10)
    monkeypatch.setattr(stores, "_READ_MAX_BYTES", 100_000)
    return session


def said(store, clock):
    """Create a small session that changes now; return its name."""
    session = Session.create(store, agent="crab", clock=clock)
    session.say("small talk")
    return session.name


def found(shell):
    """Return the sessions that `@latest` may mean, in order."""
    return [row.name for row in StoreLocation(str(shell.store)).recent()]


def test_a_large_log_that_is_not_the_latest_is_hardly_read(shell, store, clock, large, read):
    """Its first line and its last ones say when it was changed; the others are indexed and listed as usual."""
    small = [said(store, clock) for _ in range(3)]
    read.clear()
    assert found(shell) == [*reversed(small), large.name]
    assert read[large.name] < 150_000
    assert [row.name for row in StoreLocation(str(shell.store)).catalog.rows()] == found(shell)
    assert read[large.name] > 300_000


def test_a_large_log_that_is_the_latest_is_found(shell, store, clock, large, read):
    """A new line at its end makes it the latest, whether or not the index knows it."""
    said(store, clock)
    large.say("and then")
    assert found(shell)[0] == large.name
    assert shell("show", "@latest").code == 0
    StoreLocation(str(shell.store)).catalog.rows()
    for _ in range(1_000):
        large.say("word " * 10)
    read.clear()
    assert found(shell)[0] == large.name
    assert read[large.name] < 150_000


@pytest.mark.parametrize("ending", ["archive", "end"])
def test_a_large_log_that_was_archived_or_ended_is_left_out(shell, store, clock, large, ending):
    """Its last lines say so."""
    small = said(store, clock)
    getattr(large, ending)()
    rows = {row.name: row.state for row in StoreLocation(str(shell.store)).recent()}
    assert list(rows) == ([small] if ending == "archive" else [large.name, small])
    assert rows.get(large.name, "terminated") == "terminated"


def test_only_sessions_of_the_agent_sender_and_folder_are_continued(shell, store, clock, large):
    """`chat -c` needs agent, sender and folder; a log that is not indexed yet has them in its first line."""
    said(store, clock)
    rows = list(StoreLocation(str(shell.store)).recent(agent="whale", sender="user", cwd=large.tree.header.cwd))
    assert [row.name for row in rows] == [large.name]
    assert list(StoreLocation(str(shell.store)).recent(agent="whale", sender="nobody")) == []

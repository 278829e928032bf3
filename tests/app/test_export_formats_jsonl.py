"""JSONL: a session is exported as its stored bytes; a fork with its inherited history (ST-8, LOG-8, TREE-4)."""

import os

import pytest

from tests.laws.logs import bytes_of, store_of
from tests.transfer.copies import copy_of
from wakelog.app.export_formats import stored_bytes
from wakelog.forking import fork
from wakelog.log.integrity import verify_seals
from wakelog.log.lines import split_lines
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.scanning import scan_log
from wakelog.testing.builders import SessionBuilder


def words(log):
    return ["".join(part.text for part in message.content) for message in build_context(log.tree.branch()).messages]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"type":"session","id":"s1"}',
        b'\xef\xbb\xbf{"type":"session","id":"s1"}\r\n\n\n{"type":"x","id":"y","z":1}\nrubbish\x00\xff\n{"cut',
        b'{"type":"session","id":"s1"}\n' + b"x" * (17 * 1024 * 1024) + b"\n",
        os.urandom(5_000),
    ],
)
def test_exact_bytes(raw):
    """LOG-8, law 10: everything in a log, damage included, comes out byte for byte."""
    assert b"".join(stored_bytes(store_of(raw).load("s"), len(raw))) == raw
    assert b"".join(stored_bytes(store_of(raw).load("s"), len(raw) - 1)) == raw[:-1]


def is_fork(store, session):
    return scan_log(store, session).origin is not None


def test_a_fork_of_a_fork_stands_alone():
    """TREE-4: the parent's branch, then its own entries; one log that verifies without the others."""
    story = SessionBuilder()
    story.user("a")
    story.reply("b")
    child = fork(story.session)
    child.say("c")
    grandchild = fork(child)
    grandchild.say("d")
    assert is_fork(grandchild.store, grandchild.name)
    assert not is_fork(story.store, story.session.name)
    made = copy_of(grandchild.store, grandchild.name)
    copy = read_log(store_of(made.content), "s")
    assert copy.damage == ()
    assert not verify_seals(split_lines([made.content])).broken
    assert words(copy) == ["a", "b", "c", "d"]
    assert not is_fork(store_of(made.content), "s")
    assert copy.id == grandchild.id


def test_a_compaction_in_the_parent_hides_nothing_from_the_copy():
    """TREE-5: the copy has the history from before the parent's compaction, and shows what the fork shows."""
    story = SessionBuilder()
    story.user("long ago")
    kept = story.reply("kept")
    story.session.compact("in short", first_kept=kept.id)
    child = fork(story.session)
    child.say("on we go")
    log = child.read()
    copy = read_log(store_of(copy_of(child.store, child.name).content), "s")
    assert words(copy) == words(log) == ["in short", "kept", "on we go"]
    assert "long ago" in bytes_of(story).decode()
    assert any(b"long ago" in entry.raw for entry in copy.entries)


def test_a_fork_without_its_parent():
    """Law 9: a missing parent is reported like damage; the copy has the fork's own entries and is valid."""
    story = SessionBuilder()
    story.user("a")
    child = fork(story.session)
    child.say("own words")
    alone = store_of(b"".join(line.bytes for line in child.store.load(child.name)))
    log = read_log(alone, "s")
    assert [hurt.kind for hurt in log.damage] == ["origin"]
    copy = read_log(store_of(copy_of(alone).content), "s")
    assert copy.damage == ()
    assert words(copy) == ["own words"]


def test_a_session_that_is_its_own_ancestor():
    """A cycle of parents ends."""
    first = b'{"type":"session","id":"s","parent":{"session":"s","entry":"s","kind":"fork"}}\n'
    store = store_of(first)
    made = copy_of(store)
    assert read_log(store_of(made.content), "s").damage == ()

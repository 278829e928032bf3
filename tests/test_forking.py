"""Forking into a session of its own: by reference, with open calls settled, and a missing parent reported (TREE-4)."""

import os

import pytest

from wakelog.errors import NotFound
from wakelog.forking import fork
from wakelog.log.content import Reply, ToolCall
from wakelog.log.entry import Message
from wakelog.projections.context import build_context
from wakelog.projections.pending import pending
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import SessionBuilder


def texts(session):
    return [message.content[0].text for message in build_context(session.branch()).messages]


@pytest.fixture
def story(tmp_path):
    return SessionBuilder(JsonlStore(str(tmp_path)))


def test_a_fork_continues_independently(story):
    """TREE-4: parent and fork continue independently, and nothing is copied."""
    story.user("one")
    story.reply("two")
    child = fork(story.session)
    story.user("parent")
    child.say("child")
    assert texts(story.session) == ["one", "two", "parent"]
    assert texts(child) == ["one", "two", "child"]
    assert [entry.type for entry in child.read().entries] == ["session", "message"]
    origin = child.read().header.value.parent
    assert (origin.session, origin.kind) == (story.session.id, "fork")


def test_a_fork_of_a_fork(story):
    """TREE-4: the back-link names the session that holds the entry itself."""
    first = story.user("one")
    child = fork(story.session)
    second = child.say("two")
    deep, shallow = fork(child, second.id), fork(child, first.id)
    deep.say("three")
    assert texts(deep) == ["one", "two", "three"]
    assert deep.read().header.value.parent.session == child.id
    assert shallow.read().header.value.parent.session == story.session.id


def test_a_fork_from_before_a_compaction_sees_the_full_history(story):
    """TREE-5: a fork from before a compaction sees the full history, one from after it the summary."""
    story.user("one")
    before = story.reply("two")
    story.session.compact("sum")
    after = story.user("three")
    assert texts(fork(story.session, before.id)) == ["one", "two"]
    assert texts(fork(story.session, after.id)) == ["sum", "three"]


def test_going_back_before_the_parents_compaction(story):
    """TREE-5: in a fork of a compacted session, an inherited entry from before it still has its full history."""
    story.user("a")
    story.reply("b")
    kept = story.user("c")
    story.session.compact("sum", first_kept=kept.id)
    story.reply("d")
    child = fork(story.session)
    assert texts(child) == ["sum", "c", "d"]
    assert child.tree.partial
    child.move_head(kept.id)
    for session in (child, Session(story.store, child.id)):
        assert texts(session) == ["a", "b", "c"]
        assert session.read().damage == ()
    child.label(story.session.branch(kept.id).nodes[1].id, "old")
    child.compact("again", first_kept=story.session.branch(kept.id).nodes[2].id)
    for session in (child, Session(story.store, child.id)):
        assert texts(session) == ["again", "b", "c"]


def test_open_calls_are_settled(story):
    """Law 7: a new session never runs its parent's calls; each gets a result."""
    reply = story.reply("", calls=[("t1", "bash", {}), ("t2", "bash", {})])
    story.started(reply, "t1")
    result = story.result(reply, "t1", "done")
    child = fork(story.session, reply.id)
    assert pending(child.branch()).open_tool_calls == ()
    copied, unknown = (entry.value.message for entry in child.read().entries[1:])
    assert (copied.copied_from, copied.text, copied.effective_status) == (result.id, "done", "ok")
    assert (unknown.tool_call_id, unknown.effective_status) == ("t2", "unknown")
    assert len(pending(story.session.branch()).open_tool_calls) == 1


def test_only_a_call_that_provably_never_started_is_skipped(story):
    """Law 6: a call of a reply that this runtime asked for and never started is skipped; any other is unknown."""
    story.user("go")
    call = story.call("made")
    said = Reply(content=(ToolCall(id="t1", name="bash"),), call_id=call.id)
    made = story.session.append(Message(id="made", message=said))
    (skipped,) = (entry.value.message for entry in fork(story.session, made.id).read().entries[1:])
    assert (skipped.effective_status, "Not run" in skipped.text) == ("skipped", True)
    recorded = story.reply("", calls=[("t2", "bash", {})])
    (unknown,) = (entry.value.message for entry in fork(story.session, recorded.id).read().entries[1:])
    assert (unknown.effective_status, "Not run" in unknown.text) == ("unknown", False)


def test_a_missing_or_changed_parent_is_reported(story):
    """TREE-4: missing or changed is reported like damage; the fork's own entries are still served."""
    story.user("one")
    child = fork(story.session)
    child.say("mine")
    path = story.store.folder.log_path(story.session.name)
    with open(path, "rb") as file:
        raw = file.read()
    with open(path, "wb") as file:
        file.write(raw.replace(b'"one"', b'"ONE"').replace(b'"h":"', b'"h":"0', 2).replace(b'"h":"0', b'"h":"', 1))
    assert [hurt.kind for hurt in read_log(story.store, child.id).damage] == ["origin"]
    os.unlink(path)
    store = JsonlStore(story.store.folder.path)
    log = read_log(store, child.id)
    assert [hurt.kind for hurt in log.damage] == ["origin"]
    assert texts(Session(store, child.id)) == ["mine"]


def test_a_fork_that_is_its_own_ancestor(tmp_path):
    """A cycle of parents is reported, not followed."""
    line = b'{"type":"session","id":"%s","parent":{"session":"%s","entry":"%s"}}\n'
    (tmp_path / "a.jsonl").write_bytes(line % (b"a", b"b", b"b"))
    (tmp_path / "b.jsonl").write_bytes(line % (b"b", b"a", b"a"))
    log = read_log(JsonlStore(str(tmp_path)), "a")
    assert [hurt.kind for hurt in log.damage] == ["origin"]
    assert len(log.entries) == 1


def test_forking_from_an_unknown_entry_is_refused(story):
    with pytest.raises(NotFound):
        fork(story.session, "nobody")

"""The clean copy contains everything that can be read, in order, and verifies (LOG-9, laws 6, 9 and 10)."""

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, store_of, tell
from tests.transfer.copies import copy_of
from wakelog.errors import NewerFormat
from wakelog.forking import fork
from wakelog.log.content import ToolResult
from wakelog.log.entry import NODE_TYPES, DamageNote, Head, Label, Message, SessionHeader, UnknownBody
from wakelog.log.integrity import verify_seals
from wakelog.log.lines import split_lines
from wakelog.log.seal import find_seal, unseal
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context
from wakelog.projections.overview import overview
from wakelog.projections.pending import open_tool_calls
from wakelog.projections.transcript import transcript
from wakelog.reading import read_active, read_log
from wakelog.testing.builders import SessionBuilder

QUIET = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def lines_of(raw):
    return split_lines([raw])


def copied(raw):
    """Return the copy of a log, and the copy read back."""
    made = copy_of(store_of(raw))
    return made, read_log(store_of(made.content), "s")


def _is_envelope_only(entry):
    return isinstance(entry.value, UnknownBody) and entry.type in NODE_TYPES


def proven(content):
    proof = verify_seals(lines_of(content))
    return not proof.broken and not proof.unsealed and bool(proof.head)


# ── properties ───────────────────────────────────────────────────────────────────────────────────


@QUIET
@given(STORIES)
def test_the_copy_of_an_intact_log_is_that_log(steps):
    """Law 10: no entry is encoded again without need; an intact log comes out byte for byte."""
    raw = bytes_of(tell(steps))
    made = copy_of(store_of(raw))
    assert made.content == raw
    assert (made.mended, made.lost, made.left_out) == (0, 0, ())


@QUIET
@given(STORIES, DAMAGE)
def test_the_copy_verifies(steps, hurts):
    """LOG-9: whatever happened to the file, `verify` of its copy is ok."""
    raw = damaged(bytes_of(tell(steps)), hurts)
    made, copy = copied(raw)
    if made.lines:
        assert copy.damage == ()
        assert proven(made.content)
        assert [entry.seq for entry in copy.entries] == list(range(len(copy.entries)))


@QUIET
@given(STORIES, DAMAGE)
@example([*[("user", 0)] * 9, ("queued", 0)], [("swap", 0)])
@example([*[("user", 0)] * 8, ("queued", 0), ("compact", None)], [("drop", 0)])
@example([*[("user", 0)] * 8, ("reply", 1), ("compact", 0)], [("swap", 0)])
@example([*[("user", 0)] * 4, ("fork_reply", 0), *[("user", 0)] * 5], [("repeat", 5), ("flip", 5)])
def test_the_copy_reads_the_same(steps, hurts):
    """Laws 6 and 9: every branch of the damaged log reads the same in the copy, and no more calls may be run."""
    raw = damaged(bytes_of(tell(steps)), hurts)
    old = read_log(store_of(raw), "s")
    made, copy = copied(raw)
    if not made.lines:
        return
    # A node of which only the envelope can be read is not in the copy, unless the line is in the log once more and
    # can be read there. The session header is always the first.
    readable = [node for node, entry in old.tree.nodes.items() if not _is_envelope_only(entry)]
    there = [node for node in readable if node in copy.tree.nodes and node != copy.tree.root]
    assert copy.tree.head == old.tree.head or old.tree.head not in there
    for node in there:
        before, after = old.tree.branch(node), copy.tree.branch(node)
        # Annotations of a lost first line are found again with it, apart from those that a compaction carries.
        regained = set() if copy.tree.root in _ids(before.nodes) else _ids(copy.tree.annotations(copy.tree.root))
        regained -= {row.entry_id for row in transcript(before)}
        assert _said(before) == _said(after, without=regained)
        # With a first line that was made or moved, a compaction that keeps from there on finds what it keeps.
        if copy.tree.root == old.tree.root:
            assert _calls(before) == _calls(after)
            assert build_context(before).messages == build_context(after).messages


@QUIET
@given(STORIES, DAMAGE)
def test_bodies_keep_their_bytes(steps, hurts):
    """Law 10: only an entry with another parent is changed."""
    raw = damaged(bytes_of(tell(steps)), hurts)
    old = read_log(store_of(raw), "s")
    made, copy = copied(raw)
    bodies = {unseal(entry.raw).strip() for entry in old.entries}
    changed = [entry for entry in copy.entries if unseal(entry.raw) not in bodies]
    added = [entry for entry in changed if entry.id not in {known.id for known in old.entries}]
    # A position without a seal is not from a store: it is removed from the body by key.
    unplaced = sum(b'"seq":' in entry.raw and find_seal(entry.raw) is None for entry in old.entries)
    assert len(changed) - len(added) - unplaced <= made.mended
    assert all(isinstance(entry.value, DamageNote | Head | SessionHeader) for entry in added)


@QUIET
@given(STORIES, DAMAGE)
def test_the_copy_of_a_copy_is_the_copy(steps, hurts):
    """The same log gives the same copy, and the copy of a copy is equal to it."""
    raw = damaged(bytes_of(tell(steps)), hurts)
    made = copy_of(store_of(raw))
    assert copy_of(store_of(raw)).content == made.content
    assert copy_of(store_of(made.content)).content == made.content


def _ids(entries):
    return {entry.id for entry in entries}


def _said(branch, without=()):
    rows = [row for row in transcript(branch) if row.kind not in ("session", "unknown") and row.entry_id not in without]
    return [(row.kind, row.text, row.name, row.status) for row in rows]


def _calls(branch):
    """Return every open call, and whether it may have had an effect."""
    return [(call.reply_id, call.tool_call.id, call.may_have_started) for call in open_tool_calls(branch)]


# ── single cases ─────────────────────────────────────────────────────────────────────────────────


def told():
    story = SessionBuilder()
    story.user("first")
    story.reply("second")
    story.user("third")
    return story


def test_a_lost_session_does_not_get_the_id_of_an_entry():
    """Law 9: lines are out of order and the first one is lost: the parent of the first is a later entry."""
    _, first, second, third = bytes_of(told()).split(b"\n")[:4]
    raw = b"\n".join((second, first, third, b""))
    made, copy = copied(raw)
    old = read_log(store_of(raw), "s")
    assert (made.kept, len(made.left_out)) == (3, 0)
    assert {entry.id for entry in old.entries} < {entry.id for entry in copy.entries}
    assert _said(copy.tree.branch()) == _said(old.tree.branch())


def broken_at(raw, number):
    """Return a log whose line of that number (from 0) is not JSON any more."""
    lines = raw.split(b"\n")
    lines[number] = b"#" + lines[number][1:]
    return b"\n".join(lines)


def test_a_lost_line_is_noted_in_its_place():
    made, copy = copied(broken_at(bytes_of(told()), 2))
    notes = [entry for entry in copy.entries if isinstance(entry.value, DamageNote)]
    assert [(note.seq, note.value.reason) for note in notes] == [(2, "lost")]
    assert (made.kept, made.lost, made.mended) == (3, 1, 1)
    assert [hurt.kind for hurt in made.left_out] == ["unreadable"]


def test_a_call_before_a_lost_line_counts_as_started():
    """Law 6: the copy knows as little as the log about the content of the lost line."""
    story = SessionBuilder()
    story.user("run it")
    story.call("r1")
    story.reply("", calls=[("t1", "bash", {})])
    story.user("a line that will be lost")
    raw = broken_at(bytes_of(story), 4)
    _, copy = copied(raw)
    (call,) = open_tool_calls(copy.tree.branch())
    assert call.start_may_be_lost
    assert call.starts == 0


def test_a_torn_tail_is_left_out_without_a_note():
    """LOG-9: an interrupted append was never acknowledged, so nothing was lost."""
    raw = bytes_of(told())[:-40]
    made, copy = copied(raw)
    assert made.lost == 0
    assert [hurt.kind for hurt in made.left_out] == ["torn"]
    assert len(copy.entries) == 3


def test_a_lost_first_line_is_made_again():
    """Entries keep the session that they name as their parent."""
    raw = bytes_of(told())
    session = read_log(store_of(raw), "s").id
    made, copy = copied(broken_at(raw, 0))
    assert copy.entries[0].type == "session"
    assert copy.id == session
    assert made.mended == 0
    assert [message.content[0].text for message in build_context(copy.tree.branch()).messages] == [
        "first",
        "second",
        "third",
    ]


def test_nothing_readable_gives_no_copy():
    assert copy_of(store_of(b"rubbish\nmore\n")).lines == ()
    assert copy_of(store_of(b"")).lines == ()


def test_a_body_that_cannot_be_read_is_left_out_and_its_children_kept():
    raw = bytes_of(told()).replace(b'"role":"assistant"', b'"role":"nobody"')
    made, copy = copied(raw)
    assert copy.damage == ()
    assert [row.text for row in transcript(copy.tree.branch()) if row.kind == "prompt"] == ["first", "third"]
    assert made.lost == 1


def test_unknown_types_and_keys_survive():
    """LOG-8: also in an entry that gets another parent."""
    lines = [
        b'{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z"}',
        b"not a line",
        b'{"type":"from_the_future","id":"x1","parentId":"s1","what":[1,2]}',
        b'{"type":"message","id":"m2","parentId":"gone","message":{"role":"user","content":"hi"},"mine":{"a":1}}',
    ]
    _, copy = copied(b"\n".join(lines) + b"\n")
    future = next(entry for entry in copy.entries if isinstance(entry.value, UnknownBody))
    assert b'"what":[1,2]' in future.raw
    message = next(entry for entry in copy.entries if entry.id == "m2")
    assert b'"mine":{"a":1}' in message.raw
    assert message.value.parent_id == "s1"


@pytest.mark.parametrize(
    "line",
    [
        b'\xef\xbb\xbf{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z"}',
        b'{"type":"session","id":"s1","timestamp":"2026-01-01T00:00:00.000Z"}\r',
        b'  {"type":"session","id":"s1","seq":0,"h":"no seal","v":1}',
    ],
)
def test_foreign_lines_are_sealed(line):
    """A byte order mark, CRLF and positions written by other programs are not in the copy."""
    made, copy = copied(line + b'\n{"type":"message","id":"m1","message":{"role":"user","content":"x"}}\n')
    assert copy.damage == ()
    assert proven(made.content)
    assert [entry.id for entry in copy.entries] == ["s1", "m1"]
    assert made.content.startswith(b'{"v":1,"seq":0,')


def test_the_head_of_lines_without_seq_stays_where_it_was():
    """TREE-3: without seq the last node is the head; with seq a node on another branch is not."""
    lines = [
        b'{"type":"session","id":"s1"}',
        b'{"type":"message","id":"m1","parentId":"s1","message":{"role":"user","content":"a"}}',
        b'{"type":"message","id":"m2","parentId":"s1","message":{"role":"user","content":"b"}}',
    ]
    _, copy = copied(b"\n".join(lines) + b"\n")
    assert copy.tree.head == "m2"
    assert isinstance(copy.entries[-1].value, Head)


def test_a_line_of_a_newer_format_stops_the_copy():
    """LOG-7: an entry of a newer wakelog is not damage, and must not be lost in a copy."""
    raw = bytes_of(told()) + b'{"v":9,"seq":4,"type":"message","id":"n1"}\n'
    with pytest.raises(NewerFormat, match="format 9"):
        copy_of(store_of(raw))


# ── forks ────────────────────────────────────────────────────────────────────────────────────────


def forked():
    """Return a session with a title, an open call and an undelivered reply, and a fork of it that was continued."""
    story = told()
    story.call("r9", channels=["terminal"])
    story.session.rename("the parent's title")
    reply = story.reply("", calls=[("t1", "bash", {"command": "ls"})])
    story.session.label(reply.id, "here")
    child = fork(story.session)
    child.say("in the child")
    return story, child


def standalone(child):
    """Return the whole tree of a fork, its copy, and the copy read back. The parent is read from its beginning."""
    log = child.read()
    origin = log.header.value.parent
    above = read_log(child.store, origin.session).tree.branch(origin.entry)
    tree = Tree()
    tree.inherit(above)
    made = copy_of(child.store, child.name)
    return tree.add_all(log.entries), made, read_log(store_of(made.content), "s")


def test_a_fork_is_copied_with_its_history():
    """TREE-4, ST-8: the copy needs no parent, and reads as the fork did."""
    _, child = forked()
    tree, made, copy = standalone(child)
    assert copy.damage == ()
    assert proven(made.content)
    assert copy.id == child.id
    assert _said(copy.tree.branch()) == _said(tree.branch())
    assert build_context(copy.tree.branch()).messages == build_context(tree.branch()).messages
    assert copy.entries[0].value.parent.kind == "import"


def test_annotations_of_the_parent_are_left_out():
    """TREE-4: a title, a delivery, a lease of the parent is not the child's; a label on its branch is."""
    _, child = forked()
    _, _, copy = standalone(child)
    assert overview(copy.tree).title is None
    assert open_tool_calls(copy.tree.branch()) == ()
    kept = {entry.type for entry in copy.entries}
    assert not kept & {"session_renamed", "call"}
    assert [entry.value.label for entry in copy.entries if isinstance(entry.value, Label)] == ["here"]


@QUIET
@given(STORIES, STORIES)
def test_every_fork_can_be_copied(parent_steps, child_steps):
    """TREE-4: for any parent and any continuation, the copy reads as the child does."""
    child = fork(tell(parent_steps).session)
    story = SessionBuilder(child.store)
    story.session = child
    tell(child_steps[:10], story)
    tree, made, copy = standalone(child)
    assert copy.damage == ()
    assert proven(made.content)
    # The two first lines have become one: a head on either is compared by the context alone.
    head = tree.nodes[tree.head]
    assert copy.tree.head == head.id or isinstance(head.value, SessionHeader)
    assert build_context(copy.tree.branch()).messages == build_context(tree.branch()).messages
    tail = read_active(store_of(made.content), "s")
    assert build_context(tail.tree.branch()) == build_context(copy.tree.branch())


def test_settings_in_force_are_copied():
    """A fork starts with the settings in force at its fork point; so does its copy."""
    story = SessionBuilder()
    story.session = type(story.session).create(story.store, model="m7", provider="p7", settings={"depth": 3})
    story.user("hello")
    child = fork(story.session)
    _, _, copy = standalone(child)
    context = build_context(copy.tree.branch())
    assert (context.model, context.provider) == ("m7", "p7")
    assert overview(copy.tree).settings == {"depth": 3}


def test_a_result_stays_with_its_call():
    """Law 7: after a salvage no call is open that was not open before."""
    story = SessionBuilder()
    reply = story.reply("", calls=[("t1", "bash", {})])
    story.result(reply, "t1")
    _, copy = copied(bytes_of(story) + b"rubbish\n")
    answers = [entry.value.message for entry in copy.entries if isinstance(entry.value, Message)]
    assert isinstance(answers[-1], ToolResult)
    assert open_tool_calls(copy.tree.branch()) == ()

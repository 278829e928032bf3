"""What a log refers to is read from its lines, damaged or not, and from nothing else."""

import pytest

from wakelog.log.content import BlobRef, Image, Prompt
from wakelog.log.entry import Message, Spawned
from wakelog.log.ids import digest_of
from wakelog.log.lines import split_lines
from wakelog.log.references import LogReferences
from wakelog.testing.builders import SessionBuilder


def needs_of(raw):
    """Return the references of a log of these bytes."""
    needs = LogReferences()
    for line in split_lines([raw]):
        needs.add(line)
    return needs


def bytes_of(story):
    return b"".join(line.bytes for line in story.store.load(story.session.id))


def test_an_ordinary_log_refers_to_nothing():
    """TREE-4: neither sessions nor blobs, but its size is counted to the byte."""
    story = SessionBuilder()
    story.user('say "spawned" and "session_renamed"')
    needs = needs_of(bytes_of(story))
    assert (needs.parent, needs.children, needs.digests, needs.blobs, needs.title) == (None, [], {}, {}, None)
    assert needs.size == len(bytes_of(story))


def test_references_of_known_entries():
    """LOG-12, RUN-14: blobs with their sizes, sub-agents once each, the last title."""
    story = SessionBuilder()
    ref = BlobRef(digest=digest_of(b"picture"), bytes=7)
    story.session.append(Message(message=Prompt(content=(Image(mime_type="image/png", blob=ref),))))
    for child in ("c1", "c2", "c1"):
        story.session.append(Spawned(child_session=child, reply_id="r", tool_call_id="t"))
    story.session.rename("one")
    story.session.rename("two")
    needs = needs_of(bytes_of(story))
    assert (needs.children, needs.blobs, needs.title) == (["c1", "c2"], {ref.digest: 7}, "two")


def test_a_digest_has_the_position_of_its_first_reference():
    """LOG-12: by the size of the log up to there, which tells whether a shorter copy refers to it."""
    one, two = digest_of(b"1").encode(), digest_of(b"2").encode()
    head = b"%s\n" % one
    needs = needs_of(head + b"%s %s\n" % (two, one))
    assert needs.digests == {one.decode(): len(head), two.decode(): 2 * len(head) + len(one) + 1}


@pytest.mark.parametrize(
    ("kind", "parent"),
    [(b"", "p"), (b',"kind":"fork"', "p"), (b',"kind":"subagent"', None), (b',"kind":"import"', None)],
)
def test_only_a_fork_refers_to_its_parent(kind, parent):
    """TREE-4: a sub-agent or an import is complete by itself."""
    raw = b'{"type":"session","id":"s","parent":{"session":"p","entry":"e"%s}}\n' % kind
    assert needs_of(raw).parent == parent


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"spawned","childSession":"../x","replyId":"r","toolCallId":"t","id":"a"}\n',
        b'{"type":"spawned","childSession":7,"id":"a"}\n',
        b'{"type":"session_renamed","title":[],"id":"a"}\n',
        b'"spawned" "session_renamed"\n',
        b'{"type":"spawned"\n',
    ],
)
def test_hostile_lines_refer_to_nothing(line):
    """Law 13: an invalid id refers to nothing, and so does a line that is not an entry."""
    needs = needs_of(b'{"type":"session","id":"s","parent":{"session":"/etc","entry":"e"}}\n' + line)
    assert (needs.parent, needs.children, needs.title) == (None, [], None)


def test_glued_entries_are_read():
    """Law 9: two records on one line are two entries."""
    spawned = b'{"type":"spawned","childSession":"%s","replyId":"r","toolCallId":"t","id":"%s"}'
    assert needs_of(b"\n" + spawned % (b"c1", b"a") + spawned % (b"c2", b"b") + b"\n").children == ["c1", "c2"]

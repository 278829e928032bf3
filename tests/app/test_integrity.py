"""Blobs that entries refer to are checked: missing and changed ones are found, with what each entry loses (law 9)."""

import time

import msgspec
import pytest

from tests.transfer.conftest import stores  # noqa: F401 - a fixture
from tests.transfer.rigs import KINDS
from wakelog.errors import Damaged, NoAccess, NotFound
from wakelog.log.content import Audio, BlobRef, Image, Prompt, Text, ToolResult, UnknownPart
from wakelog.log.entry import ContextEntry, Custom, Message, ModelCall
from wakelog.log.ids import digest_of
from wakelog.session import Session
from wakelog.stores.memory import MemoryBlobs, MemoryStore
from wakelog.testing.builders import SessionBuilder
from wakelog.verification import audit_blobs


def refer_everywhere(session, ref):
    """Append entries that refer to a blob in every way there is."""
    node = session.append(ContextEntry(system=ref(b"system"), tools=ref(b"tools")))
    session.append(Message(message=Prompt(content=(Image(blob=ref(b"image")), UnknownPart(part=plain(ref(b"part")))))))
    session.append(Message(message=Prompt(content=(Audio(blob=ref(b"audio")), Text(text="cut", blob=ref(b"text"))))))
    session.append(Message(message=ToolResult(tool_call_id="t", tool_name="grep", blob=ref(b"output"))))
    session.append(ModelCall(reply_id="r1", injected=(ref(b"first"), ref(b"second"))), at=node.id)
    session.append(Custom(custom_type="x", data={"deep": [plain(ref(b"data"))]}))
    session.store.append(session.name, unknown_entry(ref(b"future")), after=session.last_seq)
    return session.read()


def plain(ref):
    return msgspec.to_builtins(ref)


def unknown_entry(ref):
    """Return an entry of an unknown type."""
    return b'{"type":"hologram","id":"z","film":%b}' % msgspec.json.encode(ref)


LOST = {
    b"system": ("context", "the system instructions"),
    b"tools": ("context", "the tool declarations"),
    b"image": ("message", "an image"),
    b"audio": ("message", "audio"),
    b"text": ("message", "the full text (the entry has a part of it)"),
    b"part": ("message", "content of a kind that this version"),
    b"output": ("message", "the full output of the tool grep"),
    b"first": ("call", "a text that was injected into the request"),
    b"second": ("call", "a text that was injected into the request"),
    b"data": ("custom", "content of a kind that this version"),
    b"future": ("hologram", "content of a kind that this version"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_missing_blob_is_reported_with_its_entries(stores, kind):  # noqa: F811
    """Law 9, LOG-12: in every store, each missing blob is found once, with what each entry loses."""
    store = stores.new(kind)
    log = refer_everywhere(Session.create(store, agent="crab"), store.blobs.put)
    whole = audit_blobs(store.blobs, log.entries)
    assert (whole.blobs, whole.losses) == (len(LOST), ())
    for content in LOST:
        assert store.blobs.remove(digest_of(content), older_than_s=0)
    found = {loss.digest: loss for loss in audit_blobs(store.blobs, log.entries).losses}
    assert found.keys() == {digest_of(content) for content in LOST}
    for content, (entry_type, what) in LOST.items():
        loss = found[digest_of(content)]
        assert (loss.kind, loss.bytes) == ("missing blob", len(content))
        assert loss.hint
        (named,) = loss.references
        assert (named.type, named.what.startswith(what)) == (entry_type, True)


def test_each_blob_is_read_once():
    """However many entries refer to a blob, it is checked once, and reported for all of them."""
    story = SessionBuilder(MemoryStore())
    ref = story.store.blobs.put(b"shared")
    for _ in range(3):
        story.session.append(Message(message=Prompt(content=(Image(blob=ref), Image(blob=ref)))))
    asked = []

    class CountingBlobs(MemoryBlobs):
        def check(self, ref):
            asked.append(ref)
            raise Damaged("other bytes", hint="put it again")

    (loss,) = audit_blobs(CountingBlobs(now=time.time), story.session.read().entries).losses
    assert [one.digest for one in asked] == [ref.digest]
    assert (loss.kind, [named.seq for named in loss.references]) == ("damaged blob", [1, 2, 3])


@pytest.mark.parametrize(
    ("error", "kind"),
    [(NotFound, "missing blob"), (Damaged, "damaged blob"), (NoAccess, "inaccessible blob")],
)
def test_kinds_of_losses(error, kind):
    """Law 9: a blob that this user may not read is not called damaged."""
    story = SessionBuilder(MemoryStore())
    story.session.append(Message(message=Prompt(content=(Image(blob=BlobRef(digest=digest_of(b"x"), bytes=1)),))))

    class FailingBlobs(MemoryBlobs):
        def check(self, ref):
            raise error("no", hint="do this")

    (loss,) = audit_blobs(FailingBlobs(now=time.time), story.session.read().entries).losses
    assert (loss.kind, loss.reason, loss.hint) == (kind, "no", "do this")

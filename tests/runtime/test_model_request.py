"""VIEW-9: the exact request of every model call of a long session is rebuilt from the log, with an equal digest."""

import base64

import pytest

from tests.kernel.long_session import drive
from tests.kernel.outside import Outside
from wakelog.errors import Damaged, NotFound
from wakelog.forking import fork
from wakelog.log.content import BlobRef, Image, Prompt, Text
from wakelog.log.entry import ContextEntry, Message, ModelCall
from wakelog.log.ids import digest_of
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.runtime.model_request import blob_text, build_request, context_of_call, declared_tools
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The long session: two branches, compactions, a sub-agent, faults, a cancel."""
    made = MemoryStore()
    drive(made, Outside(str(tmp_path_factory.mktemp("outside"))), ends=False)
    return made


def _calls(store, name):
    log = read_log(store, name)
    return log.tree, [entry.value for entry in log.entries if isinstance(entry.value, ModelCall)]


def test_every_call_of_the_long_session_is_rebuilt(store):
    """VIEW-9: also after later compactions, on the abandoned branch, and in the sub-agent's own session."""
    seen = 0
    for stat in list(store.sessions()):
        tree, calls = _calls(store, stat.name)
        for call in calls:
            context, _ = context_of_call(tree, call)
            assert context.digest == call.context_digest, call
            seen += 1
    assert seen >= 10


def test_later_entries_change_no_old_request(store):
    """VIEW-9: after a compaction, a fork and a change of model, every old request is rebuilt unchanged."""
    tree, calls = _calls(store, "s")
    before = [context_of_call(tree, call) for call in calls]
    session = Session(store, "s")
    session.compact("everything, in short")
    child = fork(session, calls[0].parent_id)
    child.say("another way")
    tree, again = _calls(store, "s")
    assert [context_of_call(tree, call) for call in again] == before
    inherited = read_log(store, child.name).tree
    assert context_of_call(inherited, calls[0])[0].digest == calls[0].context_digest


def test_a_request_holds_the_texts_of_its_blobs(store):
    """VIEW-9: the system text and the tools are passed to the adapter as text."""
    tree, calls = _calls(store, "s")
    context, answers = context_of_call(tree, calls[0])
    request = build_request(context, store.blobs, answers=answers)
    assert request.system == "Be brief."
    assert [tool["name"] for tool in request.tools] == ["look", "pay", "book", "agent"]
    assert (request.answers, request.purpose) == (0, "reply")


def test_tools_that_cannot_be_read_are_damage():
    """Law 9: unreadable tool declarations are reported, not guessed."""
    blobs = MemoryStore().blobs
    with pytest.raises(Damaged, match="cannot be read"):
        declared_tools(blobs, blobs.put(b"{"), "c")
    assert declared_tools(blobs, None, "c") == []
    assert blob_text(blobs, None, "c") == ""


@pytest.mark.parametrize("content", [b"Be brief.", b"[]", b"recalled", b"picture"])
def test_a_missing_blob_is_named_with_its_entry(content):
    """LOG-19: the error names the blob and the entry that refers to it, and says what to do."""
    full, store = MemoryStore(), MemoryStore()
    put = full.blobs.put
    session = Session.create(store, model="m", provider="p")
    settings = session.append(ContextEntry(system=put(b"Be brief."), tools=put(b"[]")))
    prompt = session.append(Message(message=Prompt(content=(Image(blob=put(b"picture", "image/png")),))))
    call = session.append(ModelCall(reply_id="r", injected=(put(b"recalled"),)))
    assert isinstance(call.value, ModelCall)
    context, _ = context_of_call(session.tree, call.value)
    assert build_request(context, full.blobs, call_id=call.id).system == "Be brief."
    for blob in full.blobs.stored():
        if blob.digest != digest_of(content):
            store.blobs.put(full.blobs.get(BlobRef(digest=blob.digest, bytes=blob.bytes)))
    needing = {b"recalled": call.id, b"picture": prompt.id}.get(content, settings.id)
    with pytest.raises(NotFound, match=f"{digest_of(content)} .*entry {needing}") as caught:
        build_request(context, store.blobs, call_id=call.id)
    assert "export -f bundle" in caught.value.hint


def test_images_are_passed_inline():
    """LOG-12: an adapter cannot read blobs, so a request carries the image bytes; the log does not."""
    store = MemoryStore()
    session = Session.create(store, model="m", provider="p")
    blob = store.blobs.put(b"\x89PNG...", "image/png")
    session.say(Prompt(content=(Text(text="Look:"), Image(blob=blob), Image(mime_type="image/gif", data="R0lG"))))
    context = build_context(session.branch())
    request = build_request(context, store.blobs)
    (message,) = request.messages
    assert message.content[1] == Image(mime_type="image/png", data=base64.b64encode(b"\x89PNG...").decode())
    assert message.content[2].data == "R0lG"
    assert context.messages[0].content[1].blob == blob

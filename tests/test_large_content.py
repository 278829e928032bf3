"""LOG-12: images, audio and texts too long for a line are blobs, put before the entry that names them."""

import asyncio
import base64

import pytest

from tests.kernel.plays import Play
from tests.redaction.test_entries import KEY, MARK
from tests.runtime.rigs import Rig, asks
from wakelog.errors import UsageError
from wakelog.large_content import TEXT_KEPT_BYTES
from wakelog.log.content import Audio, BlobRef, Image, Note, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import AttentionResolved, Cancelled, Custom, Message, ModelCall, Partial, Queued
from wakelog.ports.runtime import ToolOutcome
from wakelog.projections.context import build_context, estimate_tokens
from wakelog.reading import read_log
from wakelog.redaction.redactor import redact
from wakelog.runtime.model_request import build_request, context_of_call
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores.jsonl.store import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.stores.sqlite.store import SqliteStore

BYTES = bytes(range(256)) * 1_200
DATA = base64.b64encode(BYTES).decode()
PICTURE = Image(mime_type="image/png", data=DATA)
SOUND = Audio(mime_type="audio/wav", data=DATA)
LONG = "first\n" + "middle\n" * 2_800_000 + "last"


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    return JsonlStore(tmp_path) if request.param == "jsonl" else SqliteStore(tmp_path / "sessions.db")


@pytest.mark.parametrize(
    "body",
    [
        Message(message=Prompt(content=(Text(text="See:"), PICTURE, SOUND))),
        Message(message=ToolResult(tool_call_id="t", content=(PICTURE, SOUND))),
        Message(message=Note(content=(PICTURE, SOUND))),
        Queued(message=Prompt(content=(PICTURE, SOUND))),
        Custom(custom_type="x", content=(PICTURE, SOUND)),
        Cancelled(content=(PICTURE, SOUND)),
        Partial(reply_id="r", content=(PICTURE, SOUND)),
        AttentionResolved(attention_id="a", result=(PICTURE, SOUND)),
    ],
    ids=lambda body: body.type,
)
def test_media_are_blobs(store, body):
    """LOG-12: wherever a message can contain an image or audio, the line has its digest and the store its bytes."""
    session = Session.create(store)
    entry = session.append(body)
    assert len(entry.raw) < 2_000
    (stored,) = store.blobs.stored()
    assert store.blobs.get(BlobRef(digest=stored.digest, bytes=stored.bytes)) == BYTES
    found = read_log(store, session.name).entries[-1].raw.decode()
    assert found.count(stored.digest) == 2
    assert '"mimeType":"image/png"' in found
    assert '"mimeType":"audio/wav"' in found


def test_a_blob_stands_before_the_entry():
    """LOG-12: a crash between the two leaves an unreferenced blob, never a reference without a blob."""
    rig = Rig({})
    rig.kinds()
    rig.session.say(Prompt(content=(PICTURE,)))
    assert rig.kinds() == ["blob", "message"]


def test_invalid_base64_stays_in_the_line_and_is_redacted():
    """LOG-12, law 14: it has no bytes to store elsewhere; the text is redacted like any other."""
    session = Session.create(MemoryStore())
    entry = session.say(Prompt(content=(Image(mime_type="image/png", data=f"no base64 {KEY}"),)))
    assert entry.value.message.content == (Image(mime_type="image/png", data=f"no base64 {MARK}"),)


def test_media_in_the_context():
    """Law 8: a picture enters the context by its digest, which never changes; the request has the bytes."""
    store = MemoryStore()
    session = Session.create(store, model="m", provider="p")
    session.say(Prompt(content=(PICTURE, SOUND)))
    context = build_context(session.branch())
    again = build_context(Session(store, session.name).branch())
    assert context.digest == again.digest
    assert context.tokens == estimate_tokens((PICTURE, SOUND)) == 3_000
    (message,) = build_request(context, store.blobs).messages
    assert message.content == (PICTURE, SOUND)


def parts_of(entry):
    """Return the parts of an entry's message."""
    return entry.value.message.content


def blob_of(store, part):
    """Return the bytes that a part refers to."""
    return store.blobs.get(part.blob)


def _return_outcome(rig, monkeypatch, outcome):
    async def run(tool, call):
        return outcome

    monkeypatch.setattr(type(rig.outside.tools[0]), "run", run)


def test_media_of_a_tool_are_parts_of_its_result(monkeypatch):
    """LOG-12, law 11: they are sent to the model, and a replay has them again."""
    rig = Rig({"Look.": [asks(("look", 1)), {"text": "I see."}]})
    _return_outcome(rig, monkeypatch, ToolOutcome("[image: image/png]", media=(PICTURE, SOUND)))
    rig.say("Look.")
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert [type(part) for part in result.content] == [Text, Image, Audio]
    assert blob_of(rig.store, result.content[1]) == BYTES
    tree, last = read_log(rig.store, "s").tree, rig.values(ModelCall)[-1]
    context, answers = context_of_call(tree, last)
    assert context.digest == last.context_digest
    assert build_request(context, rig.store.blobs, answers=answers).messages[-1].content[1:] == (PICTURE, SOUND)
    assert asyncio.run(replay(rig.store, "s")).ok


@pytest.mark.parametrize("text", [LONG, "\x01" * 3_000_000, "é" * 9_000_000], ids=["lines", "escapes", "accents"])
def test_a_prompt_too_long_for_a_line_becomes_a_blob(store, text):
    """LOG-12: the whole text is a blob; the entry has its beginning and end, and the model sees the entry."""
    session = Session.create(store, model="m", provider="p")
    entry = session.say(text)
    (part,) = parts_of(entry)
    assert blob_of(store, part).decode() == text
    assert len(part.text.encode()) <= TEXT_KEPT_BYTES
    assert (part.text[:5], part.text[-4:]) == (text[:5], text[-4:])
    assert "bytes left out" in part.text
    (message,) = build_context(session.branch()).messages
    assert message.content == (part,)


@pytest.mark.parametrize(
    "body",
    [
        Message(message=Prompt(content=LONG)),
        Message(message=Reply(content=(Text(text="short"), Text(text=LONG, bound={"id": "m"})))),
        Queued(message=Prompt(content=(Text(text=LONG),))),
        Custom(custom_type="x", content=LONG),
        AttentionResolved(attention_id="a", result=(Text(text=LONG),)),
    ],
    ids=lambda body: body.type,
)
def test_every_long_text_fits(body):
    """LOG-12: for every type that contains text; what binds the text to its provider is dropped with it."""
    store = MemoryStore()
    session = Session.create(store)
    entry = session.append(body)
    assert len(entry.raw) < 400_000
    assert b'"bound"' not in entry.raw
    (stored,) = store.blobs.stored()
    assert stored.bytes == len(LONG)


def test_only_texts_that_do_not_fit_are_clipped():
    """LOG-12: a text that fits stays whole, and so do short texts beside a long one."""
    store = MemoryStore()
    session = Session.create(store)
    fits = "x" * 12_000_000
    assert parts_of(session.say(fits)) == (Text(text=fits),)
    long = Prompt(content=(Text(text="y" * 9_000_000), Text(text="z" * 8_000_000), Text(text="hi")))
    first, second, third = parts_of(session.say(long))
    assert (first.blob is None, second.blob is None, third) == (False, True, Text(text="hi"))


def test_content_that_cannot_be_clipped_is_refused():
    """Law 10: data that is not text of a message cannot be clipped; that is an error of the caller."""
    session = Session.create(MemoryStore())
    with pytest.raises(UsageError, match="too long for one line"):
        session.append(Custom(custom_type="x", data="x" * 17_000_000))
    with pytest.raises(UsageError, match="too long for one line"):
        session.say(Prompt(content=tuple(Text(text=str(n) + "x" * 250_000) for n in range(80))))


def test_an_input_that_is_too_long_names_its_tool_call():
    """LOG-12: the input of a tool call has to be in the line, so the error says which one is too long."""
    store = MemoryStore()
    session = Session.create(store)
    session.user("Write it.")
    small = ToolCall(id="c1", name="look", input={"n": 1})
    large = ToolCall(id="c2", name="write", input={"text": "x" * 18_000_000})
    with pytest.raises(UsageError, match="too long for one line") as raised:
        session.assistant(Reply(content=(Text(text="I write."), small, large)))
    assert "the input of the tool call write (c2) must be in the line" in raised.value.hint
    assert not [value for value in session.messages() if value.role == "assistant"]
    assert [*store.blobs.stored()] == []
    assert session.assistant("I cannot.").text == "I cannot."


def test_a_blob_of_a_text_holds_no_secret():
    """Law 14: the whole text is redacted before any of it is stored."""
    store = MemoryStore()
    session = Session.create(store)
    entry = session.say(f"{LONG} {KEY}")
    (part,) = parts_of(entry)
    assert blob_of(store, part).decode() == redact(f"{LONG} {KEY}").text
    assert KEY.encode() not in blob_of(store, part)


def test_a_long_queued_prompt_replays():
    """Law 11: it is taken from the queue as it is stored there, and replays."""
    rig = Rig({})
    queued = rig.session.append(Queued(message=Prompt(content=LONG)))
    rig.provider = Play({queued.value.message.text: [{"text": "Read."}]})
    rig.wake()
    (prompt,) = [value.message for value in rig.values(Message) if isinstance(value.message, Prompt)]
    assert prompt.content == queued.value.message.content
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_long_result_replays(monkeypatch):
    """Law 11: a result that the policy does not clip is clipped to fit its line, and replays."""
    rig = Rig({"Look.": [asks(("look", 1)), {"text": "I see."}]}, clip=100_000_000)
    _return_outcome(rig, monkeypatch, ToolOutcome(LONG))
    rig.say("Look.")
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert result.content[0].blob is not None
    assert asyncio.run(replay(rig.store, "s")).ok

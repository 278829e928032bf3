"""Law 14 in a running session: no key reaches log, journal, blob or channel, and no call runs without its key."""

import asyncio

import pytest

from tests.redaction.test_entries import KEY, MARK
from tests.runtime.rigs import Rig, asks
from wakelog.app.agent import Agent
from wakelog.log.content import BlobRef, ToolResult
from wakelog.log.entry import Compaction, Message, Partial, ToolStarted
from wakelog.ports.runtime import ToolOutcome
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import tool

REPLIES = {
    "Go.": [{"text": f"The key is {KEY}, so there.", "deltaChars": 3, "thinking": f"I must not say {KEY}."}],
    "Pay.": [asks(("pay", KEY)), {"text": "It did not work."}],
    "Look.": [asks(("look", 1)), {"text": "Seen."}],
}


def everything(store, name):
    """All bytes that the store holds of a session, blobs and all."""
    refs = [BlobRef(digest=stored.digest, bytes=stored.bytes) for stored in store.blobs.stored()]
    return b"".join([*(line.bytes for line in store.load(name)), *map(store.blobs.get, refs)])


def test_a_reply():
    """LOG-13: streamed text included: nothing of a key was ever in a journal or on a channel."""
    rig = Rig(REPLIES)
    assert rig.say("Go.").text == f"The key is {MARK}, so there."
    journaled = "".join(text for kind, text in rig.events if kind == "journal")
    shown = "".join(text for kind, text in rig.events if kind == "shown")
    assert KEY[:8] not in journaled + shown
    assert shown.startswith(f"The key is {MARK}, so there.")
    assert KEY.encode() not in everything(rig.store, "s")


def test_half_a_key_of_a_reply_that_was_cut():
    """LOG-13: what could still become a key when a stream breaks is known by nobody, and kept by nobody."""
    half = {"text": f"The key is {KEY[:-1]}", "deltaChars": 3, "error": {"kind": "connection", "retryable": False}}
    rig = Rig({"Go.": [half]})
    rig.say("Go.")
    assert [partial.content[0].text for partial in rig.values(Partial)] == ["The key is "]
    assert KEY[:8] not in "".join(text for _, text in rig.events)


def test_what_is_said_to_it():
    """LOG-13: a prompt, a title and a label are entries too."""
    rig = Rig(REPLIES)
    rig.session.say(f"My key is {KEY}.")
    rig.session.rename(f"About {KEY}")
    assert KEY.encode() not in everything(rig.store, "s")
    made = Session.create(MemoryStore(), title=f"About {KEY}")
    assert KEY.encode() not in everything(made.store, made.name)


def test_a_call_without_its_key_is_not_run():
    """DESIGN 5: settled denied, with the reason; the tool was never begun."""
    rig = Rig(REPLIES)
    rig.say("Pay.")
    assert rig.values(ToolStarted) == []
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert result.effective_status == "denied"
    assert "secret" in result.text


def test_what_a_tool_puts_out(monkeypatch):
    """LOG-13: live output, the result, and the whole of it in its blob."""
    rig = Rig(REPLIES, clip=1_000)

    async def leaking(tool, call):
        call.show(f"live {KEY} output ")
        return ToolOutcome(f"{KEY} " * 100)

    look = next(tool for tool in rig.outside.tools if tool.name == "look")
    monkeypatch.setattr(type(look), "run", leaking)
    rig.say("Look.")
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert MARK in result.text
    assert result.blob is not None
    assert rig.store.blobs.get(result.blob).decode() == f"{MARK} " * 100
    assert KEY.encode() not in everything(rig.store, "s")
    assert KEY[:8] not in "".join(text for kind, text in rig.events if kind == "journal")


def test_a_summary():
    """Law 11: a fold counts the tokens of the summary that it keeps, so that a replay counts the same."""
    rig = Rig({"Go.": [{"text": "Going. " * 200}]}, summary=f"The key is {KEY}, so there.", compact_at=100, keep=0)
    rig.say("Go.")
    rig.say("Go.")
    folds = rig.values(Compaction)
    assert folds
    assert MARK in folds[0].summary
    assert asyncio.run(replay(rig.store, "s")).ok


def test_what_a_tool_says_of_itself():
    """LOG-13: names and schemas of tools stand in a blob, and may come from a server."""

    @tool(replay="safe")
    def look(place: str = KEY) -> str:
        """Looks."""
        return place

    store = MemoryStore()
    session = Agent(model="demo", tools=(look,)).begin(store)
    assert KEY.encode() not in everything(store, session.name)
    assert MARK.encode() in everything(store, session.name)


@pytest.mark.parametrize("redact", [True, False])
def test_the_instructions_and_the_setting(redact):
    """DESIGN 5: off by a setting, which stands in the log; then everything is as it was said."""
    rig = Rig(REPLIES, redact=redact)
    Agent(model="scripted:m", system=f"Use {KEY}.", policy=rig.policy, tools=rig.outside.tools).enter(rig.session)
    rig.session.rename(f"About {KEY}")
    said = rig.say("Go.").text
    assert (KEY in said, KEY.encode() in everything(rig.store, "s")) == (not redact, not redact)

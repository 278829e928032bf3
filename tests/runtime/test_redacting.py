"""Law 14 in a running session: no key reaches log, journal, blob or channel.

No tool call with a redacted key runs.
"""

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
    """All bytes that the store holds of a session, including blobs."""
    refs = [BlobRef(digest=stored.digest, bytes=stored.bytes) for stored in store.blobs.stored()]
    return b"".join([*(line.bytes for line in store.load(name)), *map(store.blobs.get, refs)])


def test_a_key_in_a_reply_reaches_no_journal_and_no_channel():
    """LOG-13: streamed text included, not even a part of a key is journaled or displayed."""
    rig = Rig(REPLIES)
    assert rig.say("Go.").text == f"The key is {MARK}, so there."
    journaled = "".join(text for kind, text in rig.events if kind == "journal")
    shown = "".join(text for kind, text in rig.events if kind == "shown")
    assert KEY[:8] not in journaled + shown
    assert shown.startswith(f"The key is {MARK}, so there.")
    assert KEY.encode() not in everything(rig.store, "s")


def test_the_beginning_of_a_key_in_an_interrupted_reply_is_not_kept():
    """LOG-13: text that could still become a key when the stream breaks is dropped."""
    half = {"text": f"The key is {KEY[:-1]}", "deltaChars": 3, "error": {"kind": "connection", "retryable": False}}
    rig = Rig({"Go.": [half]})
    rig.say("Go.")
    assert [partial.content[0].text for partial in rig.values(Partial)] == ["The key is "]
    assert KEY[:8] not in "".join(text for _, text in rig.events)


def test_a_key_in_a_prompt_title_or_label_is_redacted():
    """LOG-13: a prompt, a title and a label are entries too."""
    rig = Rig(REPLIES)
    rig.session.say(f"My key is {KEY}.")
    rig.session.rename(f"About {KEY}")
    assert KEY.encode() not in everything(rig.store, "s")
    made = Session.create(MemoryStore(), title=f"About {KEY}")
    assert KEY.encode() not in everything(made.store, made.name)


def test_a_call_with_a_redacted_key_is_not_run():
    """LOG-13, law 6: its result is `denied` with the reason; the tool never starts."""
    rig = Rig(REPLIES)
    rig.say("Pay.")
    assert rig.values(ToolStarted) == []
    (result,) = [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]
    assert result.effective_status == "denied"
    assert "secret" in result.text


def test_a_key_in_the_output_of_a_tool_is_redacted(monkeypatch):
    """LOG-13: in live output, in the result, and in the blob with the whole output."""
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


def test_a_key_in_a_summary_is_redacted():
    """Law 11: a compaction counts the tokens of the redacted summary, so that a replay counts the same."""
    rig = Rig({"Go.": [{"text": "Going. " * 200}]}, summary=f"The key is {KEY}, so there.", compact_at=100, keep=0)
    rig.say("Go.")
    rig.say("Go.")
    folds = rig.values(Compaction)
    assert folds
    assert MARK in folds[0].summary
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_key_in_the_declaration_of_a_tool_is_redacted():
    """LOG-13: names and schemas of tools are in a blob, and may come from a server."""

    @tool(replay="safe")
    def look(place: str = KEY) -> str:
        """Looks."""
        return place

    store = MemoryStore()
    session = Agent(model="demo", tools=(look,)).begin(store)
    assert KEY.encode() not in everything(store, session.name)
    assert MARK.encode() in everything(store, session.name)


@pytest.mark.parametrize("redact", [True, False])
def test_redaction_can_be_switched_off_by_a_setting(redact):
    """LOG-13: instructions are redacted; `redact: off` is in the log, and then all text is kept as it is."""
    rig = Rig(REPLIES, redact=redact)
    Agent(model="scripted:m", system=f"Use {KEY}.", policy=rig.policy, tools=rig.outside.tools).enter(rig.session)
    rig.session.rename(f"About {KEY}")
    said = rig.say("Go.").text
    assert (KEY in said, KEY.encode() in everything(rig.store, "s")) == (not redact, not redact)

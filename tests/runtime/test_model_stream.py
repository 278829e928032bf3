"""RUN-12, LOG-9: a reply that is too large for one entry is stopped, kept in part, and the failure is recorded."""

from typing import Any

import pytest

from tests.runtime.rigs import Rig
from wakelog.decide.decisions import Idle
from wakelog.log.codec import BRACKETS_MAX, LINE_MAX_BYTES, encode
from wakelog.log.content import ContentDelta, Reply, Text, TextDelta, ThinkingDelta, encode_delta
from wakelog.log.entry import Compaction, Failed, Message, Partial
from wakelog.runtime import model_request as listening

LONG = {"Go.": [{"text": "word " * 60, "deltaChars": 10}], "On.": [{"text": "Done."}]}


def test_an_endless_reply_is_stopped(monkeypatch):
    """RUN-12: the turn fails with the text received so far, and the session stays usable."""
    monkeypatch.setattr(listening, "REPLY_MAX_BYTES", 500)
    rig = Rig(LONG)
    assert rig.say("Go.").decision == Idle("failed")
    assert [fault.error.kind for fault in rig.values(Failed)] == ["reply_too_long"]
    (kept,) = rig.values(Partial)
    assert 0 < len(kept.content[0].text) < 300
    assert rig.say("On.").decision == Idle()


def test_an_endless_summary_is_stopped(monkeypatch):
    """RUN-16: a summary that fits into no entry is not used."""
    monkeypatch.setattr(listening, "REPLY_MAX_BYTES", 2_000)
    rig = Rig(LONG, summary="endless " * 400, compact_at=150, keep=30)
    for _ in range(3):
        assert rig.say("Go.").decision == Idle()
    assert {partial.error.kind for partial in rig.values(Partial)} == {"reply_too_long"}
    assert rig.values(Compaction) == []


def test_the_longest_accepted_reply_fits_into_one_entry():
    """LOG-9: for every kind of content."""
    text = "\0" * (listening.REPLY_MAX_BYTES // 6)
    assert len(encode_delta(TextDelta(text))) > listening.REPLY_MAX_BYTES
    assert len(encode(Message(message=Reply(content=(Text(text=text),))))) < LINE_MAX_BYTES


def _nested(depth):
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("given", [{"n": _nested(254)}, {"n": [[] for _ in range(BRACKETS_MAX)]}], ids=["deep", "wide"])
def test_a_reply_that_no_line_can_hold_is_stopped(given):
    """RUN-12: a call that is nested too deep or has too many lists ends the turn; no later wake fails because of it."""
    calls = [{"name": "look", "input": given}]
    rig = Rig({"Go.": [{"text": "I look", "toolCalls": calls}], "On.": [{"text": "Done."}]})
    assert rig.say("Go.").decision == Idle("failed")
    assert [fault.error.kind for fault in rig.values(Failed)] == ["reply_too_nested"]
    assert [part.text for part in rig.values(Partial)[0].content] == ["I look"]
    assert rig.say("On.").decision == Idle()


def test_many_parts_are_counted():
    """LOG-9: each change between text and reasoning starts a part, and the number of parts of a line is limited."""
    room = listening._EntryCapacity("")
    deltas: list[ContentDelta] = [TextDelta("a"), ThinkingDelta("b")]
    faults = (room.add(delta) for _ in range(BRACKETS_MAX) for delta in deltas)
    assert next(filter(None, faults)) in (listening.TOO_NESTED, listening.TOO_LONG)
    plain = listening._EntryCapacity("")
    assert not any(plain.add(deltas[0]) for _ in range(BRACKETS_MAX + 1))

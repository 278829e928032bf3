"""Law 14, LOG-13: no entry holds a secret, whatever it says; and what a model says comes through as it is said."""

from typing import Literal, get_origin

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.turn.secrets_made import MADE, Chance
from tests.turn.test_assemble import SPOKEN
from wakelog.log.codec import encode
from wakelog.log.content import Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import (
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    ContextRecord,
    Custom,
    Fact,
    Failed,
    FaultReport,
    Label,
    Link,
    Message,
    ModelChange,
    Partial,
    Queued,
    SendFailed,
    SessionRenamed,
    Setting,
    Terminated,
)
from wakelog.turn.assemble import assemble
from wakelog.turn.clearing import SAID_IN, Sieve, cleared, holds_mark
from wakelog.turn.deltas import CallDelta, TextDelta, ThinkingDelta

WORD, MAKE = next(made for made in MADE if made[0] == "github-token")
KEY = MAKE(Chance(1))
MARK = f"[redacted: {WORD}]"
SAID = f"use {KEY} now"

BODIES = [
    Message(message=Prompt(content=SAID)),
    Message(message=Prompt(content=(Text(text="hi"), Text(text=SAID)))),
    Message(
        message=Reply(content=(Text(text=SAID, bound={"id": "m"}), ToolCall(id="t", name="x", input={"a": [SAID]})))
    ),
    Message(message=Reply(content=(Thinking(thinking=SAID, signature="s"), Thinking(thinking=SAID)))),
    Message(message=ToolResult(tool_call_id="t", content=(Text(text=SAID),))),
    Message(message=Note(content=SAID)),
    Queued(message=Prompt(content=SAID)),
    Partial(reply_id="r", content=(Text(text=SAID),)),
    Partial(reply_id="r", error=FaultReport(message=SAID)),
    Compaction(summary=SAID),
    Custom(custom_type="x", content=SAID),
    Custom(custom_type="x", data={"deep": [{"in": SAID}], SAID: 1}),
    Failed(error=FaultReport(kind="x", message=SAID)),
    SessionRenamed(title=SAID),
    Label(target_id="x", label=SAID),
    AttentionResolved(attention_id="x", result=SAID),
    AttentionResolved(attention_id="x", decision=SAID),
    Attention(reason=SAID),
    Attention(refs=("x", SAID)),
    Cancelled(reason=SAID),
    Terminated(reason=SAID),
    Setting(key="x", value=[SAID]),
    ContextRecord(params={"extra": {"user": SAID}}),
    Message(message=Reply(content=(ToolCall(id="t", name=SAID, input={}),))),
    Message(message=Reply(model=SAID)),
    Message(message=Reply(stop_reason=SAID)),
    Message(message=Note(custom_type=SAID)),
    ModelChange(model=SAID),
    Custom(custom_type=SAID),
    Failed(error=FaultReport(kind=SAID)),
    SendFailed(reply_id="x", error=FaultReport(message=SAID)),
]
# Ids, digests, addresses and names, and what is made of these; nothing that anybody says.
NOT_SAID = {
    *(
        "id",
        "parent_id",
        "turn_id",
        "call_id",
        "reply_id",
        "tool_call_id",
        "queued_id",
        "context_id",
        "from_id",
        "to_id",
    ),
    *("target_id", "attention_id", "first_kept_entry_id", "keep", "child_session", "parent", "timestamp", "seq", "v"),
    *(
        "context_digest",
        "request_digest",
        "input_digest",
        "digest",
        "system",
        "tools",
        "sources",
        "injected",
        "environment",
    ),
    *(
        "name",
        "agent",
        "sender",
        "app",
        "cwd",
        "provider",
        "model",
        "channel",
        "channels",
        "holder",
        "key",
    ),
    *("strategy", "trigger", "usage", "state", "policy", "settings", "intent"),
    # A session's title is cleared where the session is made, a fault's reason is a word of ours.
    *("title", "reason"),
}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.type)
def test_no_entry_holds_a_secret(body):
    """Law 14: wherever an entry can say something, a key is replaced by its mark, and nothing else is touched."""
    clean = cleared(body)
    assert KEY not in encode(clean).decode()
    assert MARK in encode(clean).decode()
    assert cleared(clean) is clean
    harmless = msgspec.json.decode(encode(body).replace(KEY.encode(), b"it"), type=type(body))
    assert cleared(harmless) is harmless


@pytest.mark.parametrize("kind", [*Link.__subclasses__(), *Fact.__subclasses__()], ids=lambda kind: kind.__name__)
def test_no_field_is_forgotten(kind):
    """Law 14: a field that is added is either looked through or known to hold nothing that anybody says."""
    plain = (int, bool, float, int | None, bool | None, float | None)
    fields = [field for field in msgspec.structs.fields(kind) if field.type not in plain]
    words = {field.name for field in fields if get_origin(field.type) is not Literal}
    assert words <= NOT_SAID | {name for name, _ in SAID_IN.get(kind, ())}


def test_what_was_bound_to_other_words_is_let_go():
    """A signature holds for the words as they came: a signed thought with a hit is gone, a bound text is unbound."""
    reply = cleared(BODIES[2]).message
    assert reply.content[0] == Text(text=f"use {MARK} now")
    assert cleared(BODIES[3]).message.content == (Thinking(thinking=f"use {MARK} now"),)


def sieved(deltas):
    sieve = Sieve()
    return [safe for delta in deltas for safe in sieve.take(delta)] + sieve.end()


@pytest.mark.parametrize("cut", range(1, len(SAID)))
def test_a_key_that_comes_in_pieces(cut):
    """Law 14: however it is cut over deltas, no piece of the key comes through, and the words around it do."""
    said = sieved([TextDelta(SAID[:cut]), TextDelta(SAID[cut:])])
    assert assemble(said) == (Text(text=f"use {MARK} now"),)
    thought = sieved([ThinkingDelta(SAID[:cut]), ThinkingDelta(SAID[cut:], "signed")])
    assert assemble(thought) == (Thinking(thinking=f"use {MARK} now"),)


def test_a_call_that_holds_one_is_marked():
    """DESIGN 5: whoever decides sees by the mark that the call may not be run."""
    (call,) = sieved([CallDelta("t", "curl", {"headers": {"x": SAID}}, {"id": "fc"})])
    assert call == CallDelta("t", "curl", {"headers": {"x": f"use {MARK} now"}}, None)
    assert holds_mark(call.input)
    assert holds_mark([{MARK: 1}])
    assert not holds_mark({"command": "echo '[redacted: ]' [redacted]", "n": 1, "x": None})


@given(st.lists(SPOKEN, max_size=8))
@example([TextDelta("0"), ThinkingDelta(""), TextDelta("", {"id": "m1"})])
def test_what_holds_none_comes_through_as_it_was(deltas):
    """RUN-8: signatures, bound ids, calls and their order: the same parts, whatever was held back for a while."""
    assert assemble(sieved(deltas)) == assemble(deltas)

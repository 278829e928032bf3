"""Law 14, LOG-13: no entry contains a secret, and text without a secret passes unchanged."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.decide.test_assembly import SPOKEN
from tests.redaction.secrets_made import MADE, Chance
from wakelog.decide.assembly import assemble_parts, to_deltas
from wakelog.decide.open_tool_calls import has_redaction_mark
from wakelog.log.codec import encode
from wakelog.log.content import (
    Image,
    Note,
    Prompt,
    Reply,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from wakelog.log.entry import (
    Activity,
    Attention,
    AttentionResolved,
    Cancelled,
    Compaction,
    ContextEntry,
    Custom,
    Failed,
    FaultReport,
    KnownBody,
    Label,
    Message,
    ModelChange,
    Partial,
    Queued,
    SendFailed,
    SessionRenamed,
    Setting,
    Terminated,
)
from wakelog.redaction.entries import EXEMPT, DeltaRedactor, redact_entry

WORD, MAKE = next(made for made in MADE if made[0] == "github-token")
KEY = MAKE(Chance(1))
MARK = f"[redacted: {WORD}]"
SAID = f"use {KEY} now"

BOUND_TEXT = Message(
    message=Reply(content=(Text(text=SAID, bound={"id": "m"}), ToolCall(id="t", name="x", input={"a": [SAID]})))
)
SIGNED_THINKING = Message(message=Reply(content=(Thinking(thinking=SAID, signature="s"), Thinking(thinking=SAID))))
BODIES: list[KnownBody] = [
    Message(message=Prompt(content=SAID)),
    Message(message=Prompt(content=(Text(text="hi"), Text(text=SAID)))),
    BOUND_TEXT,
    SIGNED_THINKING,
    Message(message=ToolResult(tool_call_id="t", content=(Text(text=SAID),))),
    Message(message=Note(content=SAID)),
    Queued(message=Prompt(content=SAID)),
    Activity(queue=(Queued(message=Prompt(content=SAID)),)),
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
    ContextEntry(params={"extra": {"user": SAID}}),
    Message(message=Reply(content=(ToolCall(id="t", name=SAID, input={}),))),
    Message(message=Reply(model=SAID)),
    Message(message=Reply(stop_reason=SAID)),
    Message(message=Note(custom_type=SAID)),
    ModelChange(model=SAID),
    Custom(custom_type=SAID),
    Failed(error=FaultReport(kind=SAID)),
    SendFailed(reply_id="x", error=FaultReport(message=SAID)),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.type)
def test_no_entry_contains_a_secret(body):
    """Law 14: in every field with text a key is replaced by its mark, and nothing else is changed."""
    clean = redact_entry(body)
    assert KEY not in encode(clean).decode()
    assert MARK in encode(clean).decode()
    assert redact_entry(clean) is clean
    harmless = msgspec.json.decode(encode(body).replace(KEY.encode(), b"it"), type=type(body))
    assert redact_entry(harmless) is harmless


def test_only_ids_and_digests_are_exempt():
    """Law 14: the strings that are not redacted are ids and digests, and nothing else can be exempt."""
    names = {name for fields in EXEMPT.values() for name in fields}
    ids = {name for name in names if name == "id" or name.endswith("_id")}
    references = {"session", "entry", "child_session", "keep", "copied_from", "head", "said"}
    assert names - ids - references == {"digest", "h", "hash", "context_digest", "request_digest", "input_digest"}


def test_bound_parts_with_a_hit_are_unbound_or_dropped():
    """Law 14: a signed thinking part with a hit is dropped, a bound text or call loses its bound data."""
    bound = {"id": "x"}
    clean = (
        Text(text="fine", bound=bound),
        Thinking(thinking="fine", signature="s"),
        ToolCall(id="1", name="read", input={"path": "x"}, bound=bound),
        Image(mime_type="image/png", data="AAAA"),
    )
    parts = (
        Text(text=KEY, bound=bound),
        Text(text="fine", bound={"annotations": [{"title": KEY}]}),
        Thinking(thinking=KEY, signature="s"),
        Thinking(thinking="fine", signature=KEY),
        Thinking(thinking=KEY, bound=bound),
        Thinking(thinking=KEY),
        ToolCall(id="2", name="write", input={"text": KEY}, bound=bound),
        ToolCall(id="3", name="write", input={}, bound={"id": KEY}),
    )
    assert redact_entry(Prompt(content=(*parts, *clean))).content == (
        Text(text=MARK),
        Text(text="fine"),
        Thinking(thinking=MARK),
        ToolCall(id="2", name="write", input={"text": MARK}, redacted=True),
        ToolCall(id="3", name="write", input={}),
        *clean,
    )


def test_redacted_text_loses_its_signature():
    """A signature is valid for the original text only: signed thinking is dropped, a bound text is unbound."""
    reply = redact_entry(BOUND_TEXT).message
    assert reply.content[0] == Text(text=f"use {MARK} now")
    assert redact_entry(SIGNED_THINKING).message.content == (Thinking(thinking=f"use {MARK} now"),)


def sieved(deltas):
    sieve = DeltaRedactor()
    return [safe for delta in deltas for safe in sieve.take(delta)] + sieve.end()


@pytest.mark.parametrize("cut", range(1, len(SAID)))
def test_a_key_in_pieces_is_redacted(cut):
    """Law 14: however it is split over deltas, no piece of the key passes, and the text around it does."""
    said = sieved([TextDelta(SAID[:cut]), TextDelta(SAID[cut:])])
    assert assemble_parts(said) == (Text(text=f"use {MARK} now"),)
    thought = sieved([ThinkingDelta(SAID[:cut]), ThinkingDelta(SAID[cut:], "signed")])
    assert assemble_parts(thought) == (Thinking(thinking=f"use {MARK} now"),)


def test_bound_data_of_a_delta_is_redacted():
    """Law 14: a signature, or data that a provider needs back, is in the journal, too."""
    said = sieved([TextDelta("hi", {"a": KEY}), ThinkingDelta("hm", KEY), ToolCallDelta("t", "x", {}, {"a": KEY})])
    assert said == [TextDelta("hi"), ThinkingDelta("hm"), ToolCallDelta("t", "x", {}, None)]


def test_a_call_with_a_secret_is_marked():
    """Law 14: the decision table knows a call whose input held a secret from one in which the model quotes a mark."""
    (call,) = sieved([ToolCallDelta("t", "curl", {"headers": {"x": SAID}}, {"id": "fc"})])
    assert call == ToolCallDelta("t", "curl", {"headers": {"x": f"use {MARK} now"}}, None, redacted=True)
    assert assemble_parts([call])[0].redacted
    assert to_deltas(assemble_parts([call])) == [call]
    (quoted,) = sieved([ToolCallDelta("t", "edit", {"old": MARK})])
    assert not quoted.redacted
    assert has_redaction_mark(call.input)
    assert has_redaction_mark([{MARK: 1}])
    assert not has_redaction_mark({"command": "echo '[redacted: ]' [redacted]", "n": 1, "x": None})


@given(st.lists(SPOKEN, max_size=8))
@example([TextDelta("0"), ThinkingDelta(""), TextDelta("", {"id": "m1"})])
def test_text_without_a_secret_passes_unchanged(deltas):
    """RUN-8: signatures, bound ids, calls and their order: the same parts, whatever was held back for a while."""
    assert assemble_parts(sieved(deltas)) == assemble_parts(deltas)

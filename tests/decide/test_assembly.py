"""From deltas to parts: however a reply is split into deltas, the same text makes the same parts (RUN-8, law 11)."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from wakelog.decide.assembly import ReplyDraft, assemble_parts, parts_from_journal, to_deltas
from wakelog.log.content import (
    ContentDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    decode_delta,
    encode_delta,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
BOUND = st.none() | st.just({"id": "m1"})
SPOKEN = st.one_of(
    st.builds(TextDelta, TEXTS, BOUND),
    st.builds(ThinkingDelta, TEXTS, st.none() | st.just("sig"), BOUND),
    st.builds(ToolCallDelta, st.sampled_from(["", "a", "b"]), st.just("tool"), st.just({"n": 1}), BOUND),
)


def test_adjacent_deltas_of_one_kind_are_one_part():
    """RUN-8: parts do not depend on how the text is split into deltas."""
    said = assemble_parts([ThinkingDelta("hm"), ThinkingDelta(""), TextDelta("a"), TextDelta("b"), TextDelta("")])
    assert said == (Thinking(thinking="hm"), Text(text="ab"))
    assert assemble_parts([TextDelta("")]) == assemble_parts([]) == ()


def test_a_signature_ends_a_thinking_part():
    """Two signed parts stay two: each signature is sent back with its own text."""
    said = assemble_parts([ThinkingDelta("one", "s1"), ThinkingDelta("two"), ThinkingDelta("", "s2")])
    assert said == (Thinking(thinking="one", signature="s1"), Thinking(thinking="two", signature="s2"))


def test_calls_get_unique_ids():
    """Law 7: a call is identified by reply and id, whatever ids a provider repeats or leaves out."""
    said = assemble_parts([ToolCallDelta(wanted, "tool") for wanted in ("t", "t", "", "", "t")])
    assert [part.id for part in said] == ["t", "t.2", "call", "call.2", "t.3"]


def test_a_resumed_reply_continues_its_text():
    """RUN-8: it continues in the same part, and its offsets continue, too."""
    draft = ReplyDraft("Hello, ")
    assert draft.chars == 7
    draft.add(TextDelta("world"))
    assert (draft.content, draft.chars) == ((Text(text="Hello, world"),), 12)


def test_reading_the_content_changes_nothing():
    """The content so far can be read at any time."""
    draft = ReplyDraft()
    for delta in (TextDelta("a"), TextDelta("b"), ThinkingDelta("c"), TextDelta("d")):
        draft.add(delta)
        assert draft.content == draft.content
    assert draft.content == (Text(text="ab"), Thinking(thinking="c"), Text(text="d"))


def test_a_journal_gives_the_same_parts():
    """Law 5: a displayed reply can be rebuilt; bytes that are not a delta are ignored."""
    deltas: list[ContentDelta] = [TextDelta("a\u2028b"), ToolCallDelta("t", "x", {"n": 1})]
    pieces = [*map(encode_delta, deltas), b"", b"{", b'{"type":"finished"}', b"\xff"]
    assert parts_from_journal(pieces, prior="0") == assemble_parts(deltas, prior="0")


@example([ThinkingDelta("one "), TextDelta(""), ThinkingDelta("thought")], 0)
@example([ThinkingDelta("one "), TextDelta("", {"id": "m1"}), ThinkingDelta("thought")], 0)
@given(st.lists(SPOKEN, max_size=12), st.integers(0, 12))
def test_reading_and_splitting_again_make_no_difference(deltas, at):
    """Law 11: the deltas made from the parts of a reply assemble to the same parts."""
    whole = assemble_parts(deltas)
    draft = ReplyDraft()
    for number, delta in enumerate(deltas):
        draft.add(delta)
        if number == at:
            _ = draft.content
    assert draft.content == whole
    assert assemble_parts(to_deltas(whole)) == whole
    assert draft.chars == sum(len(part.text) for part in whole if isinstance(part, Text))


@given(TEXTS, st.lists(st.integers(0, 12), max_size=5))
def test_any_split_of_a_text_makes_the_same_part(text, cuts):
    """RUN-8: the network decides where deltas end."""
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [TextDelta(text[a:b]) for a, b in pairwise(places)]
    assert assemble_parts(pieces) == ((Text(text=text),) if text else ())


def test_bound_data_ends_a_part():
    """VIEW-5: data that goes back to a provider stays with its own text, however it was split and read."""
    one, two = {"id": "m1"}, {"id": "m2", "phase": "final"}
    pieces: list[ContentDelta] = [TextDelta("a"), TextDelta("b", one), TextDelta("c"), TextDelta("", two)]
    pieces.append(ThinkingDelta("", None, one))
    whole = (Text(text="ab", bound=one), Text(text="c", bound=two), Thinking(bound=one))
    assert assemble_parts([*pieces, ToolCallDelta("t", "x", {}, two)]) == (
        *whole,
        ToolCall(id="t", name="x", input={}, bound=two),
    )
    draft = ReplyDraft()
    for piece in pieces:
        draft.add(piece)
        assert draft.content
    assert draft.content == whole
    assert assemble_parts(to_deltas(whole)) == whole
    assert [decode_delta(encode_delta(piece)) for piece in pieces] == pieces


def test_a_part_without_text_is_dropped_with_its_bound_data():
    """Whatever id its provider gave it."""
    assert assemble_parts([TextDelta("", {"id": "m1"})]) == ()

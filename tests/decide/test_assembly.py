"""From deltas to parts: however an answer is cut, the same words make the same reply (RUN-8, law 11)."""

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


def test_pieces_beside_each_other_are_one_part():
    """RUN-8: a part is what was said in one go, not what came in one piece."""
    said = assemble_parts([ThinkingDelta("hm"), ThinkingDelta(""), TextDelta("a"), TextDelta("b"), TextDelta("")])
    assert said == (Thinking(thinking="hm"), Text(text="ab"))
    assert assemble_parts([TextDelta("")]) == assemble_parts([]) == ()


def test_a_signature_ends_a_thought():
    """Two signed thoughts stay two: each signature goes back with its own words."""
    said = assemble_parts([ThinkingDelta("one", "s1"), ThinkingDelta("two"), ThinkingDelta("", "s2")])
    assert said == (Thinking(thinking="one", signature="s1"), Thinking(thinking="two", signature="s2"))


def test_calls_get_ids_of_their_own():
    """Law 7: a call is found by (reply, id) ever after, whatever a provider repeats or leaves out."""
    said = assemble_parts([ToolCallDelta(wanted, "tool") for wanted in ("t", "t", "", "", "t")])
    assert [part.id for part in said] == ["t", "t.2", "call", "call.2", "t.3"]


def test_what_was_said_before_stands_before():
    """RUN-8: a resumed reply goes on in the same part, and its offsets behind it."""
    draft = ReplyDraft("Hello, ")
    assert draft.chars == 7
    draft.add(TextDelta("world"))
    assert (draft.content, draft.chars) == ((Text(text="Hello, world"),), 12)


def test_looking_changes_nothing():
    """The content so far can be asked for at any time."""
    draft = ReplyDraft()
    for delta in (TextDelta("a"), TextDelta("b"), ThinkingDelta("c"), TextDelta("d")):
        draft.add(delta)
        assert draft.content == draft.content
    assert draft.content == (Text(text="ab"), Thinking(thinking="c"), Text(text="d"))


def test_a_journal_is_the_same_pieces():
    """Law 5: what was shown can be told again; bytes that are no piece were written by nobody."""
    deltas: list[ContentDelta] = [TextDelta("a\u2028b"), ToolCallDelta("t", "x", {"n": 1})]
    pieces = [*map(encode_delta, deltas), b"", b"{", b'{"type":"finished"}', b"\xff"]
    assert parts_from_journal(pieces, prior="0") == assemble_parts(deltas, prior="0")


@example([ThinkingDelta("one "), TextDelta(""), ThinkingDelta("thought")], 0)
@example([ThinkingDelta("one "), TextDelta("", {"id": "m1"}), ThinkingDelta("thought")], 0)
@given(st.lists(SPOKEN, max_size=12), st.integers(0, 12))
def test_where_it_is_looked_at_or_taken_apart_makes_no_difference(deltas, at):
    """Law 11: a reply that is told again from its parts has the same parts."""
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
def test_any_cut_of_a_text_makes_the_same_part(text, cuts):
    """RUN-8: deltas are an accident of the network."""
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [TextDelta(text[a:b]) for a, b in pairwise(places)]
    assert assemble_parts(pieces) == ((Text(text=text),) if text else ())


def test_what_is_bound_ends_a_part():
    """VIEW-5: what goes back to a provider stays with its own words, however they came and whoever looked meanwhile."""
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


def test_nothing_said_is_nothing_bound():
    """A part without words is none, whatever its provider calls it."""
    assert assemble_parts([TextDelta("", {"id": "m1"})]) == ()

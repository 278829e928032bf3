"""Server-sent events: the same however the bytes were cut, and the same as the SDK's own decoder finds."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai._streaming import SSEDecoder

from wakelog.providers.event_stream import EventParser, decode_event
from wakelog.providers.openai.chat import Chunk

LINES = st.one_of(
    st.sampled_from(["", "", "data", "data:", "data: ", ": ping", "event: x", "id: 1", "retry: 3", "data:  two"]),
    st.text(alphabet="ab: \u2028\x85\x0b🙂", max_size=6).map(lambda text: "data: " + text),
)
ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(LINES, ENDS), max_size=14), st.lists(st.integers(0, 200), max_size=6))
def test_as_the_sdk_decodes(lines, cuts):
    """Judged by the SDK's decoder, event by event; a last CR may be half of an end and is left out of the judgement."""
    stream = "".join(text + end for text, end in lines).encode() + b"\n"
    places = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    chunks = [stream[a:b] for a, b in pairwise(places)]
    events = EventParser()
    ours = [event.decode() for chunk in chunks for event in events.feed(chunk)]
    judged = [sse.data for sse in SSEDecoder().iter_bytes(iter([stream]))]
    assert ours == [text for text in judged if text]


def test_an_event_that_was_not_ended_was_not_sent():
    events = EventParser()
    assert list(events.feed(b"data: one\n\ndata: tw")) == [b"one"]
    assert list(events.feed(b"o\n")) == []
    assert list(events.feed(b"\n")) == [b"two"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb'"\ud83d\ude42"', "🙂"),
        (rb'"a\ud83d"', "a\ufffd"),
        (rb'"\ude42b"', "\ufffdb"),
    ],
)
def test_half_a_surrogate_pair_can_be_stored(text, read):
    chunk = decode_event(b'{"choices":[{"delta":{"content":' + text + b"}}]}", Chunk)
    [choice] = chunk.choices or []
    assert choice.delta.content == read
    assert read.encode()


@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b"3", b"[" * 100_000, b'{"id":' * 100_000, b"\xff", b'{"id": 3}'])
def test_what_makes_no_sense(bad):
    with pytest.raises(ValueError):
        decode_event(bad, Chunk)

"""A reply as it comes over a real socket: what we make of the bytes is what the SDK makes of them."""

import asyncio
import gc
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loopback import CUT, Answer, Hold, Loopback, events
from tests.providers.anthropic.speaking import (
    KEY,
    PING,
    STREAMED,
    answer,
    block,
    call,
    ended,
    heard,
    judged,
    parts_of,
    provider,
    redacted,
    reply,
    started,
    text,
    thought,
)
from tests.providers.asking import request
from wakelog.log.content import Faulted, Finished, Text, TextDelta, Thinking, ToolCall, Usage
from wakelog.providers.anthropic.messages import MESSAGES
from wakelog.providers.http_provider import HttpProvider

SEALED = Thinking(bound={"type": "redacted_thinking", "data": "Sm9rZQ=="})
READ = ToolCall(id="toolu_1", name="read", input={"path": "ä.txt", "deep": {"n": [1, 2.5, None]}})
READ_PIECES = ("", '{"path": "ä', '.txt", "de', 'ep": {"n": [1, 2.5, null]}}')
UNKNOWN = {"type": "weather_report", "index": 0, "mood": "fine"}


@pytest.fixture(scope="module")
def server():
    with Loopback() as running:
        yield running


def both(server, told):
    """The same bytes, heard by us and judged by the SDK."""
    server.play(answer(*told), answer(*told))
    parts, end = heard(provider(server), request())
    message = judged(server)
    assert parts == parts_of(message)
    return parts, end, message


# ── whole replies ────────────────────────────────────────────────────────────────────────────────

REPLIES = {
    "text": (reply(text(0, "Hel", "", "lo")), (Text(text="Hello"),)),
    "nothing": (reply(), ()),
    "no words": (reply(text(0, "")), ()),
    "thinking": (
        reply(thought(0, "Let me ", "see", signature="a+b/c=="), text(1, "So.")),
        (Thinking(thinking="Let me see", signature="a+b/c=="), Text(text="So.")),
    ),
    "a signature alone": (reply(thought(0), text(1, "So.")), (Thinking(signature="sig=="), Text(text="So."))),
    "sealed thoughts": (reply(redacted(0), thought(1, "x"), redacted(2), text(3, "y")), None),
    "a call": (reply(text(0, "I look."), call(1, "toolu_1", "read", *READ_PIECES), stop="tool_use"), None),
    "calls at once": (
        reply(
            thought(0, "both"),
            call(1, "toolu_1", "read", *READ_PIECES),
            call(2, "toolu_2", "list"),
            stop="tool_use",
        ),
        (Thinking(thinking="both", signature="sig=="), READ, ToolCall(id="toolu_2", name="list", input={})),
    ),
    "text beside text": (reply(text(0, "one "), text(1, "two")), (Text(text="one two"),)),
    "signs of life": ([PING, started(), PING, *text(0, "x"), PING, *ended()], (Text(text="x"),)),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies(server, name):
    """RUN-8: text, thoughts with their signatures, and calls come out as the SDK has them."""
    told, expected = REPLIES[name]
    parts, end, message = both(server, told)
    assert expected is None or parts == expected
    assert isinstance(end, Finished)
    assert (end.request_id, end.usage) == ("req_1", Usage(input_tokens=10, output_tokens=7))
    assert message.usage.output_tokens == 7


@pytest.mark.parametrize(
    ("stop", "word"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("tool_use", "tools"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("tomorrows_reason", "tomorrows_reason"),
    ],
)
def test_stop_reasons(server, stop, word):
    """RUN-8: one word for each reason, whoever the provider is; what nobody knows stays as it was said."""
    _, end, message = both(server, reply(text(0, "x"), stop=stop))
    assert (end.stop_reason, message.stop_reason) == (word, stop)


def test_counts_are_totals(server):
    """Usage: what is said later replaces what was said before, and is never added to it."""
    told = [
        started(input_tokens=3, cache_creation_input_tokens=40, cache_read_input_tokens=500),
        *text(0, "x"),
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 4}},
        *ended(output_tokens=9, cache_read_input_tokens=600, input_tokens=None),
    ]
    _, end, message = both(server, told)
    assert end.usage == Usage(input_tokens=3, output_tokens=9, cache_read_tokens=600, cache_write_tokens=40)
    assert message.usage.cache_read_input_tokens == 600


_WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | _WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(_WORDS, inner),
    max_leaves=5,
)


@st.composite
def _blocks(draw):
    """A reply of random blocks, cut at random places."""
    told = []
    for at in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["text", "thought", "sealed", "call"])):
            case "text":
                told += text(at, *draw(st.lists(_WORDS, max_size=3)))
            case "thought":
                told += thought(at, *draw(st.lists(_WORDS, max_size=3)), signature=draw(st.sampled_from(["s=", "t"])))
            case "sealed":
                told += redacted(at, draw(st.sampled_from(["a", "b"])))
            case "call":
                told += _call(draw, at)
        told += draw(st.sampled_from([[], [PING]]))
    return reply(told)


def _call(draw, at):
    written = json.dumps(draw(st.dictionaries(_WORDS, _JSON, max_size=3)), ensure_ascii=draw(st.booleans()))
    cut = draw(st.integers(0, len(written)))
    return call(at, f"toolu_{at}", "tool", written[:cut], written[cut:])


@settings(max_examples=25, deadline=None)
@given(told=_blocks())
def test_random_replies(server, told):
    """RUN-8: whatever a reply is made of and however it is cut, we and the SDK have the same."""
    _, end, _ = both(server, told)
    assert isinstance(end, Finished)


# ── replies that go wrong ────────────────────────────────────────────────────────────────────────


def _event(**keys):
    return {"type": "content_block_delta", "index": 0, **keys}


BROKEN = {
    "not JSON": [b"event: content_block_delta\ndata: {oops\n\n"],
    "no object": [b"event: content_block_delta\ndata: [1]\n\n"],
    "no type": [b'data: {"index": 0}\n\n'],
    "no such block": events({"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "x"}}),
    "no text": events(_event(delta={"type": "text_delta"})),
    "text that is none": events(_event(delta={"type": "text_delta", "text": 7})),
    "no delta": events(_event()),
    "a block without a type": events({"type": "content_block_start", "index": 1, "content_block": {}}),
    "a call without a name": events(
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "x"}}
    ),
    "a stop of nothing": events({"type": "content_block_stop", "index": 4}),
    "a reason that is none": events({"type": "message_delta", "delta": {"stop_reason": {"a": 1}}}),
    "not UTF-8": [b'data: {"type": "\xff"}\n\n'],
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_events(server, name):
    """RUN-8: an event that is not as it should be ends the reply; what came before it is kept."""
    opened = events(started(), *text(0, "so far")[:-1])
    server.play(Answer([*opened, *BROKEN[name], *events(*ended())], headers=STREAMED))
    parts, end = heard(provider(server), request())
    assert parts == (Text(text="so far"),)
    assert end == Faulted("malformed", "what the server sent cannot be understood", retryable=True)


def test_strangers_are_stepped_over(server):
    """RUN-8: events, blocks and pieces of types that nobody knows yet change nothing."""
    told = [
        started(),
        UNKNOWN,
        *block(0, {"type": "hologram", "light": 1}, {"type": "light_delta", "more": 2}),
        *text(1, "plain"),
        *block(2, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": {}}, {"type": "x_delta"}),
        UNKNOWN,
        *ended(),
    ]
    server.play(answer(*told))
    assert heard(provider(server), request()) == (
        (Text(text="plain"),),
        Finished("stop", usage=Usage(input_tokens=10, output_tokens=7), request_id="req_1"),
    )


@pytest.mark.parametrize("stop", ["tool_use", "end_turn"])
def test_half_a_call_is_no_call(server, stop):
    """RUN-8: a call whose input never became JSON is left out, and the reply is asked for again."""
    server.play(answer(*reply(text(0, "I look."), call(1, "toolu_1", "read", '{"path": "a'), stop=stop)))
    parts, end = heard(provider(server), request())
    assert (parts, end.kind, end.retryable) == ((Text(text="I look."),), "malformed", True)


@pytest.mark.parametrize(("stop", "word"), [("max_tokens", "length"), ("refusal", "refusal")])
def test_half_a_call_of_a_reply_that_was_stopped(server, stop, word):
    """RUN-8: where the model was stopped, asking again would stop it there again: what there is, is the reply."""
    server.play(answer(*reply(text(0, "I look."), call(1, "toolu_1", "read", '{"path": "a'), stop=stop)))
    parts, end = heard(provider(server), request())
    assert (parts, end.stop_reason) == ((Text(text="I look."),), word)


def test_an_unsigned_thought_is_not_signed_by_the_next(server):
    """RUN-8: two thoughts are two parts, and a signature belongs to its own."""
    server.play(answer(*reply(thought(0, "a", signature=""), thought(1, "b", signature="s"), text(2, "c"))))
    parts, _ = heard(provider(server), request())
    assert [(part.thinking, part.signature) for part in parts[:2]] == [("a", None), ("b", "s")]


def test_a_dropped_connection(server):
    """RUN-8: the words that came are kept, and half a call is not."""
    begun = events(started(), *text(0, "so far"), *call(1, "toolu_1", "pay", '{"amount": 7}')[:-1])
    server.play(Answer([*begun, CUT], headers=STREAMED))
    parts, end = heard(provider(server), request())
    assert parts == (Text(text="so far"),)
    assert end == Faulted("cut", "the reply ended before it was finished", retryable=True)


def test_a_stream_that_ends_early(server):
    """RUN-8: an orderly end of the connection is no end of a reply."""
    server.play(Answer(events(started(), *text(0, "so far")), headers=STREAMED))
    assert heard(provider(server), request())[1].kind == "cut"


def test_only_the_last_event_is_missing(server):
    """RUN-8: all that counts had come, so nobody is asked, and paid, twice."""
    server.play(Answer(events(*reply(text(0, "whole"))[:-1]), headers=STREAMED))
    assert heard(provider(server), request()) == (
        (Text(text="whole"),),
        Finished("stop", usage=Usage(input_tokens=10, output_tokens=7), request_id="req_1"),
    )


def test_something_that_is_no_stream(server):
    server.play(Answer([b"<html>Please log in</html>"], headers={"content-type": "text/html"}))
    assert heard(provider(server), request())[1].kind == "malformed"


def test_an_error_in_the_middle(server):
    """RUN-8: a server that fails behind its 200 is told apart as if it had failed at once."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.play(answer(started(), *text(0, "so ", "far")[:-1], error))
    parts, end = heard(provider(server), request())
    assert parts == (Text(text="so far"),)
    assert end == Faulted("overloaded", "the server has too much to do: Overloaded", retryable=True)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_slow_stream_is_heard_as_it_comes(server):
    """RUN-8: words are passed on before the rest is there."""
    gate, reached = threading.Event(), threading.Event()
    first, rest = events(started(), *text(0, "one", " two"))[:3], events(*text(0, "one", " two")[2:], *ended())
    server.play(Answer([*first, Hold(gate, reached), *rest], headers=STREAMED))

    async def listen():
        said = []
        async for delta in provider(server).stream(request()):
            said.append(delta)
            # It could not have come from behind the gate.
            gate.set()
        return said

    said = asyncio.run(listen())
    assert said[:2] == [TextDelta("one"), TextDelta(" two")]
    assert isinstance(said[-1], Finished)


def test_a_silent_server(server):
    """RUN-8: a server that says nothing for too long is given up."""
    gate = threading.Event()
    server.play(Answer([*events(started(), *text(0, "one"))[:3], Hold(gate)], headers=STREAMED))
    parts, end = heard(provider(server, idle_timeout_s=0.1), request())
    gate.set()
    assert parts == (Text(text="one"),)
    assert end == Faulted("timeout", f"{server.url.removeprefix('http://')} took too long", retryable=True)


def test_a_listener_who_leaves(server):
    """Law 5: whoever is cancelled in the middle leaves nothing open behind."""
    gate, reached = threading.Event(), threading.Event()
    server.play(Answer([*events(started(), *text(0, "one"))[:3], Hold(gate, reached)], headers=STREAMED))

    async def listen():
        async for _ in provider(server).stream(request()):
            pass

    async def leave():
        task = asyncio.ensure_future(listen())
        await asyncio.to_thread(reached.wait, 10)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(leave())
    gate.set()


def test_a_listener_who_stops_listening(server):
    """RUN-8: a reply that nobody wants to hear to its end leaves nothing open either."""
    gate = threading.Event()
    server.play(Answer([*events(started(), *text(0, "one"))[:3], Hold(gate)], headers=STREAMED))

    async def listen():
        async for delta in provider(server).stream(request()):
            return delta
        return None

    assert asyncio.run(listen()) == TextDelta("one")
    gc.collect()
    gate.set()


# ── what is sent ─────────────────────────────────────────────────────────────────────────────────


def test_what_goes_out(server):
    """The key is in one header and nowhere else; what the SDK has no name for goes out all the same."""
    server.play(answer(*reply(text(0, "x"))))
    heard(provider(server), request(params={"temperature": 0.5, "extra": {"top_k": 3}}, system="Be brief."))
    asked = server.asked[-1]
    assert asked.path == "/v1/messages"
    assert len([name for name, value in asked.headers.items() if KEY in value]) == 1
    assert KEY.encode() not in asked.body
    assert {"model": "m", "temperature": 0.5, "top_k": 3, "stream": True}.items() <= asked.json.items()


def test_the_endpoint_wins(server):
    """Params: `endpoint` wins over the environment."""
    server.play(answer(*reply(text(0, "x"))))
    nowhere = HttpProvider(MESSAGES, environ={"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"})
    assert isinstance(heard(nowhere, request(params={"endpoint": server.url}))[1], Finished)


def test_nothing_is_continued(server):
    """RUN-8: the wire has no way to go on with a reply, and nobody is asked to."""
    before = len(server.asked)
    assert provider(server).can_resume is False
    assert heard(provider(server), request(prefill="So far"))[1].kind == "cannot_resume"
    assert len(server.asked) == before

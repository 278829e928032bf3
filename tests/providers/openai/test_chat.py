"""Chat Completions on a real socket: what comes is what the SDK's accumulator says came, and what other servers do."""

import asyncio
import threading

import pytest

from tests.loopback import CUT, Answer, Hold
from tests.providers.asking import deltas, request, user
from tests.providers.openai.asking import (
    as_reply,
    calls,
    final_completion,
    picture,
    requested,
    said_by,
    serving,
    texts,
    thoughts,
)
from tests.providers.openai.wire import (
    CHAT_USAGE,
    HEADERS,
    called,
    chat_acts,
    chat_answer,
    chat_reply,
    chunk,
    error_answer,
)
from wakelog.log.content import Finished, Text, Thinking, ToolCall, Usage
from wakelog.projections.context import ContextMessage
from wakelog.providers.http_provider import HttpProvider
from wakelog.providers.openai.chat import CHAT
from wakelog.providers.openai.chat_request import request_body
from wakelog.providers.requests import Params

TWO = (("call_a", "look", '{"where":"north"}'), ("call_b", "look", '{"where": "süd", "n": 1}'))
REPLIES = {
    "text": {"text": "Grüße, 日本 🙂"},
    "thoughts": {"thoughts": "Hm, let me see.", "text": "So it is."},
    "thoughts in the other field": {"thoughts": "Hm, let me see.", "text": "So it is.", "field": "reasoning"},
    "parallel calls": {"text": "I look.", "calls": TWO},
    "calls alone": {"calls": TWO[:1]},
    "cut by its length": {"text": "So far", "finish": "length"},
    "without usage": {"text": "Hi", "usage": None},
}


def _wire(*messages, **more):
    return request_body(request(*messages, **more), Params(), is_openai=False)


def _result(call_id, *content):
    return ContextMessage(role="toolResult", content=content, tool_call_id=call_id, tool_name="look")


@pytest.mark.parametrize("told", REPLIES.values(), ids=REPLIES)
def test_a_reply_agrees_with_the_sdk_and_goes_back_as_it_came(told):
    """RUN-8, VIEW-5: text, calls and reasoning; the arguments to the last blank."""
    judged = final_completion(chat_reply(**told)).choices[0].message
    parts, end = said_by("openai-chat", chat_reply(**told))
    field = told.get("field", "reasoning_content")
    assert "".join(texts(parts)) == judged.content
    assert "".join(thoughts(parts)) == (getattr(judged, field, None) or "")
    assert isinstance(end, Finished)
    results = [_result(call_id, Text(text="seen")) for call_id, _, _ in calls(parts)]
    (back, *_) = _wire(user("hi"), as_reply(parts, "openai-chat", "m"), *results)["messages"][1:]
    assert back["content"] == (judged.content or None)
    assert back.get(field, "") == told.get("thoughts", "")
    sent = [
        (each["id"], each["function"]["name"], each["function"]["arguments"]) for each in back.get("tool_calls", [])
    ]
    assert sent == [(each.id, each.function.name, each.function.arguments) for each in judged.tool_calls or []]


@pytest.mark.parametrize(
    ("told", "word"),
    [
        ({"text": "Hi"}, "stop"),
        ({"calls": TWO}, "tools"),
        ({"calls": TWO, "finish": "stop"}, "tools"),
        ({"text": "Hi", "finish": "length"}, "length"),
        ({"text": "Hi", "finish": "content_filter"}, "filtered"),
        ({"text": "Hi", "finish": "eos"}, "eos"),
    ],
)
def test_the_end_of_a_reply(told, word):
    _, end = said_by("openai-chat", chat_reply(**told))
    assert end == Finished(word, Usage(input_tokens=40, cache_read_tokens=60, output_tokens=20), "req_1")


def test_a_refusal_is_kept_as_text():
    parts, end = said_by("openai-chat", chat_answer(chunk({"refusal": "I will "}), chunk({"refusal": "not."}, "stop")))
    assert (texts(parts), end.stop_reason) == (["I will not."], "refusal")


# ── other servers ────────────────────────────────────────────────────────────────────────────────

NORTH, SOUTH = '{"where": "north"}', '{"where": "south"}'
QUIRKS = {
    "every index is 0, the ids differ": [
        [called(0, "a", "look", NORTH)],
        [called(0, "b", "look", SOUTH)],
    ],
    "every index is 0, the ids differ, in pieces": [
        [called(0, "a", "look", "")],
        [called(0, None, None, NORTH)],
        [called(0, "b", "look", "")],
        [called(0, None, None, SOUTH)],
    ],
    "whole calls, no index": [[called(None, "a", "look", NORTH), called(None, "b", "look", SOUTH)]],
    "whole calls, no index, no id": [[called(None, None, "look", NORTH)], [called(None, None, "look", SOUTH)]],
    "whole calls, every index is 0, no id": [[called(0, None, "look", NORTH)], [called(0, None, "look", SOUTH)]],
    "pieces by id, no index": [
        [called(None, "a", "look", NORTH[:5])],
        [called(None, "b", "look", SOUTH[:5])],
        [called(None, "a", None, NORTH[5:])],
        [called(None, "b", None, SOUTH[5:])],
    ],
    "pieces without anything go on with the last": [
        [called(None, "a", "look", NORTH[:5])],
        [called(None, None, None, NORTH[5:])],
        [called(None, "b", "look", SOUTH[:5])],
        [called(None, None, None, SOUTH[5:])],
    ],
    "id and name are repeated in every piece": [
        [called(0, "a", "look", NORTH[:5])],
        [called(0, "a", "look", NORTH[5:])],
        [called(1, "b", "look", SOUTH[:5])],
        [called(1, "b", "look", SOUTH[5:])],
        [called(1, "b", "look", "")],
    ],
    "the name is repeated, and no id comes at all": [
        [called(0, None, "look", NORTH[:5])],
        [called(0, None, "look", NORTH[5:])],
        [called(1, None, "look", SOUTH[:5])],
        [called(1, None, "look", SOUTH[5:])],
    ],
    "the input is an object": [
        [called(0, "a", "look", {"where": "north"}), called(1, "b", "look", {"where": "south"})]
    ],
    "pieces of both in one chunk, the last first": [
        [called(0, "a", "look", NORTH[:5]), called(1, "b", "look", SOUTH[:5])],
        [called(1, None, None, SOUTH[5:]), called(0, None, None, NORTH[5:])],
    ],
}


@pytest.mark.parametrize("pieces", QUIRKS.values(), ids=QUIRKS)
def test_calls_are_told_apart(pieces):
    told = [chunk({"tool_calls": each}) for each in pieces]
    parts, end = said_by("openai-chat", chat_answer(*told, chunk(finish="tool_calls")))
    assert end.stop_reason == "tools"
    assert [(name, given) for _, name, given in calls(parts)] == [
        ("look", {"where": "north"}),
        ("look", {"where": "south"}),
    ]
    ids = [call_id for call_id, _, _ in calls(parts)]
    assert ids in (["a", "b"], ["call_0_0", "call_0_1"])


@pytest.mark.parametrize("text", ["", "{}", " "])
def test_a_call_without_an_input(text):
    parts, _ = said_by("openai-chat", chat_reply(calls=[("a", "look", text)]))
    assert calls(parts) == [("a", "look", {})]


def test_an_id_of_our_own_is_new_in_the_branch():
    """A call is found by its id ever after."""
    parts, _ = said_by(
        "openai-chat", chat_answer(chunk({"tool_calls": [called(0, None, "look", NORTH)]}, "stop")), answers=7
    )
    assert calls(parts)[0][0] == "call_7_0"


@pytest.mark.parametrize(
    ("acts", "word"),
    [
        (chat_acts(chunk({"content": "Hi"})), "stop"),
        (chat_acts(chunk({"content": "Hi"}), chunk(finish="stop"), done=False), "stop"),
        ([*chat_acts(chunk({"content": "Hi"}), chunk(finish="stop"), done=False), CUT], "stop"),
        (chat_acts(chunk({"content": "Hi"}, ""), chunk({}, None)), "stop"),
        (chat_acts({"id": None, "choices": None}, {"choices": [{"delta": None}]}, chunk({"content": "Hi"})), "stop"),
        (chat_acts({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}), "stop"),
        (chat_acts(chunk({"content": "Hi", "reasoning": None, "tool_calls": None}), chunk(usage=None)), "stop"),
    ],
    ids=["no reason", "no DONE", "cut behind the reason", "empty reason", "empty choices", "message", "nulls"],
)
def test_what_servers_leave_out(acts, word):
    """All had been said where a reason came, or the last line; nothing else is asked for."""
    parts, end = said_by("openai-chat", Answer(acts))
    assert (texts(parts), end.stop_reason, end.usage) == (["Hi"], word, None)


def test_usage_is_told_anew_each_time():
    half = {"prompt_tokens": 100, "completion_tokens": 1}
    told = [chunk({"content": "Hi"}, usage=half), chunk(finish="stop", usage=CHAT_USAGE)]
    _, end = said_by("openai-chat", chat_answer(*told))
    assert end.usage == Usage(input_tokens=40, cache_read_tokens=60, output_tokens=20)


# ── what can go wrong ────────────────────────────────────────────────────────────────────────────

SO_FAR = chat_acts(chunk({"content": "So far"}), done=False)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "x", "type": "server_error"}, "server", True),
        ({"message": "busy", "code": 429}, "rate_limited", True),
        ({"message": "upstream", "code": 502}, "server", True),
        ({"message": "bad", "code": 400}, "bad_request", False),
        ("something broke", "server", True),
    ],
)
def test_an_error_in_the_middle(error, kind, retryable):
    parts, end = said_by("openai-chat", Answer([*SO_FAR, *chat_acts({"error": error})]))
    assert (texts(parts), end.kind, end.retryable) == (["So far"], kind, retryable)


@pytest.mark.parametrize("ending", [[CUT], []], ids=["the connection drops", "the stream just ends"])
def test_a_stream_that_is_cut(ending):
    parts, end = said_by("openai-chat", Answer([*SO_FAR, *ending]))
    assert (texts(parts), end.kind, end.retryable) == (["So far"], "cut", True)


@pytest.mark.parametrize(
    "bad", [b"{no json", b"[1]", b'{"choices": 3}', b"\xff", b'{"choices": [{"delta": {"content": 1}}]}']
)
def test_a_malformed_chunk(bad):
    parts, end = said_by("openai-chat", Answer([*SO_FAR, b"data: " + bad + b"\n\n", *chat_acts()]))
    assert (texts(parts), end.kind, end.retryable) == (["So far"], "malformed", True)


def test_half_a_call():
    """It is left out: behind a length stop quietly, else the reply is no reply."""
    half = (TWO[0], ("call_b", "look", '{"where":'))
    parts, end = said_by("openai-chat", chat_reply(calls=half, finish="length"))
    assert ([each for each, _, _ in calls(parts)], end.stop_reason) == (["call_a"], "length")
    parts, end = said_by("openai-chat", chat_reply(calls=half))
    assert ([each for each, _, _ in calls(parts)], end.kind) == (["call_a"], "malformed")


def test_a_slow_stream_is_told_as_it_comes():
    """RUN-8: a piece is there before the next one is sent."""
    gate, heard = threading.Event(), []
    acts = [*SO_FAR, Hold(gate), *chat_acts(chunk({"content": ", so good"}, "stop"))]

    async def listen(server):
        async for delta in HttpProvider(CHAT).stream(requested(server)):
            heard.append(delta)
            gate.set()

    with serving(Answer(acts, headers=HEADERS)) as server:
        asyncio.run(listen(server))
    assert "".join(delta.text for delta in heard[:-1]) == "So far, so good"


def test_silence_is_a_fault():
    gate = threading.Event()
    with serving(Answer([*SO_FAR, Hold(gate)])) as server:
        told = deltas(HttpProvider(CHAT, idle_timeout_s=0.2), requested(server))
        gate.set()
    assert (told[-1].kind, told[-1].retryable) == ("timeout", True)


def test_what_the_server_refuses():
    _, end = said_by("openai-chat", error_answer(400, "context_length_exceeded"))
    assert (end.kind, end.retryable) == ("context_overflow", False)


# ── the request ──────────────────────────────────────────────────────────────────────────────────


def test_a_request_on_the_wire():
    """The path, one try, and a body that is exactly what was planned: nothing that only OpenAI knows."""
    with serving(chat_reply("Hi")) as server:
        asked = requested(
            server,
            user("hi"),
            system="Be brief.",
            tools=({"name": "look", "description": "Looks.", "schema": {"type": "object"}, "replay": "safe"},),
            injected=("It is Monday.", "It rains."),
            params={
                "maxTokens": 99,
                "temperature": 0.5,
                "effort": "high",
                "extra": {"stream_options": None, "top_k": 3},
            },
        )
        deltas(HttpProvider(CHAT), asked)
    (sent,) = server.asked
    assert (sent.path, sent.headers["authorization"]) == ("/v1/chat/completions", "Bearer none")
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}, "strict": False}
    assert sent.json == {
        "model": "gpt-5",
        "stream": True,
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi\n\nIt is Monday.\n\nIt rains."},
        ],
        "max_tokens": 99,
        "temperature": 0.5,
        "reasoning_effort": "high",
        "top_k": 3,
    }


def test_what_is_injected_takes_no_turn_of_its_own():
    """Many models' templates want roles to take turns: it ends the user's message; behind others it is a message."""
    said = [*_wire(user("hi"), as_reply([Text(text="yes")], "x"), user("go"))["messages"]]
    told = request_body(request(user("hi"), injected=("now",)), Params(), is_openai=False)["messages"]
    assert told == [{"role": "user", "content": "hi\n\nnow"}]
    seen = user("look").__class__(role="user", content=(Text(text="look"), picture()))
    (shown,) = request_body(request(seen, injected=("now",)), Params(), is_openai=False)["messages"]
    assert shown["content"][-1] == {"type": "text", "text": "now"}
    behind = request_body(
        request(user("hi"), as_reply([Text(text="yes")], "x"), injected=("now",)), Params(), is_openai=False
    )
    assert behind["messages"] == [*said[:2], {"role": "user", "content": "now"}]


def test_openai_itself_has_names_of_its_own():
    body = request_body(request(user("hi")), Params(max_tokens=9), is_openai=True)
    assert body["max_completion_tokens"] == 9
    assert body["prompt_cache_key"].startswith("wakelog-")
    assert body["stream_options"] == {"include_usage": True}


def test_pictures_and_results():
    """Results stand right behind their calls, each a message of its own; what they show comes behind them."""
    reply = as_reply([ToolCall(id="a", name="look", input={}), ToolCall(id="b", name="look", input={})], "x")
    seen = user("look").__class__(role="user", content=(Text(text="look"), picture()))
    told = _wire(seen, reply, _result("a", Text(text="A"), picture("QQ==")), _result("b", Text(text="B")), user("go"))
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert told["messages"][0] == {"role": "user", "content": [{"type": "text", "text": "look"}, url]}
    assert [(each["role"], each.get("tool_call_id")) for each in told["messages"][1:]] == [
        ("assistant", None),
        ("tool", "a"),
        ("tool", "b"),
        ("user", None),
        ("user", None),
    ]
    assert told["messages"][4]["content"][0]["image_url"]["url"] == "data:image/png;base64,QQ=="


def test_thoughts_of_others_stay_away():
    """They go back to the model they came from, unless they are not to."""
    said = [Thinking(thinking="Hm."), Text(text="Yes.")]
    for provider, model, params in [
        ("openai", "m", Params()),
        ("openai-chat", "n", Params()),
        ("openai-chat", "m", Params(thinking="drop")),
    ]:
        body = request_body(request(as_reply(said, provider, model)), params, is_openai=False)
        assert body["messages"] == [{"role": "assistant", "content": "Yes."}]
    assert _wire(as_reply(said, "openai-chat", "m"))["messages"][0]["reasoning_content"] == "Hm."
    assert _wire(user("hi"), as_reply(said[:1], "other"))["messages"] == [{"role": "user", "content": "hi"}]

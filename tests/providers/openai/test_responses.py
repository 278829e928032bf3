"""The Responses API on a real socket: what comes is what the SDK's accumulator says came, and goes back as it came."""

import asyncio
import threading
from typing import Any

import pytest

from tests.loopback import CUT, Answer, Hold, events
from tests.loopback.server import Act
from tests.providers.asking import deltas, request, user
from tests.providers.openai.asking import (
    MODEL,
    as_reply,
    calls,
    final_response,
    requested,
    said_by,
    serving,
    texts,
    thoughts,
)
from tests.providers.openai.wire import (
    HEADERS,
    call,
    error_answer,
    message,
    reasoning,
    response,
    response_events,
    responses_answer,
)
from wakelog.decide.assembly import assemble_parts
from wakelog.log.content import ContentDelta, Finished, Text, Usage
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.http_provider import HttpProvider
from wakelog.providers.openai.responses import RESPONSES
from wakelog.providers.openai.responses_request import request_body
from wakelog.providers.requests import Params
from wakelog.runtime.model_request import ReasoningFilter

REPLIES = {
    "text": [message("msg_1", "Grüße, 日本 🙂")],
    "phases": [message("msg_1", "I look.", phase="commentary"), message("msg_2", "Done.", phase="final_answer")],
    "two texts in one item": [message("msg_1", "One.", "Two.")],
    "reasoning": [reasoning("rs_1", "First thought.", "Second."), message("msg_1", "So it is.")],
    "reasoning that nobody may read": [reasoning("rs_1"), message("msg_1", "So it is.")],
    "reasoning in the open": [reasoning("rs_1", encrypted=None, content=["Hm."]), message("msg_1", "Yes.")],
    "parallel calls": [
        reasoning("rs_1", "Both at once."),
        call("fc_1", "call_1", "look", '{"where":"north"}'),
        call("fc_2", "call_2", "look", '{"where": "south", "n": [1, 2.5, null]}'),
    ],
    "reasoning between calls": [
        reasoning("rs_1"),
        message("msg_1", "I look.", phase="commentary"),
        call(),
        reasoning("rs_2"),
        call("fc_2", "call_2", "wait", "{}"),
    ],
    "refusal": [message("msg_1", refusal="I will not.")],
    "text and refusal": [message("msg_1", "Hm.", refusal="I will not.")],
}


def _results(parts):
    return [
        ContextMessage(role="toolResult", content=(Text(text="seen"),), tool_call_id=each, tool_name="look")
        for each, _, _ in calls(parts)
    ]


def _sent_back(parts):
    """The items of our own reply in the next request, results left out."""
    body = request_body(request(user("hi"), as_reply(parts, model="m"), *_results(parts)), Params())
    return [item for item in body["input"][1:] if item["type"] != "function_call_output"]


def _comparable(item):
    """Without what the SDK adds for its own users, and the status, which every finished item has."""
    if isinstance(item, list):
        return [_comparable(inner) for inner in item]
    if not isinstance(item, dict):
        return item
    added = ("status", "parsed", "parsed_arguments")
    return {key: _comparable(value) for key, value in item.items() if key not in added}


@pytest.mark.parametrize("items", REPLIES.values(), ids=REPLIES)
def test_a_reply_agrees_with_the_sdk_and_goes_back_as_it_came(items):
    """RUN-8, VIEW-5: every item verbatim and in order, ids and encrypted reasoning with it."""
    judged = final_response(responses_answer(*items))
    parts, end = said_by("openai", responses_answer(*items))
    assert isinstance(end, Finished)
    written = [part for item in judged.output if item.type == "message" for part in item.content]
    assert texts(parts) == [part.refusal if part.type == "refusal" else part.text for part in written]
    assert [each for each, _, _ in calls(parts)] == [
        item.call_id for item in judged.output if item.type == "function_call"
    ]
    assert [_comparable(item) for item in _sent_back(parts)] == [
        _comparable(item.to_dict(exclude_unset=True)) for item in judged.output
    ]


@pytest.mark.parametrize(
    ("items", "word"),
    [("text", "stop"), ("parallel calls", "tools"), ("refusal", "refusal"), ("text and refusal", "refusal")],
)
def test_the_end_of_a_reply(items, word):
    _, end = said_by("openai", responses_answer(*REPLIES[items]))
    usage = Usage(input_tokens=10, cache_read_tokens=60, cache_write_tokens=30, output_tokens=20)
    assert end == Finished(word, usage, "req_1")


@pytest.mark.parametrize(
    ("reason", "word"), [("max_output_tokens", "length"), ("content_filter", "filtered"), ("steered", "steered")]
)
def test_an_incomplete_reply(reason, word):
    """A length stop keeps what was said, and leaves out half a call."""
    half = {**call(arguments='{"where":"no'), "status": "incomplete"}
    told = response_events(message("msg_1", "So far"), half, status="incomplete", incomplete_details={"reason": reason})
    parts, end = said_by("openai", Answer(events(*told)))
    assert (texts(parts), calls(parts), end.stop_reason) == (["So far"], [], word)


def test_summaries_are_read_with_a_gap():
    parts, _ = said_by("openai", responses_answer(*REPLIES["reasoning"]))
    assert thoughts(parts) == ["First thought.\n\nSecond."]


def test_a_server_that_sends_no_pieces():
    """Compatible servers may tell items only when they are done, or only at the very end."""
    items = REPLIES["parallel calls"]
    whole, _ = said_by("openai", responses_answer(*items))
    done = [{"type": "response.output_item.done", "item": item} for item in items]
    last = {"type": "response.completed", "response": response(items)}
    pieces = [{**each, "item": {**each["item"], "arguments": ""}} if at else each for at, each in enumerate(done)]
    for at, piece in ((1, '{"where":"north"}'), (3, items[2]["arguments"][:9]), (4, items[2]["arguments"][9:])):
        pieces.insert(at, {"type": "response.function_call_arguments.delta", "delta": piece})
    for told in ([*done, last], [done[0], last], [last], [*pieces, last]):
        parts, end = said_by("openai", Answer(events(*told)))
        assert (parts, end.stop_reason) == (whole, "tools")


def test_an_item_of_another_kind_keeps_the_rest_from_going_back():
    """What we cannot return, a search of the server's own, unties all that came with it."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "content": "of another shape"}
    parts, end = said_by("openai", responses_answer(reasoning("rs_1"), search, message("msg_1", "Found.")))
    assert end.stop_reason == "stop"
    assert _sent_back_plain(parts) == [{"role": "assistant", "content": "Found."}]


def _sent_back_plain(parts, **more):
    asked = request(user("hi"), as_reply(parts, model=more.pop("model", "m"), **more), *_results(parts))
    return request_body(asked, Params())["input"][1:]


def test_another_model_gets_no_ids_and_no_reasoning():
    """Bound parts go back only where provider and model are the same."""
    parts, _ = said_by("openai", responses_answer(*REPLIES["reasoning between calls"]))
    plain = [
        {"role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"where":"north"}'},
        {"type": "function_call", "call_id": "call_2", "name": "wait", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
        {"type": "function_call_output", "call_id": "call_2", "output": "seen"},
    ]
    assert _sent_back_plain(parts, model="other") == plain
    assert _sent_back_plain(parts, provider="anthropic") == plain


def test_thinking_is_dropped_with_the_ids_that_depend_on_it():
    """`thinking: drop`: none goes back and none is asked for."""
    parts, _ = said_by("openai", responses_answer(*REPLIES["reasoning"]))
    body = request_body(request(user("hi"), as_reply(parts, model="m")), Params(thinking="drop"))
    assert body["input"][1:] == [{"role": "assistant", "content": "So it is."}]
    assert "include" not in body
    kept = request_body(request(user("hi")), Params())
    assert kept["include"] == ["reasoning.encrypted_content"]


def _kept(keeps, *items):
    """The parts of a reply, with as much of its reasoning as is kept."""
    with serving(responses_answer(*items)) as server:
        told = deltas(HttpProvider(RESPONSES, environ={"OPENAI_API_KEY": "k"}), requested(server))
    sieve = ReasoningFilter(keeps)
    kept = (heard for delta in told[:-1] for heard in sieve.add(delta))
    return assemble_parts(heard for heard in kept if isinstance(heard, ContentDelta))


def test_reasoning_that_is_not_kept():
    """LOG-18: a summary and its seal go back as they came; without the open text or the seal a reply goes plainly."""
    summed = (reasoning("rs_1", "In short.", "And so on."), message("msg_1", "So."))
    parts = _kept("summary", *summed)
    assert thoughts(parts) == ["In short.\n\nAnd so on."]
    assert [item.get("encrypted_content") for item in _sent_back(parts)] == ["c2VhbGVk", None]
    opened = (reasoning("rs_1", "In short.", content=("At length.",)), message("msg_1", "So."))
    parts = _kept("summary", *opened)
    assert thoughts(parts) == ["In short."]
    assert _sent_back_plain(parts) == [{"role": "assistant", "content": "So."}]
    for items in (summed, opened):
        parts = _kept("drop", *items)
        assert thoughts(parts) == []
        assert _sent_back_plain(parts) == [{"role": "assistant", "content": "So."}]


def test_a_thought_that_was_taken_out_unties_its_reply():
    """Law 14: a part with a key in it is dropped whole; the ids behind it would be refused without it."""
    parts, _ = said_by("openai", responses_answer(*REPLIES["parallel calls"]))
    kept = request_body(request(as_reply(parts, model="m"), *_results(parts)), Params())["input"]
    assert [item.get("id") for item in kept] == ["rs_1", "fc_1", "fc_2", None, None]
    left = request_body(request(as_reply(parts[1:], model="m"), *_results(parts)), Params())["input"]
    assert [item["type"] for item in left] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert not any("id" in item for item in left)


# ── what can go wrong ────────────────────────────────────────────────────────────────────────────

SO_FAR = response_events(message("msg_1", "So far"))[:6]


@pytest.mark.parametrize(
    ("told", "kind", "retryable", "delay_ms"),
    [
        ({"type": "error", "code": "server_error", "message": "x"}, "server", True, None),
        ({"type": "error", "error": {"type": "server_error", "message": "x"}}, "server", True, None),
        ({"type": "error", "code": None, "message": "An error occurred"}, "server", True, None),
        (
            {"type": "error", "code": "rate_limit_exceeded", "message": "Please try again in 1.5s."},
            "rate_limited",
            True,
            1_500,
        ),
        (
            {"type": "response.failed", "response": response(status="failed", error={"code": "server_error"})},
            "server",
            True,
            None,
        ),
        (
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": "context_length_exceeded", "message": "too long"}),
            },
            "context_overflow",
            False,
            None,
        ),
        (
            {
                "type": "response.failed",
                "response": response(status="failed", error={"code": "invalid_prompt", "message": "no"}),
            },
            "bad_request",
            False,
            None,
        ),
    ],
)
def test_an_error_in_the_middle(told, kind, retryable, delay_ms):
    """What had been said is kept; the fault has its word."""
    parts, end = said_by("openai", Answer(events(*SO_FAR, told)))
    assert texts(parts) == ["So far"]
    assert (end.kind, end.retryable, end.delay_ms) == (kind, retryable, delay_ms)


@pytest.mark.parametrize("ending", [[CUT], []], ids=["the connection drops", "the stream just ends"])
def test_a_stream_that_is_cut(ending):
    parts, end = said_by("openai", Answer([*events(*SO_FAR), *ending]))
    assert (texts(parts), end.kind, end.retryable) == (["So far"], "cut", True)


@pytest.mark.parametrize(
    "bad",
    [
        b"data: {no json\n\n",
        b"data: [1]\n\n",
        b'data: {"type": 3}\n\n',
        b'data: {"type": "response.output_text.delta", "delta": 3}\n\n',
        b'data: {"type": "response.output_item.done", "item": {"type": "message", "content": 3}}\n\n',
        b"data: \xff\xfe\n\n",
        b'data: {"type": "re\n\n',
    ],
)
def test_a_malformed_event(bad):
    parts, end = said_by("openai", Answer([*events(*SO_FAR), bad, *events({"type": "response.completed"})]))
    assert (texts(parts), end.kind, end.retryable) == (["So far"], "malformed", True)


def test_a_call_that_never_became_json():
    """It is left out, and the reply is no reply."""
    parts, end = said_by("openai", responses_answer(call(), call("fc_2", "call_2", arguments='{"where":')))
    assert ([each for each, _, _ in calls(parts)], end.kind, end.retryable) == (["call_1"], "malformed", True)


def test_events_that_nobody_knows_say_nothing():
    told = response_events(message("msg_1", "Hi"))
    extra: list[dict[str, Any]] = [
        {"type": "response.keepalive", "delta": {"a": 1}, "item": 3},
        {"type": "response.new", "response": []},
    ]
    parts, end = said_by("openai", Answer([b": ping\n\n", *events(*told[:3], *extra, *told[3:])]))
    assert (texts(parts), end.stop_reason) == (["Hi"], "stop")


def test_a_slow_stream_is_told_as_it_comes():
    """RUN-8: a piece is there before the next one is sent."""
    gate, heard = threading.Event(), []
    told = response_events(message("msg_1", "Slowly"))
    acts: list[Act] = [*events(*told[:5]), Hold(gate), *events(*told[5:])]

    async def listen(server):
        async for delta in HttpProvider(RESPONSES).stream(requested(server)):
            heard.append(delta)
            gate.set()

    with serving(Answer(acts, headers=HEADERS)) as server:
        asyncio.run(listen(server))
    assert "".join(delta.text for delta in heard[:-1]) == "Slowly"


def test_silence_is_a_fault():
    gate = threading.Event()
    with serving(Answer([*events(*SO_FAR), Hold(gate)])) as server:
        told = deltas(HttpProvider(RESPONSES, idle_timeout_s=0.2), requested(server))
        gate.set()
    assert (told[-1].kind, told[-1].retryable) == ("timeout", True)


def test_what_the_server_refuses():
    _, end = said_by("openai", error_answer(429, "insufficient_quota", kind="insufficient_quota"))
    assert (end.kind, end.retryable) == ("quota", False)


# ── the request ──────────────────────────────────────────────────────────────────────────────────


def test_a_request_on_the_wire():
    """The path, the key, one try, and a body that is exactly what was planned."""
    with serving(responses_answer(*REPLIES["text"])) as server:
        asked = requested(
            server,
            user("hi"),
            system="Be brief.",
            tools=({"name": "look", "description": "Looks.", "schema": {}, "replay": "safe", "more": 1},),
            injected=("It is Monday.",),
            params={"maxTokens": 99, "temperature": 0.5, "effort": "low", "extra": {"reasoning": {"summary": "auto"}}},
        )
        deltas(HttpProvider(RESPONSES), asked)
    (sent,) = server.asked
    assert (sent.path, sent.headers["authorization"]) == ("/v1/responses", "Bearer none")
    body = sent.json
    assert body.pop("prompt_cache_key").startswith("wakelog-")
    assert body == {
        "model": MODEL,
        "store": False,
        "stream": True,
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "Looks.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "input": [
            {"role": "user", "content": "hi"},
            {"role": "user", "content": [{"type": "input_text", "text": "It is Monday."}]},
        ],
        "max_output_tokens": 99,
        "temperature": 0.5,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "ft:gpt-4o-mini:x"])
def test_a_model_that_does_not_reason_is_not_asked_about_it(model):
    plain = request_body(ModelRequest(model=model, messages=(user("hi"),)), Params())
    assert not {"include", "reasoning"} & set(plain)


def test_folding_may_not_call_tools():
    """The tools stay in the request, because the cache knows them; none may be called."""
    tools = ({"name": "look", "description": "", "schema": {}},)
    body = request_body(request(user("hi"), tools=tools, purpose="compaction"), Params())
    assert (body["tool_choice"], len(body["tools"])) == ("none", 1)
    assert "tool_choice" not in request_body(request(user("hi"), purpose="compaction"), Params())

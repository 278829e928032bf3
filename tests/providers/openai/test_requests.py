"""Requests over random conversations and switches of providers: what the wire would refuse is never sent."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.providers.asking import TOOLS, user
from tests.providers.openai.asking import MODEL, as_reply
from tests.providers.openai.conversations import FOREIGN, Conversation
from tests.providers.openai.validating import valid_chat, valid_responses
from wakelog.log.content import Image, Text, Thinking, ToolCall
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.openai import chat_request, responses_request
from wakelog.providers.openai.conversation import NO_RECORD
from wakelog.providers.requests import Params, media_placeholder

SEEDS = st.integers(0, 10**9)
QUIET = settings(deadline=None, max_examples=300)


def _responses(messages, params=None, **more):
    return responses_request.request_body(
        ModelRequest(model=MODEL, messages=messages, tools=TOOLS, **more), params or Params()
    )


def _chat(messages, params=None, **more):
    asked = ModelRequest(model=MODEL, messages=messages, tools=TOOLS, **more)
    return chat_request.request_body(asked, params or Params(), is_openai=False)


def _own_ids(messages):
    own = [message for message in messages if (message.provider, message.model) == ("openai", MODEL)]
    bound = [getattr(part, "bound", None) or {} for message in own for part in message.content]
    return {each["id"] for each in bound if isinstance(each.get("id"), str)}


def test_requests_are_valid():
    """Law 7 on the wire: pairs complete and adjacent, reasoning followed by its item, ids only for their own."""
    seen: Counter[str] = Counter()

    @QUIET
    @given(SEEDS)
    def check(seed):
        messages = Conversation(seed).messages()
        for params in (Params(), Params(thinking="drop")):
            body = _responses(messages, params, system="s", injected=("now",))
            valid_responses(body, _own_ids(messages))
            told = Counter(item.get("type") or item["role"] for item in body["input"])
            assert FOREIGN not in json.dumps(body)
            assert params.thinking == "keep" or not told["reasoning"]
            seen.update({kind: bool(told[kind]) for kind in told})
            chat = _chat(messages, params, system="s", injected=("now",))
            valid_chat(chat)
            assert FOREIGN not in json.dumps(chat)
            thought = any("reasoning" in key for message in chat["messages"] for key in message)
            assert not (thought and params.thinking == "drop")
            seen["thought"] += thought

    check()
    for kind in ("message", "assistant", "reasoning", "function_call", "thought"):
        assert seen[kind] > 10, seen


def test_every_call_goes_out_with_a_result():
    """Law 6, law 7: none is left out, because it may have had an effect; where nothing is known, that is said."""
    seen: Counter[str] = Counter()

    @QUIET
    @given(SEEDS, st.booleans())
    def check(seed, whole):
        messages = Conversation(seed, whole=whole).messages()
        calls = [part for message in messages for part in message.content if isinstance(part, ToolCall)]
        items = Counter(item.get("type") for item in _responses(messages)["input"])
        assert items["function_call"] == items["function_call_output"] == len(calls)
        told = _chat(messages)["messages"]
        assert sum(len(message.get("tool_calls", ())) for message in told) == len(calls)
        assert [message["role"] for message in told].count("tool") == len(calls)
        unknown = sum(message["content"] == NO_RECORD for message in told)
        assert not (whole and unknown)
        seen.update(calls=len(calls), unknown=unknown)

    check()
    assert min(seen.values()) > 20, seen


def test_a_request_begins_with_the_one_before():
    """Law 8, VIEW-5: whatever comes behind, the items of what was said stay as they were, byte for byte."""
    seen: Counter[str] = Counter()

    @QUIET
    @given(SEEDS)
    def check(seed):
        messages = Conversation(seed, whole=True).messages()
        cuts = [at for at in range(1, len(messages)) if messages[at].role != "toolResult"]
        for wire, key in ((_responses, "input"), (_chat, "messages")):
            whole = [json.dumps(item) for item in wire(messages)[key]]
            for at in cuts:
                part = [json.dumps(item) for item in wire(messages[:at])[key]]
                assert whole[: len(part)] == part
                alone, tailed = wire(messages[:at])[key], wire(messages[:at], injected=("a", "b"))[key]
                begun = json.dumps(alone).removesuffix("]").removesuffix("}").removesuffix("]").removesuffix('"')
                assert json.dumps(tailed).startswith(begun)
                takes_a_turn = key == "input" or not alone or alone[-1]["role"] != "user"
                assert len(tailed) == len(alone) + takes_a_turn
                seen[key] += 1

    check()
    assert min(seen.values()) > 50, seen


MISSING = media_placeholder(Image(mime_type="image/png"))


def test_a_picture_that_is_not_at_hand():
    """RUN-8: it is said to be missing: an empty message is refused, for ever."""
    (said,) = _chat([ContextMessage(role="user", content=(Image(mime_type="image/png"),))])["messages"]
    assert said["content"] == [{"type": "text", "text": MISSING}]
    (said,) = _responses([ContextMessage(role="user", content=(Image(mime_type="image/png"),))])["input"]
    assert said["content"] == [{"type": "input_text", "text": MISSING}]


# ── the judges themselves ────────────────────────────────────────────────────────────────────────

CALL = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": ""}
THOUGHT = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
SAID = {"role": "user", "content": "hi"}


@pytest.mark.parametrize(
    "items",
    [
        [CALL],
        [OUTPUT],
        [CALL, SAID, OUTPUT],
        [CALL, OUTPUT, OUTPUT],
        [CALL, OUTPUT, CALL, OUTPUT],
        [CALL, {**CALL, "call_id": "d"}, OUTPUT, SAID],
        [CALL, {**CALL, "call_id": "d"}, OUTPUT, THOUGHT, {**OUTPUT, "call_id": "d"}],
        [THOUGHT],
        [THOUGHT, SAID],
        [THOUGHT, CALL, OUTPUT],
        [{**THOUGHT, "encrypted_content": None}, {**CALL, "id": "fc"}, OUTPUT],
        [{**CALL, "arguments": "{"}, OUTPUT],
        [{**CALL, "mystery": 1}, OUTPUT],
        [{"role": "user"}],
    ],
)
def test_the_judge_of_responses_refuses(items):
    with pytest.raises((AssertionError, ValueError)):
        valid_responses({"input": items})


def test_the_judge_of_responses_knows_whose_ids_they_are():
    own = [THOUGHT, {**CALL, "id": "fc"}, OUTPUT]
    valid_responses({"input": own}, {"rs", "fc"})
    with pytest.raises(AssertionError):
        valid_responses({"input": own}, {"rs"})


ASKED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "l", "arguments": "{}"}}],
}
TOLD = {"role": "tool", "tool_call_id": "c", "content": ""}


@pytest.mark.parametrize(
    "messages",
    [
        [ASKED],
        [TOLD],
        [ASKED, SAID, TOLD],
        [ASKED, TOLD, TOLD],
        [SAID, {"role": "system", "content": "s"}],
        [{"role": "assistant", "content": ""}],
        [{"role": "assistant", "content": None}],
        [{"role": "user", "content": 3}],
        [{**SAID, "mystery": 1}],
    ],
)
def test_the_judge_of_chat_refuses(messages):
    with pytest.raises((AssertionError, ValueError)):
        valid_chat({"messages": messages})


# ── single cases ─────────────────────────────────────────────────────────────────────────────────


def test_ids_that_repeat_are_told_apart():
    """Some providers count their calls from the beginning in every reply; the wire finds a call by its id alone."""

    def turn(text):
        reply = as_reply([ToolCall(id="call_1", name="look", input={})], "other", "m")
        return reply, ContextMessage(role="toolResult", content=(Text(text=text),), tool_call_id="call_1")

    items = _responses((user("hi"), *turn("one"), *turn("two")))["input"][1:]
    assert [(item["call_id"], item.get("output")) for item in items] == [
        ("call_1", None),
        ("call_1", "one"),
        ("call_1_2", None),
        ("call_1_2", "two"),
    ]


def test_reasoning_at_the_end_leads_nowhere():
    """A length stop in the middle of thinking: the reply is nothing but a thought."""
    thought = Thinking(thinking="", signature="x", bound={"id": "rs_1"})
    said = Text(text="Yes.", bound={"id": "msg_1"})
    assert _responses((user("hi"), as_reply([thought])))["input"] == [{"role": "user", "content": "hi"}]
    items = _responses((user("hi"), as_reply([said, thought])))["input"]
    assert [item.get("id") for item in items] == [None, "msg_1"]


def test_the_key_of_the_cache():
    """The same for all requests of a session and its forks, another for other beginnings; it fits the wire."""
    one = _responses((user("hi"),))["prompt_cache_key"]
    assert _responses((user("hi"), as_reply([Text(text="Yes.")]), user("go")))["prompt_cache_key"] == one
    assert _responses((user("ho"),))["prompt_cache_key"] != one
    assert _responses((user("hi"),), system="s")["prompt_cache_key"] != one
    assert len(one) <= 64

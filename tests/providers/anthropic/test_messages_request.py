"""A request as a body: what goes back, in which words, and where the marks are."""

import pytest

from tests.providers.anthropic.speaking import MODEL, body_of
from tests.providers.anthropic.validating import complaints
from tests.providers.asking import TOOLS, assistant, result, user
from wakelog.errors import UsageError
from wakelog.log.content import BlobRef, Image, Text, Thinking, ToolCall, ToolCallDelta
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.anthropic.messages_request import default_reply_tokens

MARK = {"cache_control": {"type": "ephemeral"}}
SEALED = Thinking(bound={"type": "redacted_thinking", "data": "c2VhbGVk"})
SIGNED = Thinking(thinking=" Hm … ü\n", signature="EqQB+/==")
SILENT = Thinking(signature="silent")
ONE, TWO = ToolCallDelta("toolu_1", "read", {"b": 1, "a": [2]}), ToolCallDelta("toolu_2", "list", {})


def asked(*messages, model=MODEL, **more):
    return ModelRequest(model=model, messages=messages, **more)


def replied(*parts, provider="anthropic", model=MODEL):
    return ContextMessage(role="assistant", content=parts, provider=provider, model=model)


def called(call):
    return ToolCall(id=call.id, name=call.name, input=call.input)


def messages_of(*messages, **more):
    return body_of(asked(*messages, **more))["messages"]


def blocks(*messages, at=-1, **more):
    """The blocks of one message, without marks."""
    said = messages_of(*messages, **more)[at]["content"]
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in said]


def text(words):
    return {"type": "text", "text": words}


# ── thoughts ─────────────────────────────────────────────────────────────────────────────────────


def test_thoughts_go_back_byte_for_byte():
    """RUN-8: signed, silent and sealed ones, in their places, in the same message as the call."""
    said = blocks(user("x"), replied(SIGNED, SEALED, SILENT, Text(text="I look."), called(ONE)), result(ONE, "y"), at=1)
    assert said == [
        {"type": "thinking", "thinking": " Hm … ü\n", "signature": "EqQB+/=="},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        {"type": "thinking", "thinking": "", "signature": "silent"},
        text("I look."),
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"b": 1, "a": [2]}},
    ]


@pytest.mark.parametrize(
    ("provider", "model"), [("anthropic", "claude-opus-5"), ("openai", MODEL), (None, MODEL), ("anthropic", None)]
)
def test_thoughts_of_others_stay_here(provider, model):
    """RUN-8: another provider or another model cannot read them; the words and calls go to anybody."""
    reply = replied(SIGNED, SEALED, Text(text="I look."), called(ONE), provider=provider, model=model)
    assert [block["type"] for block in blocks(user("x"), reply, result(ONE, "y"), at=1)] == ["text", "tool_use"]


def test_dropping_thoughts():
    """`thinking: drop`: none goes back, not even to the model that had it."""
    reply = replied(SIGNED, SEALED, Text(text="So."))
    assert blocks(user("x"), reply, user("y"), at=1, params={"thinking": "drop"}) == [text("So.")]


def test_a_thought_that_nothing_follows():
    """RUN-8: no message ends in a thought; one that holds nothing else is none."""
    assert blocks(user("x"), replied(Text(text="So."), SIGNED), user("y"), at=1) == [text("So.")]
    assert blocks(user("x"), replied(SIGNED, SEALED), user("y")) == [text("x"), text("y")]


def test_an_unsigned_thought_stays_here():
    assert blocks(user("x"), replied(Thinking(thinking="hm"), Text(text="So.")), user("y"), at=1) == [text("So.")]


# ── calls and results ────────────────────────────────────────────────────────────────────────────


def test_results_stand_together_and_first():
    """RUN-8: the results of one reply are one message, in the order they came, before anything that was said since."""
    told = messages_of(
        user("x"), assistant("", ONE, TWO), result(TWO, "2"), result(ONE, "1", is_error=True), user("and?")
    )
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert told[-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [text("2")]},
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("1")], "is_error": True},
        {**text("and?"), **MARK},
    ]


def test_a_call_without_a_result_is_said_to_have_none():
    """Law 7: it is never hidden that a call was made."""
    (answered, missing) = blocks(user("x"), assistant("", ONE, TWO), result(ONE, "1"))
    assert (answered["tool_use_id"], missing["tool_use_id"], missing["is_error"]) == ("toolu_1", "toolu_2", True)


def test_a_result_without_its_call_is_none():
    assert blocks(user("x"), assistant("So."), result(ONE, "1"), user("y")) == [text("y")]
    assert len(blocks(user("x"), assistant("", ONE), result(ONE, "1"), result(ONE, "again"))) == 1


def test_ids_are_made_fit():
    """RUN-8: ids of other providers, and those that come again in another reply, still name one call each."""
    odd, odder = ToolCallDelta("call.2", "mcp.x y", None), ToolCallDelta("", "", [1])
    told = messages_of(
        user("x"), assistant("", odd, odder), result(odder, "b"), result(odd, "a"), assistant("", odd), result(odd, "c")
    )
    calls = [block for message in told for block in message["content"] if block["type"] == "tool_use"]
    assert [(call["id"], call["name"], call["input"]) for call in calls] == [
        ("call_2", "mcp_x_y", {}),
        ("call", "tool", {"input": [1]}),
        ("call_2-1", "mcp_x_y", {}),
    ]
    results = [block for message in told for block in message["content"] if block["type"] == "tool_result"]
    assert [block["tool_use_id"] for block in results] == ["call", "call_2", "call_2-1"]


# ── words and pictures ───────────────────────────────────────────────────────────────────────────


def test_nothing_empty_is_sent():
    """RUN-8: a conversation that holds an empty text is refused for ever."""
    said = (user(" \n"), assistant(" "), user("x"), assistant("", ONE), result(ONE, ""))
    body = body_of(asked(*said, system=" ", injected=("", " ")))
    assert (complaints(body), "system" in body) == ([], False)


def test_who_speaks_first_and_last():
    """RUN-8: a window may begin with a reply, and a context may end in one; the wire wants the user at both ends."""
    told = messages_of(assistant("So."))
    assert [message["role"] for message in told] == ["user", "assistant", "user"]
    assert [message["role"] for message in messages_of()] == ["user"]


def test_pictures():
    """RUN-8: a picture at hand is shown; one that is not at hand, or of a kind nobody takes, is said to be there."""
    png = Image(mime_type="image/png", data="AA==")
    kept = Image(blob=BlobRef(digest="sha256:0", bytes=1, media_type="image/png"))
    said = blocks(ContextMessage(role="user", content=(png, kept, Image(mime_type="image/tiff", data="AA=="))))
    assert said[0] == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    assert [block["type"] for block in said] == ["image", "text", "text"]


def test_a_failed_result_holds_words_only():
    """RUN-8: the interface takes no picture of a failure."""
    png = Image(mime_type="image/png", data="AA==")
    failed = ContextMessage(role="toolResult", content=(png,), tool_call_id=ONE.id, is_error=True)
    (block,) = blocks(user("x"), assistant("", ONE), failed)
    assert [each["type"] for each in block["content"]] == ["text"]


# ── marks, tools, tail ───────────────────────────────────────────────────────────────────────────


def test_marks():
    """Law 8: the last tool, the system prompt, and the ends of the user's last two messages; the tail never."""
    body = body_of(
        asked(
            user("a"),
            assistant("b"),
            user("c"),
            replied(SIGNED, called(ONE), called(TWO)),
            result(ONE, "1"),
            result(TWO, "2"),
            system="Be brief.",
            tools=TOOLS,
            injected=("It rains.", "It is late."),
        )
    )
    assert ["cache_control" in tool for tool in body["tools"]] == [False] * 6 + [True]
    assert body["system"] == [{**text("Be brief."), **MARK}]
    marked = [["cache_control" in block for block in message["content"]] for message in body["messages"]]
    assert marked == [[False], [False], [True], [False, False, False], [False, True, False, False]]
    assert body["messages"][-1]["content"][2:] == [text("It rains."), text("It is late.")]


def test_the_mark_before_is_where_the_last_request_ended():
    """Law 8: however many calls a reply makes at once, the cache is asked for the very place it was given."""
    calls = [ToolCallDelta(f"toolu_{number}", "read", {}) for number in range(40)]
    first = body_of(asked(user("a"), assistant("b"), user("c")))
    then = body_of(asked(user("a"), assistant("b"), user("c"), assistant("", *calls), *(result(c, "r") for c in calls)))
    assert then["messages"][2] == first["messages"][2]
    assert "cache_control" in then["messages"][2]["content"][-1]


def test_tools():
    """Only what the wire has a place for goes out."""
    tool = {"name": "read", "description": "Reads.", "schema": {"properties": {}}, "replay": "safe", "from": {"x": 1}}
    body = body_of(asked(user("x"), tools=(tool, {"name": "bare", "schema": {"type": "object"}})))
    assert body["tools"] == [
        {"name": "read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}},
        {"name": "bare", "input_schema": {"type": "object"}, **MARK},
    ]
    assert "tool_choice" not in body


def test_a_fold_may_call_nothing():
    """RUN-8: the history has calls, so the tools are declared; what is wanted is a summary."""
    body = body_of(
        asked(user("x"), assistant("", ONE), result(ONE, "1"), tools=TOOLS, injected=("Fold.",), purpose="compaction")
    )
    assert (body["tool_choice"], len(body["tools"])) == ({"type": "none"}, len(TOOLS))
    assert body["messages"][-1]["content"][-1] == text("Fold.")
    assert "tool_choice" not in body_of(asked(user("x"), purpose="compaction"))


# ── params ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-5-sonnet-latest", 8_192),
        ("claude-3-7-sonnet-20250219", 32_000),
        ("claude-opus-4-20250514", 32_000),
        ("anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("claude-sonnet-5-5", 32_000),
        ("claude-mythos-preview", 32_000),
        ("somebody/elses-model", 8_192),
    ],
)
def test_how_long_a_reply_may_be(model, tokens):
    """Params: the wire asks for a number; `maxTokens` wins."""
    assert default_reply_tokens(model) == tokens
    assert body_of(asked(user("x"), model=model))["max_tokens"] == tokens
    assert body_of(asked(user("x"), model=model, params={"maxTokens": 7}))["max_tokens"] == 7


SHOWN = {"thinking": {"type": "adaptive", "display": "summarized"}}


def budget(tokens):
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


ADAPTIVE = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}
OFF = {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("model", "params", "keys"),
    [
        ("claude-sonnet-4-6", {}, {}),
        ("claude-sonnet-4-6", {"effort": "low"}, ADAPTIVE),
        ("claude-fable-5-1", {"effort": "low"}, ADAPTIVE),
        ("claude-mythos-preview", {"effort": "low"}, ADAPTIVE),
        ("claude-haiku-4-5-20251001", {"effort": "low"}, budget(2_048)),
        ("claude-haiku-4-5", {"effort": "high", "maxTokens": 3_000}, budget(1_500)),
        ("claude-haiku-4-5", {"effort": "high", "maxTokens": 1_000}, {}),
        ("claude-sonnet-4-6", {"thinking": "drop"}, {}),
        ("claude-opus-5", {"thinking": "drop"}, OFF),
        ("claude-opus-5-5", {"thinking": "drop", "effort": "low"}, {**OFF, "output_config": {"effort": "low"}}),
        ("claude-fable-5", {"thinking": "drop"}, {}),
        ("claude-haiku-4-5", {"thinking": "drop", "effort": "low"}, {}),
        ("claude-opus-5", {"extra": SHOWN}, SHOWN),
    ],
)
def test_how_thinking_is_asked_for(model, params, keys):
    """Params: `effort` and `thinking`, in the words of each generation of models."""
    body = body_of(asked(user("x"), model=model, params=params))
    assert {key: body[key] for key in ("thinking", "output_config") if key in body} == keys


def test_no_budget_amid_calls_that_were_made_without_a_thought():
    """RUN-8: after a switch in the middle of a turn, a model of the older kind is not told to think before the end."""
    old = {"model": "claude-haiku-4-5", "params": {"effort": "low"}}
    loop = (user("x"), assistant("", ONE), result(ONE, "1"))
    assert "thinking" not in body_of(asked(*loop, **old))
    assert "thinking" in body_of(asked(*loop, assistant("So."), user("y"), **old))
    own = replied(SIGNED, called(ONE), model="claude-haiku-4-5")
    assert "thinking" in body_of(asked(user("x"), own, result(ONE, "1"), **old))


def test_extra_is_laid_over_the_body():
    """Params: `extra` is the way to what only this wire has, and wins."""
    params = {"temperature": 0.2, "extra": {"top_k": 5, "max_tokens": 11, "temperature": None, "stream": False}}
    body = body_of(asked(user("x"), params=params))
    assert (body["top_k"], body["max_tokens"], body["stream"], "temperature" in body) == (5, 11, True, False)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"maxToken": 5}, "did you mean 'maxTokens'?"),
        ({"maxTokens": 0}, ""),
        ({"thinking": "maybe"}, ""),
    ],
)
def test_params_that_cannot_be(params, says):
    """Params: a slip of the pen is the caller's mistake, in one line."""
    with pytest.raises(UsageError) as error:
        body_of(asked(user("x"), params=params))
    assert "\n" not in error.value.message
    assert error.value.hint == says

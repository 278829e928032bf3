"""ST-9: replies of pi keep what a model API needs back, and what they cost."""

import json

import pytest

from tests.exchange.pi_records import Chain, bodies, call, header, messages, tree_of
from wakelog.log.content import Reply
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import build_context
from wakelog.providers.openai.responses_request import history_items
from wakelog.providers.requests import Params

# ── data that a model API needs back ─────────────────────────────────────────────────────────────


def test_redacted_thinking_goes_back_to_anthropic():
    part = {"type": "thinking", "thinking": "", "thinkingSignature": "enc", "redacted": True}
    chain = Chain(header()).say("r", "assistant", [part], api="anthropic-messages", provider="anthropic")
    [thinking] = messages(bodies(*chain.records), Reply)[0].content
    assert thinking.bound == {"type": "redacted_thinking", "data": "enc"}


def test_the_items_of_openai_go_back_unchanged():
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}],
        "encrypted_content": "gAAA",
    }
    content = [
        {"type": "thinking", "thinking": "One\n\nTwo", "thinkingSignature": json.dumps(reasoning)},
        {"type": "text", "text": "I look", "textSignature": json.dumps({"v": 1, "id": "msg_1", "phase": "commentary"})},
        call("call_1|fc_1", "ls", path="."),
    ]
    chain = Chain(header()).say("u", "user", "Hi")
    chain.say("r", "assistant", content, api="openai-responses", provider="openai", model="gpt-x")
    chain.say("t", "toolResult", "a", toolCallId="call_1|fc_1", toolName="ls")
    context = build_context(tree_of(bodies(*chain.records)).branch())
    items = list(history_items(ModelRequest(model="gpt-x", messages=context.messages), Params()))
    assert items[1] == reasoning
    _, text, tool_call = messages(bodies(*chain.records), Reply)[0].content
    assert text.bound["after"] == tool_call.bound["after"] == "rs_1"
    assert (items[2]["id"], items[2]["phase"], items[2]["content"][0]["text"]) == ("msg_1", "commentary", "I look")
    assert (items[3]["id"], items[3]["call_id"]) == ("fc_1", "call_1")
    assert items[4] == {"type": "function_call_output", "call_id": "call_1", "output": "a"}


def test_chat_completions_are_another_provider():
    part = {"type": "thinking", "thinking": "Hm", "thinkingSignature": "reasoning"}
    chain = Chain(header()).say("r", "assistant", [part], api="openai-completions", provider="openai")
    reply = messages(bodies(*chain.records), Reply)[0]
    assert (reply.provider, reply.content[0].bound) == ("openai-chat", {"field": "reasoning"})


@pytest.mark.parametrize(
    ("cost", "micros"),
    [({"total": 0.0174}, 17_400), ({"total": 0}, 0), ({}, None), (None, None), ({"total": -1}, None)],
)
def test_cost_is_in_millionths_of_a_dollar(cost, micros):
    chain = Chain(header()).say("r", "assistant", "x", usage={"input": 1, "output": 1, "cost": cost})
    assert messages(bodies(*chain.records), Reply)[0].usage.cost_micros == micros

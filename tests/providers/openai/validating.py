"""What the wire demands of a request, written from what it refuses; and the SDK's own types as a second judge.

A request that this file lets through has complete and adjacent pairs, reasoning with what it led to, and ids that only
their own provider and model have made.
"""

import json
import re
from typing import Any

from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionSystemMessageParam,
    ChatCompletionToolMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.responses import (
    EasyInputMessageParam,
    ResponseFunctionToolCallParam,
    ResponseOutputMessageParam,
    ResponseReasoningItemParam,
)
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

_ITEMS = {
    "user": EasyInputMessageParam,
    "assistant": EasyInputMessageParam,
    "message": ResponseOutputMessageParam,
    "reasoning": ResponseReasoningItemParam,
    "function_call": ResponseFunctionToolCallParam,
    "function_call_output": FunctionCallOutput,
}
_MESSAGES = {
    "system": ChatCompletionSystemMessageParam,
    "user": ChatCompletionUserMessageParam,
    "assistant": ChatCompletionAssistantMessageParam,
    "tool": ChatCompletionToolMessageParam,
}
_JUDGES: dict[Any, TypeAdapter[Any]] = {shape: TypeAdapter(shape) for shape in {*_ITEMS.values(), *_MESSAGES.values()}}
_OWN_KEYS = {"reasoning_content", "reasoning"}


def _fits(value, shape):
    """Every key is known to the SDK, and every value of its type."""
    assert set(value) - _OWN_KEYS <= set(shape.__annotations__) | {"async"}, (set(value), shape)
    _exhaust(_JUDGES[shape].validate_python(value))


def _exhaust(value):
    """Some are looked at only when they are asked for."""
    if isinstance(value, dict):
        for inner in value.values():
            _exhaust(inner)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for inner in value:
            _exhaust(inner)


def valid_responses(body, own_ids=None):
    """The body of the Responses API."""
    items = body["input"]
    pending: list[str] = []
    seen: set[str | tuple[str, str]] = set()
    is_answering = False
    for at, item in enumerate(items):
        kind = item.get("type") or item["role"]
        _fits(item, _ITEMS[kind])
        if "id" in item:
            assert item["id"] not in seen, f"{item['id']} comes twice"
            seen.add(item["id"])
        if kind == "function_call_output":
            assert item["call_id"] in pending, f"no tool call for {item['call_id']}"
            pending.remove(item["call_id"])
            is_answering = True
            continue
        assert not (is_answering and pending), f"outputs are missing for {pending}"
        is_answering = False
        if kind == "user":
            assert not pending, f"no output for {pending}"
        if kind == "function_call":
            assert (kind, item["call_id"]) not in seen, f"{item['call_id']} comes twice"
            assert 0 < len(item["call_id"]) <= 64
            _callable(item)
            seen.add((kind, item["call_id"]))
            pending.append(item["call_id"])
        if kind == "reasoning":
            _leads_somewhere(items[at + 1 :])
            assert item.get("encrypted_content") or item.get("content"), "nothing at the server knows it"
    assert not pending, f"no output for {pending}"
    if own_ids is not None:
        assert {each for each in seen if isinstance(each, str)} <= own_ids


def _leads_somewhere(behind):
    item: dict[str, Any] = next((item for item in behind if item.get("type") != "reasoning"), {})
    assert item.get("type") in ("message", "function_call"), "reasoning without its following item"
    assert "id" in item, "what reasoning led to has lost its id"


def _callable(function):
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function["name"]), function["name"]
    assert isinstance(json.loads(function["arguments"]), dict)


def valid_chat(body):
    """The body of Chat Completions."""
    pending: list[str] = []
    for at, message in enumerate(body["messages"]):
        role = message["role"]
        _fits(message, _MESSAGES[role])
        assert role != "system" or at == 0
        if role == "tool":
            assert message["tool_call_id"] in pending, "a result without its call"
            pending.remove(message["tool_call_id"])
            continue
        assert not pending, f"no result right behind {pending}"
        if role == "assistant":
            calls = message.get("tool_calls", [])
            assert message["content"] or calls, "an empty reply"
            pending = [call["id"] for call in calls]
            assert len(set(pending)) == len(pending)
            for call in calls:
                _callable(call["function"])
    assert not pending

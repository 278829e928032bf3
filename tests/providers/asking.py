"""Requests made by hand, and complete answers, for the tests of providers."""

import asyncio

from wakelog.log.content import Text, TextDelta, ThinkingDelta, ToolCall, ToolCallDelta
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage

TOOLS = tuple(
    {"name": name, "description": "", "schema": {}}
    for name in ["read", "list", "grep", "write", "edit", "shell", "agent"]
)


def user(text):
    return ContextMessage(role="user", content=(Text(text=text),))


def assistant(text, *calls):
    return ContextMessage(
        role="assistant",
        content=(Text(text=text), *(ToolCall(id=call.id, name=call.name, input=call.input) for call in calls)),
    )


def result(call, text, *, is_error=False):
    return ContextMessage(
        role="toolResult",
        content=(Text(text=text),),
        tool_call_id=call.id,
        tool_name=call.name,
        is_error=is_error,
    )


def request(*messages, **more):
    return ModelRequest(model="m", messages=messages or (user("hi"),), **more)


def deltas(provider, asked):
    async def collect():
        return [delta async for delta in provider.stream(asked)]

    return asyncio.run(collect())


def text_of(answer):
    return "".join(delta.text for delta in answer if isinstance(delta, TextDelta))


def thinking_of(answer):
    return "".join(delta.thinking for delta in answer if isinstance(delta, ThinkingDelta))


def calls_of(answer):
    return [delta for delta in answer if isinstance(delta, ToolCallDelta)]

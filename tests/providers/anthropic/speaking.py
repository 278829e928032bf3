"""The Messages interface as a server speaks it: the events of a reply, and the bodies of refusals.

Everything is said in the order of the protocol, so that the SDK's own accumulator can be asked what it makes of the
same bytes.
"""

import asyncio
import json
from typing import Any

import anthropic

from tests.loopback import Answer, events
from wakelog.decide.assembly import ReplyDraft
from wakelog.log.content import AnyPart, Faulted, Finished, Text, Thinking, ToolCall
from wakelog.providers.anthropic.messages import MESSAGES
from wakelog.providers.anthropic.messages_request import request_body
from wakelog.providers.http_client import tls_context
from wakelog.providers.http_provider import HttpProvider
from wakelog.providers.requests import parse_params

KEY = "sk-not-a-key"
MODEL = "claude-sonnet-4-6"
PING = {"type": "ping"}
STREAMED = {"content-type": "text/event-stream", "request-id": "req_1"}


def started(**usage):
    counts = {"input_tokens": 10, "output_tokens": 1, **usage}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts,
    }
    return {"type": "message_start", "message": message}


def ended(stop="end_turn", **usage):
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7, **usage}},
        {"type": "message_stop"},
    ]


def block(at, opening, *deltas):
    """One block, from its start to its stop."""
    return [
        {"type": "content_block_start", "index": at, "content_block": opening},
        *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": at},
    ]


def text(at, *pieces):
    return block(at, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def thought(at, *pieces, signature="sig=="):
    opening = {"type": "thinking", "thinking": "", "signature": ""}
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
    signed = [{"type": "signature_delta", "signature": signature}] if signature else []
    return block(at, opening, *deltas, *signed)


def redacted(at, sealed="Sm9rZQ=="):
    return block(at, {"type": "redacted_thinking", "data": sealed})


def call(at, call_id, name, *pieces):
    opening = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(at, opening, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def reply(*blocks, stop="end_turn", **usage):
    """The events of a whole reply."""
    return [started(), *(event for each in blocks for event in each), *ended(stop, **usage)]


def answer(*told, **more):
    """A reply as the loopback plays it."""
    return Answer(events(*told), headers=STREAMED, **more)


def refused(status, kind="invalid_request_error", message="no", **headers):
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_2"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer([json.dumps(body).encode()], status, {"content-type": "application/json", **named})


# ── both sides of the wire ───────────────────────────────────────────────────────────────────────


def provider(server, **more):
    return HttpProvider(MESSAGES, environ={"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}, **more)


def body_of(request):
    """What would be sent."""
    return request_body(request, parse_params(request.params))


def heard(model, request):
    """What a provider made of a reply: its parts, and its end."""

    async def listen():
        draft, end = ReplyDraft(), None
        async for delta in model.stream(request):
            assert end is None, "something came behind the end"
            if isinstance(delta, Finished | Faulted):
                end = delta
            else:
                draft.add(delta)
        return draft.content, end

    return asyncio.run(listen())


def judged(server):
    """What the SDK's own accumulator makes of the next reply."""

    async def listen():
        http = anthropic.DefaultAsyncHttpxClient(verify=tls_context())
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url, http_client=http) as client:
            asked: dict[str, Any] = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            async with client.messages.stream(**asked) as stream:
                return await stream.get_final_message()

    return asyncio.run(listen())


def parts_of(message):
    """The SDK's message as parts: text that stands beside text is one part here, and text without words is none."""
    parts: list[AnyPart] = []
    for each in message.content:
        match each.type:
            case "text" if parts and isinstance(parts[-1], Text):
                parts[-1] = Text(text=parts[-1].text + each.text)
            case "text" if each.text:
                parts.append(Text(text=each.text))
            case "thinking":
                parts.append(Thinking(thinking=each.thinking, signature=each.signature))
            case "redacted_thinking":
                parts.append(Thinking(bound={"type": "redacted_thinking", "data": each.data}))
            case "tool_use":
                parts.append(ToolCall(id=each.id, name=each.name, input=each.input))
    return tuple(parts)

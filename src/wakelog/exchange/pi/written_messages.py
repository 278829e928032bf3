"""Messages of wakelog in the form that pi stores them in: parts, usage, and the data that is bound to a provider.

This is the reverse of `messages.py`: signatures, encrypted reasoning and the ids of items go back into the fields that
pi keeps them in, so that pi can send them to the same API again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from wakelog.exchange.writing import Losses
from wakelog.log.content import AnyPart, Image, JsonObject, Reply, Text, Thinking, ToolCall, UnknownPart, Usage

RESPONSES_API, CHAT_API, ANTHROPIC_API = "openai-responses", "openai-completions", "anthropic-messages"
_APIS = {"anthropic": ANTHROPIC_API, "openai": RESPONSES_API, "openai-chat": CHAT_API, "google": "google-generative-ai"}
_STOP_REASONS = {"tools": "toolUse", "stop": "stop", "length": "length", "error": "error", "aborted": "aborted"}
_SEPARATOR_CHARS = 2
"""Two newlines are between the texts of a summary of reasoning."""


def pi_provider(provider: str) -> str:
    """Return a provider as pi calls it: the two APIs of OpenAI are one provider there."""
    return "openai" if provider == "openai-chat" else provider


def api_of(reply: Reply) -> str:
    """Return pi's name of the API that a reply came from, judged by the provider or by what is bound to the parts."""
    if reply.provider in _APIS:
        return _APIS[reply.provider]
    bound = [part.bound or {} for part in reply.parts if isinstance(part, Text | Thinking | ToolCall)]
    if any("id" in data for data in bound):
        return RESPONSES_API
    return CHAT_API if any("field" in data for data in bound) else ANTHROPIC_API


def plain_parts(parts: Iterable[AnyPart], losses: Losses, *, is_own: bool) -> list[Any]:
    """Return the parts of a prompt, a tool result or a note. `is_own`: unknown parts came from pi, and go back."""
    written: list[Any] = []
    for part in parts:
        match part:
            case Text():
                written.append({"type": "text", "text": part.text})
            case Image(data=str(data)):
                written.append({"type": "image", "data": data, "mimeType": part.mime_type})
            case UnknownPart() if is_own:
                written.append(part.part)
            case _:
                losses.add(type(part).__name__.lower(), "pi has no such part in this message")
    return written


def reply_message(reply: Reply, losses: Losses, *, is_own: bool) -> JsonObject:
    """Return a message of the model without its time."""
    api = api_of(reply)
    message: JsonObject = {
        "role": "assistant",
        "content": list(_reply_parts(reply.parts, api, losses, is_own=is_own)),
        "api": api,
    }
    if reply.provider is not None:
        message["provider"] = pi_provider(reply.provider)
    if reply.model is not None:
        message["model"] = reply.model
    if reply.usage is None:
        losses.add("usage", "unknown usage is written as 0: pi needs a number")
    elif reply.usage.cost_micros is None:
        losses.add("cost", "an unknown cost is written as 0: pi needs a number")
    message["usage"] = usage_fields(reply.usage or Usage())
    message["stopReason"] = _stop_reason(reply, losses)
    if reply.request_id is not None:
        message["responseId"] = reply.request_id
    return message


def _stop_reason(reply: Reply, losses: Losses) -> str:
    if reply.stop_reason in _STOP_REASONS:
        return _STOP_REASONS[reply.stop_reason]
    if reply.stop_reason is not None:
        losses.add("stop reason", f"{reply.stop_reason!r} is written as the usual end: pi has no such reason")
    return "toolUse" if reply.tool_calls else "stop"


def usage_fields(usage: Usage) -> JsonObject:
    """Return usage as pi stores it. Only the total of the cost is known."""
    counts = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    names = ("input", "output", "cacheRead", "cacheWrite")
    cost = {**dict.fromkeys(names, 0), "total": (usage.cost_micros or 0) / 1_000_000}
    return {**dict(zip(names, counts, strict=True)), "totalTokens": sum(counts), "cost": cost}


def written_call_id(call: ToolCall, api: str) -> str:
    """Return the id of a call in pi: with the Responses API, the id of its item is behind a `|`."""
    if api != RESPONSES_API:
        return call.id
    item = (call.bound or {}).get("id")
    return f"{call.id}|{item}" if isinstance(item, str) and item else call.id.replace("|", "_")


# ── parts of replies ─────────────────────────────────────────────────────────────────────────────


def _reply_parts(parts: Sequence[AnyPart], api: str, losses: Losses, *, is_own: bool) -> Iterator[Any]:
    for part in parts:
        match part:
            case Text():
                yield {"type": "text", "text": part.text, **_text_signature(part.bound or {}, api)}
            case Thinking():
                yield _thinking(part, api, losses)
            case ToolCall():
                yield _tool_call(part, api, losses)
            case UnknownPart() if is_own:
                yield part.part
            case _:
                losses.add(type(part).__name__.lower(), "pi has no such part in a message of the model")


def _text_signature(bound: JsonObject, api: str) -> JsonObject:
    if api != RESPONSES_API:
        return {name: bound[name] for name in ("textSignature",) if isinstance(bound.get(name), str)}
    if not isinstance(bound.get("id"), str):
        return {}
    item = {key: bound[key] for key in ("id", "phase") if isinstance(bound.get(key), str)}
    return {"textSignature": _compact_json({"v": 1, **item})}


def _thinking(part: Thinking, api: str, losses: Losses) -> JsonObject:
    written: JsonObject = {"type": "thinking", "thinking": part.thinking}
    bound = part.bound or {}
    match bound:
        case {"type": "redacted_thinking", "data": str(data)}:
            return {**written, "thinkingSignature": data, "redacted": True}
        case {"field": str(field)} if api == CHAT_API:
            return {**written, "thinkingSignature": field}
        case {"id": str()} if api == RESPONSES_API:
            return {**written, "thinkingSignature": _compact_json(_reasoning_item(part, bound))}
    if bound:
        losses.add("thinking", "what the provider bound to it has no place in pi")
    return {**written, **({"thinkingSignature": part.signature} if part.signature else {})}


def _reasoning_item(part: Thinking, bound: JsonObject) -> JsonObject:
    """Return the reasoning as the item of the Responses API that it was."""
    item: JsonObject = {"id": bound["id"], "type": "reasoning", "summary": []}
    at = 0
    for kind, tag in (("summary", "summary_text"), ("content", "reasoning_text")):
        for size in _sizes(bound.get(kind)):
            item.setdefault(kind, []).append({"type": tag, "text": part.thinking[at : at + size]})
            at += size + _SEPARATOR_CHARS
    return item if part.signature is None else {**item, "encrypted_content": part.signature}


def _sizes(values: Any) -> list[int]:
    return [size for size in values if isinstance(size, int)] if isinstance(values, list) else []


def _tool_call(call: ToolCall, api: str, losses: Losses) -> JsonObject:
    arguments = call.input
    if not isinstance(arguments, dict):
        if arguments is not None:
            losses.add("tool call", "pi needs an object: other arguments are written as its field `input`")
        arguments = {} if arguments is None else {"input": arguments}
    written: JsonObject = {
        "type": "toolCall",
        "id": written_call_id(call, api),
        "name": call.name,
        "arguments": arguments,
    }
    signature = (call.bound or {}).get("thoughtSignature")
    return {**written, "thoughtSignature": signature} if isinstance(signature, str) else written


def _compact_json(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

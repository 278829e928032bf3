"""Messages of pi as messages of wakelog. OpenClaw stores the same ones.

Signatures and ids that a model API needs back are stored as wakelog's own providers store them, so that a session that
is continued with the same model sends them back: pi keeps the signature of Anthropic in `thinkingSignature`, the whole
reasoning item of OpenAI Responses as JSON in the same field, and the id of the item behind a `|` in the id of a tool
call.
Left out are the time inside a message (the entry has one), the name of the API where the reply tells it, ids that only
pi's own process used, the API's word for a usual end, and the shares of a cost. Any other field without a counterpart
is returned by `left_over`.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wakelog.decide.assembly import with_unique_call_ids
from wakelog.exchange.chains import object_of, part_fields, without
from wakelog.log.content import AnyPart, Image, JsonObject, Reply, Text, Thinking, ToolCall, UnknownPart, Usage

_RESPONSES_APIS = ("openai-responses", "openai-codex-responses", "azure-openai-responses")
_CHAT_API = "openai-completions"
_PROVIDERS = {("openai", _CHAT_API): "openai-chat"}
_STOP_REASONS = {"toolUse": "tools"}
_MICROS = 1_000_000
_COUNT_MAX = 1 << 53
_LEFT_OUT = frozenset(("role", "content", "timestamp", "api", "idempotencyKey"))
_REPLY_FIELDS = frozenset(("provider", "model", "usage", "stopReason", "errorMessage", "responseId"))
_RESULT_FIELDS = frozenset(("toolCallId", "toolName", "isError"))
_NOTE_FIELDS = frozenset(("customType",))
_KNOWN_FIELDS: Mapping[str, frozenset[str]] = {
    "assistant": _LEFT_OUT | _REPLY_FIELDS,
    "toolResult": _LEFT_OUT | _RESULT_FIELDS,
    "custom": _LEFT_OUT | _NOTE_FIELDS,
    "hookMessage": _LEFT_OUT | _NOTE_FIELDS,
}


_PARTS = {"text": ("text",), "image": ("data", "mimeType")}
_REPLY_PARTS = {
    "text": ("text", "textSignature"),
    "image": ("data", "mimeType"),
    "thinking": ("thinking", "thinkingSignature", "redacted"),
    "toolCall": ("id", "name", "arguments", "thoughtSignature"),
}
_USUAL_ENDS = ("stop", "toolUse", "length")
_COUNTS = ("input", "output", "cacheRead", "cacheWrite")


def text_field(record: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text; None if it is absent or anything else."""
    value = record.get(name)
    return value if isinstance(value, str) else None


def count_field(record: Mapping[str, Any], name: str) -> int | None:
    """Return a field that is a number of something; None if it is absent, negative or not a number."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _COUNT_MAX:
        return None
    return int(value)


def has_content(message: Mapping[str, Any]) -> bool:
    """Return whether the content of a message has one of the known forms: a text, a list of parts, or nothing."""
    content = message.get("content")
    return content is None or isinstance(content, str | list)


def parts_of(content: Any) -> tuple[AnyPart, ...]:
    """Return the parts of a prompt, a tool result or a note."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    return tuple(_plain_part(part) for part in content) if isinstance(content, list) else ()


def _plain_part(part: Any) -> AnyPart:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text=text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return Image(mime_type=mime_type, data=data)
    return UnknownPart(part=part)


def left_over(message: Mapping[str, Any]) -> JsonObject:
    """Return the fields of a message that have no counterpart."""
    known = _KNOWN_FIELDS.get(str(message.get("role")), _LEFT_OUT)
    rest = {key: value for key, value in message.items() if key not in known and value is not None}
    is_reply = message.get("role") == "assistant"
    content = message.get("content")
    if parts := part_fields(content, _REPLY_PARTS if is_reply else _PARTS) if isinstance(content, list) else {}:
        rest["parts"] = parts
    if is_reply:
        rest |= usage_rest(message)
        if message.get("stopReason") in _USUAL_ENDS:
            rest.pop("rawStopReason", None)
    if rest.get("display") is True:
        del rest["display"]
    if isinstance(mark := rest.get("__openclaw"), dict):
        rest["__openclaw"] = {key: value for key, value in mark.items() if key != "runId"}
    return {key: value for key, value in rest.items() if value != {}}


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def reply_of(message: Mapping[str, Any]) -> Reply:
    """Return a message of the model."""
    provider, api = text_field(message, "provider"), text_field(message, "api")
    stop_reason = text_field(message, "stopReason")
    return Reply(
        content=with_unique_call_ids(_reply_parts(message.get("content"), api)),
        model=text_field(message, "model"),
        provider=_PROVIDERS.get((provider or "", api or ""), provider),
        stop_reason=_STOP_REASONS.get(stop_reason or "", stop_reason),
        usage=usage_of(message.get("usage")),
        request_id=text_field(message, "responseId"),
    )


def foreign_call_ids(message: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tool calls of a reply, in their order, as results name them."""
    content = message.get("content")
    return [part["id"] for part in content if _is_call(part)] if isinstance(content, list) else []


def _is_call(part: Any) -> bool:
    match part:
        case {"type": "toolCall", "id": str(), "name": str()}:
            return True
    return False


def _reply_parts(content: Any, api: str | None) -> Iterable[AnyPart]:
    if not isinstance(content, list):
        return parts_of(content)
    if api in _RESPONSES_APIS:
        return _responses_parts(content)
    return [_reply_part(part, api) for part in content]


def _reply_part(part: Any, api: str | None) -> AnyPart:
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text=text, bound=_signature_field(part, "textSignature"))
        case {"type": "thinking", "redacted": True, "thinkingSignature": str(data)}:
            bound = {"type": "redacted_thinking", "data": data}
            return Thinking(thinking=text_field(part, "thinking") or "", bound=bound)
        case {"type": "thinking", "thinking": str(thinking)}:
            signature = text_field(part, "thinkingSignature")
            if api == _CHAT_API and signature:
                # Not a signature: the name of the field in which the server sent the reasoning.
                return Thinking(thinking=thinking, bound={"field": signature})
            return Thinking(thinking=thinking, signature=signature or None)
        case {"type": "toolCall", "id": str(call_id), "name": str(name)}:
            return ToolCall(
                id=call_id, name=name, input=part.get("arguments"), bound=_signature_field(part, "thoughtSignature")
            )
    return _plain_part(part)


def _signature_field(part: Mapping[str, Any], name: str) -> JsonObject | None:
    signature = text_field(part, name)
    return {name: signature} if signature else None


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────


def _responses_parts(content: Sequence[Any]) -> Iterable[AnyPart]:
    """Yield the parts of a reply of OpenAI Responses, bound to the items that they were.

    An item is only taken back behind the reasoning that it followed (`after`).
    """
    after: JsonObject = {}
    for part in content:
        match part:
            case {"type": "thinking", "thinking": str(thinking), "thinkingSignature": str(signature)}:
                item = _json_object(signature)
                if isinstance(item.get("id"), str):
                    after = {"after": item["id"]}
                yield _reasoning(thinking, signature, item)
            case {"type": "text", "text": str(text), "textSignature": str(signature)} if signature:
                yield Text(text=text, bound={**_message_item(signature), **after})
            case {"type": "toolCall", "id": str(call_id), "name": str(name)} if "|" in call_id:
                call_id, _, item_id = call_id.partition("|")
                bound = {"id": item_id, **after, **(_signature_field(part, "thoughtSignature") or {})}
                yield ToolCall(id=call_id, name=name, input=part.get("arguments"), bound=bound)
            case _:
                yield _reply_part(part, None)


def _reasoning(thinking: str, signature: str, item: JsonObject) -> Thinking:
    if not isinstance(item.get("id"), str):
        return Thinking(thinking=thinking, signature=signature)
    bound: JsonObject = {"id": item["id"]}
    for kind in ("summary", "content"):
        if sizes := _text_sizes(item.get(kind)):
            bound[kind] = sizes
    return Thinking(thinking=thinking, signature=text_field(item, "encrypted_content"), bound=bound)


def _text_sizes(texts: Any) -> list[int]:
    if not isinstance(texts, list):
        return []
    return [len(text["text"]) for text in texts if isinstance(text, dict) and isinstance(text.get("text"), str)]


def _message_item(signature: str) -> JsonObject:
    """Return the id and the phase of a message. Older versions stored the bare id."""
    item = _json_object(signature)
    found = {key: item[key] for key in ("id", "phase") if isinstance(item.get(key), str)}
    return found if "id" in found else {"id": signature}


def _json_object(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


def usage_of(usage: Any) -> Usage | None:
    """Return the usage of a model call. As in wakelog, `input` is without what was read from or written to a cache."""
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=count_field(usage, "input") or 0,
        output_tokens=count_field(usage, "output") or 0,
        cache_read_tokens=count_field(usage, "cacheRead") or 0,
        cache_write_tokens=count_field(usage, "cacheWrite") or 0,
        cost_micros=_cost_micros(usage.get("cost")),
    )


def usage_rest(record: Mapping[str, Any]) -> JsonObject:
    """Return the field `usage` with what has no counterpart; nothing if it has no such field."""
    usage = object_of(record.get("usage"))
    rest = without(usage, *_COUNTS, "totalTokens", "cost")
    if cost := without(object_of(usage.get("cost")), *_COUNTS, "total"):
        rest["cost"] = cost
    return {"usage": rest} if rest else {}


def _cost_micros(cost: Any) -> int | None:
    total = cost.get("total") if isinstance(cost, dict) else cost
    if isinstance(total, bool) or not isinstance(total, int | float) or not 0 <= total < _MICROS:
        return None
    return math.floor(total * _MICROS + 0.5)

"""Content of Goose's messages as parts of wakelog's messages, and what is left of an item without a counterpart.

Items for the person alone (`annotations.audience`) are not given to the model. The text of an embedded resource is.
Signatures and provider data that a model API needs back are kept where wakelog's own providers keep them.
"""

from collections.abc import Mapping
from typing import Any

from wakelog.exchange.chains import json_text
from wakelog.exchange.goose.records import RESULT_META, object_of, string_of, without
from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    ToolStatus,
    UnknownPart,
)

STATUSES: tuple[ToolStatus, ...] = ("ok", "error", "interrupted", "skipped", "denied", "unknown")
_PROMPT_TYPES = ("text", "image", "toolResponse")
_REPLY_TYPES = ("text", "image", "thinking", "reasoning", "redactedThinking", "toolRequest")


def is_shown(item: Mapping[str, Any]) -> bool:
    """Return whether the model is given an item."""
    audience = object_of(item.get("annotations")).get("audience")
    return not isinstance(audience, list) or "assistant" in audience


def has_meaning(content: list[JsonObject], role: str) -> bool:
    """Return whether any item is one that a prompt, a tool result or a reply is made of; also if there is no item."""
    known = _PROMPT_TYPES if role == "user" else _REPLY_TYPES
    return not content or any(
        item.get("type") in known and not isinstance(_part(item), UnknownPart) for item in content
    )


def _part(item: JsonObject) -> AnyPart | None:
    """Return an item as a part; None for a tool result."""
    if item.get("type") == "toolResponse" and isinstance(item.get("id"), str):
        return None
    return reply_part(item)[0]


# ── prompts and replies ──────────────────────────────────────────────────────────────────────────


def prompt_part(item: JsonObject) -> tuple[AnyPart, JsonObject]:
    """Return an item of a prompt and its fields without a counterpart."""
    match item:
        case {"type": "text", "text": str(text)} if is_shown(item):
            return Text(text=text), without(item, "type", "text")
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)} if is_shown(item):
            return Image(mime_type=mime_type, data=data), without(item, "type", "data", "mimeType")
    return UnknownPart(part=item), {}


def reply_part(item: JsonObject) -> tuple[AnyPart, JsonObject]:
    """Return an item of a reply and its fields without a counterpart."""
    match item:
        case {"type": "thinking", "thinking": str(thinking)}:
            signature = string_of(item.get("signature")) or None
            return Thinking(thinking=thinking, signature=signature), without(item, "type", "thinking", "signature")
        case {"type": "reasoning", "text": str(thinking)}:
            return Thinking(thinking=thinking), without(item, "type", "text")
        case {"type": "redactedThinking", "data": str(data)}:
            return Thinking(bound={"type": "redacted_thinking", "data": data}), without(item, "type", "data")
        case {"type": "toolRequest", "id": str(call_id), "toolCall": {"value": {"name": str(name)}}}:
            value = object_of(item["toolCall"]["value"])
            metadata = object_of(item.get("metadata")) or None
            call = ToolCall(id=call_id, name=name, input=value.get("arguments"), bound=metadata)
            rest = without(item, "type", "id", "toolCall", *(("metadata",) if metadata else ()))
            if more := without(value, "name", "arguments"):
                rest["toolCall"] = more
            return call, rest
    return prompt_part(item)


# ── tool results ─────────────────────────────────────────────────────────────────────────────────


def result_of(item: JsonObject) -> tuple[ToolResult, JsonObject]:
    """Return a `toolResponse` as a result that names no reply yet, and its fields without a counterpart.

    In those fields, `content` has what is left of the items of the result, by their place: `rest` of one that became a
    part, `whole` of one that did not.
    """
    outcome = object_of(item.get("toolResult"))
    rest = without(item, "type", "id", "toolResult")
    if "value" not in outcome:
        error = outcome.get("error")
        text = "" if error is None else json_text(error)
        given = item.get("toolResult")
        if more := without(outcome, "status", "error") if isinstance(given, dict) else given:
            rest["toolResult"] = more
        return _result(item, (Text(text=text),) if text else (), is_error=True, mark={}), {**rest, "isFailure": True}
    value = outcome["value"]
    # Before CallToolResult was stored, the value was the list of its items.
    fields: JsonObject = (
        value if isinstance(value, dict) else {"content": value if isinstance(value, list) else [value]}
    )
    items = fields.get("content")
    parts, left = _result_parts(items if isinstance(items, list) else [])
    meta = object_of(fields.get("_meta"))
    mark = object_of(meta.get(RESULT_META))
    more = without(fields, "content", "isError", "_meta")
    if kept := without(meta, RESULT_META):
        more["_meta"] = kept
    if items is not None and not isinstance(items, list):
        more["content"] = items
    if more:
        rest["value"] = more
    if left:
        rest["content"] = left
    return _result(item, parts, is_error=fields.get("isError") is True, mark=mark), rest


def _result(item: JsonObject, parts: tuple[AnyPart, ...], *, is_error: bool, mark: JsonObject) -> ToolResult:
    status = mark.get("status")
    duration = mark.get("durationMs")
    return ToolResult(
        content=parts,
        tool_call_id=item["id"],
        status=status if status in STATUSES else "error" if is_error else "ok",
        is_error=is_error,
        duration_ms=duration
        if isinstance(duration, int) and not isinstance(duration, bool) and duration >= 0
        else None,
    )


def _result_parts(items: list[Any]) -> tuple[tuple[AnyPart, ...], JsonObject]:
    parts: list[AnyPart] = []
    left: JsonObject = {}
    for at, item in enumerate(items):
        found = _result_part(item) if isinstance(item, dict) and is_shown(item) else None
        if found is None:
            left[str(at)] = {"whole": item}
            continue
        part, rest = found
        parts.append(part)
        if rest:
            left[str(at)] = {"rest": rest}
    return tuple(parts), left


def _result_part(item: JsonObject) -> tuple[AnyPart, JsonObject] | None:
    """Return an item of a tool result; None if the model is not given anything of it."""
    match item:
        case {"type": "text", "text": str(text)}:
            return Text(text=text), without(item, "type", "text")
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return Image(mime_type=mime_type, data=data), without(item, "type", "data", "mimeType")
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            return Audio(mime_type=mime_type, data=data), without(item, "type", "data", "mimeType")
        case {"type": "resource", "resource": {"text": str(text)}}:
            resource = without(item["resource"], "text")
            return Text(text=text), {**without(item, "type", "resource"), "resource": resource}
    return None


def child_of(item: JsonObject) -> str:
    """Return the session of the sub-agent that a tool result names; empty if it names none."""
    match item:
        case {"toolResult": {"value": {"_meta": {"subagent_session_id": str(child)}}}}:
            return child
    return ""

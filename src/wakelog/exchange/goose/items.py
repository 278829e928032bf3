"""Parts of wakelog's messages as content of Goose's messages: the counterpart of `content.py`.

`fields` are what `content.py` had left of a message that Goose itself wrote; they are put back.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from wakelog.exchange.goose.checks import is_accepted, is_deep
from wakelog.exchange.goose.records import NOTE_TYPE, RESULT_META, object_of
from wakelog.exchange.writing import Losses
from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)

_OTHER_API = "data that only another API takes"
_UNKNOWN = "Goose would refuse it"
_NO_MEDIA = "its content is not in the session"


def message_items(
    parts: tuple[AnyPart, ...], fields: Mapping[str, Any], call_ids: Mapping[str, str], losses: Losses
) -> list[JsonObject]:
    """Return the content of a prompt or a reply. `call_ids` are the ids that the calls are written with."""
    left = object_of(fields.get("content"))
    found = ((_item(part, call_ids, losses), object_of(left.get(str(at)))) for at, part in enumerate(parts))
    return [_joined(item, rest) for item, rest in found if item is not None]


def _joined(item: JsonObject, rest: JsonObject) -> JsonObject:
    """Return an item with the fields that were left of it, as long as Goose takes it with them."""
    if "toolCall" in rest and "toolCall" in item:
        value = {**object_of(rest["toolCall"]), **item["toolCall"]["value"]}
        rest = {**rest, "toolCall": {"status": "success", "value": value}}
        item = {key: value for key, value in item.items() if key != "toolCall"}
    joined = {**rest, **item}
    return joined if is_accepted(joined) else {**item, **({"toolCall": rest["toolCall"]} if "toolCall" in rest else {})}


def _item(part: AnyPart, call_ids: Mapping[str, str], losses: Losses) -> JsonObject | None:
    match part:
        case Text():
            if part.bound is not None:
                losses.add("text", _OTHER_API)
            return {"type": "text", "text": part.text}
        case Thinking():
            return _thinking(part, losses)
        case Image(data=str(data)):
            return {"type": "image", "data": data, "mimeType": part.mime_type}
        case Image():
            losses.add("image", _NO_MEDIA)
        case Audio():
            losses.add("audio", "Goose has no audio in prompts and replies")
        case ToolCall():
            return _request(part, call_ids, losses)
        case UnknownPart() if is_accepted(part.part):
            return dict(part.part)
        case UnknownPart():
            losses.add("part", _UNKNOWN)
    return None


def _thinking(part: Thinking, losses: Losses) -> JsonObject:
    bound = part.bound or {}
    if bound.get("type") == "redacted_thinking" and isinstance(bound.get("data"), str):
        return {"type": "redactedThinking", "data": bound["data"]}
    is_other = bool(bound)
    if is_other:
        losses.add("thinking", _OTHER_API)
    return {"type": "thinking", "thinking": part.thinking, "signature": "" if is_other else part.signature or ""}


def _request(call: ToolCall, call_ids: Mapping[str, str], losses: Losses) -> JsonObject:
    arguments = call.input
    if is_deep(arguments):
        losses.add("toolcall", "its input is nested too deeply and is written as text")
        arguments = {"json": msgspec.json.encode(arguments).decode()}
    elif not isinstance(arguments, dict | None):
        losses.add("toolcall", "its input is no object and is written inside one")
        arguments = {"value": arguments}
    item: JsonObject = {
        "type": "toolRequest",
        "id": call_ids.get(call.id, call.id),
        "toolCall": {"status": "success", "value": {"name": call.name, "arguments": arguments}},
    }
    if call.bound and "id" not in call.bound:
        item["metadata"] = call.bound
    elif call.bound:
        # Goose would send the id of an item of OpenAI Responses in place of the id of the call.
        losses.add("toolcall", _OTHER_API)
    return item


def noted(items: list[JsonObject], kind: str) -> list[JsonObject]:
    """Return the content of a note, with its kind in the first item."""
    first, *rest = items or [{"type": "text", "text": ""}]
    return [{**first, "_meta": {**object_of(first.get("_meta")), NOTE_TYPE: kind}}, *rest]


# ── tool results ─────────────────────────────────────────────────────────────────────────────────


def response_item(result: ToolResult, call_id: str, fields: Mapping[str, Any], losses: Losses) -> JsonObject:
    """Return a tool result as an item."""
    left = object_of(fields.get("result"))
    base: JsonObject = {"type": "toolResponse", "id": call_id}
    if isinstance(left.get("metadata"), dict):
        base["metadata"] = left["metadata"]
    if left.get("isFailure") is True and result.is_error and result.status in ("error", None):
        return {**base, "toolResult": {"status": "error", "error": result.text}}
    value: JsonObject = {"content": list(_result_items(result, object_of(left.get("content")), losses))}
    more = object_of(left.get("value"))
    item = _response(base, {**more, **value}, result)
    if not is_accepted(item):
        item = _response(base, value, result)
    return item


def _response(base: JsonObject, value: JsonObject, result: ToolResult) -> JsonObject:
    expected = "error" if result.is_error else "ok"
    mark: JsonObject = {"status": result.status} if result.status not in (expected, None) else {}
    if result.duration_ms is not None:
        mark["durationMs"] = result.duration_ms
    meta = {**object_of(value.get("_meta")), **({RESULT_META: mark} if mark else {})}
    found = {**value, "isError": result.is_error, **({"_meta": meta} if meta else {})}
    return {**base, "toolResult": {"status": "success", "value": found}}


def _result_items(result: ToolResult, left: JsonObject, losses: Losses) -> Iterator[JsonObject]:
    """Yield the items of a result: its parts, and between them those that the model was not given."""
    at = 0
    for part in result.parts:
        while "whole" in object_of(left.get(str(at))):
            yield from _accepted(left[str(at)]["whole"], losses)
            at += 1
        item = _result_item(part, losses)
        rest = object_of(object_of(left.get(str(at))).get("rest"))
        at += 1
        if item is not None:
            yield _with_rest(item, rest)
    while "whole" in object_of(left.get(str(at))):
        yield from _accepted(left[str(at)]["whole"], losses)
        at += 1


def _accepted(item: Any, losses: Losses) -> Iterator[JsonObject]:
    if is_accepted({"type": "toolResponse", "id": "", "toolResult": {"status": "success", "value": [item]}}):
        yield item
    else:
        losses.add("part of a result", _UNKNOWN)


def _with_rest(item: JsonObject, rest: JsonObject) -> JsonObject:
    resource = rest.get("resource")
    if isinstance(resource, dict) and item["type"] == "text" and isinstance(resource.get("uri"), str):
        inner = {**resource, "text": item["text"]}
        return {
            **{key: value for key, value in rest.items() if key != "resource"},
            "type": "resource",
            "resource": inner,
        }
    return {**{key: value for key, value in rest.items() if key != "resource"}, **item}


def _result_item(part: AnyPart, losses: Losses) -> JsonObject | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Image(data=str(data)):
            return {"type": "image", "data": data, "mimeType": part.mime_type}
        case Audio(data=str(data)):
            return {"type": "audio", "data": data, "mimeType": part.mime_type}
        case Image() | Audio():
            losses.add(type(part).__name__.lower(), _NO_MEDIA)
        case _:
            losses.add("part of a result", _UNKNOWN)
    return None

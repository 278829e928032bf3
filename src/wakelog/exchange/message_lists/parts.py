"""The content of messages of model APIs as parts of wakelog, in the form in which wakelog's own providers store it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wakelog.exchange.chains import part_fields
from wakelog.exchange.message_lists.shapes import MODEL_ITEM_TYPES
from wakelog.exchange.records import decode_document, is_too_deep
from wakelog.log.content import AnyPart, Audio, Image, JsonObject, Text, Thinking, ToolCall, UnknownPart, Usage
from wakelog.providers.anthropic.messages_request import PLAIN_BLOCKS
from wakelog.providers.openai.conversation import Bound, bound_as_json, is_spaced
from wakelog.providers.openai.responses_request import SUMMARY_SEPARATOR

_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_COUNT_MAX = 1 << 53
_CHAT_COUNTS = ("prompt_tokens", "completion_tokens", "prompt_tokens_details")
_RESPONSES_COUNTS = ("input_tokens", "output_tokens", "input_tokens_details")
_COUNTS = frozenset(
    (*_CHAT_COUNTS[:2], *_RESPONSES_COUNTS[:2], "cache_read_input_tokens", "cache_creation_input_tokens")
)
_PART_FIELDS = {
    "text": ("text", "citations"),
    "input_text": ("text",),
    "output_text": ("text", "annotations"),
    "refusal": ("refusal",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id", "content", "is_error"),
    "image": ("source",),
    "image_url": ("image_url",),
    "input_image": ("image_url",),
    "input_audio": ("input_audio",),
}
_ITEM_FIELDS = (
    *("type", "role", "id", "phase", "content"),
    *("call_id", "name", "arguments", "output"),
    *("summary", "encrypted_content"),
)
_STOP_REASONS = {"end_turn": "stop", "tool_use": "tools", "max_tokens": "length"}


def text_field(record: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text; None if it is absent or anything else."""
    value = record.get(name)
    return value if isinstance(value, str) else None


def plain_parts(content: Any) -> tuple[AnyPart, ...]:
    """Return the content of a user message or a tool result."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    return tuple(map(plain_part, content)) if isinstance(content, list) else ()


def plain_part(part: Any) -> AnyPart:
    """Return one part of a user message or a tool result; what wakelog has no part for is kept as it is."""
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Text(text=text)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": str(data)}}:
            return Image(mime_type=kind, data=data)
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return _image(url) or UnknownPart(part=part)
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)}} if kind in _AUDIO_TYPES:
            return Audio(mime_type=_AUDIO_TYPES[kind], data=data)
    return UnknownPart(part=part)


def _image(url: str) -> Image | None:
    """Return the image of a data URL; None for one that is elsewhere."""
    kind, mark, data = url.removeprefix("data:").partition(";base64,")
    return Image(mime_type=kind, data=data) if url.startswith("data:image/") and mark else None


# ── replies of Chat Completions and Anthropic ────────────────────────────────────────────────────


def reply_parts(message: Mapping[str, Any]) -> Iterator[AnyPart]:
    """Yield the parts of a reply: reasoning, content, and calls."""
    for field in ("reasoning_content", "reasoning"):
        if thinking := text_field(message, field):
            yield Thinking(thinking=thinking, bound={"field": field})
            break
    content = message.get("content")
    if isinstance(content, list):
        yield from map(_block, content)
    else:
        yield from plain_parts(content)
    if refusal := text_field(message, "refusal"):
        yield Text(text=refusal, bound=bound_as_json(Bound(refusal=True)))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield _chat_call(call)
    if isinstance(call := message.get("function_call"), dict):
        yield _chat_call({"id": "function_call", "function": call})


def _block(block: Any) -> AnyPart:
    match block:
        case {"type": "text", "text": str(text)}:
            citations = block.get("citations")
            return Text(text=text, bound={"citations": citations} if citations else None)
        case {"type": "thinking", "thinking": str(thinking)}:
            return Thinking(thinking=thinking, signature=text_field(block, "signature"))
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(bound={"type": "redacted_thinking", "data": data})
        case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
            return ToolCall(id=call_id, name=name, input=block.get("input"))
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text=text, bound=bound_as_json(Bound(refusal=True)))
        case {"type": "output_text" | "input_text" | "image" | "image_url" | "input_image" | "input_audio"}:
            return plain_part(block)
        case {"type": str(kind)} if kind not in PLAIN_BLOCKS:
            return Text(text="", bound=block)
    return UnknownPart(part=block)


def _chat_call(call: Any) -> AnyPart:
    match call:
        case {"id": str(call_id), "function": {"name": str(name), **rest}}:
            value, spaced = parsed_input(rest.get("arguments"))
            return ToolCall(id=call_id, name=name, input=value, bound=bound_as_json(Bound(spaced=spaced)))
        case {"id": str(call_id), "custom": {"name": str(name), **rest}}:
            return ToolCall(id=call_id, name=name, input=rest.get("input"), bound=bound_as_json(Bound(custom={})))
    return UnknownPart(part=call)


def content_fields(content: Any) -> JsonObject:
    """Return the fields of the parts of a message that no part of wakelog has, by the number of the part."""
    rest: JsonObject = {}
    for number, fields in part_fields(content if isinstance(content, list) else (), _PART_FIELDS).items():
        if kept := {key: value for key, value in fields.items() if value not in ([], {})}:
            rest[number] = kept
    return rest


def item_fields(item: JsonObject) -> JsonObject:
    """Return the fields of an item of Responses that no part has. That it is complete is not worth an entry."""
    kind = item.get("type")
    if kind in MODEL_ITEM_TYPES or kind == "custom_tool_call":
        return {}
    known = (*_ITEM_FIELDS, *(("status",) if item.get("status") == "completed" else ()))
    rest = {key: value for key, value in item.items() if key not in known and value not in (None, [], {})}
    parts = content_fields(item.get("content")) if item.get("role") == "assistant" else {}
    return rest | ({"parts": parts} if parts else {})


def parsed_input(arguments: Any) -> tuple[Any, bool]:
    """Return the input of a call, and whether it was written with spaces. Text that no entry can hold as JSON stays."""
    if not isinstance(arguments, str):
        return arguments, False
    value = decode_document(arguments.encode("utf-8", "surrogatepass"))
    if value is None or (isinstance(value, dict | list) and is_too_deep(value)):
        return arguments, False
    return value, is_spaced(arguments, value)


def stop_reason_of(message: Mapping[str, Any]) -> str | None:
    """Return why a reply of Anthropic ended."""
    reason = text_field(message, "stop_reason")
    return _STOP_REASONS.get(reason or "", reason)


def usage_of(usage: Any) -> Usage | None:
    """Return the usage in a reply; None if there is none, or nothing in it is known.

    Anthropic counts what was read from or written to a cache apart from the input, OpenAI as a part of it.
    """
    if not isinstance(usage, dict) or not usage.keys() & _COUNTS:
        return None
    is_chat = "prompt_tokens" in usage or "completion_tokens" in usage
    given, made, details = _CHAT_COUNTS if is_chat else _RESPONSES_COUNTS
    known = usage.get(details)
    cached = min(_count(known, "cached_tokens"), _count(usage, given)) if isinstance(known, dict) else 0
    return Usage(
        input_tokens=_count(usage, given) - cached,
        output_tokens=_count(usage, made),
        cache_read_tokens=cached or _count(usage, "cache_read_input_tokens"),
        cache_write_tokens=_count(usage, "cache_creation_input_tokens"),
    )


def usage_fields(usage: Any) -> Any:
    """Return what `usage_of` leaves out; None if that is nothing."""
    if not isinstance(usage, dict) or usage_of(usage) is None:
        return usage
    rest = {key: value for key, value in usage.items() if key not in _COUNTS and value not in (None, 0, [], {})}
    for details in (_CHAT_COUNTS[2], _RESPONSES_COUNTS[2]):
        if isinstance(known := rest.get(details), dict):
            left = {key: value for key, value in known.items() if key != "cached_tokens" and value}
            rest = {**rest, details: left} if left else {key: rest[key] for key in rest if key != details}
    return rest or None


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int and 0 <= value < _COUNT_MAX else 0


# ── items of Responses ───────────────────────────────────────────────────────────────────────────


def item_parts(item: JsonObject, after: str | None) -> Iterable[AnyPart]:
    """Return the parts of an item of the model; `after` is the id of the reasoning that it follows."""
    item_id = text_field(item, "id")
    match item.get("type"):
        case "reasoning":
            return [_reasoning(item)]
        case "function_call":
            value, spaced = parsed_input(item.get("arguments"))
            bound = Bound(id=item_id, after=after if item_id else None, spaced=spaced)
            return [ToolCall(id=item["call_id"], name=item["name"], input=value, bound=bound_as_json(bound))]
        case "custom_tool_call":
            known = ("type", "id", "call_id", "name", "input", "status")
            rest = {key: value for key, value in item.items() if key not in known}
            bound = Bound(id=item_id, after=after if item_id else None, custom=rest)
            call_input = item.get("input")
            return [ToolCall(id=item["call_id"], name=item["name"], input=call_input, bound=bound_as_json(bound))]
        case kind if kind in MODEL_ITEM_TYPES:
            return [Text(text="", bound=bound_as_json(Bound(item=item)))]
    phase = text_field(item, "phase")
    content = item.get("content")
    if isinstance(content, str):
        return [Text(text=content, bound=bound_as_json(Bound(id=item_id, phase=phase)))]
    shared = Bound(id=item_id, phase=phase, after=after if item_id else None)
    return [_output(part, shared) for part in content or ()]


def _output(part: Any, shared: Bound) -> AnyPart:
    match part:
        case {"type": "output_text" | "text" | "input_text", "text": str(text)}:
            annotations = part.get("annotations")
            bound = _replaced(shared, annotations=annotations if isinstance(annotations, list) else [])
            return Text(text=text, bound=bound_as_json(bound))
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text=text, bound=bound_as_json(_replaced(shared, refusal=True)))
    return plain_part(part)


def _replaced(bound: Bound, *, annotations: list[JsonObject] | None = None, refusal: bool = False) -> Bound:
    return Bound(id=bound.id, phase=bound.phase, after=bound.after, annotations=annotations or [], refusal=refusal)


def _reasoning(item: Mapping[str, Any]) -> Thinking:
    summary, content = _texts(item.get("summary")), _texts(item.get("content"))
    bound = Bound(
        id=text_field(item, "id"), summary=[len(text) for text in summary], content=[len(text) for text in content]
    )
    return Thinking(
        thinking=SUMMARY_SEPARATOR.join((*summary, *content)),
        signature=text_field(item, "encrypted_content"),
        bound=bound_as_json(bound),
    )


def _texts(parts: Any) -> list[str]:
    if not isinstance(parts, list):
        return []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]

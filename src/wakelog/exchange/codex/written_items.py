"""Messages of wakelog as response items of Codex: the reverse of `items.py`.

A reply that Codex recorded is written with the ids, the encrypted reasoning and the types of calls that it had. Any
other reply is written plainly: text and function calls. Its reasoning is only displayed, because the service that Codex
uses refuses reasoning of other models and accounts, and ids of items whose reasoning is missing.
"""

import hashlib
import json
import uuid
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec

from wakelog.exchange.codex.items import CALL_TYPES, TOOL, objects_in, outcome_of, text_of
from wakelog.exchange.writing import Losses
from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
    Usage,
)
from wakelog.providers.event_stream import parse_tool_input
from wakelog.providers.openai.conversation import custom_fields, format_input, parse_bound
from wakelog.providers.openai.responses_request import SUMMARY_SEPARATOR
from wakelog.providers.requests import media_placeholder, media_type_of

# The service refuses longer ids of calls.
_CALL_ID_CHARS = 64
# Types of content, and the field that Codex requires to be a text.
_CONTENT_FIELDS = {"input_image": "image_url", "input_audio": "audio_url", "encrypted_content": "encrypted_content"}
_FOREIGN_THINKING = "reasoning of another model or account: displayed, but not sent to the model"


class WrittenPart(msgspec.Struct, frozen=True):
    """What a part of a reply becomes: an item that the model sees, an item of the display, or both."""

    item: JsonObject | None = None
    shown: JsonObject | None = None


def uuid7(at_ms: int, *parts: str) -> str:
    """Return a UUID of version 7: its time, and bits that derive from the parts."""
    digest = hashlib.sha256("\0".join(("wakelog", TOOL, *parts)).encode("utf-8", "surrogatepass")).digest()
    time = max(0, min(at_ms, (1 << 48) - 1))
    value = time << 80 | int.from_bytes(digest[:10], "big")
    value = value & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62
    return str(uuid.UUID(int=value))


# ── input of the model ───────────────────────────────────────────────────────────────────────────


def input_content(parts: Sequence[AnyPart], losses: Losses, kind: str) -> list[JsonObject]:
    """Return the content of a message to the model or of a tool result; `kind` names it in the account of losses."""
    return [item for part in parts if (item := _content_item(part, losses, kind)) is not None]


def _content_item(part: AnyPart, losses: Losses, kind: str) -> JsonObject | None:
    match part:
        case Text():
            return {"type": "input_text", "text": part.text}
        case Image() | Audio() if part.data:
            medium = "image" if isinstance(part, Image) else "audio"
            media_type = media_type_of(part) or ("image/png" if medium == "image" else "audio/wav")
            return {"type": f"input_{medium}", f"{medium}_url": f"data:{media_type};base64,{part.data}"}
        case Image() | Audio():
            losses.add(kind, "a medium whose bytes are not available: a text says so")
            return {"type": "input_text", "text": media_placeholder(part)}
        case UnknownPart() if _is_content(part.part):
            return dict(part.part)
    losses.add(kind, "a part that Codex does not accept here")
    return None


def _is_content(value: Any) -> bool:
    """Return whether a value is a content item that Codex can read; else it would drop the whole message."""
    field = _CONTENT_FIELDS.get(str(value.get("type"))) if isinstance(value, dict) else None
    return field is not None and isinstance(value.get(field), str)


def message_item(role: str, content: list[JsonObject], item_id: str, turn_id: str, kinds: list[str]) -> JsonObject:
    """Return a message to the model. Its kinds say, for each content item, who added it: `user.text` is a person."""
    passed = {"turn_id": turn_id, "content_item_kinds": kinds}
    return {
        "type": "message",
        "id": item_id,
        "role": role,
        "content": content,
        "internal_chat_message_metadata_passthrough": passed,
    }


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


class CallIds:
    """The ids that tool calls have in a file, where they must be unique: in a session they are so only in a reply."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._answered: set[str] = set()
        self._calls: dict[tuple[str | None, str], tuple[str, str]] = {}

    def add(self, reply_id: str, call: ToolCall, item_type: str, losses: Losses) -> str:
        """Return the id of a call in the file."""
        short = call.id if 0 < len(call.id) <= _CALL_ID_CHARS else f"call_{_digest(call.id)}"
        written, number = short, 1
        while written in self._taken:
            number += 1
            written = f"{short[: _CALL_ID_CHARS - 8]}_{number}"
        if written != call.id:
            losses.add("id of a tool call", "not unique in the session, or longer than 64 characters: written anew")
        self._taken.add(written)
        self._calls[reply_id, call.id] = self._calls[None, call.id] = written, item_type
        return written

    def take(self, result: ToolResult) -> tuple[str, str] | None:
        """Return id and type of the call that a result belongs to; None without such a call, or if it has a result."""
        found = self._calls.get((result.reply_id, result.tool_call_id))
        if found is None or found[0] in self._answered:
            return None
        self._answered.add(found[0])
        return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def reply_parts(reply: Reply, reply_id: str, calls: CallIds, losses: Losses, *, is_own: bool) -> list[WrittenPart]:
    """Return a reply part by part; `is_own` says whether Codex recorded it."""
    written: list[WrittenPart] = []
    parts = iter(reply.parts)
    for part in parts:
        match part:
            case Thinking():
                written.append(_reasoning(part) if is_own else _shown_only(part, losses))
            case ToolCall():
                item = _own_call(part) if is_own else _plain_call(part, losses)
                item["call_id"] = calls.add(reply_id, part, item["type"], losses)
                written.append(WrittenPart(item))
            case Text() if is_own and (generated := _generated_image(part)) is not None:
                image = next(parts, None)
                data = image.data if isinstance(image, Image) else None
                written.append(WrittenPart({**generated, "result": data or ""}))
            case Text():
                _add_text(written, part, losses, is_own=is_own)
            case _ if is_own and (content := _content_item(part, losses, "reply")) is not None:
                _add_content(written, content)
            case _ if not is_own:
                losses.add("reply", "a part of a reply that is neither text nor a tool call")
    return written


def _add_content(written: list[WrittenPart], content: JsonObject) -> None:
    """Add a content item to the message before it, or as a message of its own."""
    last = _last_message(written)
    if last is not None:
        last["content"].append(content)
    else:
        written.append(WrittenPart({"type": "message", "role": "assistant", "content": [content]}))


def _last_message(written: list[WrittenPart]) -> JsonObject | None:
    """Return the last item if it is a message."""
    last = written[-1].item if written else None
    is_message = last is not None and last.get("type") == "message" and isinstance(last.get("content"), list)
    return last if is_message else None


def _reasoning(part: Thinking) -> WrittenPart:
    bound = parse_bound(part)
    summary, content = _split(part.thinking, bound.summary, bound.content)
    item: JsonObject = {"type": "reasoning"} | ({"id": bound.id} if bound.id else {})
    item["summary"] = [{"type": "summary_text", "text": text} for text in summary]
    if content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    item["encrypted_content"] = part.signature
    shown = {"type": "Reasoning", "summary_text": summary, "raw_content": content}
    return WrittenPart(item, shown if part.thinking else None)


def _split(text: str, summary: Sequence[int], content: Sequence[int]) -> tuple[list[str], list[str]]:
    """Return the parts of displayed reasoning by their lengths; all of it as a summary if the lengths do not fit."""
    pieces, at = [], 0
    for size in (*summary, *content):
        pieces.append(text[at : at + size])
        at += size + len(SUMMARY_SEPARATOR)
    if SUMMARY_SEPARATOR.join(pieces) != text:
        return [text], []
    return pieces[: len(summary)], pieces[len(summary) :]


def _shown_only(part: Thinking, losses: Losses) -> WrittenPart:
    losses.add("thinking", _FOREIGN_THINKING)
    return WrittenPart(
        None, {"type": "Reasoning", "summary_text": [part.thinking], "raw_content": []} if part.thinking else None
    )


def _add_text(written: list[WrittenPart], part: Text, losses: Losses, *, is_own: bool) -> None:
    """Add a text: a message, one more content item of the message before it, or the item that is bound to it."""
    bound = parse_bound(part)
    if not part.text and bound.item is not None:
        if is_own:
            written.append(WrittenPart(deepcopy(bound.item)))
        else:
            losses.add("reply", "an item of another service, such as a web search")
        return
    if not part.text and not is_own:
        return
    if bound.refusal:
        losses.add("reply", "a refusal is written as text")
    content: JsonObject = {"type": "output_text", "text": part.text}
    if is_own and bound.annotations:
        content["annotations"] = bound.annotations
    last = _last_message(written)
    if is_own and bound.id and last is not None and last.get("id") == bound.id:
        last["content"].append(content)
        shown = "".join(text_of(each.get("text")) for each in objects_in(last["content"]))
        written[-1] = WrittenPart(last, agent_message(shown))
        return
    item: JsonObject = {"type": "message", "role": "assistant", "content": [content]}
    if is_own:
        item |= {"id": bound.id} if bound.id else {}
        item |= {"phase": bound.phase} if bound.phase else {}
    written.append(WrittenPart(item, agent_message(part.text) if part.text else None))


def agent_message(text: str) -> JsonObject:
    """Return a text of the model as an item of the display."""
    return {"type": "AgentMessage", "content": [{"type": "Text", "text": text}]}


def _generated_image(part: Text) -> JsonObject | None:
    """Return the item whose image is the next part; None if the text is not bound to such an item."""
    found = part.bound.get(TOOL) if part.bound is not None and not part.text else None
    return found if isinstance(found, dict) and found.get("type") == "image_generation_call" else None


# ── tool calls and results ───────────────────────────────────────────────────────────────────────


def _own_call(call: ToolCall) -> JsonObject:
    bound, rest = parse_bound(call), (call.bound or {}).get(TOOL)
    item: JsonObject = dict(rest) if isinstance(rest, dict) and text_of(rest.get("type")) in CALL_TYPES else {}
    match item.get("type", "function_call"):
        case "local_shell_call":
            return {**item, "action": call.input}
        case "tool_search_call":
            return {**item, "arguments": call.input}
        case "custom_tool_call":
            tool_input = call.input if isinstance(call.input, str) else format_input(call.input, spaced=False)
            return {**item, "name": call.name, "input": tool_input}
    item |= {"type": "function_call"} | ({"id": bound.id} if bound.id else {})
    is_text = isinstance(call.input, str) and not _is_json(call.input)
    arguments = call.input if is_text else _as_json(call.input, spaced=bound.spaced)
    return {**item, "name": call.name, "arguments": arguments}


def _plain_call(call: ToolCall, losses: Losses) -> JsonObject:
    if custom_fields(call, parse_bound(call)) is not None:
        return {"type": "custom_tool_call", "name": call.name, "input": call.input}
    if not isinstance(call.input, dict):
        losses.add("tool call", "an input that is not an object is written inside one")
    return {"type": "function_call", "name": call.name, "arguments": format_input(call.input, spaced=False)}


def _is_json(text: str) -> bool:
    try:
        parse_tool_input(text)
    except ValueError:
        return False
    return True


def _as_json(value: Any, *, spaced: bool) -> str:
    if isinstance(value, dict):
        return format_input(value, spaced=spaced)
    return json.dumps(value, ensure_ascii=False)


def result_item(result: ToolResult, call_id: str, call_type: str, losses: Losses) -> JsonObject:
    """Return the output of a tool call, in the type that goes with the call."""
    item = _output(result, call_id, call_type, losses)
    outcome = outcome_of(item)
    if (outcome.status or "ok") != result.effective_status:
        losses.add("status of a tool result", "Codex has a status only as far as the text of the result states it")
    if result.duration_ms is not None and outcome.duration_ms != result.duration_ms:
        losses.add("duration of a tool run", "Codex has it only as far as the text of the result states it")
    return item


def _output(result: ToolResult, call_id: str, call_type: str, losses: Losses) -> JsonObject:
    if call_type == "tool_search_call" and (tools := _json_list(result.text)) is not None:
        return {
            "type": "tool_search_output",
            "call_id": call_id,
            "status": "completed",
            "execution": "client",
            "tools": tools,
        }
    content = input_content(result.parts, losses, "toolresult")
    texts = [each["text"] for each in content if each["type"] == "input_text"]
    output = "".join(texts) if len(content) == len(texts) <= 1 else content
    kind = "custom_tool_call_output" if call_type == "custom_tool_call" else "function_call_output"
    return {"type": kind, "call_id": call_id, "output": output}


def _json_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, list) else None


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


def usage_fields(usage: Usage) -> JsonObject:
    """Return a usage. Codex counts cached tokens as input, too; how many tokens were reasoning is not known here."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    total_input = usage.input_tokens + read + written
    return {
        "input_tokens": total_input,
        "cached_input_tokens": read,
        "cache_write_input_tokens": written,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": 0,
        "total_tokens": total_input + usage.output_tokens,
    }

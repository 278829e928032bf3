"""Content of Gemini CLI's messages: parts, tool calls, results, reasoning and usage, as values of wakelog.

A message of the model has its calls in `toolCalls`, with their results, or as `functionCall` parts of its content;
after a resume it has both, or only the latter. Reasoning is in `thoughts` (summaries with a subject) or in parts marked
`thought`. A signature of a part is kept with it, so that the same API takes it back.

Left out is what Gemini CLI derives for its display from the name and the arguments of a call: `displayName`,
`description` and `renderOutputAsMarkdown`, and a `resultDisplay` whose text is in the result.
"""

import hashlib
import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Text,
    Thinking,
    ToolCall,
    ToolStatus,
    UnknownPart,
    Usage,
)

TOOL = "gemini-cli"
PROVIDER = "google"
SIGNATURE = "thoughtSignature"
UNSIGNED = "skip_thought_signature_validator"
"""What Gemini CLI writes in place of a signature into messages that it made up itself."""
BINARY_KEY = "__binary_injection__"
OPEN_STATUSES = frozenset(("validating", "scheduled", "executing", "awaiting_approval"))
_STATUSES: Mapping[str, ToolStatus] = {"success": "ok", "error": "error", "cancelled": "interrupted"}
_DERIVED_FIELDS = frozenset(("displayName", "description", "renderOutputAsMarkdown"))
_CALL_FIELDS = frozenset(("id", "name", "args", "result", "status", "timestamp", "agentId")) | _DERIVED_FIELDS
_COUNT_MAX = 1 << 53
_INVISIBLE = re.compile("[\u200b-\u200d\ufeff\u200e\u200f]")

_INJECTED = (
    ("<session_context>", "session_context"),
    ("<hook_context>", "hook_context"),
    ("Here is the user's editor context as a JSON object.", "editor_context"),
    ("Here is a summary of changes in the user's editor context, in JSON format.", "editor_context"),
    ("System: Please continue.", "system"),
    ("System: Potential loop detected. Details: ", "system"),
)
"""How the messages begin that Gemini CLI sends in the user's role by itself, and what they are called here."""


def text_field(record: Mapping[str, Any], name: str) -> str:
    """Return a field that is a text; an empty one if it is absent or anything else."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def digest(value: object) -> str:
    """Return a short digest of a JSON value."""
    raw = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(raw.encode()).hexdigest()[:24]


# ── parts ────────────────────────────────────────────────────────────────────────────────────────


def parts_list(content: Any) -> list[Any]:
    """Return content, which may be a text, a part or a list of both, as a list of parts. Empty texts are left out."""
    items = content if isinstance(content, list) else [] if content is None else [content]
    parts = [{"text": item} if isinstance(item, str) else item for item in items]
    return [part for part in parts if part != {"text": ""}]


def plain_part(part: Any) -> AnyPart:
    """Return a part that is neither a call nor a result."""
    match part:
        case {"text": str(text), **rest} if set(rest) <= {SIGNATURE}:
            return Text(text=text, bound=_signed(part))
        case {"inlineData": {"mimeType": str(mime_type), "data": str(raw), **rest}, **others} if not rest | others:
            if mime_type.startswith("image/"):
                return Image(mime_type=mime_type, data=raw)
            if mime_type.startswith("audio/"):
                return Audio(mime_type=mime_type, data=raw)
    return UnknownPart(part=part)


def _signed(part: Mapping[str, Any]) -> JsonObject | None:
    signature = text_field(part, SIGNATURE)
    return {SIGNATURE: signature} if signature else None


def injected_kind(parts: Sequence[Any]) -> str | None:
    """Return what a message in the user's role is that Gemini CLI has sent by itself; None for one of a person."""
    text = text_field(parts[0], "text").lstrip() if parts and isinstance(parts[0], dict) else ""
    return next((kind for start, kind in _INJECTED if text.startswith(start)), None)


def is_ignored(parts: Sequence[Any]) -> bool:
    """Return whether Gemini CLI leaves a user's message out when it resumes a session: commands and empty ones."""
    texts = [part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else "\0" for part in parts]
    return "".join(texts).strip().startswith(("/", "?")) or not "".join(texts).strip()


def is_made_up(parts: Sequence[Any]) -> bool:
    """Return whether a message of the model was made up by Gemini CLI."""
    return bool(parts) and all(isinstance(part, dict) and part.get(SIGNATURE) == UNSIGNED for part in parts)


def seen_text(text: str) -> str:
    """Return a text without what Gemini CLI removes before it records a reply: invisible characters and comments."""
    pieces: list[str] = []
    text, at = _INVISIBLE.sub("", text), 0
    while (start := text.find("<!--", at)) != -1 and (end := text.find("-->", start)) != -1:
        pieces.append(text[at:start])
        at = end + len("-->")
    return "".join([*pieces, text[at:]]).strip()


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


class CallRecord(msgspec.Struct, frozen=True):
    """A tool call of a message: its id there, and its record in `toolCalls`, if it has one."""

    foreign_id: str
    name: str
    args: Any
    bound: JsonObject | None = None
    record: JsonObject | None = None


def calls_of(message: Mapping[str, Any]) -> list[CallRecord]:
    """Return the tool calls of a message in their order: those of its content, then the others."""
    listed = message.get("toolCalls")
    records = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    asked = _function_calls(message)
    own = _records_of([call for _, call in asked], records)
    used = {id(record) for record in own if record is not None}
    found = [(call, record, _signed(part)) for (part, call), record in zip(asked, own, strict=True)]
    found += [(record, record, None) for record in records if id(record) not in used]
    ids = numbered(
        text_field(call, "id") or text_field(record or {}, "id") or f"call-{at + 1}"
        for at, (call, record, _) in enumerate(found)
    )
    return [
        CallRecord(call_id, text_field(call, "name"), call.get("args"), bound, record)
        for call_id, (call, record, bound) in zip(ids, found, strict=True)
    ]


def _records_of(asked: Sequence[JsonObject], records: Sequence[JsonObject]) -> list[JsonObject | None]:
    """Return the record of each call in the content: by its id; without one, by its name and arguments."""
    by_id: dict[str, deque[JsonObject]] = {}
    for record in records:
        by_id.setdefault(text_field(record, "id"), deque()).append(record)
    own: list[JsonObject | None] = [
        same.popleft() if (call_id := text_field(call, "id")) and (same := by_id.get(call_id)) else None
        for call in asked
    ]
    left: dict[str, deque[JsonObject]] = {}
    for record in (each for same in by_id.values() for each in same):
        left.setdefault(_said_in(record), deque()).append(record)
    for at, call in enumerate(asked):
        if not text_field(call, "id") and (same := left.get(_said_in(call))):
            own[at] = same.popleft()
    return own


def _said_in(call: JsonObject) -> str:
    return digest([call.get("name"), call.get("args")])


def numbered(ids: Iterable[str]) -> list[str]:
    """Return ids of which each is unique: one that repeats has its number behind it."""
    counts: Counter[str] = Counter()
    found: dict[str, None] = {}
    for each in ids:
        unique = each
        while unique in found:
            counts[each] += 1
            unique = f"{each}.{counts[each] + 1}"
        found[unique] = None
    return list(found)


def _function_calls(message: Mapping[str, Any]) -> list[tuple[JsonObject, JsonObject]]:
    parts = parts_list(message.get("content"))
    return [(part, part["functionCall"]) for part in parts if _is_call(part)]


def _is_call(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("functionCall"), dict)


def reply_parts(message: Mapping[str, Any], calls: Sequence[CallRecord]) -> list[AnyPart]:
    """Return the parts of a message of the model, with the first of its calls, in the order of `calls_of`."""
    parts = parts_list(message.get("content"))
    thoughts = message.get("thoughts")
    has_thoughts = any(isinstance(part, dict) and part.get("thought") for part in parts)
    found: list[AnyPart] = []
    if isinstance(thoughts, list) and not has_thoughts:
        found += [_thought(thought) for thought in thoughts]
    left = deque(calls)
    for part in parts:
        if _is_call(part):
            found += [_tool_call(left.popleft())] if left else []
        elif isinstance(part, dict) and part.get("thought") and isinstance(part.get("text"), str):
            found.append(Thinking(thinking=part["text"], signature=text_field(part, SIGNATURE) or None))
        else:
            found.append(plain_part(part))
    return found + [_tool_call(call) for call in left]


def _tool_call(call: CallRecord) -> ToolCall:
    return ToolCall(id=call.foreign_id, name=call.name, input=call.args, bound=call.bound)


def _thought(thought: Any) -> AnyPart:
    match thought:
        case {"description": str(text), "subject": str(subject)} if subject:
            return Thinking(thinking=f"**{subject}** {text}")
        case {"description": str(text)}:
            return Thinking(thinking=text)
    return UnknownPart(part=thought)


def usage_of(tokens: Any) -> Usage | None:
    """Return the usage of a model call. Gemini's input includes what was read from a cache, and excludes tool use."""
    if not isinstance(tokens, dict):
        return None
    cached = _count(tokens, "cached")
    return Usage(
        input_tokens=max(0, _count(tokens, "input") - cached) + _count(tokens, "tool"),
        output_tokens=_count(tokens, "output") + _count(tokens, "thoughts"),
        cache_read_tokens=cached,
    )


def _count(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _COUNT_MAX
    return int(value) if is_count else 0  # type: ignore[arg-type]


# ── results ──────────────────────────────────────────────────────────────────────────────────────


class ResultRecord(msgspec.Struct, frozen=True):
    """What a tool returned."""

    content: tuple[AnyPart, ...]
    status: ToolStatus


def result_of(call: Mapping[str, Any]) -> ResultRecord | None:
    """Return the result in a record of `toolCalls`; None if the call had not ended."""
    status = text_field(call, "status")
    result = call.get("result")
    if status in OPEN_STATUSES or (not result and status not in _STATUSES):
        return None
    if not result:
        shown = call.get("resultDisplay")
        content = (Text(text=shown),) if isinstance(shown, str) and shown else ()
        return ResultRecord(content, _STATUSES[status])
    found = response_of(parts_list(result))
    return ResultRecord(found.content, _STATUSES.get(status, found.status))


def response_of(parts: Sequence[Any]) -> ResultRecord:
    """Return the result that parts hold: a `functionResponse` with its media, and what stands beside it."""
    content: list[AnyPart] = []
    status: ToolStatus = "ok"
    for part in parts:
        match part:
            case {"functionResponse": dict(response)}:
                said = response.get("response")
                content += _response_parts(said)
                content += [plain_part(each) for each in parts_list(response.get("parts"))]
                if isinstance(said, dict) and "error" in said and "output" not in said:
                    status = "error"
            case _:
                content.append(plain_part(part))
    return ResultRecord(tuple(content), status)


def _response_parts(response: Any) -> list[AnyPart]:
    if isinstance(response, dict) and isinstance(media := response.get(BINARY_KEY), list):
        rest = {key: value for key, value in response.items() if key != BINARY_KEY}
        return [*(_response_parts(rest) if rest else ()), *(plain_part(part) for part in media)]
    match response:
        case {"output": str(text), **rest} | {"error": str(text), **rest} if not rest:
            return [Text(text=text)] if text else []
        case None | {}:
            return []
    return [Text(text=json.dumps(response, ensure_ascii=False))]


def responses_in(parts: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Return the results in a user's message: the id of each call, and its part with the media behind it."""
    found: list[tuple[str, list[Any]]] = []
    for part in parts:
        match part:
            case {"functionResponse": dict(response)}:
                found.append((text_field(response, "id"), [part]))
            case {"inlineData": _} if found:
                found[-1][1].append(part)
            case _:
                return []
    ids = numbered(call_id for call_id, _ in found)
    return [(call_id, response) for call_id, (_, response) in zip(ids, found, strict=True)]


def left_over(call: Mapping[str, Any], result: ResultRecord | None) -> JsonObject:
    """Return the fields of a record of `toolCalls` that have no counterpart and are not derived."""
    rest = {key: value for key, value in call.items() if key not in _CALL_FIELDS and value is not None}
    shown = rest.get("resultDisplay")
    if isinstance(shown, str):
        texts = [part.text for part in result.content if isinstance(part, Text)] if result is not None else []
        if any(shown.strip() in text for text in texts):
            del rest["resultDisplay"]
    return rest


# ── what identifies content ──────────────────────────────────────────────────────────────────────


def user_keys(parts: Sequence[Any]) -> list[str]:
    """Return what identifies the parts of a user's message wherever it is repeated; commands have nothing."""
    if is_ignored(parts):
        return []
    answered = iter(numbered(text_field(part["functionResponse"], "id") for part in parts if _is_response(part)))
    keys: list[str] = []
    for part in parts:
        match part:
            case {"functionResponse": dict()}:
                keys.append(f"r:{next(answered)}")
            case {"text": str(text)}:
                if text.strip() and not text.lstrip().startswith(("<session_context>", "<hook_context>")):
                    keys.append(f"u:{digest(seen_text(text))}")
            case _:
                keys.append(f"u:{digest(part)}")
    return keys


def _is_response(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)


def text_keys(message: Mapping[str, Any]) -> list[str]:
    """Return what identifies what a message of the model says."""
    parts = [
        part for part in parts_list(message.get("content")) if not (isinstance(part, dict) and part.get("thought"))
    ]
    texts = [part["text"] if isinstance(part, dict) and isinstance(part.get("text"), str) else None for part in parts]
    return [
        f"m:{digest(part if text is None else seen_text(text))}"
        for part, text in zip(parts, texts, strict=True)
        if not _is_call(part) and (text is None or seen_text(text))
    ]


def reply_keys(message: Mapping[str, Any]) -> list[str]:
    """Return what identifies the parts of a message of the model: texts, calls, and results as they are listed."""
    calls = calls_of(message)
    keys = [*text_keys(message), *(f"c:{call.foreign_id}" for call in calls)]
    ids = {id(call.record): call.foreign_id for call in calls if call.record is not None}
    listed = message.get("toolCalls")
    records = [record for record in listed if id(record) in ids] if isinstance(listed, list) else []
    return [*keys, *(f"r:{ids[id(record)]}" for record in records if result_of(record) is not None)]

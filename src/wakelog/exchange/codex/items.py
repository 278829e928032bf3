"""Response items of Codex as parts of our messages. Pure functions over decoded JSON of any shape; none of them raises.

An item of the model becomes parts of a reply. Reasoning keeps its encrypted content in `signature` and the ids of its
items in `bound`, in the form in which the provider `openai` sends a reply back to the Responses API. An item that no
part represents (a web search, an encrypted compaction) is bound to an empty text as a whole. What only Codex needs of a
call (the type of the item, its namespace) is in `bound` under the key `codex`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from wakelog.decoding import decoder_of
from wakelog.large_content import decode_base64
from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Note,
    Prompt,
    Text,
    Thinking,
    ToolCall,
    ToolStatus,
    UnknownPart,
    Usage,
)
from wakelog.providers.event_stream import parse_tool_input
from wakelog.providers.openai.conversation import Bound, bound_as_json, is_spaced
from wakelog.providers.openai.responses_request import SUMMARY_SEPARATOR

TOOL = "codex"

CALL_TYPES = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
RESULT_TYPES = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_WHOLE_ITEM_TYPES = frozenset(
    {"web_search_call", "image_generation_call", "compaction", "compaction_summary", "context_compaction"}
)
_MODEL_TYPES = CALL_TYPES | _WHOLE_ITEM_TYPES | {"reasoning"}
ITEM_TYPES = _MODEL_TYPES | RESULT_TYPES | {"message", "agent_message", "ghost_snapshot"}
# Keys of a call that its part holds in fields of its own; the rest is bound to it, except what describes the turn.
_CALL_KEYS = frozenset(
    {"call_id", "name", "arguments", "input", "action", "metadata", "internal_chat_message_metadata_passthrough"}
)
_CONTEXT_TAGS = frozenset(
    {
        "additional_context",
        "apps_instructions",
        "collaboration_mode",
        "environment_context",
        "hook_prompt",
        "model_switch",
        "permissions instructions",
        "personality_spec",
        "plugins_instructions",
        "recommended_plugins",
        "skill",
        "skills_instructions",
        "subagent_notification",
        "turn_aborted",
        "user_instructions",
        "user_shell_command",
    }
)
_TAG = re.compile(r"\s*<([A-Za-z_ ]{1,40})>")
_AGENTS_FILE = "# AGENTS.md instructions"
# The lines that Codex puts before the output of a command; the output itself follows them.
_OUTPUT_HEAD = re.compile(
    r"(?:Chunk ID: .*\n)?(?:Exit code: (?P<exit>-?\d{1,9})\n)?Wall time: (?P<wall>\d{1,9}(?:\.\d{1,9})?) seconds\n"
    r"(?:Process exited with code (?P<process>-?\d{1,9})\n)?(?P<aborted>aborted by user)?"
)
_DATA_URL = re.compile(r"data:([\w.+/-]{1,100});base64,")


def text_of(value: Any) -> str:
    """Return a value if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def objects_in(value: Any) -> Iterator[JsonObject]:
    """Yield the objects of a list; nothing if the value is not a list."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


# ── items of the model ───────────────────────────────────────────────────────────────────────────


def is_from_model(item: JsonObject) -> bool:
    """Return whether an item is a part of a response of the model."""
    kind = item.get("type")
    if kind == "message":
        return item.get("role") == "assistant"
    return isinstance(kind, str) and kind in _MODEL_TYPES


def model_parts(item: JsonObject, after: str | None) -> tuple[AnyPart, ...]:
    """Return the parts of an item of the model; `after` is the id of the reasoning before it in the same response."""
    kind = item.get("type")
    if kind == "reasoning":
        return _thoughts(item)
    if kind == "message":
        return _answer(item, after)
    if kind in CALL_TYPES and call_id_of(item):
        return (_call(item, after),)
    if kind == "image_generation_call" and _is_base64(item.get("result")):
        described = {key: value for key, value in item.items() if key != "result"}
        return (Text(text="", bound={TOOL: described}), Image(mime_type="image/png", data=item["result"]))
    return (Text(text="", bound={"item": item}),)


def _thoughts(item: JsonObject) -> tuple[AnyPart, ...]:
    """Return reasoning as a part, and what is in it besides texts as parts of their own."""
    given = (*contents_of(item.get("summary")), *contents_of(item.get("content")))
    return _thinking(item), *(UnknownPart(part=each) for each in given if _text_in(each) is None)


def _thinking(item: JsonObject) -> Thinking:
    summary, content = _texts(item.get("summary")), _texts(item.get("content"))
    bound = Bound(id=_item_id(item), summary=[len(text) for text in summary], content=[len(text) for text in content])
    encrypted = item.get("encrypted_content")
    return Thinking(
        thinking=SUMMARY_SEPARATOR.join([*summary, *content]),
        signature=encrypted if isinstance(encrypted, str) else None,
        bound=bound_as_json(bound),
    )


def contents_of(value: Any) -> list[Any]:
    """Return the contents of an item: those of a list, or a value that is one by itself."""
    if isinstance(value, list):
        return value
    return [] if value is None or value == "" else [value]


def _text_in(content: Any) -> str | None:
    """Return the text of one content; None if it has none."""
    text = content.get("text") if isinstance(content, dict) else content
    return text if isinstance(text, str) else None


def _texts(value: Any) -> list[str]:
    return [text for each in contents_of(value) if (text := _text_in(each))]


def _answer(item: JsonObject, after: str | None) -> tuple[AnyPart, ...]:
    item_id, phase = _item_id(item), item.get("phase")
    own = Bound(id=item_id, after=after if item_id else None, phase=phase if isinstance(phase, str) else None)
    parts = tuple(_answer_part(content, own) for content in contents_of(item.get("content")))
    return parts or (Text(text="", bound=bound_as_json(own)),)


def _answer_part(content: Any, own: Bound) -> AnyPart:
    match content:
        case str(text):
            return Text(text=text, bound=bound_as_json(own))
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text=text, bound=bound_as_json(msgspec.structs.replace(own, refusal=True)))
        case {"type": "output_text" | "text" | "input_text", "text": str(text)}:
            annotations = list(objects_in(content.get("annotations")))
            return Text(text=text, bound=bound_as_json(msgspec.structs.replace(own, annotations=annotations)))
    return content_part(content)


def _call(item: JsonObject, after: str | None) -> ToolCall:
    kind, item_id = text_of(item.get("type")), _item_id(item)
    rest = {key: value for key, value in item.items() if key not in _CALL_KEYS and value is not None}
    bound: JsonObject = {TOOL: rest}
    match kind:
        case "function_call":
            tool_input, spaced = _parsed_input(item.get("arguments"))
            # Only a function call is sent back as what it was, so only its id is valid there.
            own = Bound(id=item_id, after=after if item_id else None, spaced=spaced)
            bound = {**(bound_as_json(own) or {}), **({TOOL: rest} if len(rest) > 1 + (item_id is not None) else {})}
            name = text_of(item.get("name"))
        case "custom_tool_call":
            name, tool_input = text_of(item.get("name")), item.get("input")
        case "local_shell_call":
            name, tool_input = "local_shell", item.get("action")
        case _:
            name, tool_input = "tool_search", item.get("arguments")
    return ToolCall(id=call_id_of(item), name=name, input=tool_input, bound=bound or None)


def _parsed_input(arguments: Any) -> tuple[Any, bool]:
    """Return the input of a function call, and whether it was written with spaces. Text that is not JSON stays text."""
    if not isinstance(arguments, str):
        return arguments, False
    try:
        value = parse_tool_input(arguments)
    except ValueError:
        return arguments, False
    return value, is_spaced(arguments, value)


def call_id_of(item: JsonObject) -> str:
    """Return the id by which a call and its result are paired; old shell calls have only the id of the item."""
    call_id = text_of(item.get("call_id"))
    return call_id or (text_of(item.get("id")) if item.get("type") == "local_shell_call" else "")


def _item_id(item: JsonObject) -> str | None:
    return text_of(item.get("id")) or None


def key_of(item: JsonObject) -> str:
    """Return what an item is compared by with other items of the same file: an id, or a hash of its texts."""
    if named := text_of(item.get("id")) or text_of(item.get("call_id")):
        return f"{item.get('type')}:{named}"
    texts = (*_texts(item.get("summary")), *_texts(item.get("content")), text_of(item.get("encrypted_content")))
    return f"{item.get('type')}:{item.get('role')}:{hash(texts)}"


def displayed_texts(item: JsonObject) -> Iterator[str]:
    """Yield the texts under which an item may be displayed by an event."""
    match item.get("type"):
        case "reasoning":
            summary, content = _texts(item.get("summary")), _texts(item.get("content"))
            yield from (*summary, *content, SUMMARY_SEPARATOR.join([*summary, *content]))
        case "message":
            texts = _texts(item.get("content"))
            yield from (*texts, "".join(texts))


# ── input of the model ───────────────────────────────────────────────────────────────────────────


def input_message(item: JsonObject) -> Prompt | Note:
    """Return a message to the model: a prompt of a person, or a note that Codex added."""
    given = item.get("content")
    parts = tuple(content_part(content) for content in contents_of(given)) or (Text(text=""),)
    kind = _injected_kind(item)
    return Prompt(content=parts) if kind is None else Note(content=parts, custom_type=f"{TOOL}:{kind}"[:100])


def _injected_kind(item: JsonObject) -> str | None:
    """Return the kind of context that a message is; None for a prompt of a person.

    Recent versions state the kind of each content item; before that it is known by how a text begins.
    """
    if item.get("type") == "agent_message":
        return "agent_message"
    if item.get("role") != "user":
        return text_of(item.get("role")) or "message"
    passed = item.get("internal_chat_message_metadata_passthrough")
    stated = passed.get("content_item_kinds") if isinstance(passed, dict) else None
    kinds = [kind for kind in stated if isinstance(kind, str)] if isinstance(stated, list) else []
    if any(kind.startswith("user.") for kind in kinds):
        return None
    if known := [kind for kind in kinds if kind != "unknown"]:
        return known[0]
    return next((kind for text in _texts(item.get("content")) if (kind := _kind_of_text(text))), None)


def _kind_of_text(text: str) -> str | None:
    if text.lstrip().startswith(_AGENTS_FILE):
        return "agents_md"
    found = _TAG.match(text)
    tag = found[1].lower() if found else ""
    return tag.replace(" ", "_") if tag in _CONTEXT_TAGS else None


def content_part(content: Any) -> AnyPart:
    """Return one content item as a part. Media that are not in the file, and unknown items, are kept as they are."""
    match content:
        case str(text):
            return Text(text=text)
        case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
            return Text(text=text)
        case {"type": "input_image", "image_url": str(url)} if (media := _data_url(url)) is not None:
            return Image(mime_type=media[0], data=media[1])
        case {"type": "input_audio", "audio_url": str(url)} if (media := _data_url(url)) is not None:
            return Audio(mime_type=media[0], data=media[1])
    return UnknownPart(part=content)


def _data_url(url: str) -> tuple[str, str] | None:
    found = _DATA_URL.match(url)
    return (found[1], url[found.end() :]) if found and _is_base64(url[found.end() :]) else None


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isascii() and decode_base64(value) is not None


# ── results ──────────────────────────────────────────────────────────────────────────────────────


class Outcome(msgspec.Struct, frozen=True):
    """What is known of a tool run: its content, and status and duration where the output states them."""

    content: tuple[AnyPart, ...]
    status: ToolStatus | None = None
    duration_ms: int | None = None


def outcome_of(item: JsonObject) -> Outcome:
    """Return the outcome in an output item. The text is kept as the model saw it."""
    if item.get("type") == "tool_search_output":
        return Outcome((Text(text=json.dumps(item.get("tools"), ensure_ascii=False)),))
    match item.get("output"):
        case str(text):
            status, duration_ms = _stated(text)
            return Outcome((Text(text=text),), status, duration_ms)
        case list(contents):
            parts = tuple(content_part(each) for each in contents)
            first = next((part.text for part in parts if isinstance(part, Text)), "")
            status, duration_ms = _stated(first)
            return Outcome(parts, status, duration_ms)
        case {"content": str(text), "success": bool(success)}:
            return Outcome((Text(text=text),), "ok" if success else "error")
        case dict(content):
            return Outcome((content_part(content),))
        case None:
            return Outcome(())
        case other:
            return Outcome((UnknownPart(part=other),))


def _stated(text: str) -> tuple[ToolStatus | None, int | None]:
    """Return status and duration as the first lines of an output, or the JSON around it, state them."""
    if found := _OUTPUT_HEAD.match(text):
        duration_ms = int(float(found["wall"]) * 1000)
        code = found["exit"] or found["process"]
        return "interrupted" if found["aborted"] else _status(code), duration_ms
    if text == "aborted" or text.startswith("aborted by user"):
        return "interrupted", None
    if not text.startswith('{"output"'):
        return None, None
    try:
        metadata = decoder_of(_WrappedOutput).decode(text).metadata
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None, None
    seconds = metadata.duration_seconds
    return _status(metadata.exit_code), int(seconds * 1000) if seconds is not None and 0 <= seconds < 1e9 else None


class _OutputMetadata(msgspec.Struct, frozen=True):
    exit_code: int | None = None
    duration_seconds: float | None = None


class _WrappedOutput(msgspec.Struct, frozen=True):
    metadata: _OutputMetadata = _OutputMetadata()


def _status(exit_code: str | int | None) -> ToolStatus | None:
    return None if exit_code is None else "ok" if int(exit_code) == 0 else "error"


# ── usage ────────────────────────────────────────────────────────────────────────────────────────


def usage_of(value: Any) -> Usage | None:
    """Return a usage; None if the value is not one. Codex counts cached tokens as input, too."""
    if not isinstance(value, dict) or not _is_count(value.get("input_tokens")):
        return None
    read, written = _count(value.get("cached_input_tokens")), _count(value.get("cache_write_input_tokens"))
    return Usage(
        input_tokens=max(0, _count(value["input_tokens"]) - read - written),
        output_tokens=_count(value.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _count(value: Any) -> int:
    return value if _is_count(value) else 0

"""Content blocks of the Messages API, made from parts of messages.

Pure; every block is a new object, so that a mark on one changes no other. The API refuses blank text, and in a failed
result everything but text, and a conversation that it refuses once is refused forever: so blank text is left out, and a
placeholder is used where a block is required.
"""

from collections.abc import Iterable

from wakelog.log.content import AnyPart, Audio, Image, JsonObject, Text, Thinking, ToolCall
from wakelog.projections.context import ContextMessage
from wakelog.providers.media import PICTURES, in_words, kind_of, without_media

_NOTHING_SAID = "(an empty message)"
_NO_OUTPUT = "(no output)"
_NO_RESULT = "(there is no record of what came of this call)"
_THOUGHTS = ("thinking", "redacted_thinking")


def text_blocks(text: str) -> list[JsonObject]:
    """Return a text as a block; none if it is blank."""
    return [{"type": "text", "text": text}] if text.strip() else []


def said_by_user(parts: Iterable[AnyPart]) -> list[JsonObject]:
    """Return the blocks of a user message, at least one."""
    return _shown(parts) or text_blocks(_NOTHING_SAID)


def said_by_model(parts: Iterable[AnyPart], *, thoughts: bool) -> list[JsonObject | ToolCall]:
    """Return the blocks of a reply, calls unconverted; with reasoning only if `thoughts`: if this model produced it.

    Reasoning at the end is left out: no message may end with it.
    """
    blocks: list[JsonObject | ToolCall] = []
    for part in parts:
        if isinstance(part, ToolCall):
            blocks.append(part)
        elif isinstance(part, Thinking):
            blocks.extend(_thought(part) if thoughts else [])
        else:
            blocks.extend(_shown([part]))
    while blocks and is_thought(blocks[-1]):
        blocks.pop()
    return blocks


def is_thought(block: JsonObject | ToolCall) -> bool:
    """Return whether a block is reasoning, which only its own model understands."""
    return not isinstance(block, ToolCall) and block["type"] in _THOUGHTS


def call_block(call: ToolCall, wire_id: str, wire_name: str) -> JsonObject:
    """Return a call as a block. The input must be an object, so any other value is wrapped in one."""
    given = call.input if isinstance(call.input, dict) else {} if call.input is None else {"input": call.input}
    return {"type": "tool_use", "id": wire_id, "name": wire_name, "input": given}


def result_block(result: ContextMessage, wire_id: str) -> JsonObject:
    """Return a tool result as a block."""
    shown = _shown(without_media(result.content) if result.is_error else result.content)
    block: JsonObject = {"type": "tool_result", "tool_use_id": wire_id, "content": shown or text_blocks(_NO_OUTPUT)}
    return {**block, "is_error": True} if result.is_error else block


def missing_result(wire_id: str) -> JsonObject:
    """Return the result of a call that has none on record; the call itself is never hidden from the model."""
    return {"type": "tool_result", "tool_use_id": wire_id, "content": text_blocks(_NO_RESULT), "is_error": True}


def _shown(parts: Iterable[AnyPart]) -> list[JsonObject]:
    """Return text and images as blocks. The API takes no audio, which becomes text."""
    blocks: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            blocks.extend(text_blocks(part.text))
        elif isinstance(part, Image):
            blocks.append(_picture(part))
        elif isinstance(part, Audio):
            blocks.extend(text_blocks(in_words(part)))
    return blocks


def _picture(image: Image) -> JsonObject:
    kind = kind_of(image)
    if image.data and kind in PICTURES:
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": image.data}}
    return {"type": "text", "text": in_words(image)}


def _thought(part: Thinking) -> list[JsonObject]:
    """Return reasoning as a block, byte for byte. Without a signature it would be refused, and is left out."""
    if part.bound is not None and part.bound.get("type") == "redacted_thinking":
        return [{"type": "redacted_thinking", "data": part.bound.get("data")}]
    if part.signature:
        return [{"type": "thinking", "thinking": part.thinking, "signature": part.signature}]
    return []

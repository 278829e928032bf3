"""From parts to content blocks. Pure; every block is made anew, so that whoever marks one marks no other.

The interface refuses text that shows nothing and everything but text in a failed result, and a conversation that was
refused once is refused for ever: so what shows nothing is left out, and where something has to stand, words do.
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
    """A text as a block; none if it shows nothing."""
    return [{"type": "text", "text": text}] if text.strip() else []


def said_by_user(parts: Iterable[AnyPart]) -> list[JsonObject]:
    """What a person said: at least one block, because it was said."""
    return _shown(parts) or text_blocks(_NOTHING_SAID)


def said_by_model(parts: Iterable[AnyPart], *, thoughts: bool) -> list[JsonObject | ToolCall]:
    """What the model said, calls still as they are; with its thoughts only if they are its own.

    A thought that nothing follows is left out: no message may end in one.
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
    """Whether a block is one that only its own model understands."""
    return not isinstance(block, ToolCall) and block["type"] in _THOUGHTS


def call_block(call: ToolCall, wire_id: str, wire_name: str) -> JsonObject:
    """A call. What it was given is an object, whatever a model elsewhere made of it."""
    given = call.input if isinstance(call.input, dict) else {} if call.input is None else {"input": call.input}
    return {"type": "tool_use", "id": wire_id, "name": wire_name, "input": given}


def result_block(result: ContextMessage, wire_id: str) -> JsonObject:
    """How a call ended."""
    shown = _shown(without_media(result.content) if result.is_error else result.content)
    block: JsonObject = {"type": "tool_result", "tool_use_id": wire_id, "content": shown or text_blocks(_NO_OUTPUT)}
    return {**block, "is_error": True} if result.is_error else block


def missing_result(wire_id: str) -> JsonObject:
    """The end of a call of which there is no record: it is never kept from the model that it was made."""
    return {"type": "tool_result", "tool_use_id": wire_id, "content": text_blocks(_NO_RESULT), "is_error": True}


def _shown(parts: Iterable[AnyPart]) -> list[JsonObject]:
    """Words and pictures. Audio has no place on this wire."""
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
    """A thought as it came, to the byte. One without a signature is refused, and stays here."""
    if part.bound is not None and part.bound.get("type") == "redacted_thinking":
        return [{"type": "redacted_thinking", "data": part.bound.get("data")}]
    if part.signature:
        return [{"type": "thinking", "thinking": part.thinking, "signature": part.signature}]
    return []

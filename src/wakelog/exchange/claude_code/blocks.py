"""Parts of messages as the blocks that Claude Code writes: the reverse of `content.py`.

The tool sends blocks to the API as they are, and the API refuses a whole conversation for one block that it does not
take. So blank text, media that it does not know, and data of other providers are left out or become text, each counted
as a loss.
"""

from collections.abc import Iterable
from typing import Any

from wakelog.exchange.claude_code.content import ANTHROPIC
from wakelog.exchange.writing import Losses
from wakelog.log.content import AnyPart, Audio, Image, JsonObject, Reply, Text, Thinking, ToolCall, UnknownPart, Usage

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_USER_BLOCKS = ("document", "search_result")
_RESULT_BLOCKS = (*_USER_BLOCKS, "tool_reference")
# Blocks that are parts here. One of these that is bound to a text was malformed.
_PART_BLOCKS = ("text", "thinking", "redacted_thinking", "tool_use", "tool_result")
_STOP_REASONS = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens", "pause": "pause_turn"}


def stop_reason_for(reason: str | None) -> str | None:
    """Return a stop reason in the words of the API; one that it does not have as it is."""
    return None if reason is None else _STOP_REASONS.get(reason, reason)


def usage_for(usage: Usage) -> JsonObject:
    """Return usage in the words of the API."""
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def is_own_reply(reply: Reply, *, is_imported: bool) -> bool:
    """Return whether a reply came from Claude's API, which then takes back its reasoning.

    Files of Claude Code do not name the provider; `is_imported` says that the reply is from such a file.
    """
    if reply.provider is not None:
        return reply.provider == ANTHROPIC
    return is_imported or "claude" in (reply.model or "")


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def reply_blocks(reply: Reply, *, is_own: bool, losses: Losses) -> list[JsonObject]:
    """Return the blocks of a reply; tool calls have the ids that they have in wakelog."""
    blocks: list[JsonObject] = []
    for part in reply.parts:
        match part:
            case Text():
                blocks += _reply_text(part, is_own=is_own, losses=losses)
            case Thinking():
                blocks += _reasoning(part, is_own=is_own, losses=losses)
            case ToolCall():
                blocks.append(_call_block(part, losses))
            case Image() | Audio():
                losses.add("reply", "images and audio of a model have no place in the format: named in a text")
                blocks.append(_text_block(_placeholder(part)))
            case UnknownPart():
                losses.add("reply", "has a part that is not known")
    return blocks


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _reply_text(part: Text, *, is_own: bool, losses: Losses) -> list[JsonObject]:
    bound = part.bound or {}
    kind = bound.get("type")
    if is_own and not part.text and isinstance(kind, str) and kind not in _PART_BLOCKS:
        return [bound]
    if bound and (not is_own or kind in _PART_BLOCKS):
        losses.add("reply", "data that the API does not understand is left out")
    if not part.text.strip():
        if part.text:
            losses.add("reply", "blank text is left out: the API refuses it")
        return []
    cited = {"citations": bound["citations"]} if is_own and isinstance(bound.get("citations"), list) else {}
    return [{**_text_block(part.text), **cited}]


def _reasoning(part: Thinking, *, is_own: bool, losses: Losses) -> list[JsonObject]:
    """Return reasoning as a block, byte for byte, if Claude made it and signed it."""
    bound = part.bound or {}
    if is_own and bound.get("type") == "redacted_thinking":
        return [{"type": "redacted_thinking", "data": bound.get("data")}]
    if is_own and part.signature:
        return [{"type": "thinking", "thinking": part.thinking, "signature": part.signature}]
    reason = "has no signature" if is_own else "is of another provider"
    losses.add("reply", f"reasoning that {reason} is left out: the API refuses it")
    return []


def _call_block(call: ToolCall, losses: Losses) -> JsonObject:
    given: Any = call.input
    if call.bound:
        losses.add("reply", "data that the API does not understand is left out")
    if not isinstance(given, dict):
        losses.add("reply", "the input of a tool call is no object: it is put into one")
        given = {} if given is None else {"input": given}
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


# ── messages in the user role ────────────────────────────────────────────────────────────────────


def user_content(parts: Iterable[AnyPart], kind: str, losses: Losses) -> str | list[JsonObject]:
    """Return the content of a message in the user role: a bare text, or blocks; empty if there is nothing to send."""
    return _content(parts, _USER_BLOCKS, kind, losses)


def result_content(parts: Iterable[AnyPart], losses: Losses) -> str | list[JsonObject]:
    """Return the content of a tool result. It may be empty."""
    return _content(parts, _RESULT_BLOCKS, "toolresult", losses)


def _content(parts: Iterable[AnyPart], known: tuple[str, ...], kind: str, losses: Losses) -> str | list[JsonObject]:
    blocks = [block for part in parts for block in _user_blocks(part, known, kind, losses)]
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        text: str = blocks[0]["text"]
        return text
    return blocks or ""


def _user_blocks(part: AnyPart, known: tuple[str, ...], kind: str, losses: Losses) -> list[JsonObject]:
    match part:
        case Text(text=text):
            if text and not text.strip():
                losses.add(kind, "blank text is left out: the API refuses it")
            return [_text_block(text)] if text.strip() else []
        case Image(mime_type=mime_type, data=str(encoded)) if mime_type in _IMAGE_TYPES and encoded:
            return [{"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": encoded}}]
        case Image() | Audio():
            losses.add(kind, "media of a type that the API does not take are named in a text")
            return [_text_block(_placeholder(part))]
        case UnknownPart(part={"type": str(name)} as block) if name in known:
            return [block]
    losses.add(kind, "has a part that is not known")
    return []


def _placeholder(part: Image | Audio) -> str:
    kind = "an image" if isinstance(part, Image) else "audio"
    return f"({kind} that cannot be shown here: {part.mime_type or 'of an unknown type'})"

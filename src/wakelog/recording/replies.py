"""Replies from the responses of model APIs: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses.

A response is an object of the vendor's SDK or the JSON object that the API returned. The parsers of the providers read
it, as they read a stream, so a recorded reply has the same parts as one that the runtime requested: reasoning with its
signature or encrypted content, tool calls, usage, request id, stop reason. Content that only the vendor understands
(results of server tools, citations) is bound to its part and sent back to the same vendor unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.assembly import assemble_parts, with_unique_call_ids
from wakelog.errors import UsageError
from wakelog.log.content import (
    AnyPart,
    ContentDelta,
    Delta,
    Faulted,
    Finished,
    JsonObject,
    Reply,
    Text,
)
from wakelog.ports.runtime import ModelRequest
from wakelog.providers.anthropic.messages import MessagesParser
from wakelog.providers.anthropic.messages_request import PLAIN_BLOCKS
from wakelog.providers.anthropic.messages_request import PROVIDER as ANTHROPIC
from wakelog.providers.openai.chat import ChatParser
from wakelog.providers.openai.chat_request import PROVIDER as OPENAI_CHAT
from wakelog.providers.openai.responses import ResponsesParser
from wakelog.providers.openai.responses_request import PROVIDER as OPENAI_RESPONSES

_HINT = (
    "pass text, a Reply, or the response of client.messages.create, client.chat.completions.create "
    "or client.responses.create"
)
_NO_REQUEST = ModelRequest(model="", messages=())


def reply_from(response: object) -> Reply:
    """Return the reply in a response; `UsageError` if it is not a response of a known API."""
    plain = _as_json_object(response)
    request_id = getattr(response, "_request_id", None)
    match plain:
        case {"error": dict(error)} if not plain.get("output"):
            raise UsageError(f"the response is an error: {error.get('message')}", hint="record replies only")
        case {"type": "message", "role": "assistant", "content": list(blocks)}:
            return _anthropic_reply(plain, blocks, request_id)
        case {"choices": [dict(), *_]}:
            return _chat_reply(plain, request_id)
        case {"output": list()}:
            return _responses_reply(plain, request_id)
        case {"role": "assistant", "content": list(blocks)} if all(isinstance(block, dict) for block in blocks):
            return _anthropic_reply(plain, blocks, request_id)
        case {"role": "assistant"}:
            return _chat_reply({"choices": [{"message": plain, "finish_reason": "stop"}]}, request_id)
        case {"role": str(role)}:
            raise UsageError(f"a reply has the role assistant, not {role!r}", hint="use session.user(…) for prompts")
    raise UsageError(f"not a reply: {type(response).__name__}", hint=_HINT)


def _as_json_object(response: object) -> JsonObject:
    """Return a response as plain JSON: a mapping as it is, an object of an SDK through its own method."""
    if isinstance(response, Mapping):
        return dict(response)
    dump: Callable[..., Any] | None = getattr(response, "model_dump", None)
    if dump is None:
        raise UsageError(f"not a reply: {type(response).__name__}", hint=_HINT)
    plain: JsonObject = dump(mode="json", by_alias=True, exclude_unset=True)
    return plain


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────


def _anthropic_reply(message: JsonObject, blocks: Sequence[JsonObject], request_id: str | None) -> Reply:
    parser = MessagesParser()
    parser.request_id = request_id
    # Each block is a part of its own, so that it is sent back as it came.
    parts = [part for at, block in enumerate(blocks) for part in _anthropic_parts(parser, at, block)]
    stop = {"stop_reason": message.get("stop_reason") or "end_turn"}
    events = ({"type": "message_delta", "delta": stop, "usage": message.get("usage")}, {"type": "message_stop"})
    return _reply(parts, _end_of(_parsed(parser, events)), model=message.get("model"), provider=ANTHROPIC)


def _anthropic_parts(parser: MessagesParser, at: int, block: JsonObject) -> tuple[AnyPart, ...]:
    if block.get("type") not in PLAIN_BLOCKS:
        return (Text(text="", bound=block),)
    if block["type"] == "text" and block.get("citations"):
        return (Text(text=str(block.get("text", "")), bound={"citations": block["citations"]}),)
    opening = {"type": "content_block_start", "index": at, "content_block": block}
    deltas = _parsed(parser, (opening, {"type": "content_block_stop", "index": at}))
    return assemble_parts(delta for delta in deltas if not isinstance(delta, Finished | Faulted))


# ── OpenAI ───────────────────────────────────────────────────────────────────────────────────────


def _chat_reply(completion: JsonObject, request_id: str | None) -> Reply:
    parser = ChatParser(_NO_REQUEST)
    parser.request_id = request_id
    deltas = [*_parsed(parser, (completion,)), *parser.end("cut")]
    return _reply_from_deltas(deltas, model=completion.get("model"), provider=OPENAI_CHAT)


def _responses_reply(response: JsonObject, request_id: str | None) -> Reply:
    parser = ResponsesParser(_NO_REQUEST)
    parser.request_id = request_id
    is_whole = response.get("status", "completed") == "completed"
    event = {"type": "response.completed" if is_whole else "response.incomplete", "response": response}
    return _reply_from_deltas(_parsed(parser, (event,)), model=response.get("model"), provider=OPENAI_RESPONSES)


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def _parsed(parser: MessagesParser | ChatParser | ResponsesParser, events: Iterable[JsonObject]) -> list[Delta]:
    """Return the deltas of events; `UsageError` if one is malformed."""
    try:
        return [delta for event in events for delta in parser.read(msgspec.json.encode(event))]
    except ValueError as error:
        raise UsageError(f"the response cannot be read: {error}", hint=_HINT) from None


def _end_of(deltas: Sequence[Delta]) -> Finished:
    end = deltas[-1] if deltas else None
    if isinstance(end, Finished):
        return end
    why = end.message if isinstance(end, Faulted) else "it has no end"
    raise UsageError(f"the response cannot be read: {why}", hint=_HINT)


def _reply_from_deltas(deltas: Sequence[Delta], *, model: object, provider: str) -> Reply:
    end = _end_of(deltas)
    content: list[ContentDelta] = [delta for delta in deltas if not isinstance(delta, Finished | Faulted)]
    return _reply(assemble_parts(content), end, model=model, provider=provider)


def _reply(parts: Sequence[AnyPart], end: Finished, *, model: object, provider: str) -> Reply:
    return Reply(
        content=with_unique_call_ids(parts),
        model=model if isinstance(model, str) else None,
        provider=provider,
        stop_reason=end.stop_reason,
        usage=end.usage,
        request_id=end.request_id,
    )

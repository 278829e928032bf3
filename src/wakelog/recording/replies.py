"""Replies from the responses of model APIs: Anthropic Messages, OpenAI Chat Completions and OpenAI Responses.

A response is an object of the vendor's SDK or the JSON object that the API returned. The parsers of the providers read
it, as they read a stream, so a recorded reply has the same parts as one that the runtime requested: reasoning with its
signature or encrypted content, tool calls, usage, request id, stop reason. A custom tool call has its free text as
input. Content that only the vendor understands (results of server tools, citations) is bound to its part and sent back
to the same vendor unchanged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.assembly import assemble_parts, with_unique_call_ids
from wakelog.decide.wording import valid_utf8
from wakelog.errors import UsageError
from wakelog.log.content import (
    AnyPart,
    Delta,
    Faulted,
    Finished,
    JsonObject,
    Reply,
    Text,
    ToolCall,
)
from wakelog.ports.runtime import ModelRequest
from wakelog.providers.anthropic.messages import MessagesParser
from wakelog.providers.anthropic.messages_request import PLAIN_BLOCKS
from wakelog.providers.anthropic.messages_request import PROVIDER as ANTHROPIC
from wakelog.providers.event_stream import parse_tool_input
from wakelog.providers.openai.chat import ChatParser
from wakelog.providers.openai.chat_request import PROVIDER as OPENAI_CHAT
from wakelog.providers.openai.conversation import Bound, bound_as_json
from wakelog.providers.openai.responses import ITEM_TYPES, ResponsesParser
from wakelog.providers.openai.responses_request import PROVIDER as OPENAI_RESPONSES

_HINT = (
    "pass text, a Reply, or the response of client.messages.create, client.chat.completions.create "
    "or client.responses.create"
)
_NO_REQUEST = ModelRequest(model="", messages=())


def reply_from(response: object) -> Reply:
    """Return the reply in a response; `UsageError` if it is not a finished response of a known API."""
    plain = _as_json_object(response)
    request_id = getattr(response, "_request_id", None)
    match plain:
        case {"error": dict(error)}:
            raise UsageError(f"the response is an error: {error.get('message')}", hint="record replies only")
        case {"type": "message", "role": "assistant", "content": list(blocks)} if _are_objects(blocks):
            return _anthropic_reply(plain, blocks, request_id)
        case {"choices": [{"message": dict(message)} as choice, *_]}:
            return _chat_reply(plain, message, choice.get("finish_reason"), request_id)
        case {"output": list(items)} if _are_objects(items):
            return _responses_reply(plain, items, request_id)
        case {"role": "assistant", "content": [_, *_] as blocks} if _are_objects(blocks):
            return _anthropic_reply(plain, blocks, request_id)
        case {"role": "assistant", "content": str() | None} | {"role": "assistant", "tool_calls": list()}:
            return _chat_reply(plain, plain, "stop", request_id)
        case {"role": str(role)} if role != "assistant":
            raise UsageError(f"a reply has the role assistant, not {role!r}", hint="use session.user(…) for prompts")
    raise UsageError(f"not a reply: {type(response).__name__}", hint=_HINT)


def _are_objects(values: Sequence[object]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _as_json_object(response: object) -> JsonObject:
    """Return a response as plain JSON; an object of an SDK, also inside a mapping, through its own method."""
    plain = _as_json(response)
    if not isinstance(plain, dict):
        raise UsageError(f"not a reply: {type(response).__name__}", hint=_HINT)
    return plain


def _as_json(value: object) -> Any:
    if isinstance(value, str):
        return valid_utf8(value)
    if isinstance(value, Mapping):
        return {valid_utf8(str(key)): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    return value if dump is None else _as_json(dump(mode="json", by_alias=True, exclude_unset=True))


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


def _chat_reply(completion: JsonObject, message: JsonObject, finish: object, request_id: str | None) -> Reply:
    parser = ChatParser(_NO_REQUEST)
    parser.request_id = request_id
    plain = _chat_message(message)
    chunk = {
        "id": completion.get("id"),
        "usage": completion.get("usage"),
        "choices": [{"message": plain, "finish_reason": finish or "stop"}],
    }
    deltas = [*_parsed(parser, (chunk,)), *parser.end("cut")]
    end = _end_of(deltas)
    parts = assemble_parts(delta for delta in deltas if not isinstance(delta, Finished | Faulted))
    marked = _with_custom_calls(parts, plain["tool_calls"])
    return _reply(marked, end, model=completion.get("model"), provider=OPENAI_CHAT)


def _with_custom_calls(parts: Sequence[AnyPart], calls: Sequence[JsonObject]) -> tuple[AnyPart, ...]:
    """Return the parts with a mark at each custom tool call. The parser leaves out calls without a name."""
    named = iter([call for call in calls if call["function"].get("name")])
    return tuple(_marked(part, next(named)) if isinstance(part, ToolCall) else part for part in parts)


def _marked(part: ToolCall, call: JsonObject) -> ToolCall:
    if call.get("type") != "custom":
        return part
    further = {key: call[key] for key in call.keys() - {"id", "type", "custom", "index", "function"}}
    return msgspec.structs.replace(part, bound=bound_as_json(Bound(custom=further)))


def _chat_message(message: JsonObject) -> JsonObject:
    """Return a message with every word of the reply as content, and numbered tool calls with valid arguments.

    The parser joins calls with equal ids, as pieces of a stream; the number keeps them apart.
    """
    audio = message.get("audio") if isinstance(message.get("audio"), dict) else {}
    words = [message.get("content"), message.get("refusal"), (audio or {}).get("transcript")]
    texts = [text for text in words if isinstance(text, str) and text]
    calls = message.get("tool_calls") or []
    if isinstance(message.get("function_call"), dict):
        calls = [*calls, {"id": "call", "type": "function", "function": message["function_call"]}]
    refused = {"refusal": texts[0]} if message.get("refusal") and len(texts) == 1 else {"content": "\n\n".join(texts)}
    return {
        **{key: message[key] for key in ("reasoning", "reasoning_content") if key in message},
        **refused,
        "tool_calls": [_numbered_call(number, call) for number, call in enumerate(calls)],
    }


def _numbered_call(number: int, call: Any) -> JsonObject:
    match call:
        case {"type": "custom", "custom": {"name": str(name), "input": str(text)}}:
            function = {"name": name, "arguments": msgspec.json.encode(text).decode()}
        case {"function": dict(given)}:
            function = {**given, "arguments": _json_text(given.get("arguments"))}
        case _:
            hint = "record a text that says what was called"
            raise UsageError("a tool call of the response is neither a function call nor a custom one", hint=hint)
    return {**call, "index": number, "function": function}


def _json_text(arguments: object) -> str:
    """Return the arguments of a call as JSON; text that is not JSON becomes a JSON string, so that it is kept."""
    if not isinstance(arguments, str):
        return msgspec.json.encode(arguments if arguments is not None else {}).decode()
    try:
        parse_tool_input(arguments)
    except ValueError:
        return msgspec.json.encode(arguments).decode()
    return arguments


def _responses_reply(response: JsonObject, items: Sequence[JsonObject], request_id: str | None) -> Reply:
    status = response.get("status", "completed")
    if status not in ("completed", "incomplete"):
        hint = "record it when it is completed or incomplete"
        raise UsageError(f"the response has the status {status!r}", hint=hint)
    parser = ResponsesParser(_NO_REQUEST)
    parser.request_id = request_id
    parts = [
        part for at, item in enumerate(items) for part in _responses_parts(parser, item, _reasoning_before(items, at))
    ]
    closing = {"type": f"response.{status}", "response": {**response, "output": []}}
    end = _end_of(_parsed(parser, (closing,)))
    if end.stop_reason == "stop" and any(isinstance(part, ToolCall) for part in parts):
        end = msgspec.structs.replace(end, stop_reason="tools")
    return _reply(parts, end, model=response.get("model"), provider=OPENAI_RESPONSES)


def _reasoning_before(items: Sequence[JsonObject], at: int) -> str | None:
    """Return the id of the last reasoning before an item, without which the item is refused."""
    found = (item.get("id") for item in reversed(items[:at]) if item.get("type") == "reasoning")
    return next((given for given in found if isinstance(given, str)), None)


def _responses_parts(parser: ResponsesParser, item: JsonObject, after: str | None) -> tuple[AnyPart, ...]:
    """Return the parts of an item. One that parts cannot represent is bound to an empty text and sent back as it is."""
    match item:
        case {"type": "custom_tool_call", "name": str(name), "input": str(text)}:
            further = {key: item[key] for key in item.keys() - {"type", "id", "call_id", "name", "input"}}
            bound = bound_as_json(Bound(id=item.get("id"), after=after, custom=further))
            return (ToolCall(id=str(item.get("call_id") or ""), name=name, input=text, bound=bound),)
    if item.get("type") not in ITEM_TYPES:
        return (Text(text="", bound={"item": item}),)
    if item["type"] == "function_call":
        item = {**item, "arguments": _json_text(item.get("arguments"))}
    opening = {key: value for key, value in item.items() if key not in ("content", "summary", "arguments")}
    events = (
        {"type": "response.output_item.added", "item": opening},
        {"type": "response.output_item.done", "item": item},
    )
    return assemble_parts(delta for delta in _parsed(parser, events) if not isinstance(delta, Finished | Faulted))


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


def _reply(parts: Sequence[AnyPart], end: Finished, *, model: object, provider: str) -> Reply:
    return Reply(
        content=with_unique_call_ids(parts),
        model=model if isinstance(model, str) else None,
        provider=provider,
        stop_reason=end.stop_reason,
        usage=end.usage,
        request_id=end.request_id,
    )

"""Request bodies for Chat Completions, as a pure function, for OpenAI and every compatible server.

Rule 1: only what all of them understand: a plain string where there is only text, the system message first, each result
as a message of its own directly after its call.
Rule 2: reasoning is sent back only to the model that produced it, in the field it came in.
Rule 3: injected text comes last, after the history: at the end of the last message if that is the user's, because the
templates of many models require roles to alternate.
"""

from collections.abc import Iterator, Sequence

from wakelog.log.content import AnyPart, Audio, Image, JsonObject, Media, Text, Thinking, ToolCall
from wakelog.ports.runtime import ModelRequest
from wakelog.providers.openai.conversation import (
    Bound,
    Exchange,
    cache_key,
    custom_fields,
    format_input,
    function_declaration,
    image_url,
    is_own,
    pair_results,
    parse_bound,
    safe_name,
)
from wakelog.providers.requests import Params, media_placeholder, media_type_of, merge_body

PROVIDER = "openai-chat"
_SEPARATOR = "\n\n"
# Models that accept audio have it in their name; any other refuses the whole conversation.
_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def request_body(request: ModelRequest, params: Params, *, is_openai: bool) -> JsonObject:
    """Return the body of a request. OpenAI itself has field names that other servers may not know."""
    body: JsonObject = {"model": request.model, "stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        body["tools"] = [{"type": "function", "function": function_declaration(tool)} for tool in request.tools]
    if request.tools and request.purpose == "compaction":
        body["tool_choice"] = "none"
    system = [{"role": "system", "content": request.system}] if request.system else []
    body["messages"] = _with_injected([*system, *history_messages(request, params)], request.injected)
    return merge_body(
        {**body, **_model_settings(request, params, is_openai=is_openai)}, {**params.extra, "stream": True}
    )


def _model_settings(request: ModelRequest, params: Params, *, is_openai: bool) -> JsonObject:
    settings: JsonObject = {"prompt_cache_key": cache_key(request)} if is_openai else {}
    if params.max_tokens is not None:
        settings["max_completion_tokens" if is_openai else "max_tokens"] = params.max_tokens
    if params.temperature is not None:
        settings["temperature"] = params.temperature
    if params.effort is not None:
        settings["reasoning_effort"] = params.effort
    return settings


def _with_injected(messages: list[JsonObject], injected: Sequence[str]) -> list[JsonObject]:
    tail = _SEPARATOR.join(injected)
    if not tail:
        return messages
    if not messages or messages[-1]["role"] != "user":
        return [*messages, {"role": "user", "content": tail}]
    *before, last = messages
    prompt = last["content"]
    content = f"{prompt}{_SEPARATOR}{tail}" if isinstance(prompt, str) else [*prompt, {"type": "text", "text": tail}]
    return [*before, {"role": "user", "content": content}]


# ── history ──────────────────────────────────────────────────────────────────────────────────────


def history_messages(request: ModelRequest, params: Params) -> Iterator[JsonObject]:
    """Yield the messages of the conversation, in order."""
    for exchange in pair_results(request.messages):
        if exchange.message.role == "user":
            yield {"role": "user", "content": _user_content(exchange.message.content, request.model)}
            continue
        yield from _reply_message(exchange, request, params)
        for call_id, result in exchange.results:
            yield {"role": "tool", "tool_call_id": call_id, "content": _joined_text(result)}
        if media := [part for _, result in exchange.results for part in result if isinstance(part, Media)]:
            # A tool result holds only text in this API: its images and audio follow in a user message.
            yield {"role": "user", "content": _user_content(media, request.model)}


def _user_content(content: Sequence[AnyPart], model: str) -> str | list[JsonObject]:
    """Return the content of a user message: a plain string if it is a single text."""
    if all(isinstance(part, Text) for part in content) and len(content) <= 1:
        return _joined_text(content)
    return [item for part in content for item in _content_items(part, model)]


def _content_items(part: AnyPart, model: str) -> Iterator[JsonObject]:
    if isinstance(part, Text):
        yield {"type": "text", "text": part.text}
    elif isinstance(part, Image) and (url := image_url(part)) is not None:
        yield {"type": "image_url", "image_url": {"url": url}}
    elif (
        isinstance(part, Audio)
        and part.data
        and (format_ := _AUDIO_FORMATS.get(media_type_of(part)))
        and "audio" in model
    ):
        yield {"type": "input_audio", "input_audio": {"data": part.data, "format": format_}}
    elif isinstance(part, Media):
        yield {"type": "text", "text": media_placeholder(part)}


def _joined_text(content: Sequence[AnyPart]) -> str:
    return _SEPARATOR.join(part.text for part in content if isinstance(part, Text) and part.text)


def _reply_message(exchange: Exchange, request: ModelRequest, params: Params) -> Iterator[JsonObject]:
    """Yield a reply, unless nothing is left of it. Its text may be missing only if there are calls."""
    own = is_own(exchange.message, request, PROVIDER)
    message: JsonObject = {"role": "assistant", "content": _joined_text(exchange.message.content)}
    calls = [
        _tool_call(part, call_id, parse_bound(part) if own else Bound())
        for part, call_id in exchange.parts()
        if isinstance(part, ToolCall)
    ]
    if calls:
        message["tool_calls"] = calls
        message["content"] = message["content"] or None
    if message["content"] or calls:
        yield {**message, **(_reasoning_field(exchange.message.content) if own and params.thinking == "keep" else {})}


def _tool_call(part: ToolCall, call_id: str, bound: Bound) -> JsonObject:
    custom = custom_fields(part, bound)
    if custom is not None:
        call = {"name": safe_name(part.name), "input": part.input}
        return {**custom, "id": call_id, "type": "custom", "custom": call}
    function = {"name": safe_name(part.name), "arguments": format_input(part.input, spaced=bound.spaced)}
    return {"id": call_id, "type": "function", "function": function}


def _reasoning_field(content: Sequence[AnyPart]) -> JsonObject:
    thoughts = [part for part in content if isinstance(part, Thinking) and part.thinking]
    return {parse_bound(thoughts[0]).field: _SEPARATOR.join(part.thinking for part in thoughts)} if thoughts else {}

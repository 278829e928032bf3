"""Request bodies for the Responses API, as a pure function.

Rule 1: nothing is stored on the server (`store: false`), so the whole conversation is sent every time. Replies of the
same model are sent back item by item, unchanged: with their encrypted reasoning, and the ids that connect the items.
Rule 2: those ids are valid only together. If a part of such a reply cannot be sent back, or the reply came from another
model, it is sent plainly: text, calls and results, without ids and without reasoning. A reply that was recorded without
any ids, as Codex does, is sent back with its encrypted reasoning and without ids.
Rule 3: injected text is the last item, after the history.
"""

from collections.abc import Iterator, Sequence

from wakelog.log.content import AnyPart, Image, JsonObject, Media, Text, Thinking, ToolCall
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
from wakelog.providers.requests import Params, media_placeholder, merge_body

PROVIDER = "openai"
# Separates the parts of a summary in the displayed text.
SUMMARY_SEPARATOR = "\n\n"
# Models without reasoning refuse its settings; all later models reason.
_PLAIN_MODELS = ("gpt-3", "gpt-4", "chatgpt-", "ft:gpt-3", "ft:gpt-4")


def request_body(request: ModelRequest, params: Params) -> JsonObject:
    """Return the body of a request."""
    body: JsonObject = {"model": request.model, "store": False, "stream": True}
    if request.system:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [{"type": "function", **function_declaration(tool)} for tool in request.tools]
    if request.tools and request.purpose == "compaction":
        body["tool_choice"] = "none"
    body["input"] = [*history_items(request, params), *_injected_item(request.injected)]
    return merge_body({**body, **_model_settings(request, params)}, {**params.extra, "stream": True})


def _model_settings(request: ModelRequest, params: Params) -> JsonObject:
    settings: JsonObject = {"prompt_cache_key": cache_key(request)}
    if params.max_tokens is not None:
        settings["max_output_tokens"] = params.max_tokens
    if params.temperature is not None:
        settings["temperature"] = params.temperature
    if params.effort is not None:
        settings["reasoning"] = {"effort": params.effort}
    if params.thinking == "keep" and is_reasoning_model(request.model):
        settings["include"] = ["reasoning.encrypted_content"]
    return settings


def is_reasoning_model(model: str) -> bool:
    """Return whether a model reasons, by its name."""
    return not model.startswith(_PLAIN_MODELS) and "-chat" not in model


def _injected_item(texts: Sequence[str]) -> Iterator[JsonObject]:
    if texts:
        yield {"role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


# ── history ──────────────────────────────────────────────────────────────────────────────────────


def history_items(request: ModelRequest, params: Params) -> Iterator[JsonObject]:
    """Yield the items of the conversation, in order."""
    for exchange in pair_results(request.messages):
        if exchange.message.role == "user":
            yield {"role": "user", "content": _input_content(exchange.message.content)}
            continue
        own = is_own(exchange.message, request, PROVIDER)
        yield from (
            _unchanged_items(exchange)
            if own and can_be_sent_back(exchange.message.content, params)
            else _plain_items(exchange, own=own)
        )
        custom = _custom_call_ids(exchange) if own else frozenset()
        for call_id, result in exchange.results:
            kind = "custom_tool_call_output" if call_id in custom else "function_call_output"
            yield {"type": kind, "call_id": call_id, "output": _input_content(result)}


def _custom_call_ids(exchange: Exchange) -> frozenset[str]:
    """Return the ids on the wire of the calls that are sent as custom tool calls."""
    return frozenset(
        call_id for part, call_id in exchange.parts() if custom_fields(part, parse_bound(part)) is not None
    )


def _input_content(content: Sequence[AnyPart]) -> str | list[JsonObject]:
    """Return the content of a user message or a tool result: a plain string if it is a single text."""
    if all(isinstance(part, Text) for part in content) and len(content) <= 1:
        return "".join(part.text for part in content if isinstance(part, Text))
    return [item for part in content for item in _content_items(part)]


def _content_items(part: AnyPart) -> Iterator[JsonObject]:
    if isinstance(part, Text):
        yield {"type": "input_text", "text": part.text}
    elif isinstance(part, Image) and (url := image_url(part)) is not None:
        yield {"type": "input_image", "image_url": url, "detail": "auto"}
    elif isinstance(part, Media):
        yield {"type": "input_text", "text": media_placeholder(part)}


def _plain_items(exchange: Exchange, *, own: bool) -> Iterator[JsonObject]:
    for part, call_id in exchange.parts():
        if isinstance(part, Text) and part.text:
            yield {"role": "assistant", "content": part.text, **_phase_field(parse_bound(part) if own else Bound())}
        elif isinstance(part, ToolCall):
            yield _call_item(part, call_id, parse_bound(part) if own else Bound())


def _phase_field(bound: Bound) -> JsonObject:
    return {"phase": bound.phase} if bound.phase else {}


def _call_item(part: ToolCall, call_id: str, bound: Bound) -> JsonObject:
    custom = custom_fields(part, bound)
    if custom is not None:
        item = {"type": "custom_tool_call", "call_id": call_id, "name": safe_name(part.name), "input": part.input}
        return {**custom, **item}
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": safe_name(part.name),
        "arguments": format_input(part.input, spaced=bound.spaced),
    }


# ── replies sent back unchanged ──────────────────────────────────────────────────────────────────


def can_be_sent_back(content: Sequence[AnyPart], params: Params) -> bool:
    """Return whether every part of a reply can be sent back: each has its id, and the reasoning before it is there.

    Encrypted reasoning without an id is valid as well, if no other part has an id either.
    """
    thoughts: set[str | None] = {None}
    needs_ids = not _is_without_ids(content)
    for part in content:
        bound = parse_bound(part)
        if bound.item is not None:
            continue
        if (bound.id is None and needs_ids) or bound.after not in thoughts:
            return False
        if isinstance(part, Thinking):
            if params.thinking == "drop" or not _is_whole(part, bound):
                return False
            thoughts.add(bound.id)
    return True


def _is_without_ids(content: Sequence[AnyPart]) -> bool:
    """Return whether a reply has encrypted reasoning, and no part of it has an id."""
    return any(isinstance(part, Thinking) and part.signature for part in content) and all(
        parse_bound(part).id is None for part in content
    )


def _is_whole(part: Thinking, bound: Bound) -> bool:
    """Return whether the server can read the reasoning, and its text still has the length that came."""
    sizes = [*bound.summary, *bound.content]
    gaps = len(SUMMARY_SEPARATOR) * max(0, len(sizes) - 1)
    return bool(part.signature or bound.content) and sum(sizes) + gaps == len(part.thinking)


def _unchanged_items(exchange: Exchange) -> Iterator[JsonObject]:
    parts = list(exchange.parts())
    while parts and isinstance(parts[-1][0], Thinking):
        # Reasoning without the item that follows it is refused.
        parts.pop()
    items: list[JsonObject] = []
    for part, call_id in parts:
        bound = parse_bound(part)
        match part:
            case Text() if bound.item is not None:
                items.append(bound.item)
            case Thinking():
                items.append(_reasoning_item(part, bound))
            case ToolCall():
                items.append({**_call_item(part, call_id, bound), **_id_field(bound)})
            case Text() if bound.id and items and (items[-1].get("type"), items[-1].get("id")) == ("message", bound.id):
                items[-1]["content"].append(_output_content(part, bound))
            case Text():
                items.append(_message_item(part, bound))
    yield from items


def _message_item(part: Text, bound: Bound) -> JsonObject:
    item = {"type": "message", **_id_field(bound), "role": "assistant", "status": "completed", **_phase_field(bound)}
    return {**item, "content": [_output_content(part, bound)]}


def _id_field(bound: Bound) -> JsonObject:
    return {"id": bound.id} if bound.id is not None else {}


def _output_content(part: Text, bound: Bound) -> JsonObject:
    if bound.refusal:
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text", "text": part.text, "annotations": bound.annotations}


def _reasoning_item(part: Thinking, bound: Bound) -> JsonObject:
    texts = _split_texts(part.thinking, [*bound.summary, *bound.content])
    first = len(bound.summary)
    item: JsonObject = {
        "type": "reasoning",
        **_id_field(bound),
        "summary": [{"type": "summary_text", "text": text} for text in texts[:first]],
    }
    if bound.content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in texts[first:]]
    return {**item, "encrypted_content": part.signature} if part.signature is not None else item


def _split_texts(whole: str, sizes: Sequence[int]) -> list[str]:
    """Return the single texts of a displayed text."""
    texts, at = [], 0
    for size in sizes:
        texts.append(whole[at : at + size])
        at += size + len(SUMMARY_SEPARATOR)
    return texts

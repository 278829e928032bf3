"""Request bodies for the Messages API, as a pure function: `request_body`.

In this order: differences between generations of models, content blocks, messages, the body.
Rule 1: stable content comes first and is marked for the cache; injected text comes last and is never marked. Each
message depends only on itself and those before it, so each request is a prefix of the next (law 8).
Rule 2: reasoning is sent back only to the provider and the model that produced it. Everything else of a reply is
sent to any model.
Rule 3: roles alternate, every tool call is followed by exactly one result, and a call without a result on record
gets one that says so.
Rule 4: the API refuses blank text, and in a failed result everything but text, and a conversation that it refuses
once is refused forever: so blank text is left out, and a placeholder is used where a block is required.
Rule 5: no reply is resumed. An interrupted reply is requested again from its beginning, so a conversation always
ends with the user.
Model generations are told apart by name; an unknown name counts as the newest, so that a new model needs no new
release.
"""

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wakelog.log.content import AnyPart, Audio, Image, JsonObject, Text, Thinking, ToolCall
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.requests import (
    IMAGE_TYPES,
    Params,
    group_tool_results,
    media_placeholder,
    media_type_of,
    merge_body,
    parts_without_media,
)

_NAME_PATTERNS = (
    re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?!\d)"),
    re.compile(r"claude-(\d{1,2})(?:-(\d{1,2}))?-"),
)
# From this version on a model decides how much to reason, and is given an effort.
_ADAPTIVE_SINCE = (4, 6)
# From this version on models reason unless told not to; the models named below always do.
_REASONS_BY_DEFAULT_SINCE = (5, 0)
_ALWAYS_REASONS = ("fable", "mythos")
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384}
_BUDGET_MIN = 1_024


def default_reply_tokens(model: str) -> int:
    """Return the default length of a reply: the API requires a number."""
    version = _model_version(model)
    if version is None:
        return 32_000 if "claude" in model else 8_192
    if version < (3, 5):
        return 4_096
    return 8_192 if version < (3, 7) else 32_000


def reasoning_settings(model: str, params: Params, max_tokens: int) -> JsonObject:
    """Return the keys of a body that control reasoning; none for the model's default."""
    if params.thinking == "drop":
        effort = {"output_config": {"effort": params.effort}} if params.effort and not has_budget(model) else {}
        return {**effort, **({"thinking": {"type": "disabled"}} if _needs_reasoning_disabled(model) else {})}
    if params.effort is None:
        return {}
    if has_budget(model):
        return _budget_setting(_BUDGETS[params.effort], max_tokens)
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": params.effort}}


def has_budget(model: str) -> bool:
    """Return whether a model is of the older kind, which takes a number of tokens for reasoning."""
    version = _model_version(model)
    return version is not None and version < _ADAPTIVE_SINCE


def _budget_setting(wanted: int, max_tokens: int) -> JsonObject:
    """Return the key for a budget. Reasoning counts as part of the reply, and leaves half of it for the answer."""
    budget = min(wanted, max_tokens // 2)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _BUDGET_MIN else {}


def _needs_reasoning_disabled(model: str) -> bool:
    version = _model_version(model)
    return (
        version is not None
        and version >= _REASONS_BY_DEFAULT_SINCE
        and not any(name in model for name in _ALWAYS_REASONS)
    )


def _model_version(model: str) -> tuple[int, int] | None:
    """Return 4.5 for `claude-opus-4-5-20251101`, 3.5 for `claude-3-5-sonnet-latest`, as a pair; None if unknown."""
    for pattern in _NAME_PATTERNS:
        match = pattern.search(model)
        if match:
            return int(match[1]), int(match[2] or 0)
    return None


_EMPTY_MESSAGE = "(an empty message)"
_NO_OUTPUT = "(no output)"
_NO_RESULT = "(there is no record of what came of this call)"
_REASONING_TYPES = ("thinking", "redacted_thinking")
PLAIN_BLOCKS = ("text", "tool_use", *_REASONING_TYPES)
"""Blocks that parts can represent. Any other block of a reply is bound to an empty text and sent back as it is."""


def text_blocks(text: str) -> list[JsonObject]:
    """Return a text as a block; none if it is blank."""
    return [{"type": "text", "text": text}] if text.strip() else []


def user_blocks(parts: Iterable[AnyPart]) -> list[JsonObject]:
    """Return the blocks of a user message, at least one."""
    return _content_blocks(parts) or text_blocks(_EMPTY_MESSAGE)


def reply_blocks(parts: Iterable[AnyPart], *, thoughts: bool) -> list[JsonObject | ToolCall]:
    """Return the blocks of a reply, calls unconverted; with reasoning only if `thoughts`: if this model produced it.

    Reasoning at the end is left out: no message may end with it.
    """
    blocks: list[JsonObject | ToolCall] = []
    for part in parts:
        if isinstance(part, ToolCall):
            blocks.append(part)
        elif isinstance(part, Thinking):
            blocks.extend(_reasoning_blocks(part) if thoughts else [])
        elif isinstance(part, Text) and part.bound and thoughts:
            blocks.extend(_bound_blocks(part, part.bound))
        else:
            blocks.extend(_content_blocks([part]))
    while blocks and is_reasoning(blocks[-1]):
        blocks.pop()
    return blocks


def _bound_blocks(part: Text, bound: JsonObject) -> list[JsonObject]:
    """Return a text with its citations, or the block of another type that is bound to an empty text."""
    if isinstance(bound.get("type"), str) and not part.text:
        return [bound]
    cited = {"citations": bound["citations"]} if isinstance(bound.get("citations"), list) else {}
    return [{**block, **cited} for block in text_blocks(part.text)]


def is_reasoning(block: JsonObject | ToolCall) -> bool:
    """Return whether a block is reasoning, which only its own model understands."""
    return not isinstance(block, ToolCall) and block["type"] in _REASONING_TYPES


def call_block(call: ToolCall, wire_id: str, wire_name: str) -> JsonObject:
    """Return a call as a block. The input must be an object, so any other value is wrapped in one."""
    tool_input = call.input if isinstance(call.input, dict) else {} if call.input is None else {"input": call.input}
    return {"type": "tool_use", "id": wire_id, "name": wire_name, "input": tool_input}


def result_block(result: ContextMessage, wire_id: str) -> JsonObject:
    """Return a tool result as a block."""
    shown = _content_blocks(parts_without_media(result.content) if result.is_error else result.content)
    block: JsonObject = {"type": "tool_result", "tool_use_id": wire_id, "content": shown or text_blocks(_NO_OUTPUT)}
    return {**block, "is_error": True} if result.is_error else block


def missing_result(wire_id: str) -> JsonObject:
    """Return the result of a call that has none on record; the call itself is never hidden from the model."""
    return {"type": "tool_result", "tool_use_id": wire_id, "content": text_blocks(_NO_RESULT), "is_error": True}


def _content_blocks(parts: Iterable[AnyPart]) -> list[JsonObject]:
    """Return text and images as blocks. The API takes no audio, which becomes text."""
    blocks: list[JsonObject] = []
    for part in parts:
        if isinstance(part, Text):
            blocks.extend(text_blocks(part.text))
        elif isinstance(part, Image):
            blocks.append(_image_block(part))
        elif isinstance(part, Audio):
            blocks.extend(text_blocks(media_placeholder(part)))
    return blocks


def _image_block(image: Image) -> JsonObject:
    kind = media_type_of(image)
    if image.data and kind in IMAGE_TYPES:
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": image.data}}
    return {"type": "text", "text": media_placeholder(image)}


def _reasoning_blocks(part: Thinking) -> list[JsonObject]:
    """Return reasoning as a block, byte for byte. Without a signature it would be refused, and is left out."""
    if part.bound is not None and part.bound.get("type") == "redacted_thinking":
        return [{"type": "redacted_thinking", "data": part.bound.get("data")}]
    if part.signature:
        return [{"type": "thinking", "thinking": part.thinking, "signature": part.signature}]
    return []


_OMITTED_START = "(What was said before this is left out.)"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
# Leaves space for a numeric suffix: other APIs accept 64 characters.
_ID_CHARS = 48
_NAME_CHARS = 128


def build_messages(messages: Sequence[ContextMessage], *, is_own: Callable[[ContextMessage], bool]) -> list[JsonObject]:
    """Return the messages for the API. `is_own` says whether the reasoning of a reply may be sent back."""
    built: list[JsonObject] = []
    ids = _WireIds()
    for message, results in group_tool_results(messages):
        if message.role == "user":
            _add_blocks(built, "user", user_blocks(message.content))
        else:
            _add_reply(built, message, results, ids, thoughts=is_own(message))
    return built


def _add_reply(
    built: list[JsonObject],
    reply: ContextMessage,
    results: Sequence[ContextMessage],
    ids: "_WireIds",
    *,
    thoughts: bool,
) -> None:
    waiting: dict[str, deque[str]] = defaultdict(deque)
    blocks: list[JsonObject] = []
    for block in reply_blocks(reply.content, thoughts=thoughts):
        if isinstance(block, ToolCall):
            wire_id = ids.assign(block.id)
            waiting[block.id].append(wire_id)
            blocks.append(call_block(block, wire_id, _safe_name(block.name, "tool", _NAME_CHARS)))
        else:
            blocks.append(block)
    _add_blocks(built, "assistant", blocks)
    _add_blocks(built, "user", _result_blocks(results, waiting))


def _result_blocks(results: Sequence[ContextMessage], waiting: dict[str, deque[str]]) -> list[JsonObject]:
    """Return one result for each call, in order of arrival; results without a call and repeated ones are dropped."""
    blocks = [
        result_block(result, waiting[result.tool_call_id].popleft())
        for result in results
        if result.tool_call_id is not None and waiting.get(result.tool_call_id)
    ]
    return [*blocks, *(missing_result(wire_id) for left in waiting.values() for wire_id in left)]


def _add_blocks(built: list[JsonObject], role: str, blocks: list[JsonObject]) -> None:
    """Append blocks to the last message of that role, or begin one. The first message must be the user's."""
    if not blocks:
        return
    if not built and role == "assistant":
        built.append({"role": "user", "content": text_blocks(_OMITTED_START)})
    if built and built[-1]["role"] == role:
        built[-1]["content"].extend(blocks)
    else:
        built.append({"role": role, "content": blocks})


# ── ids and names ────────────────────────────────────────────────────────────────────────────────


class _WireIds:
    """Ids of calls for the API: of a restricted alphabet, and unique in the conversation.

    In the log they are unique within their reply, and may come from anywhere.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._counts: Counter[str] = Counter()

    def assign(self, call_id: str) -> str:
        """Return a new id for the next call that has this id in the log."""
        safe = free = _safe_name(call_id, "call", _ID_CHARS)
        while free in self._taken:
            self._counts[safe] += 1
            free = f"{safe}-{self._counts[safe]}"
        self._taken.add(free)
        return free


def _safe_name(name: str, default: str, chars: int) -> str:
    return _UNSAFE.sub("_", name)[:chars] or default


PROVIDER = "anthropic"
_CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
# The API takes four marks: the last tool, the system prompt, and these.
_MARKED_MESSAGES = 2
_CONTINUE = "(Go on.)"


def request_body(request: ModelRequest, params: Params) -> JsonObject:
    """Return the body of a request."""
    stable = build_messages(request.messages, is_own=lambda message: _is_own(message, request, params))
    max_tokens = params.max_tokens or default_reply_tokens(request.model)
    body: JsonObject = {"model": request.model, "max_tokens": max_tokens}
    body |= _tool_settings(request)
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, **_CACHE_MARK}]
    body["messages"] = _with_injected(with_cache_marks(stable), request.injected)
    if params.temperature is not None:
        body["temperature"] = params.temperature
    if not (has_budget(request.model) and _continues_calls_without_reasoning(stable)):
        body |= reasoning_settings(request.model, params, max_tokens)
    return {**merge_body(body, params.extra), "stream": True}


def _is_own(message: ContextMessage, request: ModelRequest, params: Params) -> bool:
    return params.thinking == "keep" and message.provider == PROVIDER and message.model == request.model


def _tool_settings(request: ModelRequest) -> JsonObject:
    """Return the tools as declared. A compaction needs them, because the history holds calls, but may call none."""
    if not request.tools:
        return {}
    tools = [_tool_declaration(tool) for tool in request.tools]
    tools[-1] |= _CACHE_MARK
    choice = {"tool_choice": {"type": "none"}} if request.purpose == "compaction" else {}
    return {"tools": tools, **choice}


def _tool_declaration(tool: Mapping[str, Any]) -> JsonObject:
    described = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool["name"], **described, "input_schema": {"type": "object", **tool.get("schema", {})}}


def with_cache_marks(stable: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the conversation with marks at the ends of the last two user messages.

    The previous request ended at the first of the two and was marked there, so the cache has that position, however
    many calls a reply makes at once; from a mark it looks back over only about twenty blocks.
    """
    users = [at for at, message in enumerate(stable) if message["role"] == "user"][-_MARKED_MESSAGES:]
    marked = list(stable)
    for at in users:
        *before, last = stable[at]["content"]
        marked[at] = {"role": "user", "content": [*before, {**last, **_CACHE_MARK}]}
    return marked


def _with_injected(marked: list[JsonObject], injected: Sequence[str]) -> list[JsonObject]:
    """Append what belongs to this request alone, after everything that the next one repeats."""
    tail = [block for text in injected for block in text_blocks(text)]
    if marked and marked[-1]["role"] == "user":
        *before, last = marked
        return [*before, {"role": "user", "content": [*last["content"], *tail]}]
    return [*marked, {"role": "user", "content": tail or text_blocks(_CONTINUE)}]


def _continues_calls_without_reasoning(stable: Sequence[JsonObject]) -> bool:
    """Return whether calls were made without reasoning and the results are in.

    The API refuses a request for reasoning there with older models; once the turn is over it accepts one.
    """
    if len(stable) < 2 or stable[-1]["content"][0]["type"] != "tool_result":
        return False
    return not is_reasoning(stable[-2]["content"][0])

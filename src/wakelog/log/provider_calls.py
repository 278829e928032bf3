"""Tool calls that the provider itself ran while it made a reply, such as a web search.

Pure. A reply keeps such a call as the provider sent it: as the data bound to an empty text, so that it can be sent back
unchanged. OpenAI has one item for a call and its outcome (`{"item": {"type": "web_search_call", …}}`); Anthropic has a
block for each (`server_tool_use`, `web_search_tool_result`). The runtime never runs these calls and waits for no result
of them. Transcripts, search and the formats of other agents show them as tool calls.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from wakelog.log.content import AnyPart, JsonObject, Text, ToolStatus

Api: TypeAlias = Literal["openai", "anthropic"]

_CALL = "_call"
# Calls of functions and custom tools are `ToolCall` parts.
_OWN_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "shell_call"})
_OUTCOMES = ("results", "outputs", "output", "result", "error")
_NOT_INPUT = frozenset({"id", "type", "status", "name", "server_label", "approval_request_id", *_OUTCOMES})
_STATUSES: dict[str, ToolStatus] = {"completed": "ok", "failed": "error", "incomplete": "interrupted"}
_USE, _RESULT = "_tool_use", "_tool_result"


class ProviderCall(msgspec.Struct, frozen=True, kw_only=True):
    """One such call. `result` is what the record says of its outcome, as text for people; often nothing."""

    id: str
    name: str
    input: Any
    status: ToolStatus
    result: str
    api: Api
    """The API whose data it is; only that API takes it back."""


def provider_calls(parts: Sequence[AnyPart]) -> dict[int, ProviderCall | None]:
    """Return the calls among the parts of a reply, by their position.

    A part that only holds the outcome of a call has None: it is included in that call.
    """
    blocks = {at: bound for at, part in enumerate(parts) if (bound := _bound_alone(part)) is not None}
    outcomes = {named: block for block in blocks.values() if (named := _answered_id(block))}
    calls = {at: _openai_call(block, at) or _anthropic_call(block, outcomes) for at, block in blocks.items()}
    made = {call.id for call in calls.values() if call is not None}
    return {at: call for at, call in calls.items() if call is not None or _answered_id(blocks[at]) in made}


def _bound_alone(part: AnyPart) -> JsonObject | None:
    """Return the data bound to a part without a text of its own."""
    return part.bound if isinstance(part, Text) and not part.text and part.bound else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ── OpenAI ───────────────────────────────────────────────────────────────────────────────────────


def _openai_call(bound: JsonObject, at: int) -> ProviderCall | None:
    item = bound.get("item") or bound.get("codex")
    kind = _text(item.get("type")) if isinstance(item, dict) else ""
    if not isinstance(item, dict) or not kind.endswith(_CALL) or kind in _OWN_CALLS:
        return None
    given = {key: value for key, value in item.items() if key not in _NOT_INPUT and value is not None}
    # The outcome of `image_generation_call` is the image, in base64.
    is_text = kind != "image_generation_call"
    outcome = {key: item[key] for key in _OUTCOMES if is_text and item.get(key) is not None}
    return ProviderCall(
        id=_text(item.get("id")) or f"{kind}_{at}",
        name=_text(item.get("name")) or kind.removesuffix(_CALL),
        input=given["action"] if given.keys() == {"action"} else given,
        status="error" if item.get("error") else _STATUSES.get(_text(item.get("status")) or "completed", "unknown"),
        result=_outcome_text(outcome),
        api="openai",
    )


def _outcome_text(outcome: JsonObject) -> str:
    if not outcome:
        return ""
    only = next(iter(outcome.values())) if len(outcome) == 1 else outcome
    return only if isinstance(only, str) else json.dumps(only, ensure_ascii=False)


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────────


def _is_use(block: JsonObject) -> bool:
    kind = _text(block.get("type"))
    return kind.endswith(_USE) and bool(_text(block.get("id")))


def _answered_id(block: JsonObject) -> str:
    """Return the id of the call whose outcome a block is; empty if it is no such block."""
    return _text(block.get("tool_use_id")) if _text(block.get("type")).endswith(_RESULT) else ""


def _anthropic_call(block: JsonObject, outcomes: dict[str, JsonObject]) -> ProviderCall | None:
    if not _is_use(block):
        return None
    outcome = outcomes.get(block["id"], {})
    content = outcome.get("content")
    has_failed = outcome.get("is_error") is True or (
        isinstance(content, dict) and _text(content.get("type")).endswith("_error")
    )
    return ProviderCall(
        id=block["id"],
        name=_text(block.get("name")) or block["type"].removesuffix(_USE),
        input=block.get("input"),
        status="unknown" if not outcome else "error" if has_failed else "ok",
        result="\n".join(_content_texts(content)),
        api="anthropic",
    )


def _content_texts(content: Any) -> Iterator[str]:
    """Yield what an outcome says to people: texts, titles with addresses, errors. Encrypted content is left out."""
    for each in content if isinstance(content, list) else [content]:
        match each:
            case str(text) | {"text": str(text)} | {"error_code": str(text)}:
                yield text
            case {"url": str(url)}:
                yield " ".join(filter(None, (_text(each.get("title")), url)))
            case dict():
                shown = {key: value for key, value in each.items() if not key.startswith("encrypted_")}
                yield json.dumps(shown, ensure_ascii=False)

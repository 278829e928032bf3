"""Content of wakelog as parts of OpenCode messages: the reverse of `parts.py`. Parts have no ids yet.

Each function also returns or counts what the parts lack. OpenCode refuses a whole file if one part does not fit its
schema, so parts that were kept verbatim are checked field by field before they are written again.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from wakelog.decoding import convert
from wakelog.exchange.opencode.parts import DENIED
from wakelog.exchange.writing import Losses
from wakelog.log.content import (
    AnyPart,
    Audio,
    Image,
    JsonObject,
    Reply,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from wakelog.log.entry import Cancelled, Failed
from wakelog.providers.openai.responses_request import SUMMARY_SEPARATOR

_FINISH = {"tools": "tool-calls", "filtered": "content-filter"}
_INTERRUPTED = "Tool execution aborted"
_NO_TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
# Providers whose reasoning is signed in another way than that of Anthropic; OpenCode needs more than the signature.
_OTHER_SIGNATURES = ("openai", "azure", "codex", "google", "gemini", "github")
_API_ERROR = "APIError"
_ERRORS = frozenset(
    {
        _API_ERROR,
        "ProviderAuthError",
        "UnknownError",
        "MessageOutputLengthError",
        "StructuredOutputError",
        "ContextOverflowError",
        "ContentFilterError",
    }
)


def finish_of(stop_reason: str) -> str:
    """Return why a reply ended, as OpenCode calls it."""
    return _FINISH.get(stop_reason, stop_reason)


def tokens_of(usage: Usage | None) -> JsonObject:
    """Return token counts; zeros, which OpenCode has for unknown ones, if there is no usage."""
    if usage is None:
        return _NO_TOKENS
    cache = {"read": usage.cache_read_tokens, "write": usage.cache_write_tokens}
    return {"input": usage.input_tokens, "output": usage.output_tokens, "reasoning": 0, "cache": cache}


def cost_of(usage: Usage | None) -> float:
    """Return a cost in dollars; 0 if it is unknown."""
    return (usage.cost_micros or 0) / 1_000_000 if usage is not None else 0


def file_part(part: Image | Audio) -> JsonObject | None:
    """Return media as a file; None if their bytes or their type are not known."""
    kind = "image/" if isinstance(part, Image) else "audio/"
    if not part.data or not part.mime_type.startswith(kind):
        return None
    return {"type": "file", "mime": part.mime_type, "url": f"data:{part.mime_type};base64,{part.data}"}


def said_parts(content: tuple[AnyPart, ...], kind: str, losses: Losses, *, synthetic: bool = False) -> list[JsonObject]:
    """Return the parts of a user message. `synthetic` texts are for the model only: OpenCode does not display them."""
    found: list[JsonObject] = []
    for part in content:
        match part:
            case Text():
                if part.text:
                    found.append({"type": "text", "text": part.text, **({"synthetic": True} if synthetic else {})})
            case Image() | Audio() if (file := file_part(part)) is not None:
                found.append(file)
                if synthetic:
                    losses.add(kind, "its media are those of a person in OpenCode")
            case Image() | Audio():
                losses.add(kind, "media without bytes or a type")
            case _:
                losses.add(kind, "a part that has no place in such a message")
    return found


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def reply_parts(reply: Reply, time_ms: int, losses: Losses) -> Iterator[tuple[JsonObject, ToolCall | None]]:
    """Yield the parts of a reply, tool calls with the call that they are. Calls have no result yet."""
    for part in reply.parts:
        match part:
            case Text():
                metadata = _metadata(part.bound, losses)
                if part.text:
                    yield {"type": "text", "text": part.text, **metadata}, None
            case Thinking():
                yield from ((each, None) for each in _reasoning_parts(part, reply, time_ms, losses))
            case ToolCall():
                state = {"status": "running", "input": _input(part, losses), "time": {"start": time_ms}}
                metadata = _metadata(part.bound, losses)
                yield {"type": "tool", "callID": part.id, "tool": part.name, "state": state, **metadata}, part
            case Image() | Audio() if (file := file_part(part)) is not None:
                losses.add("reply", "OpenCode keeps the media of a reply, but does not send them to the model")
                yield file, None
            case _:
                losses.add("reply", "a part that has no place in a reply")


def _input(call: ToolCall, losses: Losses) -> JsonObject:
    """Return the input of a call: an object, which holds any other value as the APIs of the models want it."""
    if isinstance(call.input, dict):
        return call.input
    if call.input is None:
        return {}
    losses.add("reply", "the input of a call is not an object: it is written as the field `input` of one")
    return {"input": call.input}


def _metadata(bound: JsonObject | None, losses: Losses) -> JsonObject:
    """Return the field with the data that the model's API wants back with a text or a call."""
    match bound:
        case None:
            return {}
        case {"id": str(item)}:
            if bound.keys() - {"id", "after"}:
                _lose_bound(losses)
            return {"metadata": {"openai": {"itemId": item}}}
        case _ if _is_by_vendor(bound):
            return {"metadata": bound}
    _lose_bound(losses)
    return {}


def _is_by_vendor(bound: JsonObject) -> bool:
    """Return whether data came from OpenCode, which has an object for each vendor."""
    return bool(bound) and all(isinstance(value, dict) for value in bound.values())


def _lose_bound(losses: Losses) -> None:
    losses.add("reply", "data that the model's API wants back, and that OpenCode does not keep")


def _reasoning_parts(part: Thinking, reply: Reply, time_ms: int, losses: Losses) -> Iterator[JsonObject]:
    """Yield reasoning. Each text of an OpenAI summary is a part of its own."""
    texts = [part.thinking]
    metadata: JsonObject | None = None
    match part.bound:
        case {"type": "redacted_thinking", "data": str(data)}:
            metadata = {"anthropic": {"redactedData": data}}
        case {"id": str(item), **rest}:
            sealed = {"reasoningEncryptedContent": part.signature} if part.signature else {}
            metadata = {"openai": {"itemId": item, **sealed}}
            texts = _summary_texts(part.thinking, rest.pop("summary", []))
            if rest:
                _lose_bound(losses)
        case dict() if _is_by_vendor(part.bound):
            metadata = part.bound
        case None if part.signature and _is_signed_by_anthropic(reply):
            metadata = {"anthropic": {"signature": part.signature}}
        case None if not part.signature:
            pass
        case _:
            _lose_bound(losses)
    if part.thinking or metadata is not None:
        time = {"start": time_ms, "end": time_ms}
        added = {} if metadata is None else {"metadata": metadata}
        yield from ({"type": "reasoning", "text": text, "time": time, **added} for text in texts)


def _is_signed_by_anthropic(reply: Reply) -> bool:
    is_claude = "claude" in (reply.model or "").lower()
    return is_claude or not (reply.provider or "").lower().startswith(_OTHER_SIGNATURES)


def _summary_texts(thinking: str, sizes: object) -> list[str]:
    """Return the texts of a summary by their sizes; the whole text if they do not fit."""
    if not isinstance(sizes, list) or not all(isinstance(size, int) and size > 0 for size in sizes):
        return [thinking]
    texts, at = [], 0
    for size in sizes:
        texts.append(thinking[at : at + size])
        at += size + len(SUMMARY_SEPARATOR)
    is_whole = at == len(thinking) + len(SUMMARY_SEPARATOR) and SUMMARY_SEPARATOR.join(texts) == thinking
    return texts if is_whole else [thinking]


# ── results ──────────────────────────────────────────────────────────────────────────────────────


def ended_state(running: JsonObject, result: ToolResult, end_ms: int, losses: Losses) -> JsonObject:
    """Return the state of a call with its result. A duration that is not known is 0."""
    texts = [part.text for part in result.parts if isinstance(part, Text) and part.text]
    files: list[JsonObject] = []
    for part in result.parts:
        if isinstance(part, Image | Audio) and (file := file_part(part)) is not None:
            files.append(file)
        elif not isinstance(part, Text):
            losses.add("toolresult", "a part that has no place in a result")
    time = {"start": max(0, end_ms - (result.duration_ms or 0)), "end": end_ms}
    metadata: JsonObject = {"truncated": True} if result.truncated else {}
    ended = {"input": running["input"], "time": time}
    if result.effective_status != "ok":
        return {**ended, "status": "error", **_failure(result, texts, len(files), metadata, losses)}
    _count_joined(result, texts, losses)
    found = {**ended, "status": "completed", "output": "\n".join(texts), "title": "", "metadata": metadata}
    return {**found, "attachments": files} if files else found


def _failure(result: ToolResult, texts: list[str], files: int, metadata: JsonObject, losses: Losses) -> JsonObject:
    """Return the error of a call that failed, or that was interrupted, with what was put out until then."""
    if files:
        losses.add("toolresult", "media of a call that failed", files)
    if result.effective_status == "interrupted":
        if len(texts) == 2 and texts[1] == _INTERRUPTED:
            return {"error": _INTERRUPTED, "metadata": {**metadata, "interrupted": True, "output": texts[0]}}
        metadata = {**metadata, "interrupted": True}
    elif result.effective_status not in ("error", "denied") or (
        result.effective_status == "denied" and not "".join(texts).startswith(DENIED)
    ):
        losses.add("toolresult", f"OpenCode has no status {result.effective_status!r}: the call has failed there")
    _count_joined(result, texts, losses)
    return {"error": "\n".join(texts), "metadata": metadata}


def _count_joined(result: ToolResult, texts: list[str], losses: Losses) -> None:
    """Count a result whose texts become one, or whose text does not stand before the media."""
    is_first = isinstance(result.parts[0], Text) if result.parts else True
    if len(texts) > 1 or (texts and not is_first):
        losses.add("toolresult", "its texts are one in OpenCode, and stand before the media")


# ── faults ───────────────────────────────────────────────────────────────────────────────────────


def error_of(node: Failed | Cancelled, provider: str) -> JsonObject:
    """Return how a model call failed, or that a person ended it. What OpenCode has no field for is in `metadata`."""
    if isinstance(node, Cancelled):
        return {"name": "MessageAbortedError", "data": {"message": node.reason}}
    message = node.error.message if node.error is not None else node.reason
    is_retryable = node.error is not None and node.error.retryable
    fields: JsonObject = {"message": message, "isRetryable": is_retryable}
    if node.reason in _ERRORS:
        added: dict[str, JsonObject] = {
            "ProviderAuthError": {"providerID": provider},
            "StructuredOutputError": {"retries": 0},
        }
        return {"name": node.reason, "data": {**fields, **added.get(node.reason, {})}}
    details = {"reason": node.reason, "kind": node.error.kind if node.error is not None else ""}
    if node.error is not None and node.error.delay_ms is not None:
        details["delayMs"] = str(node.error.delay_ms)
    return {"name": _API_ERROR, "data": {**fields, "metadata": {key: text for key, text in details.items() if text}}}


# ── parts that were kept verbatim ────────────────────────────────────────────────────────────────


class _Kept(msgspec.Struct, omit_defaults=True, tag_field="type"):
    """A part of a type that has no counterpart here. Only the fields of OpenCode's schema are written."""


class _Snapshot(_Kept, tag="snapshot"):
    snapshot: str


class _Patch(_Kept, tag="patch"):
    hash: str
    files: list[str]


class _AgentSource(msgspec.Struct):
    value: str
    start: int
    end: int


class _Agent(_Kept, tag="agent"):
    name: str
    source: _AgentSource | None = None


class _SourceText(msgspec.Struct):
    value: str
    start: float
    end: float


class _FileSource(msgspec.Struct, tag_field="type", tag="file"):
    path: str
    text: _SourceText


class _File(_Kept, tag="file"):
    mime: str
    url: str
    filename: str | None = None
    source: _FileSource | None = None


class _IgnoredText(_Kept, tag="text"):
    text: str
    ignored: bool


_KEPT_PARTS = _Snapshot | _Patch | _Agent | _File | _IgnoredText
_OF_REPLIES = ("snapshot", "patch")
_READ_BEFORE = ("text/plain", "application/x-directory")


def is_of_reply(part: JsonObject) -> bool:
    """Return whether a part that was kept verbatim belongs to a reply, not to a message of a person."""
    return part["type"] in _OF_REPLIES


def kept_part(value: Any) -> JsonObject | None:
    """Return a part that was kept verbatim, for OpenCode to read again; None if it is of no known form.

    None, too, for what OpenCode would act on by itself: tasks for sub-agents, and files that it would have to fetch.
    """
    try:
        part = convert(value, _KEPT_PARTS)
    except msgspec.ValidationError:
        return None
    if isinstance(part, _File) and not part.url.startswith("data:") and part.mime not in _READ_BEFORE:
        return None
    if isinstance(part, _IgnoredText) and not part.ignored:
        return None
    found: JsonObject = msgspec.to_builtins(part)
    return found

"""The `anthropic` provider: errors and streamed replies of the Messages API, and the wire format that connects them.

`MessagesParser` turns events into deltas, without a socket. Text is passed on as it arrives; a tool call
only when its input is complete and valid JSON; reasoning ends with its signature. Events of unknown types are
ignored; an event of a known type with the wrong shape is a `ValueError`, and ends the reply. Token counts are
totals: the last one is used.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wakelog.log.content import (
    ContentDelta,
    Delta,
    Faulted,
    Finished,
    JsonObject,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from wakelog.providers import PrepareRequest
from wakelog.providers.anthropic.messages_request import PROVIDER, request_body
from wakelog.providers.endpoints import Vendor
from wakelog.providers.event_stream import decode_event, parse_tool_input
from wakelog.providers.faults import fault, kind_of_status
from wakelog.providers.http_provider import HttpProvider, WireFormat, open_http_provider

_TYPES = {
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "api_error": "server",
    "conflict_error": "server",
    "timeout_error": "timeout",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
}
# Error codes whose kind the error type does not show.
_CODES = {"enforced_spend_limit_reached": "quota"}
# These are recognized only by the message.
_TOO_LONG = ("prompt is too long", "exceed context limit", "context window")
_UNPAID = ("credit balance",)


def fault_of_response(status: int, headers: Mapping[str, str], body: Any) -> Faulted:
    """Return the fault for a response that is an error from the start."""
    error = _as_object(_as_object(body).get("error"))
    return fault(_fault_kind(error, kind_of_status(status)), _error_message(error), status=status, headers=headers)


def fault_of_error_event(error: Any) -> Faulted:
    """Return the fault for an error in the middle of a reply. One without a type is a server failure."""
    details = _as_object(error)
    usual = "bad_request" if details.get("type") == "invalid_request_error" else "server"
    return fault(_fault_kind(details, usual), _error_message(details))


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _error_message(error: Mapping[str, Any]) -> str:
    message = error.get("message")
    return message if isinstance(message, str) else ""


def _fault_kind(error: Mapping[str, Any], usual: str) -> str:
    code = _as_object(error.get("details")).get("error_code")
    named = _CODES.get(str(code)) or _TYPES.get(str(error.get("type"))) or usual
    if named != "bad_request":
        return named
    plain = _error_message(error).lower()
    if any(sign in plain for sign in _TOO_LONG):
        return "context_overflow"
    return "quota" if any(sign in plain for sign in _UNPAID) else "bad_request"


_KNOWN_EVENTS = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
)
_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
}
_USAGE_FIELDS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


class MessagesParser:
    """Parser of one streamed reply."""

    def __init__(self) -> None:
        self.request_id: str | None = None
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._stop: str | None = None
        self._has_partial_call = False

    def read(self, event: bytes) -> Iterator[Delta]:
        """Yield the deltas of an event, possibly the end; `ValueError` for a malformed event."""
        content: Any = decode_event(event, object)
        match content:
            case {"type": "message_start", "message": dict(message)}:
                self._count(message.get("usage"))
            case {"type": "content_block_start", "index": int(at), "content_block": {"type": str()} as opening}:
                self._blocks[at] = _BLOCK_TYPES.get(opening["type"], _Block)()
                yield from self._blocks[at].begin(opening)
            case {"type": "content_block_delta", "index": int(at), "delta": {"type": str()} as piece}:
                yield from self._block(at).add(piece)
            case {"type": "content_block_stop", "index": int(at)}:
                yield from self._ended(at)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._stop = _checked_text(delta.get("stop_reason") or "") or self._stop
                self._count(content.get("usage"))
            case {"type": "message_stop"}:
                yield self._finished()
            case {"type": "error"}:
                yield fault_of_error_event(content.get("error"))
            case {"type": str(other)} if other not in _KNOWN_EVENTS:
                pass
            case _:
                raise ValueError("an event with unexpected fields")

    def end(self, why: str) -> Iterator[Delta]:
        """Yield the end, after the last event. A reply that lacks only its final event is complete."""
        yield self._finished() if self._stop is not None and not self._blocks else fault(why)

    def _block(self, at: int) -> "_Block":
        if at not in self._blocks:
            raise ValueError("a delta without a content block")
        return self._blocks[at]

    def _ended(self, at: int) -> list[ContentDelta]:
        block = self._block(at)
        del self._blocks[at]
        deltas = block.end()
        self._has_partial_call |= isinstance(block, _ToolUseBlock) and not deltas
        return deltas

    def _count(self, usage: Any) -> None:
        counts = usage if isinstance(usage, Mapping) else {}
        for theirs, ours in _USAGE_FIELDS.items():
            count = counts.get(theirs)
            if isinstance(count, int) and count >= 0:
                self._counts[ours] = count

    def _finished(self) -> Finished | Faulted:
        stop = _STOP_REASONS.get(self._stop or "end_turn", str(self._stop))
        is_partial = self._has_partial_call or any(isinstance(block, _ToolUseBlock) for block in self._blocks.values())
        if is_partial and stop in ("stop", "tools"):
            # A reply that was cut at a limit may end in an incomplete call; one that ended by itself may not.
            return fault("malformed")
        usage = Usage(**self._counts) if self._counts else None
        return Finished(stop, usage=usage, request_id=self.request_id)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


class _Block:
    """A content block being received. This base class is for unknown types, and returns no deltas."""

    def begin(self, opening: JsonObject) -> list[ContentDelta]:  # noqa: ARG002 - subclasses use it
        """Return the deltas of its opening event; `ValueError` if that is malformed, here and below."""
        return []

    def add(self, piece: JsonObject) -> list[ContentDelta]:  # noqa: ARG002 - subclasses use it
        """Return the deltas of a piece of it."""
        return []

    def end(self) -> list[ContentDelta]:
        """Return the deltas of its end."""
        return []


class _TextBlock(_Block):
    """Text, passed on as it arrives."""

    def begin(self, opening: JsonObject) -> list[ContentDelta]:
        return _text_deltas(opening.get("text", ""))

    def add(self, piece: JsonObject) -> list[ContentDelta]:
        return _text_deltas(piece.get("text")) if piece["type"] == "text_delta" else []


def _text_deltas(text: Any) -> list[ContentDelta]:
    return [TextDelta(_checked_text(text))] if text != "" else []


def _checked_text(value: Any) -> str:
    match value:
        case str():
            return value
    raise ValueError("a text field that is not a string")


class _ThinkingBlock(_Block):
    """Reasoning, and its signature; the text may be empty."""

    def __init__(self) -> None:
        self._signature = ""
        self._is_thought = False

    def begin(self, opening: JsonObject) -> list[ContentDelta]:
        self._signature = str(opening.get("signature") or "")
        return self._thinking(opening.get("thinking", ""))

    def add(self, piece: JsonObject) -> list[ContentDelta]:
        match piece:
            case {"type": "thinking_delta"}:
                return self._thinking(piece.get("thinking"))
            case {"type": "signature_delta"}:
                self._signature = _checked_text(piece.get("signature"))
        return []

    def _thinking(self, text: Any) -> list[ContentDelta]:
        self._is_thought |= text != ""
        return [ThinkingDelta(_checked_text(text))] if text != "" else []

    def end(self) -> list[ContentDelta]:
        if self._signature:
            return [ThinkingDelta(signature=self._signature)]
        # Without a signature it is never sent back; but it ends here, or the next signature would cover both.
        return [ThinkingDelta(bound={"type": "thinking"})] if self._is_thought else []


class _RedactedThinkingBlock(_Block):
    """Encrypted reasoning. It arrives as a whole."""

    def begin(self, opening: JsonObject) -> list[ContentDelta]:
        return [ThinkingDelta(bound={"type": "redacted_thinking", "data": _checked_text(opening.get("data"))})]


class _ToolUseBlock(_Block):
    """A tool call, whose input arrives as pieces of JSON text."""

    def __init__(self) -> None:
        self._id, self._name, self._input = "", "", None
        self._pieces: list[str] = []

    def begin(self, opening: JsonObject) -> list[ContentDelta]:
        self._id, self._name = _checked_text(opening.get("id")), _checked_text(opening.get("name"))
        self._input = opening.get("input")
        return []

    def add(self, piece: JsonObject) -> list[ContentDelta]:
        if piece["type"] == "input_json_delta":
            self._pieces.append(_checked_text(piece.get("partial_json")))
        return []

    def end(self) -> list[ContentDelta]:
        """Return the call, if its input is valid JSON."""
        text = "".join(self._pieces)
        try:
            arguments = parse_tool_input(text) if text.strip() else self._input or {}
        except ValueError:
            return []
        return [ToolCallDelta(self._id, self._name, arguments)]


_BLOCK_TYPES: Mapping[str, type[_Block]] = {
    "text": _TextBlock,
    "thinking": _ThinkingBlock,
    "redacted_thinking": _RedactedThinkingBlock,
    "tool_use": _ToolUseBlock,
}


API_VERSION = "2026-10-21"
"""Version of the API whose requests and events are written here."""
MESSAGES = WireFormat(
    PROVIDER,
    Vendor(
        "Anthropic",
        address="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        url_variable="ANTHROPIC_BASE_URL",
        custom_headers_variable="ANTHROPIC_CUSTOM_HEADERS",
        headers={"anthropic-version": API_VERSION},
        path_suffix="/v1",
    ),
    path="/v1/messages",
    build_body=lambda request, params, _: request_body(request, params),
    create_parser=lambda _: MessagesParser(),
    fault_of_response=fault_of_response,
    signs_reasoning=True,
)


def open_model(
    model: str, environ: Mapping[str, str], key_source: str, prepare: PrepareRequest | None = None
) -> HttpProvider:
    """Return the provider for `anthropic:NAME`."""
    return open_http_provider(MESSAGES, model, environ, key_source, prepare)

"""The `openai-chat` provider: Chat Completions of OpenAI and every compatible server, with its reply parser.

`ChatParser` turns chunks into deltas, without a socket. Compatible servers omit different fields: the index
or the id of a call, the finish reason, the usage, the choices. The parser does without them where it can; a call
whose input is not valid JSON is not passed on.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from wakelog.log.content import Delta, Finished, JsonObject, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from wakelog.ports.runtime import ModelRequest
from wakelog.providers import PrepareRequest
from wakelog.providers.event_stream import decode_event, parse_tool_input
from wakelog.providers.faults import fault
from wakelog.providers.http_provider import HttpProvider, WireFormat, open_http_provider
from wakelog.providers.openai.api import VENDOR, fault_of_error_event, fault_of_response
from wakelog.providers.openai.chat_request import PROVIDER, request_body
from wakelog.providers.openai.conversation import Bound, bound_as_json, is_spaced
from wakelog.providers.requests import new_tool_call_id

_STOP_REASONS = {"tool_calls": "tools", "function_call": "tools", "content_filter": "filtered"}


class Function(msgspec.Struct, frozen=True):
    """The function that is called. Some servers send the input as an object."""

    name: str | None = None
    arguments: str | JsonObject | None = None

    @property
    def text(self) -> str:
        """The input as text."""
        arguments = self.arguments
        return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else arguments or ""


class CallPiece(msgspec.Struct, frozen=True):
    """A piece of a tool call."""

    index: int | None = None
    id: str | None = None
    function: Function = Function()


class ReplyPiece(msgspec.Struct, frozen=True):
    """What a chunk adds to the reply."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: list[CallPiece] | None = None


class Choice(msgspec.Struct, frozen=True):
    """One of several answers; only one is requested."""

    delta: ReplyPiece | None = None
    message: ReplyPiece | None = None
    finish_reason: str | None = None


class UsageDetails(msgspec.Struct, frozen=True):
    """Token counts of cache reads and writes."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class WireUsage(msgspec.Struct, frozen=True):
    """Token usage."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: UsageDetails | None = None


class Chunk(msgspec.Struct, frozen=True):
    """One event."""

    id: str | None = None
    choices: list[Choice] | None = None
    usage: WireUsage | None = None
    error: Any = None


class _PartialCall:
    """A tool call being received."""

    def __init__(self, piece: CallPiece) -> None:
        self.index = piece.index
        self.id = ""
        self.name = ""
        self._texts: list[str] = []
        self.add(piece)

    def add(self, piece: CallPiece) -> None:
        """Add a piece. The first id and the first name are kept; some servers repeat them."""
        self.id = self.id or piece.id or ""
        self.name = self.name or piece.function.name or ""
        self._texts.append(piece.function.text)

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def is_other(self, piece: CallPiece) -> bool:
        """Return whether a piece at the same place begins another call: some servers give all calls the same index."""
        if piece.id and self.id:
            return piece.id != self.id
        return bool(piece.function.name and piece.function.text and self.name and _is_json(self.text))


def _is_json(text: str) -> bool:
    try:
        return bool(text.strip()) and parse_tool_input(text) is not None
    except ValueError:
        return False


class ChatParser:
    """Parser of the reply to one request."""

    def __init__(self, request: ModelRequest) -> None:
        self.request_id: str | None = None
        self._request = request
        self._id: str | None = None
        self._calls: list[_PartialCall] = []
        self._thought: Bound | None = None
        self._reason: str | None = None
        self._usage: Usage | None = None
        self._refused = False

    def read(self, event: bytes) -> Iterator[Delta]:
        """Yield the deltas of a chunk."""
        if event.strip() == b"[DONE]":
            self._reason = self._reason or "stop"
            yield from self.end("cut")
            return
        chunk = decode_event(event, Chunk)
        if chunk.error is not None:
            yield fault_of_error_event(chunk.error)
            return
        self._id = self._id or chunk.id
        if chunk.usage is not None:
            # Each usage is a total.
            self._usage = _usage(chunk.usage)
        for choice in (chunk.choices or [])[:1]:
            yield from self._take(choice.delta or choice.message or ReplyPiece())
            self._reason = choice.finish_reason or self._reason

    def _take(self, piece: ReplyPiece) -> Iterator[Delta]:
        if piece.reasoning_content:
            yield from self._think(piece.reasoning_content, Bound())
        elif piece.reasoning and isinstance(piece.reasoning, str):
            yield from self._think(piece.reasoning, Bound(field="reasoning"))
        text = piece.content or piece.refusal
        self._refused = self._refused or bool(piece.refusal)
        if text:
            yield from self._end_thought()
            yield TextDelta(text)
        for call in piece.tool_calls or []:
            self._add(call)

    def _think(self, text: str, bound: Bound) -> Iterator[Delta]:
        """Yield a piece of reasoning; a server that fills both fields sends the same text in both."""
        self._thought = bound
        yield ThinkingDelta(text)

    def _end_thought(self) -> Iterator[Delta]:
        if self._thought is not None and (bound := bound_as_json(self._thought)) is not None:
            yield ThinkingDelta("", bound=bound)
        self._thought = None

    def _add(self, piece: CallPiece) -> None:
        call = self._place(piece)
        if call is None or call.is_other(piece):
            self._calls.append(_PartialCall(piece))
        else:
            call.add(piece)

    def _place(self, piece: CallPiece) -> _PartialCall | None:
        """Return the call that a piece continues, if any: by its index, else by its id, else the last one."""
        newest = list(reversed(self._calls))
        if piece.index is not None:
            return next((call for call in newest if call.index == piece.index), None)
        if piece.id:
            return next((call for call in newest if call.id == piece.id), None)
        return newest[0] if newest else None

    # ── end ──────────────────────────────────────────────────────────────────────────────────────

    def end(self, why: str) -> Iterator[Delta]:
        """Yield the calls and the end. With a finish reason the reply is complete, however the connection ended."""
        if self._reason is None:
            yield fault(why)
            return
        yield from self._end_thought()
        whole = [
            delta for number, call in enumerate(self._calls) if (delta := self._call_delta(number, call)) is not None
        ]
        yield from whole
        if len(whole) < len(self._calls) and self._reason != "length":
            yield fault("malformed", "a tool was called with an input that is not JSON")
            return
        yield Finished(self._stop(self._reason, calls=bool(whole)), self._usage, self.request_id or self._id)

    def _call_delta(self, number: int, call: _PartialCall) -> ToolCallDelta | None:
        try:
            tool_input = parse_tool_input(call.text)
        except ValueError:
            return None
        if not call.name:
            return None
        call_id = call.id or new_tool_call_id(self._request, number)
        return ToolCallDelta(
            call_id, call.name, tool_input, bound_as_json(Bound(spaced=is_spaced(call.text, tool_input)))
        )

    def _stop(self, reason: str, *, calls: bool) -> str:
        if reason == "stop" and (self._refused or calls):
            return "refusal" if self._refused else "tools"
        return _STOP_REASONS.get(reason, reason)


def _usage(wire: WireUsage) -> Usage:
    """Return the usage. The server counts the whole input, including what came from a cache or went into one."""
    details = wire.prompt_tokens_details or UsageDetails()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    return Usage(
        input_tokens=max(0, (wire.prompt_tokens or 0) - read - written),
        output_tokens=wire.completion_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


CHAT = WireFormat(
    PROVIDER,
    VENDOR,
    path="/chat/completions",
    build_body=lambda request, params, server: request_body(request, params, is_openai=server.is_vendor),
    create_parser=ChatParser,
    fault_of_response=fault_of_response,
)


def open_model(
    model: str, environ: Mapping[str, str], key_source: str, prepare: PrepareRequest | None = None
) -> HttpProvider:
    """Return the provider for `openai-chat:NAME`."""
    return open_http_provider(CHAT, model, environ, key_source, prepare)

"""The `openai` provider: the Responses API, with its reply parser; nothing is stored on the server.

`ResponsesParser` turns events into deltas, without a socket. An item of the API is a part of a message. Its
text is passed on as it arrives; its id, and other data that must be sent back with it, is certain only when the
item is done, and ends the part. Event types not named here are ignored.
"""

from collections.abc import Iterator, Mapping

import msgspec

from wakelog.decoding import convert
from wakelog.log.content import Delta, Finished, JsonObject, TextDelta, ThinkingDelta, ToolCallDelta, Usage
from wakelog.ports.runtime import ModelRequest
from wakelog.providers import PrepareRequest
from wakelog.providers.event_stream import decode_event, parse_tool_input
from wakelog.providers.faults import fault
from wakelog.providers.http_provider import HttpProvider, WireFormat, open_http_provider
from wakelog.providers.openai.api import VENDOR, fault_of_error_event, fault_of_response
from wakelog.providers.openai.conversation import Bound, bound_as_json, is_spaced
from wakelog.providers.openai.responses_request import PROVIDER, SUMMARY_SEPARATOR, request_body
from wakelog.providers.requests import new_tool_call_id

ITEM_TYPES = ("message", "reasoning", "function_call")
_USED_EVENTS = frozenset(
    {
        "error",
        "response.completed",
        "response.failed",
        "response.function_call_arguments.delta",
        "response.incomplete",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
        "response.refusal.delta",
    }
)
_STOP_REASONS = {"max_output_tokens": "length", "content_filter": "filtered"}


class ItemText(msgspec.Struct, frozen=True):
    """One text in an item: of an answer, a refusal, a summary or reasoning."""

    text: str | None = None
    refusal: str | None = None
    annotations: list[JsonObject] | None = None

    @property
    def visible_text(self) -> str:
        """The refusal or the text."""
        return self.refusal if self.refusal is not None else self.text or ""


class Item(msgspec.Struct, frozen=True):
    """An item of the output."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    phase: str | None = None
    content: list[ItemText] | None = None
    summary: list[ItemText] | None = None
    encrypted_content: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class ResponseDetails(msgspec.Struct, frozen=True):
    """Token counts of cache reads and writes, or the reason of an incomplete response."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reason: str | None = None


class WireUsage(msgspec.Struct, frozen=True):
    """Token usage."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: ResponseDetails | None = None


class ResponseObject(msgspec.Struct, frozen=True):
    """The whole response, as the last event holds it."""

    id: str | None = None
    output: list[JsonObject] | None = None
    usage: WireUsage | None = None
    incomplete_details: ResponseDetails | None = None
    error: object = None


class EventHead(msgspec.Struct, frozen=True):
    """The fields that every event is classified by."""

    type: str = ""
    error: object = None


class Event(EventHead, frozen=True):
    """An event that is used; its type decides which keys it has."""

    delta: str = ""
    content_index: int = 0
    summary_index: int = 0
    item: JsonObject = {}
    response: ResponseObject = ResponseObject()
    code: object = None
    message: object = None


class ResponsesParser:
    """Parser of the reply to one request."""

    def __init__(self, request: ModelRequest) -> None:
        self.request_id: str | None = None
        self._request = request
        self._texts: dict[tuple[str, int], str] = {}
        self._annotations: list[JsonObject] = []
        self._arguments = ""
        self._item = Item()
        self._after: str | None = None
        self._done = 0
        self._calls = 0
        self._refused = self._has_unknown_item = self._has_invalid_call = False

    def read(self, event: bytes) -> Iterator[Delta]:
        """Yield the deltas of an event."""
        if event.strip() == b"[DONE]":
            # Some servers end every stream like this.
            return
        named = decode_event(event, EventHead)
        if named.type in _USED_EVENTS:
            yield from self._take(decode_event(event, Event))
        elif not named.type and named.error is not None:
            yield fault_of_error_event(named.error)

    def _take(self, event: Event) -> Iterator[Delta]:
        match event.type:
            case "response.output_item.added":
                self._begin(_parse_item(event.item))
            case "response.output_text.delta":
                yield from self._write("text", event.content_index, event.delta)
            case "response.refusal.delta":
                yield from self._write("refusal", event.content_index, event.delta)
            case "response.reasoning_summary_text.delta":
                yield from self._think("summary", event.summary_index, event.delta)
            case "response.reasoning_text.delta":
                yield from self._think("content", event.content_index, event.delta)
            case "response.function_call_arguments.delta":
                self._arguments += event.delta
            case "response.output_item.done":
                yield from self._end_item(_parse_item(event.item))
            case "response.completed" | "response.incomplete":
                yield from self._end(event.response, is_whole=event.type == "response.completed")
            case "response.failed":
                yield fault_of_error_event(event.response.error)
            case "error":
                yield fault_of_error_event(event.error or {"code": event.code, "message": event.message})

    def end(self, why: str) -> Iterator[Delta]:
        """Yield a fault: the stream is over without a last event, and only that event completes a reply."""
        yield fault(why)

    # ── items ────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, item: Item) -> None:
        self._item, self._texts, self._annotations, self._arguments = item, {}, [], ""

    def _write(self, kind: str, index: int, text: str) -> Iterator[Delta]:
        """Yield a piece of an answer. When another text of the item begins, the one before becomes its own part."""
        if not text:
            return
        if self._texts and (kind, index) not in self._texts:
            yield TextDelta("", self._text_bound(self._item))
        self._texts[kind, index] = self._texts.get((kind, index), "") + text
        self._refused = self._refused or kind == "refusal"
        yield TextDelta(text)

    def _think(self, kind: str, index: int, text: str) -> Iterator[Delta]:
        if not text:
            return
        if self._texts and (kind, index) not in self._texts:
            yield ThinkingDelta(SUMMARY_SEPARATOR, summary=kind == "summary")
        self._texts[kind, index] = self._texts.get((kind, index), "") + text
        yield ThinkingDelta(text, summary=kind == "summary")

    def _end_item(self, item: Item) -> Iterator[Delta]:
        self._done += 1
        match item.type:
            case "message":
                yield from self._end_message(item)
            case "reasoning":
                yield from self._end_reasoning(item)
            case "function_call":
                yield from self._end_call(item)
            case _:
                # It cannot be sent back, so nothing after it is sent back unchanged.
                self._has_unknown_item = True
        self._begin(Item())

    def _end_message(self, item: Item) -> Iterator[Delta]:
        for index, item_text in enumerate(item.content or []):
            kind = "text" if item_text.refusal is None else "refusal"
            yield from self._write(kind, index, self._missing_text(kind, index, item_text))
            self._annotations = item_text.annotations or []
        if self._texts:
            yield TextDelta("", self._text_bound(item))

    def _end_reasoning(self, item: Item) -> Iterator[Delta]:
        for kind, texts in (("summary", item.summary), ("content", item.content)):
            for index, item_text in enumerate(texts or []):
                yield from self._think(kind, index, self._missing_text(kind, index, item_text))
        if item.id is not None and not self._has_unknown_item:
            self._after = item.id
            bound = Bound(id=item.id, summary=self._sizes("summary"), content=self._sizes("content"))
            yield ThinkingDelta("", item.encrypted_content, bound_as_json(bound))

    def _sizes(self, kind: str) -> list[int]:
        return [len(text) for (of, _), text in self._texts.items() if of == kind]

    def _end_call(self, item: Item) -> Iterator[Delta]:
        text = item.arguments or self._arguments
        try:
            tool_input = parse_tool_input(text)
        except ValueError:
            self._has_invalid_call = True
            return
        if not item.name:
            raise ValueError("a tool call without a name")
        call_id = item.call_id or new_tool_call_id(self._request, self._calls)
        self._calls += 1
        bound = msgspec.structs.replace(self._bound(item), spaced=is_spaced(text, tool_input))
        yield ToolCallDelta(call_id, item.name, tool_input, bound_as_json(bound))

    def _missing_text(self, kind: str, index: int, item_text: ItemText) -> str:
        """Return the text of an item beyond the pieces that came: all of it, if a server sends no pieces."""
        received = self._texts.get((kind, index), "")
        return item_text.visible_text[len(received) :] if item_text.visible_text.startswith(received) else ""

    # ── data bound to a part ─────────────────────────────────────────────────────────────────────

    def _bound(self, item: Item) -> Bound:
        return Bound() if item.id is None or self._has_unknown_item else Bound(id=item.id, after=self._after)

    def _text_bound(self, item: Item) -> JsonObject | None:
        bound = msgspec.structs.replace(
            self._bound(item),
            phase=item.phase or self._item.phase,
            refusal=list(self._texts)[-1][0] == "refusal",
            annotations=self._annotations,
        )
        return bound_as_json(bound)

    # ── end ──────────────────────────────────────────────────────────────────────────────────────

    def _end(self, response: ResponseObject, *, is_whole: bool) -> Iterator[Delta]:
        # Some servers send an item only here.
        for item in (response.output or [])[self._done :]:
            yield from self._end_item(_parse_item(item))
        if self._has_invalid_call and is_whole:
            yield fault("malformed", "a tool was called with an input that is not JSON")
            return
        yield Finished(self._stop(response, is_whole=is_whole), _usage(response.usage), self.request_id or response.id)

    def _stop(self, response: ResponseObject, *, is_whole: bool) -> str:
        if not is_whole:
            reason = response.incomplete_details.reason if response.incomplete_details else None
            return _STOP_REASONS.get(reason or "", reason or "length")
        return "refusal" if self._refused else "tools" if self._calls else "stop"


def _parse_item(value: JsonObject) -> Item:
    """Return an item of a known type; of others only the type is read, and nothing else is validated."""
    if value.get("type") not in ITEM_TYPES:
        return Item(type=str(value.get("type")))
    try:
        return convert(value, Item)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _usage(wire: WireUsage | None) -> Usage | None:
    """Return the usage. The server counts the whole input, including what came from a cache or went into one."""
    if wire is None:
        return None
    details = wire.input_tokens_details or ResponseDetails()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    return Usage(
        input_tokens=max(0, (wire.input_tokens or 0) - read - written),
        output_tokens=wire.output_tokens or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


RESPONSES = WireFormat(
    PROVIDER,
    VENDOR,
    path="/responses",
    build_body=lambda request, params, _: request_body(request, params),
    create_parser=ResponsesParser,
    fault_of_response=fault_of_response,
)


def open_model(
    model: str, environ: Mapping[str, str], key_source: str, prepare: PrepareRequest | None = None
) -> HttpProvider:
    """Return the provider for `openai:NAME`."""
    return open_http_provider(RESPONSES, model, environ, key_source, prepare)

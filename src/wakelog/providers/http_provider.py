"""HTTP provider: sends one request to a model server and streams the reply.

A `WireFormat` holds what differs between servers: how a body is built, where it is sent, how events are parsed, what
an error means.
Rule 1: a network failure is a fault, never an exception. After a broken stream the parser decides whether the reply
was complete.
Rule 2: nothing is kept between two calls but the source of keys and addresses.
Rule 3: a function of the caller may prepare each request: sign it, or send it to another address.
"""

import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import httpx2
import msgspec

from wakelog.errors import UsageError
from wakelog.log.content import Delta, Faulted, Finished, JsonObject
from wakelog.ports.runtime import ModelRequest
from wakelog.providers import HttpRequest, PrepareRequest
from wakelog.providers.endpoints import Server, Vendor, request_url, resolve_server
from wakelog.providers.event_stream import EventParser, decode_event
from wakelog.providers.faults import fault, fault_of_content_type, with_server_name
from wakelog.providers.http_client import (
    DEFAULT_HEADERS,
    IDLE_TIMEOUT_S,
    NETWORK_ERRORS,
    PreparationFailed,
    load_in_background,
    open_client,
    post,
    prepare_request,
)
from wakelog.providers.playback import play_fault
from wakelog.providers.requests import Params, parse_params, request_without_media

# The longest error body that is read.
_ERROR_BYTES = 64 * 1024


class ReplyParser(Protocol):
    """Parser that turns events into the deltas of a reply."""

    request_id: str | None

    def read(self, event: bytes) -> Iterator[Delta]:
        """Yield the deltas of an event, possibly the end of the reply; `ValueError` for a malformed event."""
        ...

    def end(self, why: str) -> Iterator[Delta]:
        """Yield the remaining deltas and the end; a fault of the kind `why` if the reply is incomplete."""
        ...


class HttpResponse(Protocol):
    """The part of an HTTP response that is used."""

    @property
    def status_code(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case name."""
        ...

    @property
    def next_request(self) -> httpx2.Request | None:
        """The request that a redirect asks for."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives."""
        ...


FaultOfResponse = Callable[[int, Mapping[str, str], Any], Faulted]
"""Turns a response that is an error from the start into a fault: status, headers and body."""


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


async def stream_reply(
    sending: AbstractAsyncContextManager[HttpResponse],
    reader: ReplyParser,
    fault_of_response: FaultOfResponse,
    server: Server,
) -> AsyncGenerator[Delta, None]:
    """Send the request and yield the reply as it arrives. Everything is closed before its end is yielded."""
    end: Finished | Faulted | None = None
    try:
        async with (
            sending as response,
            contextlib.aclosing(_read_deltas(response, reader, fault_of_response)) as deltas,
        ):
            async for delta in deltas:
                if isinstance(delta, Finished | Faulted):
                    end = delta
                    break
                yield delta
    except NETWORK_ERRORS as error:
        # A complete reply stays complete, however the connection is closed.
        end = end or _fault_of_exception(error)
    yield _for_display(end or fault("cut"), server)


async def _read_deltas(
    response: HttpResponse, reader: ReplyParser, fault_of_response: FaultOfResponse
) -> AsyncGenerator[Delta, None]:
    if response.status_code >= 300:
        yield await _fault_of_status(response, fault_of_response)
        return
    events, has_event, why = EventParser(), False, "cut"
    reader.request_id = response.headers.get("x-request-id") or response.headers.get("request-id")
    try:
        async for chunk in response.aiter_bytes():
            for event in events.feed(chunk):
                has_event = True
                for delta in reader.read(event):
                    yield delta
    except httpx2.TimeoutException:
        why = "timeout"
    except (ValueError, httpx2.DecodingError):
        why = "malformed"
    except NETWORK_ERRORS:
        pass
    foreign = None if has_event or why == "timeout" else fault_of_content_type(response.headers.get("content-type"))
    for delta in [foreign] if foreign else reader.end(why):
        yield delta


async def _fault_of_status(response: HttpResponse, fault_of_response: FaultOfResponse) -> Faulted:
    """Return the fault for a response that is not a success."""
    if response.next_request is not None:
        place = response.next_request.url.netloc.decode()
        return fault("malformed", f"it redirects to {place}, and requests are not sent to another server")
    return fault_of_response(response.status_code, response.headers, await _json_body(response))


async def _json_body(response: HttpResponse) -> object:
    """Return the JSON body of an error; None if it is not JSON: HTML pages are not shown."""
    body = b""
    # A body that breaks off or does not end leaves the status, which says enough.
    with contextlib.suppress(*NETWORK_ERRORS):
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _ERROR_BYTES:
                break
    try:
        return decode_event(body, object)
    except ValueError:
        return None


def _fault_of_exception(error: Exception) -> Faulted:
    """Return the fault for an exception of the HTTP client or its socket before a reply begins."""
    return fault("timeout") if isinstance(error, httpx2.TimeoutException) else fault("connection", str(error))


def _for_display(end: Finished | Faulted, server: Server) -> Finished | Faulted:
    """Return the end of a reply for display: a fault names its server and holds no key."""
    if not isinstance(end, Faulted):
        return end
    return with_server_name(_without_key(end, server.key), host=server.host, refusal=server.refusal)


def _without_key(end: Faulted, key: str) -> Faulted:
    """Remove the key: a server may quote it (LOG-13). The part before the colon is our own text and holds none."""
    text, colon, quoted = end.message.partition(": ")
    return msgspec.structs.replace(end, message=text + colon + quoted.replace(key, "…")) if key else end


_CANNOT_RESUME = Faulted("cannot_resume", "this model cannot continue a reply")


class WireFormat(NamedTuple):
    """Wire format of a provider: its name, its vendor, and how requests and replies are written."""

    name: str
    vendor: Vendor
    path: str
    """Path of the API call, after the address of the server."""
    build_body: Callable[[ModelRequest, Params, Server], JsonObject]
    """Builds the body of a request to a server."""
    create_parser: Callable[[ModelRequest], ReplyParser]
    """Creates the parser of a reply."""
    fault_of_response: FaultOfResponse
    """Turns an error response into a fault."""
    signs_reasoning: bool = False
    """Whether reasoning has a signature over its text, and must be sent back unchanged."""


class HttpProvider:
    """Provider that calls a server. It cannot resume an interrupted reply: these APIs take no partial answer."""

    can_resume = False

    def __init__(
        self,
        wire_format: WireFormat,
        *,
        environ: Mapping[str, str] | None = None,
        key_source: str = "",
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        prepare: PrepareRequest | None = None,
    ) -> None:
        self.name = wire_format.name
        self.needs_reasoning_back = wire_format.signs_reasoning
        self._wire_format = wire_format
        self._environ = os.environ if environ is None else environ
        self._key_source = key_source
        self._idle_timeout_s = idle_timeout_s
        self._prepare = prepare

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """See `ports.CheckedProvider`. A model call usually follows: what it needs is loaded in the background."""
        self._http_request(ModelRequest(model=model, messages=(), params=params))
        load_in_background()

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Stream the reply; `UsageError` at once for invalid settings or a missing key."""
        server, http_request = self._http_request(request)
        parser = self._wire_format.create_parser(request)
        if request.prefill:
            return play_fault(_CANNOT_RESUME)
        if self._prepare is not None:
            return self._stream_prepared(self._prepare, http_request, parser, server)
        return self._stream(open_client(http_request.url, self._idle_timeout_s), http_request, parser, server)

    def _http_request(self, request: ModelRequest) -> tuple[Server, HttpRequest]:
        """Return the server and the request to it; `UsageError` if any part is invalid or missing."""
        wire_format, params = self._wire_format, parse_params(request.params)
        is_prepared = self._prepare is not None
        server = resolve_server(
            wire_format.vendor, params.endpoint, self._environ, self._key_source, is_prepared=is_prepared
        )
        body = wire_format.build_body(
            request_without_media(request) if params.media == "note" else request, params, server
        )
        headers = {**DEFAULT_HEADERS, **server.headers}
        return server, HttpRequest(request_url(server.url, wire_format.path), headers, msgspec.json.encode(body))

    def _stream(
        self, client: httpx2.AsyncClient, request: HttpRequest, parser: ReplyParser, server: Server
    ) -> AsyncGenerator[Delta, None]:
        return stream_reply(post(client, request), parser, self._wire_format.fault_of_response, server)

    async def _stream_prepared(
        self, prepare: PrepareRequest, request: HttpRequest, parser: ReplyParser, server: Server
    ) -> AsyncGenerator[Delta, None]:
        """Stream the reply to the request that `prepare` returns. Its mistakes are faults: the call is in the log."""
        try:
            prepared = await prepare_request(prepare, request)
            client = open_client(prepared.url, self._idle_timeout_s)
        except PreparationFailed as error:
            yield _fault_of_preparation(error)
            return
        except UsageError as error:
            yield Faulted("bad_request", f"{error.message}; {error.hint}")
            return
        called = msgspec.structs.replace(server, url=prepared.url)
        async with contextlib.aclosing(self._stream(client, prepared, parser, called)) as deltas:
            async for delta in deltas:
                yield delta


def _fault_of_preparation(error: PreparationFailed) -> Faulted:
    """Return the fault for a request that could not be prepared: temporary only if the network failed.

    The text of the exception is not quoted: it may hold credentials.
    """
    is_temporary = isinstance(error.__cause__, (OSError, *NETWORK_ERRORS))
    return Faulted(
        "connection" if is_temporary else "auth", f"the request could not be prepared ({error})", is_temporary
    )


def open_http_provider(
    wire_format: WireFormat,
    model: str,
    environ: Mapping[str, str],
    key_source: str,
    prepare: PrepareRequest | None = None,
) -> HttpProvider:
    """Return the provider for `PROVIDER:NAME`. Each request names the model to call."""
    if model == wire_format.name:
        raise UsageError(
            f"{wire_format.name} is a provider without a model name", hint=f"write {wire_format.name}:NAME"
        )
    return HttpProvider(wire_format, environ=environ, key_source=key_source, prepare=prepare)

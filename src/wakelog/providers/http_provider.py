"""HTTP provider: sends one request to a model server and streams the reply, with one HTTP client per reply.

A `WireFormat` holds what differs between servers: how a body is built and sent, how events are parsed, what an
error means.
Rule 1: a network failure is a fault, never an exception. After a broken stream the parser decides whether the reply
was complete.
Rule 2: the SDKs connect, authenticate and report errors. They never retry: the runtime does, and the log records
every attempt.
Rule 3: nothing is kept between two calls but the source of keys and addresses.
"""

import contextlib
import functools
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import anyio
import httpx2
import msgspec

from wakelog.errors import UsageError
from wakelog.log.content import Delta, Faulted, Finished, JsonObject
from wakelog.ports.runtime import ModelRequest
from wakelog.providers.endpoints import Server, Vendor, is_loopback, resolve_server
from wakelog.providers.event_stream import EventParser, decode_event
from wakelog.providers.faults import fault, fault_of_content_type, with_server_name
from wakelog.providers.playback import play_fault
from wakelog.providers.requests import Params, parse_params, request_without_media

# How long a stream may be silent. A reasoning model may send nothing for minutes.
IDLE_TIMEOUT_S = 600.0
_CONNECT_TIMEOUT_S = 15.0
# Servers that require no key still get a header: without a key the SDKs look for one in other places.
_NO_KEY = "none"
# TLS failures in the middle of a stream are not wrapped by the HTTP client.
_NETWORK_ERRORS = (httpx2.HTTPError, ssl.SSLError, anyio.EndOfStream)


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
    """An HTTP response as both SDKs provide it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case name."""
        ...

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives."""
        ...


class Sdk(NamedTuple):
    """The parts of an SDK that are used."""

    client: Callable[..., Any]
    http: Callable[..., httpx2.AsyncClient]
    error: type[Exception]
    """Base class of everything that it raises."""
    status_error: type[Exception]
    """Raised for a response that is an error from the start."""
    fault_of_response: Callable[[int, Mapping[str, str], Any], Faulted]
    """Turns such a response into a fault: status, headers and body."""


def open_client(sdk: Sdk, server: Server, idle_timeout_s: float) -> Any:
    """Return the SDK's client for one reply. `UsageError` for a proxy that cannot be used."""
    return sdk.client(
        api_key=server.key or _NO_KEY,
        base_url=server.url,
        max_retries=0,
        timeout=httpx2.Timeout(idle_timeout_s, connect=_CONNECT_TIMEOUT_S),
        http_client=_http_client(sdk, server),
    )


def _http_client(sdk: Sdk, server: Server) -> httpx2.AsyncClient:
    if is_loopback(server.url):
        # No proxy: it would look for a loopback address on its own machine.
        return sdk.http(transport=httpx2.AsyncHTTPTransport(verify=tls_context()))
    try:
        return sdk.http(verify=tls_context())
    except ImportError:
        raise UsageError("a SOCKS proxy needs the package socksio", hint="pip install socksio") from None
    except (ValueError, httpx2.InvalidURL):
        raise UsageError(
            "the environment names a proxy with an invalid address",
            hint="check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        ) from None


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS context of this process, created once: that takes longer than all other work for a call."""
    return httpx2.create_ssl_context()


async def stream_reply(
    sending: AbstractAsyncContextManager[HttpResponse], reader: ReplyParser, sdk: Sdk, server: Server
) -> AsyncIterator[Delta]:
    """Send the request and yield the reply as it arrives. Everything is closed before its end is yielded."""
    end: Finished | Faulted | None = None
    try:
        async with sending as response, contextlib.aclosing(_read_deltas(response, reader)) as deltas:
            async for delta in deltas:
                if isinstance(delta, Finished | Faulted):
                    end = delta
                    break
                yield delta
    except (sdk.error, *_NETWORK_ERRORS) as error:
        # A complete reply stays complete, however the connection is closed.
        end = end or _fault_of_exception(error, sdk)
    yield _for_display(end or fault("cut"), server)


async def _read_deltas(response: HttpResponse, reader: ReplyParser) -> AsyncGenerator[Delta, None]:
    events, has_event, why = EventParser(), False, "cut"
    reader.request_id = response.headers.get("x-request-id") or response.headers.get("request-id")
    try:
        async for chunk in response.iter_bytes():
            for event in events.feed(chunk):
                has_event = True
                for delta in reader.read(event):
                    yield delta
    except httpx2.TimeoutException:
        why = "timeout"
    except (ValueError, httpx2.DecodingError):
        why = "malformed"
    except _NETWORK_ERRORS:
        pass
    foreign = None if has_event or why == "timeout" else fault_of_content_type(response.headers.get("content-type"))
    for delta in [foreign] if foreign else reader.end(why):
        yield delta


def _fault_of_exception(error: Exception, sdk: Sdk) -> Faulted:
    """Return the fault for an exception of the SDK or its socket before a reply begins."""
    if isinstance(error, sdk.status_error):
        refused: Any = error
        return sdk.fault_of_response(refused.status_code, refused.response.headers, _json_body(refused.response))
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.TimeoutException):
        return fault("timeout")
    return fault("connection", str(cause))


def _json_body(response: httpx2.Response) -> object:
    """Return the JSON body of an error; None if it is not JSON: HTML pages are not shown."""
    try:
        return decode_event(response.content, object)
    except (ValueError, httpx2.ResponseNotRead):
        return None


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
    load_sdk: Callable[[], Sdk]
    """Loads the SDK, which takes a while."""
    build_body: Callable[[ModelRequest, Params, Server], JsonObject]
    """Builds the body of a request to a server."""
    send_body: Callable[[Any, JsonObject], AbstractAsyncContextManager[HttpResponse]]
    """Sends a body through a client, unchanged, and provides the response."""
    create_parser: Callable[[ModelRequest], ReplyParser]
    """Creates the parser of a reply."""
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
    ) -> None:
        self.name = wire_format.name
        self.needs_reasoning_back = wire_format.signs_reasoning
        self._wire_format = wire_format
        self._environ = os.environ if environ is None else environ
        self._key_source = key_source
        self._idle_timeout_s = idle_timeout_s

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """See `ports.CheckedProvider`."""
        self._prepared(ModelRequest(model=model, messages=(), params=params))

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Stream the reply; `UsageError` at once for invalid settings or a missing key."""
        server, body, sdk = self._prepared(request)
        if request.prefill:
            return play_fault(_CANNOT_RESUME)
        sending = _send_request(self._wire_format, open_client(sdk, server, self._idle_timeout_s), body)
        return stream_reply(sending, self._wire_format.create_parser(request), sdk, server)

    def _prepared(self, request: ModelRequest) -> tuple[Server, JsonObject, Sdk]:
        """Return the server, the body of the request and the SDK; `UsageError` if any of them is invalid or missing."""
        wire_format, params = self._wire_format, parse_params(request.params)
        server = resolve_server(wire_format.vendor, params.endpoint, self._environ, self._key_source)
        body = wire_format.build_body(
            request_without_media(request) if params.media == "note" else request, params, server
        )
        # The SDK takes seconds to load: mistakes that can be found without it are reported first.
        return server, body, wire_format.load_sdk()


@contextlib.asynccontextmanager
async def _send_request(wire_format: WireFormat, client: Any, body: JsonObject) -> AsyncIterator[HttpResponse]:
    async with client, wire_format.send_body(client, body) as response:
        yield response


def open_http_provider(
    wire_format: WireFormat, model: str, environ: Mapping[str, str], key_source: str
) -> HttpProvider:
    """Return the provider for `PROVIDER:NAME`. Each request names the model to call."""
    if model == wire_format.name:
        raise UsageError(
            f"{wire_format.name} is a provider without a model name", hint=f"write {wire_format.name}:NAME"
        )
    return HttpProvider(wire_format, environ=environ, key_source=key_source)

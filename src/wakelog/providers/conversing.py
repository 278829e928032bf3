"""Streaming exchange with a model server: one HTTP client per reply, closed before the reply ends.

A `Reader` parses the events.
Rule 1: a network failure is a fault, never an exception. A stream that breaks is over; the reader knows whether the
reply was complete.
Rule 2: the SDKs connect, authenticate and report errors; they never retry, because the runtime does, and the log must
record every attempt.
"""

import contextlib
import functools
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol

import anyio
import httpx2
import msgspec

from wakelog.errors import UsageError
from wakelog.log.deltas import Delta, Faulted, Finished
from wakelog.providers.endpoints import Server, is_loopback
from wakelog.providers.faults import fault, named, no_stream
from wakelog.providers.sse import Events, decoded

# How long a stream may be silent. A reasoning model may send nothing for minutes.
SILENCE_S = 600.0
_CONNECT_S = 15.0
# Servers that require no key still get a header: without a key the SDKs look for one in other places.
_NO_KEY = "none"
# TLS failures in the middle of a stream are not wrapped by the HTTP client.
_NETWORK = (httpx2.HTTPError, ssl.SSLError, anyio.EndOfStream)


class Reader(Protocol):
    """Parser that turns events into the deltas of a reply."""

    request_id: str | None

    def read(self, event: bytes) -> Iterator[Delta]:
        """Yield the deltas of an event, possibly the end of the reply; `ValueError` for a malformed event."""
        ...

    def end(self, why: str) -> Iterator[Delta]:
        """Yield the remaining deltas and the end; a fault of the kind `why` if the reply is incomplete."""
        ...


class Response(Protocol):
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
    refused: Callable[[int, Mapping[str, str], Any], Faulted]
    """Turns such a response into a fault: status, headers and body."""


def opened(sdk: Sdk, server: Server, silence_s: float) -> Any:
    """Return the SDK's client for one reply. `UsageError` for a proxy that cannot be used."""
    return sdk.client(
        api_key=server.key or _NO_KEY,
        base_url=server.url,
        max_retries=0,
        timeout=httpx2.Timeout(silence_s, connect=_CONNECT_S),
        http_client=_http_client(sdk, server),
    )


def _http_client(sdk: Sdk, server: Server) -> httpx2.AsyncClient:
    if is_loopback(server.url):
        # No proxy: it would look for a loopback address on its own machine.
        return sdk.http(transport=httpx2.AsyncHTTPTransport(verify=trusted()))
    try:
        return sdk.http(verify=trusted())
    except ImportError:
        raise UsageError("the proxy speaks SOCKS, which needs a package", hint="pip install socksio") from None
    except (ValueError, httpx2.InvalidURL):
        raise UsageError(
            "the environment names a proxy that is no address",
            hint="look at HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY",
        ) from None


@functools.cache
def trusted() -> ssl.SSLContext:
    """Return the TLS context of this process, created once: that takes longer than all other work for a call."""
    return httpx2.create_ssl_context()


async def stream_reply(
    asking: AbstractAsyncContextManager[Response], reader: Reader, sdk: Sdk, server: Server
) -> AsyncIterator[Delta]:
    """Send the request and yield the reply as it arrives. Everything is closed before its end is yielded."""
    end: Finished | Faulted | None = None
    try:
        async with asking as response, contextlib.aclosing(_deltas(response, reader)) as said:
            async for delta in said:
                if isinstance(delta, Finished | Faulted):
                    end = delta
                    break
                yield delta
    except (sdk.error, *_NETWORK) as error:
        # A complete reply stays complete, however the connection is closed.
        end = end or _fault(error, sdk)
    yield _told(end or fault("cut"), server)


async def _deltas(response: Response, reader: Reader) -> AsyncGenerator[Delta, None]:
    events, is_heard, why = Events(), False, "cut"
    reader.request_id = response.headers.get("x-request-id") or response.headers.get("request-id")
    try:
        async for chunk in response.iter_bytes():
            for event in events.feed(chunk):
                is_heard = True
                for delta in reader.read(event):
                    yield delta
    except httpx2.TimeoutException:
        why = "timeout"
    except (ValueError, httpx2.DecodingError):
        why = "malformed"
    except _NETWORK:
        pass
    stranger = None if is_heard or why == "timeout" else no_stream(response.headers.get("content-type"))
    for delta in [stranger] if stranger else reader.end(why):
        yield delta


def _fault(error: Exception, sdk: Sdk) -> Faulted:
    """Return the fault for an exception of the SDK or its socket before a reply begins."""
    if isinstance(error, sdk.status_error):
        told: Any = error
        return sdk.refused(told.status_code, told.response.headers, _body(told.response))
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.TimeoutException):
        return fault("timeout")
    return fault("connection", str(cause))


def _body(response: httpx2.Response) -> object:
    """Return the JSON body of an error; None if it is not JSON: HTML pages are not shown."""
    try:
        return decoded(response.content, object)
    except (ValueError, httpx2.ResponseNotRead):
        return None


def _told(end: Finished | Faulted, server: Server) -> Finished | Faulted:
    """Return the end of a reply for display: a fault names its server and holds no key."""
    if not isinstance(end, Faulted):
        return end
    return named(_without_key(end, server.key), host=server.host, refusal=server.refusal)


def _without_key(end: Faulted, key: str) -> Faulted:
    """Remove the key: a server may quote it (LOG-13). The part before the colon is our own text and holds none."""
    words, colon, said = end.message.partition(": ")
    return msgspec.structs.replace(end, message=words + colon + said.replace(key, "…")) if key else end

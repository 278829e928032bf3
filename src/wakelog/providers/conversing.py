"""The socket: one client for one reply, closed before the reply ends. What is said on it is a reader's affair.

Rule 1: what the network does is a fault, never an exception. A stream that breaks is over; the reader of the reply
knows whether all had been said.
Rule 2: the SDKs connect, prove who we are and say what went wrong; they never try again, because the kernel does, and
the log has to know of every try.
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
from wakelog.providers.endpoints import Server, is_here
from wakelog.providers.faults import fault, named, no_stream
from wakelog.providers.sse import Events, decoded

# How long a stream may be silent. A model that thinks says nothing for minutes.
SILENCE_S = 600.0
_CONNECT_S = 15.0
# Servers that ask for no key still get a header: without a key the SDKs look for one everywhere.
_NO_KEY = "none"
# Failures of TLS in the middle of a stream come as they are.
_NETWORK = (httpx2.HTTPError, ssl.SSLError, anyio.EndOfStream)


class Reader(Protocol):
    """What makes a reply of events."""

    request_id: str | None

    def read(self, event: bytes) -> Iterator[Delta]:
        """The pieces that an event brings, perhaps the end of the reply; `ValueError` if it makes no sense."""
        ...

    def end(self, why: str) -> Iterator[Delta]:
        """No more comes: what is left to say, and the end. If not all had been said it is a fault of the kind `why`."""
        ...


class Response(Protocol):
    """An answer as both SDKs give it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers, by names in small letters."""
        ...

    def iter_bytes(self) -> AsyncIterator[bytes]:
        """Its body as it comes."""
        ...


class Sdk(NamedTuple):
    """An SDK, as far as it is used."""

    client: Callable[..., Any]
    http: Callable[..., httpx2.AsyncClient]
    error: type[Exception]
    """Everything that it raises."""
    status_error: type[Exception]
    """What it raises for an answer that is an error from the start."""
    refused: Callable[[int, Mapping[str, str], Any], Faulted]
    """What such an answer means: status, headers and body."""


def opened(sdk: Sdk, server: Server, silence_s: float) -> Any:
    """The SDK's client for one reply. `UsageError` for a proxy that cannot be used."""
    return sdk.client(
        api_key=server.key or _NO_KEY,
        base_url=server.url,
        max_retries=0,
        timeout=httpx2.Timeout(silence_s, connect=_CONNECT_S),
        http_client=_http_client(sdk, server),
    )


def _http_client(sdk: Sdk, server: Server) -> httpx2.AsyncClient:
    if is_here(server.url):
        # A proxy would look for it on a machine of its own.
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
    """Whom this process trusts: read once, because reading it takes longer than all else that is done for a call."""
    return httpx2.create_ssl_context()


async def converse(
    asking: AbstractAsyncContextManager[Response], reader: Reader, sdk: Sdk, server: Server
) -> AsyncIterator[Delta]:
    """Asks, and gives the reply as it comes. Everything is closed before its end is told."""
    end: Finished | Faulted | None = None
    try:
        async with asking as response, contextlib.aclosing(_deltas(response, reader)) as said:
            async for delta in said:
                if isinstance(delta, Finished | Faulted):
                    end = delta
                    break
                yield delta
    except (sdk.error, *_NETWORK) as error:
        # What was said to the end stays said, however the connection is closed.
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
    """The fault behind what an SDK or its socket raises before a reply begins."""
    if isinstance(error, sdk.status_error):
        told: Any = error
        return sdk.refused(told.status_code, told.response.headers, _body(told.response))
    cause = error.__cause__ or error
    if isinstance(cause, httpx2.TimeoutException):
        return fault("timeout")
    return fault("connection", str(cause))


def _body(response: httpx2.Response) -> object:
    """What an error says; nothing, if that is no JSON: pages are shown to nobody."""
    try:
        return decoded(response.content, object)
    except (ValueError, httpx2.ResponseNotRead):
        return None


def _told(end: Finished | Faulted, server: Server) -> Finished | Faulted:
    """An end for people: a fault says whose it is."""
    if not isinstance(end, Faulted):
        return end
    return named(_without_key(end, server.key), host=server.host, refusal=server.refusal)


def _without_key(end: Faulted, key: str) -> Faulted:
    """LOG-13: a server may quote what it was sent. Our own words, before the colon, hold no key, whatever it is."""
    words, colon, said = end.message.partition(": ")
    return msgspec.structs.replace(end, message=words + colon + said.replace(key, "…")) if key else end

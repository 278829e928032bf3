"""The socket: one client for one reply, closed before the reply ends. The only file that knows the SDK.

Rule 1: the SDK connects, proves who we are and says what went wrong; it never tries again, because the kernel does.
Rule 2: what the network does is a fault. A stream that breaks is over; the reader of the reply says what that means.
"""

import contextlib
import functools
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from wakelog.errors import UsageError

try:
    import httpx2
    import openai
except ImportError as _missing:
    raise UsageError(
        f"models of OpenAI need a package that is not installed ({_missing})", hint="pip install 'wakelog[openai]'"
    ) from _missing

from wakelog.log.content import JsonObject
from wakelog.providers.endpoints import check_trusted
from wakelog.providers.openai import faults
from wakelog.providers.openai.sse import Events
from wakelog.providers.params import Params
from wakelog.turn.deltas import Delta, Faulted, Finished

OPENAI = "https://api.openai.com/v1"
# Servers that ask for no key still get a header: the SDK sends none without one.
_NO_KEY = "none"
# How long a stream may be silent: the SDK's own figure. A model that thinks says nothing for minutes.
SILENCE_S = 600.0
_CONNECT_S = 10.0

Api: TypeAlias = Literal["responses", "chat"]
_Response: TypeAlias = openai.AsyncAPIResponse[Any]


class Reader(Protocol):
    """What makes a reply of events."""

    request_id: str | None

    def read(self, event: bytes) -> Iterator[Delta]:
        """The pieces that an event brings, perhaps the end of the reply; `ValueError` if it makes no sense."""
        ...

    def end(self) -> Iterator[Delta]:
        """The stream is over, whatever was said last: what is left to say, and the end."""
        ...


class Server(msgspec.Struct, frozen=True):
    """Whom to ask, and with which key."""

    url: str
    key: str

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI itself, and not a server that is compatible with it."""
        host = urlsplit(self.url).hostname or ""
        return host == "api.openai.com" or host.endswith(".api.openai.com")


def server_of(params: Params, environment: Mapping[str, str] | None = None) -> Server:
    """The server that is meant; `UsageError` if it needs a key and there is none."""
    found = os.environ if environment is None else environment
    server = Server(_address(params.endpoint or found.get("OPENAI_BASE_URL") or OPENAI), _key(found))
    if server.key:
        check_trusted(server.url, own=OPENAI, named=found.get("OPENAI_BASE_URL"), variable="OPENAI_BASE_URL")
    if server.is_openai and not server.key:
        raise UsageError("there is no key for OpenAI", hint="set OPENAI_API_KEY, or try --model demo")
    return server


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"the endpoint {url!r} is no address", hint="use one such as http://localhost:11434/v1")
    return url


def _key(environment: Mapping[str, str]) -> str:
    key = environment.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError("OPENAI_API_KEY holds signs that no key has", hint="copy the key anew")
    return key


async def converse(
    server: Server, api: Api, body: JsonObject, reader: Reader, silence_s: float = SILENCE_S
) -> AsyncIterator[Delta]:
    """Asks, and gives the reply as it comes. Everything is closed before its end is told."""
    end: Delta | None = None
    try:
        async with (
            _asked(server, api, body, silence_s) as response,
            contextlib.aclosing(_deltas(response, reader)) as said,
        ):
            async for delta in said:
                if isinstance(delta, Finished | Faulted):
                    end = delta
                    break
                yield delta
    except (openai.OpenAIError, httpx2.RequestError) as error:
        # What was said to the end stays said, however the connection is closed.
        end = end or _fault(error)
    yield _without_key(end or faults.fault("cut"), server.key)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Whom we trust: read once, because reading it takes longer than all else that is done for a call."""
    return httpx2.create_ssl_context()


@contextlib.asynccontextmanager
async def _asked(server: Server, api: Api, body: JsonObject, silence_s: float) -> AsyncIterator[_Response]:
    async with openai.AsyncOpenAI(
        api_key=server.key or _NO_KEY,
        base_url=server.url,
        max_retries=0,
        timeout=openai.Timeout(silence_s, connect=_CONNECT_S),
        http_client=openai.DefaultAsyncHttpxClient(verify=_trusted()),
    ) as client:
        # The body is ours as it stands, so that nothing in it is made anew between us and the wire.
        create: Any
        if api == "responses":
            create = client.responses.with_streaming_response.create
            asking = create(model=body["model"], input=[], stream=True, extra_body=body)
        else:
            create = client.chat.completions.with_streaming_response.create
            asking = create(model=body["model"], messages=[], stream=True, extra_body=body)
        async with asking as response:
            yield response


async def _deltas(response: _Response, reader: Reader) -> AsyncGenerator[Delta, None]:
    events = Events()
    reader.request_id = response.headers.get("x-request-id")
    try:
        async for chunk in response.iter_bytes():
            for event in events.feed(chunk):
                for delta in reader.read(event):
                    yield delta
    except httpx2.TimeoutException:
        yield faults.fault("timeout")
    except ValueError:
        yield faults.fault("malformed")
    except httpx2.RequestError:
        # The connection broke: only the reader knows whether all had been said.
        pass
    for delta in reader.end():
        yield delta


def _fault(error: Exception) -> Faulted:
    match error:
        case openai.APIStatusError():
            return faults.refused(error.status_code, error.response.headers, error.body)
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return faults.fault("timeout")
        case openai.APIConnectionError():
            return faults.fault("connection", _cause(error))
    return faults.fault("connection")


def _without_key(end: Delta, key: str) -> Delta:
    """LOG-13: a server may quote what it was sent."""
    if not isinstance(end, Faulted) or not key:
        return end
    return msgspec.structs.replace(end, message=end.message.replace(key, "…"))


def _cause(error: Exception) -> str:
    """What the network said: the reason that the SDK wraps."""
    return str(error.__cause__ or "")

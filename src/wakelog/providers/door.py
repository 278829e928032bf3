"""HTTP provider: what all network providers have in common, from the settings of a request to the streamed reply.

What differs is a `Way`: how a body is built and sent, how events are parsed, what a refusal means. Nothing is kept
between two calls but the source of keys and addresses.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from wakelog.errors import UsageError
from wakelog.log.content import JsonObject
from wakelog.log.deltas import Delta, Faulted
from wakelog.ports import Request
from wakelog.providers.conversing import SILENCE_S, Reader, Response, Sdk, opened, stream_reply
from wakelog.providers.endpoints import Owner, Server, server_of
from wakelog.providers.media import all_in_words
from wakelog.providers.params import Params, params_of
from wakelog.providers.playing import fail

_CANNOT_RESUME = Faulted("cannot_resume", "this model cannot continue a reply")


class WireFormat(NamedTuple):
    """Wire format of a provider, by the name of the provider."""

    name: str
    owner: Owner
    sdk: Callable[[], Sdk]
    """Loads the SDK, which takes a while."""
    written: Callable[[Request, Params, Server], JsonObject]
    """Builds the body of a request to a server."""
    sent: Callable[[Any, JsonObject], AbstractAsyncContextManager[Response]]
    """Sends a body through a client, unchanged, and provides the response."""
    reader: Callable[[Request], Reader]
    """Creates the parser of a reply."""
    signs_reasoning: bool = False
    """Whether reasoning has a signature over its text, and must be sent back unchanged."""


class HttpProvider:
    """Provider that calls a server. It cannot resume an interrupted reply: these APIs take no partial answer."""

    can_resume = False

    def __init__(
        self,
        way: WireFormat,
        *,
        environ: Mapping[str, str] | None = None,
        key_from: str = "",
        silence_s: float = SILENCE_S,
    ) -> None:
        self.name = way.name
        self.needs_reasoning_back = way.signs_reasoning
        self._way = way
        self._environ = os.environ if environ is None else environ
        self._key_from = key_from
        self._silence_s = silence_s

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """See `ports.CheckedProvider`."""
        self._prepared(Request(model=model, messages=(), params=params))

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Stream the reply; `UsageError` at once for invalid settings or a missing key."""
        server, body, sdk = self._prepared(request)
        if request.prefill:
            return fail(_CANNOT_RESUME)
        asking = _asking(self._way, opened(sdk, server, self._silence_s), body)
        return stream_reply(asking, self._way.reader(request), sdk, server)

    def _prepared(self, request: Request) -> tuple[Server, JsonObject, Sdk]:
        """Return the server, the body of the request and the SDK; `UsageError` if any of them is invalid or missing."""
        way, params = self._way, params_of(request.params)
        server = server_of(way.owner, params.endpoint, self._environ, self._key_from)
        body = way.written(all_in_words(request) if params.media == "note" else request, params, server)
        # The SDK takes seconds to load: mistakes that can be found without it are reported first.
        return server, body, way.sdk()


@contextlib.asynccontextmanager
async def _asking(way: WireFormat, client: Any, body: JsonObject) -> AsyncIterator[Response]:
    async with client, way.sent(client, body) as response:
        yield response


def open_http_provider(way: WireFormat, model: str, environ: Mapping[str, str], key_from: str) -> HttpProvider:
    """Return the provider for `PROVIDER:NAME`. Each request names the model to call."""
    if model == way.name:
        raise UsageError(f"{way.name} alone names no model", hint=f"write {way.name}:NAME")
    return HttpProvider(way, environ=environ, key_from=key_from)

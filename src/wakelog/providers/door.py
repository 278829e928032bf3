"""A provider behind a socket, as far as all are alike: what a request means, whom it goes to, who reads the reply.

What differs is a value, the way of asking: how a body is written and sent, how events are read, what a refusal means.
Nothing is kept between two calls but where keys and addresses are looked up.
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
from wakelog.providers.conversing import SILENCE_S, Reader, Response, Sdk, converse, opened
from wakelog.providers.endpoints import Owner, Server, server_of
from wakelog.providers.media import all_in_words
from wakelog.providers.params import Params, params_of
from wakelog.providers.playing import fail

_CANNOT_RESUME = Faulted("cannot_resume", "this model cannot continue a reply")


class Way(NamedTuple):
    """A way of asking, by the name of its provider."""

    name: str
    owner: Owner
    sdk: Callable[[], Sdk]
    """What it is asked through; it takes a while to load."""
    written: Callable[[Request, Params, Server], JsonObject]
    """What is said to a server."""
    sent: Callable[[Any, JsonObject], AbstractAsyncContextManager[Response]]
    """The answer to a body, through a client; the body goes out as it is."""
    reader: Callable[[Request], Reader]
    """Who makes a reply of what comes."""
    signs_reasoning: bool = False
    """Whether reasoning is signed by its text, and must go back as it came."""


class Door:
    """Asks a server. A reply that was cut cannot be gone on with: these wires take no beginning of an answer."""

    can_resume = False

    def __init__(
        self,
        way: Way,
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
        """The reply as it comes; `UsageError` at once for settings that cannot be, or without a key."""
        server, body, sdk = self._prepared(request)
        if request.prefill:
            return fail(_CANNOT_RESUME)
        asking = _asking(self._way, opened(sdk, server, self._silence_s), body)
        return converse(asking, self._way.reader(request), sdk, server)

    def _prepared(self, request: Request) -> tuple[Server, JsonObject, Sdk]:
        """The server, the body of the request and the SDK; `UsageError` for everything that can be wrong with them."""
        way, params = self._way, params_of(request.params)
        server = server_of(way.owner, params.endpoint, self._environ, self._key_from)
        body = way.written(all_in_words(request) if params.media == "note" else request, params, server)
        # The SDK takes seconds to load: mistakes that need none are reported first.
        return server, body, way.sdk()


@contextlib.asynccontextmanager
async def _asking(way: Way, client: Any, body: JsonObject) -> AsyncIterator[Response]:
    async with client, way.sent(client, body) as response:
        yield response


def open_door(way: Way, model: str, environ: Mapping[str, str], key_from: str) -> Door:
    """`PROVIDER:NAME`. Which model is asked stands in each request."""
    if model == way.name:
        raise UsageError(f"{way.name} alone names no model", hint=f"write {way.name}:NAME")
    return Door(way, environ=environ, key_from=key_from)

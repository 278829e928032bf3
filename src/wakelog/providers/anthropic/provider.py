"""The socket: asks, and passes on what comes. Everything that can be decided is decided in the files beside it.

A client is made for one reply and closed with it, so nothing is kept between two calls but the certificates that this
process trusts. The SDK carries keys, frames and errors; it never tries again on its own, because the log has to know of
every try.
"""

import functools
import ssl
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import msgspec

from wakelog.log.content import JsonObject
from wakelog.ports import Request
from wakelog.providers.anthropic.faults import fault_of
from wakelog.providers.anthropic.from_wire import Incoming
from wakelog.providers.anthropic.to_wire import PROVIDER, to_wire
from wakelog.providers.endpoints import check_trusted
from wakelog.providers.params import params_of
from wakelog.turn.deltas import Delta, Faulted

_ADDRESS = "https://api.anthropic.com"
# Between two bytes. Anthropic sends a sign of life much more often; other servers think in silence.
_SILENCE_S = 600.0
_CONNECT_S = 15.0
_CANNOT_RESUME = Faulted("cannot_resume", "this model cannot continue a reply")


class AnthropicProvider:
    """Models behind the Messages interface, at one address with one key or token."""

    name = PROVIDER
    can_resume = False

    def __init__(
        self, *, key: str = "", token: str = "", base_url: str | None = None, silence_s: float = _SILENCE_S
    ) -> None:
        self._key = key
        self._token = token
        self._base_url = base_url or _ADDRESS
        self._silence_s = silence_s

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """The reply as it comes. A mistake in the params is raised here, before anybody is asked."""
        body = to_wire(request)
        endpoint = params_of(request.params).endpoint or self._base_url
        check_trusted(endpoint, own=_ADDRESS, named=self._base_url, variable="ANTHROPIC_BASE_URL")
        return self._asked(body, endpoint, can_go_on=not request.prefill)

    async def _asked(self, body: JsonObject, endpoint: str, *, can_go_on: bool) -> AsyncIterator[Delta]:
        if not can_go_on:
            yield _CANNOT_RESUME
            return
        incoming: Incoming | None = None
        end: Delta
        try:
            async with self._client(endpoint) as client, await _post(client, body) as stream:
                incoming = Incoming(stream.response.headers.get("request-id"))
                async for event in anthropic.AsyncStream.raw_events(stream.response):
                    for delta in incoming.take(event.data) if event.data else ():
                        yield delta
                    if incoming.end is not None:
                        break
            end = incoming.end or incoming.over()
        except (anthropic.AnthropicError, httpx2.HTTPError, UnicodeDecodeError) as error:
            end = self._without_secrets(fault_of(error, begun=incoming is not None))
        # Said when everything is closed: whoever hears the end listens no further.
        yield end

    def _client(self, endpoint: str) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            api_key=self._key or None,
            auth_token=self._token or None,
            base_url=endpoint,
            max_retries=0,
            timeout=httpx2.Timeout(self._silence_s, connect=_CONNECT_S),
            http_client=anthropic.DefaultAsyncHttpxClient(verify=_trusted()),
        )

    def _without_secrets(self, told: Faulted) -> Faulted:
        """A server may quote what it was sent."""
        message = told.message
        for secret in filter(None, (self._key, self._token)):
            message = message.replace(secret, "…")
        return msgspec.structs.replace(told, message=message)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Whom this process trusts. Reading it takes longer than everything else that is done here."""
    return httpx2.create_ssl_context()


async def _post(client: anthropic.AsyncAnthropic, body: JsonObject) -> anthropic.AsyncStream[Any]:
    """Sends a body as it is; the SDK wants to know three things by name."""
    named = {name: body[name] for name in ("model", "max_tokens", "messages")}
    stream: anthropic.AsyncStream[Any] = await client.messages.create(**named, stream=True, extra_body=body)
    return stream

"""The `anthropic` provider: the Messages API, with the requests and replies of the modules beside it."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import cache
from typing import Any

from wakelog.log.content import JsonObject
from wakelog.providers.anthropic.faults import refused
from wakelog.providers.anthropic.from_wire import Incoming
from wakelog.providers.anthropic.to_wire import PROVIDER, to_wire
from wakelog.providers.conversing import Response, Sdk
from wakelog.providers.door import HttpProvider, WireFormat, open_http_provider
from wakelog.providers.endpoints import Owner
from wakelog.providers.extras import ANTHROPIC


@cache
def _sdk() -> Sdk:
    found = ANTHROPIC.load()
    return Sdk(found.AsyncAnthropic, found.DefaultAsyncHttpxClient, found.AnthropicError, found.APIStatusError, refused)


def _sent(client: Any, body: JsonObject) -> AbstractAsyncContextManager[Response]:
    # The SDK requires three arguments; those of the body override them.
    create = client.messages.with_streaming_response.create
    asking: AbstractAsyncContextManager[Response] = create(
        model="", max_tokens=1, messages=[], stream=True, extra_body=body
    )
    return asking


MESSAGES = WireFormat(
    PROVIDER,
    Owner(
        "Anthropic",
        address="https://api.anthropic.com",
        keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        base_url="ANTHROPIC_BASE_URL",
        headers=("ANTHROPIC_CUSTOM_HEADERS",),
        adds="/v1",
    ),
    _sdk,
    written=lambda request, params, _: to_wire(request, params),
    sent=_sent,
    reader=lambda _: Incoming(),
    signs_reasoning=True,
)


def open_model(model: str, environ: Mapping[str, str], key_from: str) -> HttpProvider:
    """Return the provider for `anthropic:NAME`."""
    return open_http_provider(MESSAGES, model, environ, key_from)

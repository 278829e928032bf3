"""The `openai` provider: models of OpenAI through the Responses API, with nothing stored on the server."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from wakelog.log.content import JsonObject
from wakelog.providers.conversing import Response
from wakelog.providers.door import HttpProvider, WireFormat, open_http_provider
from wakelog.providers.openai.account import OWNER, sdk
from wakelog.providers.openai.responses_reply import ResponsesReader
from wakelog.providers.openai.responses_request import PROVIDER, to_wire


def _sent(client: Any, body: JsonObject) -> AbstractAsyncContextManager[Response]:
    # The SDK requires two arguments; those of the body override them.
    create = client.responses.with_streaming_response.create
    asking: AbstractAsyncContextManager[Response] = create(model="", input=[], stream=True, extra_body=body)
    return asking


RESPONSES = WireFormat(
    PROVIDER,
    OWNER,
    sdk,
    written=lambda request, params, _: to_wire(request, params),
    sent=_sent,
    reader=ResponsesReader,
)


def open_model(model: str, environ: Mapping[str, str], key_from: str) -> HttpProvider:
    """Return the provider for `openai:NAME`."""
    return open_http_provider(RESPONSES, model, environ, key_from)

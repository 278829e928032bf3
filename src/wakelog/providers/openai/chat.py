"""The `openai-chat` provider: Chat Completions, for OpenAI and every compatible server."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from wakelog.log.content import JsonObject
from wakelog.providers.conversing import Response
from wakelog.providers.door import HttpProvider, WireFormat, open_http_provider
from wakelog.providers.openai.account import OWNER, sdk
from wakelog.providers.openai.chat_reply import ChatReader
from wakelog.providers.openai.chat_request import PROVIDER, to_wire


def _sent(client: Any, body: JsonObject) -> AbstractAsyncContextManager[Response]:
    # The SDK requires two arguments; those of the body override them.
    create = client.chat.completions.with_streaming_response.create
    asking: AbstractAsyncContextManager[Response] = create(model="", messages=[], stream=True, extra_body=body)
    return asking


CHAT = WireFormat(
    PROVIDER,
    OWNER,
    sdk,
    written=lambda request, params, server: to_wire(request, params, is_openai=server.is_owner),
    sent=_sent,
    reader=ChatReader,
)


def open_model(model: str, environ: Mapping[str, str], key_from: str) -> HttpProvider:
    """Return the provider for `openai-chat:NAME`."""
    return open_http_provider(CHAT, model, environ, key_from)

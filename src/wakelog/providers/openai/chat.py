"""The `openai-chat` provider: Chat Completions, for OpenAI and every server that is compatible with it."""

from collections.abc import AsyncIterator, Mapping

from wakelog.errors import UsageError
from wakelog.ports import Request
from wakelog.providers.openai.chat_reply import ChatReader
from wakelog.providers.openai.chat_request import PROVIDER, to_wire
from wakelog.providers.openai.client import SILENCE_S, converse, server_of
from wakelog.providers.openai.faults import cannot_resume
from wakelog.providers.params import params_of
from wakelog.turn.deltas import Delta


class ChatProvider:
    """Asks a server. A reply that was cut cannot be gone on with: few servers take the beginning of an answer."""

    name = PROVIDER
    can_resume = False

    def __init__(self, *, environ: Mapping[str, str] | None = None, silence_s: float = SILENCE_S) -> None:
        self._environ = environ
        self._silence_s = silence_s

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """The reply as it comes; `UsageError` at once for settings that cannot be, or without a key."""
        params = params_of(request.params)
        server = server_of(params, self._environ)
        if request.prefill:
            return cannot_resume()
        body = to_wire(request, params, is_openai=server.is_openai)
        return converse(server, "chat", body, ChatReader(request), self._silence_s)


def open_model(model: str, environ: Mapping[str, str]) -> ChatProvider:
    """`openai-chat:NAME`. Which model is asked stands in each request."""
    if model == PROVIDER:
        raise UsageError(f"{PROVIDER} alone names no model", hint=f"write {PROVIDER}:NAME")
    return ChatProvider(environ=environ)

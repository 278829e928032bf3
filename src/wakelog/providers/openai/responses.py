"""The `openai` provider: models of OpenAI through the Responses API, without anything kept at the server."""

from collections.abc import AsyncIterator, Mapping

from wakelog.errors import UsageError
from wakelog.ports import Request
from wakelog.providers.openai.client import SILENCE_S, converse, server_of
from wakelog.providers.openai.faults import cannot_resume
from wakelog.providers.openai.responses_reply import ResponsesReader
from wakelog.providers.openai.responses_request import PROVIDER, to_wire
from wakelog.providers.params import params_of
from wakelog.turn.deltas import Delta


class ResponsesProvider:
    """Asks OpenAI. A reply that was cut cannot be gone on with: this wire takes no beginning of an answer."""

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
        reader = ResponsesReader(request)
        return converse(server, "responses", to_wire(request, params), reader, self._silence_s)


def open_model(model: str, environ: Mapping[str, str]) -> ResponsesProvider:
    """`openai:NAME`. Which model is asked stands in each request."""
    if model == PROVIDER:
        raise UsageError(f"{PROVIDER} alone names no model", hint=f"write {PROVIDER}:NAME")
    return ResponsesProvider(environ=environ)

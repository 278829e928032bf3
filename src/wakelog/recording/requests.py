"""Request messages for model APIs, from the context of a session.

The functions that build the runtime's own requests build these too: tool calls and results are paired, roles alternate
where an API requires it, and each list extends the one before it (law 8: stable prefix) until a compaction.
Reasoning and other data bound to a model are sent back only to the model that produced them. That is the model given,
or else the one of the last reply from the same API.
"""

from collections.abc import Sequence

from wakelog.log.content import JsonObject
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage
from wakelog.providers.anthropic.messages_request import PROVIDER as ANTHROPIC
from wakelog.providers.anthropic.messages_request import build_messages, with_cache_marks
from wakelog.providers.openai.chat_request import PROVIDER as OPENAI_CHAT
from wakelog.providers.openai.chat_request import history_messages
from wakelog.providers.openai.responses_request import PROVIDER as OPENAI_RESPONSES
from wakelog.providers.openai.responses_request import history_items
from wakelog.providers.requests import Params

_DEFAULTS = Params()


def anthropic_messages(messages: Sequence[ContextMessage], *, model: str | None, cache: bool) -> list[JsonObject]:
    """Return the `messages` of a Messages request; with `cache`, its last two user messages are marked."""
    own_model = model or _last_model(messages, ANTHROPIC)
    built = build_messages(
        messages, is_own=lambda message: message.provider == ANTHROPIC and message.model == own_model
    )
    return with_cache_marks(built) if cache else built


def openai_chat_messages(messages: Sequence[ContextMessage], *, model: str | None, system: str) -> list[JsonObject]:
    """Return the `messages` of a Chat Completions request, after the system message if there is one."""
    opening: list[JsonObject] = [{"role": "system", "content": system}] if system else []
    return [*opening, *history_messages(_request(messages, model, OPENAI_CHAT), _DEFAULTS)]


def openai_responses_items(messages: Sequence[ContextMessage], *, model: str | None) -> list[JsonObject]:
    """Return the `input` of a Responses request with `store=False`."""
    return list(history_items(_request(messages, model, OPENAI_RESPONSES), _DEFAULTS))


def _request(messages: Sequence[ContextMessage], model: str | None, provider: str) -> ModelRequest:
    return ModelRequest(model=model or _last_model(messages, provider) or "", messages=tuple(messages))


def _last_model(messages: Sequence[ContextMessage], provider: str) -> str | None:
    """Return the model of the last reply of a provider."""
    return next((message.model for message in reversed(messages) if message.provider == provider), None)

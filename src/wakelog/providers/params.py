"""Model settings, in the same words for every provider: what `Request.params` may hold.

They come from the `context` entry in force, as JSON. An unknown key is refused with the nearest known one as a hint;
settings that only one provider knows go into `extra`.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from wakelog.errors import UsageError
from wakelog.log.content import JsonObject


class Params(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a model is called. What is not set is left to the provider."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Maximum length of a reply in tokens, reasoning included."""
    temperature: float | None = None
    effort: Literal["low", "medium", "high"] | None = None
    """How much the model should reason."""
    thinking: Literal["keep", "drop"] = "keep"
    """Whether reasoning is sent back to the model that produced it."""
    media: Literal["send", "note"] = "send"
    """Whether images and audio are sent, or only named: a model that accepts none refuses the conversation."""
    endpoint: str | None = None
    """Address of the server; takes precedence over the environment."""
    extra: JsonObject = {}
    """Merged into the body of the request (`merged`): the way to anything that only one provider knows."""


def params_of(params: Mapping[str, Any]) -> Params:
    """Return the settings of a request, or raise `UsageError`."""
    known = [field.encode_name for field in msgspec.structs.fields(Params)]
    for key in params:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"no setting of a model is called {key!r}", hint=hint)
    try:
        return msgspec.convert(dict(params), Params)
    except msgspec.ValidationError as error:
        raise UsageError(f"the settings of the model: {error}") from None


def merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> JsonObject:
    """Return a body merged with `extra`: objects key by key, null removes a key, anything else replaces."""
    result = dict(body)
    for key, value in extra.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result

"""The settings of a model, in the same words for every provider: what `Request.params` may hold.

They come from the `context` entry in force, as JSON. A key that nobody knows is a slip of the pen and is refused with
the nearest right one; what only one provider understands stands in `extra`.
"""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from wakelog.errors import UsageError
from wakelog.log.content import JsonObject


class Params(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a model is asked. What is not said is left to the provider."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How long a reply may become, reasoning included."""
    temperature: float | None = None
    effort: Literal["low", "medium", "high"] | None = None
    """How much the model is to think."""
    thinking: Literal["keep", "drop"] = "keep"
    """Whether reasoning goes back to the model that made it."""
    media: Literal["send", "note"] = "send"
    """Whether images and audio are sent, or only named: a model that takes none refuses the conversation."""
    endpoint: str | None = None
    """Where the server is; wins over the environment."""
    extra: JsonObject = {}
    """Goes into the body of the request as it is (`merged`): the way to anything that only one provider knows."""


def params_of(params: Mapping[str, Any]) -> Params:
    """The settings of a request, or `UsageError`."""
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
    """A body with `extra` laid over it: objects are merged key by key, null takes a key out, all else replaces."""
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

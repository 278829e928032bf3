"""Request building shared by all network providers: model settings, images and audio, messages with their tool results.

Pure. `Params` are the settings in the same words for every provider; they come from the `context` entry in force,
as JSON. An unknown key is refused with the nearest known one as a hint; settings of a single provider go into
`extra`. Images and audio that a model does not accept are replaced by text in one request, never in the log:
another model may accept them.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from wakelog.decoding import convert
from wakelog.errors import UsageError
from wakelog.log.content import AnyPart, Image, JsonObject, Media, Text
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import ContextMessage


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
    """Merged into the body of the request (`merge_body`): for settings that only one provider has."""


def parse_params(params: Mapping[str, Any]) -> Params:
    """Return the settings of a request, or raise `UsageError`."""
    known = [field.encode_name for field in msgspec.structs.fields(Params)]
    for key in params:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(known)}"
            raise UsageError(f"unknown model parameter {key!r}", hint=hint)
    try:
        return convert(dict(params), Params)
    except msgspec.ValidationError as error:
        raise UsageError(f"invalid model parameters: {error}") from None


def merge_body(body: Mapping[str, Any], extra: Mapping[str, Any]) -> JsonObject:
    """Return a body merged with `extra`: objects key by key, null removes a key, anything else replaces."""
    result = dict(body)
    for key, value in extra.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merge_body(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The image types that every provider accepts; any other would have the whole conversation refused."""


def media_type_of(part: Media) -> str:
    """Return the media type of an image or audio part; empty if it is unknown."""
    return part.mime_type or (part.blob.media_type if part.blob else "")


def media_placeholder(part: Media) -> str:
    """Return the text that replaces a part that cannot be sent."""
    kind = media_type_of(part) or "of an unknown kind"
    if isinstance(part, Image):
        return f"(a picture that cannot be shown here: {kind})"
    return f"(audio that cannot be played here: {kind})"


def request_without_media(request: ModelRequest) -> ModelRequest:
    """Return a request with text in place of all images and audio, for a model that accepts none."""
    return msgspec.structs.replace(request, messages=tuple(map(_message_without_media, request.messages)))


def _message_without_media(message: ContextMessage) -> ContextMessage:
    if not any(isinstance(part, Media) for part in message.content):
        return message
    return msgspec.structs.replace(message, content=tuple(parts_without_media(message.content)))


def parts_without_media(parts: Iterable[AnyPart]) -> Iterable[AnyPart]:
    """Return the parts with text in place of images and audio."""
    return (Text(text=media_placeholder(part)) if isinstance(part, Media) else part for part in parts)


def group_tool_results(messages: Sequence[ContextMessage]) -> list[tuple[ContextMessage, list[ContextMessage]]]:
    """Return each message with the results directly after it."""
    groups: list[tuple[ContextMessage, list[ContextMessage]]] = []
    for message in messages:
        if message.role != "toolResult":
            groups.append((message, []))
        elif groups:
            groups[-1][1].append(message)
    return groups


def new_tool_call_id(request: ModelRequest, number: int) -> str:
    """Return an id for the tool call of that number, from 0, in a reply; it is unique on the branch."""
    return f"call_{request.answers}_{number}"

"""Images and audio in requests: which can be sent, and the text that replaces those that cannot.

Pure. The text is part of one request and never of the log: another model may accept what this one does not.
"""

from collections.abc import Iterable

import msgspec

from wakelog.log.content import AnyPart, Image, Media, Text
from wakelog.ports import Request
from wakelog.projections.context import ContextMessage

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The image types that every provider accepts; any other would have the whole conversation refused."""


def kind_of(part: Media) -> str:
    """Return the media type of an image or audio part; empty if it is unknown."""
    return part.mime_type or (part.blob.media_type if part.blob else "")


def in_words(part: Media) -> str:
    """Return the text that replaces a part that cannot be sent."""
    kind = kind_of(part) or "of an unknown kind"
    if isinstance(part, Image):
        return f"(a picture that cannot be shown here: {kind})"
    return f"(audio that cannot be played here: {kind})"


def all_in_words(request: Request) -> Request:
    """Return a request with text in place of all images and audio, for a model that accepts none."""
    return msgspec.structs.replace(request, messages=tuple(map(_message, request.messages)))


def _message(message: ContextMessage) -> ContextMessage:
    if not any(isinstance(part, Media) for part in message.content):
        return message
    return msgspec.structs.replace(message, content=tuple(without_media(message.content)))


def without_media(parts: Iterable[AnyPart]) -> Iterable[AnyPart]:
    """Return the parts with text in place of images and audio."""
    return (Text(text=in_words(part)) if isinstance(part, Media) else part for part in parts)

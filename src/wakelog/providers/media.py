"""Images and audio in requests: what can be sent, and the words that stand in a request where something cannot.

Pure. The words are part of one request and never of the log: another model may be able to see what this one cannot.
"""

from collections.abc import Iterable

import msgspec

from wakelog.log.content import AnyPart, Image, Media, Text
from wakelog.ports import Request
from wakelog.projections.context import ContextMessage

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
"""The kinds of images that every provider takes; any other would have the whole conversation refused."""


def kind_of(part: Media) -> str:
    """The media type of an image or of audio, as far as it is known."""
    return part.mime_type or (part.blob.media_type if part.blob else "")


def in_words(part: Media) -> str:
    """What is said in the place of something that cannot be sent."""
    kind = kind_of(part) or "of an unknown kind"
    if isinstance(part, Image):
        return f"(a picture that cannot be shown here: {kind})"
    return f"(audio that cannot be played here: {kind})"


def all_in_words(request: Request) -> Request:
    """A request with words in the place of all images and audio, for a model that takes none."""
    return msgspec.structs.replace(request, messages=tuple(map(_message, request.messages)))


def _message(message: ContextMessage) -> ContextMessage:
    if not any(isinstance(part, Media) for part in message.content):
        return message
    return msgspec.structs.replace(message, content=tuple(without_media(message.content)))


def without_media(parts: Iterable[AnyPart]) -> Iterable[AnyPart]:
    """Parts with words in the place of images and audio."""
    return (Text(text=in_words(part)) if isinstance(part, Media) else part for part in parts)

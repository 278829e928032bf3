"""Moving large content of entries into blobs, and media back into messages for a model.

Media always become blobs; a text does if its line would be too long (LOG-12), and the output of an interrupted tool if
it is longer than a tool result may be (VIEW-6). A blob is put and synced before the entry that refers to it is
appended. The entry, and so the model's context, keeps the beginning and the end of such a text, with a line between
them that says how much is left out. A line holds 16 MiB, more than a model can read.
"""

import base64
import binascii
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import msgspec

from wakelog.decide.wording import CLIP_MIN_BYTES, clip
from wakelog.errors import Damaged, NotFound
from wakelog.log.content import AnyPart, Audio, BlobRef, Content, Image, Media, Text
from wakelog.log.entry import AttentionResolved, Cancelled, Custom, KnownBody, Message, Partial, Queued
from wakelog.ports.stores import Blobs
from wakelog.projections.context import Context, ContextMessage

PutBlob: TypeAlias = Callable[[bytes, str], BlobRef]
DiscardBlob: TypeAlias = Callable[[bytes, str], None]
"""A `put` for readers, which stores nothing."""
_BodyT = TypeVar("_BodyT", bound=KnownBody)
TEXT_KEPT_BYTES = 256 * 1024
"""How much of a text that is too long for a line stays in it: about 65,000 tokens, which most models can read."""
_MEDIA = (Image, Audio)
# Shorter texts cannot make a line too long.
_LONG_CHARS = 1024 * 1024


def may_be_large(body: KnownBody) -> bool:
    """Return whether an entry has media or enough text to exceed a line. A cheap check, made on every append."""
    if is_interrupted_output(body):
        return True
    content = _content_of(body)
    if isinstance(content, str):
        return len(content) > _LONG_CHARS
    chars = 0
    for part in content:
        if isinstance(part, Text):
            chars += len(part.text)
        elif isinstance(part, _MEDIA):
            return True
    return chars > _LONG_CHARS


def with_media_in_blobs(body: _BodyT, put: PutBlob) -> _BodyT:
    """Return the entry with its images and audio in blobs; the same object if none was inline."""
    content = _content_of(body)
    if isinstance(content, str) or not any(map(_is_inline_media, content)):
        return body
    return _with_content(
        body, tuple(_media_in_blob(part, put) if isinstance(part, Media) else part for part in content)
    )


def _is_inline_media(part: AnyPart) -> bool:
    return isinstance(part, _MEDIA) and part.data is not None


def _media_in_blob(part: Media, put: PutBlob) -> AnyPart:
    if part.data is None or part.blob is not None:
        return msgspec.structs.replace(part, data=None)
    content = decode_base64(part.data)
    if content is None:
        # Not valid base64, so there are no bytes to store.
        return part
    return msgspec.structs.replace(part, blob=put(content, part.mime_type), data=None)


def read_blob(blobs: Blobs, ref: BlobRef, entry_id: str) -> bytes:
    """Return the bytes of a blob; the error for one that is missing or damaged names the entry that refers to it."""
    try:
        return blobs.get(ref)
    except (NotFound, Damaged) as error:
        raise type(error)(f"{error.message}; entry {entry_id} refers to it", hint=error.hint) from None


def messages_with_media(context: Context, blobs: Blobs) -> tuple[ContextMessage, ...]:
    """Return the messages of a context with images and audio inline: a provider has no access to blobs."""
    return tuple(
        _message_with_media(message, blobs, entry_id)
        for message, entry_id in zip(context.messages, context.entry_ids, strict=True)
    )


def _message_with_media(message: ContextMessage, blobs: Blobs, entry_id: str) -> ContextMessage:
    if not any(isinstance(part, Media) and part.blob is not None for part in message.content):
        return message
    content = tuple(_with_inline_data(part, blobs, entry_id) for part in message.content)
    return msgspec.structs.replace(message, content=content)


def with_inline_media(body: _BodyT, blobs: Blobs) -> _BodyT:
    """Return the entry with its images and audio inline, for formats without blobs; the same object if it has none."""
    content = _content_of(body)
    if isinstance(content, str) or not any(isinstance(part, Media) and part.blob is not None for part in content):
        return body
    return _with_content(body, tuple(_with_inline_data(part, blobs, body.id) for part in content))


def _with_inline_data(part: AnyPart, blobs: Blobs, entry_id: str) -> AnyPart:
    if not isinstance(part, Media) or part.blob is None:
        return part
    data = base64.b64encode(read_blob(blobs, part.blob, entry_id)).decode()
    return msgspec.structs.replace(part, mime_type=part.mime_type or part.blob.media_type, blob=None, data=data)


def decode_base64(data: str) -> bytes | None:
    """Return the bytes of a base64 text; None if it is not valid."""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def is_interrupted_output(body: KnownBody) -> bool:
    """Return whether an entry holds the output of an interrupted tool."""
    return type(body) is Partial and body.tool_call_id is not None


def with_clipped_output(body: _BodyT, limit_bytes: int, put: PutBlob | DiscardBlob) -> _BodyT:
    """Return the entry with its texts clipped to the limit for tool results; the full text of each is in its blob."""
    limit = max(limit_bytes, CLIP_MIN_BYTES)
    parts = _parts(body)
    if not any(_is_longer(part, limit) for part in parts):
        return body
    return _with_content(body, tuple(_clipped(part, limit, put) if _is_longer(part, limit) else part for part in parts))


def with_long_texts_in_blobs(body: _BodyT, put: PutBlob | DiscardBlob, fits: Callable[[KnownBody], bool]) -> _BodyT:
    """Return the entry with its longest texts clipped until it fits a line or none is left to clip."""
    while not fits(body) and (long := [part for part in _parts(body) if _is_longer(part, TEXT_KEPT_BYTES)]):
        longest = max(long, key=_chars_of_part)
        clipped = _clipped(longest, TEXT_KEPT_BYTES, put)
        body = _with_content(body, tuple(clipped if part == longest else part for part in _parts(body)))
    return body


def _chars_of_part(part: AnyPart) -> int:
    return len(part.text) if isinstance(part, Text) else 0


def _is_longer(part: AnyPart, limit_bytes: int) -> bool:
    return isinstance(part, Text) and part.blob is None and len(part.text.encode()) > limit_bytes


def _clipped(part: AnyPart, limit_bytes: int, put: PutBlob | DiscardBlob) -> Text:
    assert isinstance(part, Text)
    return Text(text=clip(part.text, limit_bytes)[0], blob=put(part.text.encode(), "text/plain"))


# ── content of entries ───────────────────────────────────────────────────────────────────────────


def _content_of(body: KnownBody) -> Content:
    """Return the content of an entry; empty for types without content."""
    match body:
        case Message() | Queued():
            return body.message.content if body.message is not None else ()
        case Custom() | Cancelled() | Partial():
            return body.content
        case AttentionResolved():
            return body.result or ()
    return ()


def _parts(body: KnownBody) -> tuple[AnyPart, ...]:
    content = _content_of(body)
    return (Text(text=content),) if isinstance(content, str) else tuple(content)


def _with_content(body: _BodyT, content: Content) -> _BodyT:
    match body:
        case Message() | Queued():
            message = body.message
            return msgspec.structs.replace(body, message=message and msgspec.structs.replace(message, content=content))
        case AttentionResolved():
            return msgspec.structs.replace(body, result=content)
    return msgspec.structs.replace(body, content=content)

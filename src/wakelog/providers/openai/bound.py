"""Data bound to a part, which is needed to send the part back unchanged; written by reply parsers, read for requests.

It comes from a log, which is untrusted: data of another shape is ignored, and its part is sent without it.
"""

from typing import Annotated, Literal

import msgspec

from wakelog.log.content import AnyPart, JsonObject, Text, Thinking, ToolCall

_Size = Annotated[int, msgspec.Meta(ge=0)]


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """All data that a part may need; most parts need little of it."""

    id: str | None = None
    """Id of the item."""
    after: str | None = None
    """Id of the reasoning that the item follows; without that reasoning the item is refused."""
    phase: str | None = None
    refusal: bool = False
    annotations: list[JsonObject] = []
    summary: list[_Size] = []
    """Length of each part of a summary; they are displayed as one text."""
    content: list[_Size] = []
    """The same for unencrypted reasoning."""
    spaced: bool = False
    """Whether the input of a call was written with spaces."""
    field: Literal["reasoning", "reasoning_content"] = "reasoning_content"
    """The field in which a Chat Completions server sent its reasoning."""


def bound_of(part: AnyPart) -> Bound:
    """Return the data bound to a part; empty if there is none or it is invalid."""
    kept = part.bound if isinstance(part, Text | Thinking | ToolCall) else None
    try:
        return msgspec.convert(kept or {}, Bound)
    except msgspec.ValidationError:
        return Bound()


def kept(bound: Bound) -> JsonObject | None:
    """Return bound data as JSON for the log; None if there is nothing to keep."""
    plain: JsonObject = msgspec.to_builtins(bound)
    return plain or None

"""What is kept with a part so that it can go back as it came: written by the readers, read by the writers of requests.

It comes out of a log, and what is stored may have been written by anybody: whatever has not this shape is as if it were
not there, and its part goes out plainly.
"""

from typing import Annotated, Literal

import msgspec

from wakelog.log.content import AnyPart, JsonObject, Text, Thinking, ToolCall

_Size = Annotated[int, msgspec.Meta(ge=0)]


class Bound(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that any part may need; most need little of it."""

    id: str | None = None
    """The item's."""
    after: str | None = None
    """The reasoning that the item came behind, without which it is refused."""
    phase: str | None = None
    refusal: bool = False
    annotations: list[JsonObject] = []
    summary: list[_Size] = []
    """How long each part of a summary is: people read them as one text."""
    content: list[_Size] = []
    """The same of reasoning in the open."""
    spaced: bool = False
    """Whether the input of a call was spelled with blanks."""
    field: Literal["reasoning", "reasoning_content"] = "reasoning_content"
    """Where a server of chats put its reasoning."""


def bound_of(part: AnyPart) -> Bound:
    """What was kept with a part."""
    kept = part.bound if isinstance(part, Text | Thinking | ToolCall) else None
    try:
        return msgspec.convert(kept or {}, Bound)
    except msgspec.ValidationError:
        return Bound()


def kept(bound: Bound) -> JsonObject | None:
    """The same as it stands in a log: nothing, where there is nothing to keep."""
    plain: JsonObject = msgspec.to_builtins(bound)
    return plain or None

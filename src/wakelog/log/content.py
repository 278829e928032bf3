"""What is said: content parts, messages and usage, as values without identity.

These types know nothing of ids, parents, time or storage: an entry wraps them (`entry.py`). They
mirror the JSON one to one (camelCase there, snake_case here), are frozen, and skip keys they do
not know; the bytes they were read from stay with the entry, so nothing is lost by skipping.
"""

from typing import Any, Literal, TypeAlias

import msgspec

JsonObject: TypeAlias = dict[str, Any]
Settlement = Literal["ok", "error", "interrupted", "skipped", "denied", "unknown"]


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The shape every JSON value of the format shares."""


class BlobRef(Value, frozen=True, kw_only=True):
    """Bytes kept outside the log, named by their digest (`sha256:…`)."""

    digest: str
    bytes: int
    media_type: str = ""


class Part(Value, frozen=True, kw_only=True, tag_field="type"):
    """One piece of a message.

    Where a part has `bound`, that is what only the provider that made it understands: it goes back there as it came,
    and nowhere else.
    """


class Text(Part, frozen=True, kw_only=True, tag="text"):
    """Plain words. A text too long for a line is clipped here, and `blob` holds the whole of it."""

    text: str
    bound: JsonObject | None = None
    blob: BlobRef | None = None


class Thinking(Part, frozen=True, kw_only=True, tag="thinking"):
    """A model's reasoning. `signature` must go back to the provider byte for byte."""

    thinking: str = ""
    signature: str | None = None
    bound: JsonObject | None = None


class Image(Part, frozen=True, kw_only=True, tag="image"):
    """A picture: a blob in logs we write, inline base64 in some that others wrote."""

    mime_type: str = ""
    blob: BlobRef | None = None
    data: str | None = None


class Audio(Part, frozen=True, kw_only=True, tag="audio"):
    """A recording, kept as an image is."""

    mime_type: str = ""
    blob: BlobRef | None = None
    data: str | None = None


class ToolCall(Part, frozen=True, kw_only=True, tag="toolCall"):
    """The model asks for a tool. `id` is unique only within its reply."""

    id: str
    name: str
    input: Any = None
    bound: JsonObject | None = None


class UnknownPart(Part, frozen=True, kw_only=True, tag="unknown"):
    """A part of a type this version does not know, kept as plain JSON."""

    part: Any = None


Media: TypeAlias = Image | Audio
AnyPart: TypeAlias = Text | Thinking | Image | Audio | ToolCall | UnknownPart
# Hand-written and foreign lines may hold a bare string where we write a list of parts.
Content: TypeAlias = str | tuple[AnyPart, ...]


class Usage(Value, frozen=True, kw_only=True):
    """What one model call consumed. `cost_micros` is in millionths of a dollar; None: price unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_micros: int | None = None

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_micros is not None and other.cost_micros is not None
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_micros=(self.cost_micros or 0) + (other.cost_micros or 0) if known else None,
        )


class Said(Value, frozen=True, kw_only=True, tag_field="role"):
    """What one side said in one message."""

    content: Content = ()

    @property
    def parts(self) -> tuple[AnyPart, ...]:
        """The content as parts, also where a bare string was stored."""
        return (Text(text=self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The words alone, thinking and tool calls left out."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class Prompt(Said, frozen=True, kw_only=True, tag="user"):
    """What a person, or the program in their place, said. `queued_id` names the entry it was taken up from."""

    channel: str | None = None
    queued_id: str | None = None


class Reply(Said, frozen=True, kw_only=True, tag="assistant"):
    """What the model answered. One written by hand or imported has no `call_id`."""

    call_id: str | None = None
    model: str | None = None
    provider: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    request_id: str | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools this reply asks for, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


class ToolResult(Said, frozen=True, kw_only=True, tag="toolResult"):
    """How one tool call ended. (reply_id, tool_call_id) is the call; provider ids alone may repeat."""

    tool_call_id: str
    tool_name: str = ""
    reply_id: str | None = None
    status: Settlement | None = None
    is_error: bool = False
    duration_ms: int | None = None
    truncated: bool = False
    blob: BlobRef | None = None
    copied_from: str | None = None

    @property
    def settled(self) -> Settlement:
        """The settlement word, derived for foreign lines that only say `isError`."""
        return self.status or ("error" if self.is_error else "ok")


class Note(Said, frozen=True, kw_only=True, tag="custom"):
    """A message of an extension's own making; the model sees it as the user's."""

    custom_type: str = ""


AnyMessage: TypeAlias = Prompt | Reply | ToolResult | Note

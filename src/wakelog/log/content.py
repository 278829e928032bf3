"""Content parts, messages, usage, and the deltas of a streamed reply: the values inside entries and journals.

These types have no ids, parents, times or storage; an entry wraps them (`entry.py`). They mirror the JSON one to one
(camelCase there, snake_case here), are frozen, and skip unknown keys. Skipping loses nothing, because the entry keeps
its bytes. Each delta is also stored as one JSON line in the journal of the reply in progress, so that displayed text
can be recovered after a crash.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from wakelog.decoding import decoder_of

JsonObject: TypeAlias = dict[str, Any]
ToolStatus = Literal["ok", "error", "interrupted", "skipped", "denied", "unknown"]


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base class of all JSON values of the format."""


class BlobRef(Value, frozen=True, kw_only=True):
    """Reference to bytes stored outside the log, by digest (`sha256:…`)."""

    digest: str
    bytes: int
    media_type: str = ""


class Part(Value, frozen=True, kw_only=True, tag_field="type"):
    """One part of a message.

    `bound`, where a part has it, is data that only the provider that made it understands. It is sent back to that
    provider unchanged, and to no other.
    """


class Text(Part, frozen=True, kw_only=True, tag="text"):
    """Plain text. A text too long for a line is clipped, and `blob` holds all of it."""

    text: str
    bound: JsonObject | None = None
    blob: BlobRef | None = None


class Thinking(Part, frozen=True, kw_only=True, tag="thinking"):
    """Reasoning of a model. `signature` must be sent back to the provider byte for byte."""

    thinking: str = ""
    signature: str | None = None
    bound: JsonObject | None = None


class Image(Part, frozen=True, kw_only=True, tag="image"):
    """An image: a blob in logs written by wakelog, inline base64 in some foreign logs."""

    mime_type: str = ""
    blob: BlobRef | None = None
    data: str | None = None


class Audio(Part, frozen=True, kw_only=True, tag="audio"):
    """A recording, stored like an image."""

    mime_type: str = ""
    blob: BlobRef | None = None
    data: str | None = None


class ToolCall(Part, frozen=True, kw_only=True, tag="toolCall"):
    """A tool call in a reply. `id` is unique only within that reply.

    `redacted` says that a secret in the input was replaced by a mark. A mark without it was written by the model.
    """

    id: str
    name: str
    input: Any = None
    bound: JsonObject | None = None
    redacted: bool = False


class UnknownPart(Part, frozen=True, kw_only=True, tag="unknown"):
    """A part of a type this version does not know, kept as plain JSON."""

    part: Any = None


Media: TypeAlias = Image | Audio
AnyPart: TypeAlias = Text | Thinking | Image | Audio | ToolCall | UnknownPart
# Hand-written and foreign lines may have a bare string instead of a list of parts.
Content: TypeAlias = str | tuple[AnyPart, ...]


class Usage(Value, frozen=True, kw_only=True):
    """Tokens and cost of one model call. `cost_micros` is in millionths of a dollar; None if the price is unknown."""

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


class BaseMessage(Value, frozen=True, kw_only=True, tag_field="role"):
    """Base class of messages."""

    content: Content = ()

    @property
    def parts(self) -> tuple[AnyPart, ...]:
        """The content as parts, also where a bare string is stored."""
        return (Text(text=self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text alone, without thinking and tool calls."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


class Prompt(BaseMessage, frozen=True, kw_only=True, tag="user"):
    """A message from a person or from a program in that role. `queued_id` is the queued entry it was taken from."""

    channel: str | None = None
    queued_id: str | None = None


class Reply(BaseMessage, frozen=True, kw_only=True, tag="assistant"):
    """A message from the model. One written by hand or imported has no `call_id`."""

    call_id: str | None = None
    model: str | None = None
    provider: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    request_id: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of this reply, in order."""
        return tuple([part for part in self.parts if type(part) is ToolCall])


class ToolResult(BaseMessage, frozen=True, kw_only=True, tag="toolResult"):
    """Result of one tool call, identified by (reply_id, tool_call_id); provider ids alone may repeat."""

    tool_call_id: str
    tool_name: str = ""
    reply_id: str | None = None
    status: ToolStatus | None = None
    is_error: bool = False
    duration_ms: int | None = None
    truncated: bool = False
    blob: BlobRef | None = None
    copied_from: str | None = None

    @property
    def effective_status(self) -> ToolStatus:
        """The status; derived from `isError` for foreign lines without one."""
        return self.status or ("error" if self.is_error else "ok")


class Note(BaseMessage, frozen=True, kw_only=True, tag="custom"):
    """A message of an extension; sent to the model as a user message."""

    custom_type: str = ""


AnyMessage: TypeAlias = Prompt | Reply | ToolResult | Note


class TextDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """A piece of text. Data bound to the provider arrives with the last piece of a part."""

    text: str
    bound: JsonObject | None = None


class ThinkingDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="thinking"):
    """A piece of reasoning. The signature and other data bound to the provider arrive with the last piece.

    `summary` means that the text is the provider's summary of reasoning that it does not expose.
    """

    thinking: str = ""
    signature: str | None = None
    bound: JsonObject | None = None
    summary: bool = False


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="call"):
    """A complete tool call. `redacted` says that a secret in the input was replaced by a mark."""

    id: str
    name: str
    input: Any = None
    bound: JsonObject | None = None
    redacted: bool = False


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The end of a reply."""

    stop_reason: str = "stop"
    usage: Usage | None = None
    request_id: str | None = None


class Faulted(msgspec.Struct, frozen=True, tag="faulted"):
    """The reply failed: a failure outside wakelog, as a value."""

    kind: str
    message: str
    retryable: bool = False
    delay_ms: int | None = None


Delta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta | Finished | Faulted
ContentDelta: TypeAlias = TextDelta | ThinkingDelta | ToolCallDelta


def encode_delta(delta: ContentDelta) -> bytes:
    """Return a delta as a line of a journal."""
    return msgspec.json.encode(delta)


def decode_delta(piece: bytes) -> ContentDelta | None:
    """Return the delta of a journal line; None if the line is not one."""
    try:
        delta: ContentDelta = decoder_of(ContentDelta).decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return delta

"""Deltas: the pieces of a streamed reply, as values.

Each delta is also stored as one JSON line in the journal of the reply in progress, so that displayed text can be
recovered after a crash.
"""

from typing import Any, TypeAlias

import msgspec

from wakelog.log.content import JsonObject, Usage


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


class CallDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="call"):
    """A complete tool call."""

    id: str
    name: str
    input: Any = None
    bound: JsonObject | None = None


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


Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Finished | Faulted
Spoken: TypeAlias = TextDelta | ThinkingDelta | CallDelta


def piece_of(delta: Spoken) -> bytes:
    """Return a delta as a line of a journal."""
    return msgspec.json.encode(delta)


def delta_of(piece: bytes) -> Spoken | None:
    """Return the delta of a journal line; None if the line is not one."""
    try:
        delta: Spoken = msgspec.json.decode(piece, type=Spoken)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return delta

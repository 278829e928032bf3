"""What a model says while it says it: the pieces of a reply, as values.

A piece also stands in the journal of the reply under way, as one line of JSON, so that what was shown
can be told again by whoever comes next.
"""

from typing import Any, TypeAlias

import msgspec

from wakelog.log.content import JsonObject, Usage


class TextDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="text"):
    """A piece of the answer. What is bound to its provider comes with the last one of a part."""

    text: str
    bound: JsonObject | None = None


class ThinkingDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="thinking"):
    """A piece of reasoning; the signature, and what else is bound to its provider, comes with the last one.

    `summary` says that the provider made the text of this piece out of reasoning that it does not show.
    """

    thinking: str = ""
    signature: str | None = None
    bound: JsonObject | None = None
    summary: bool = False


class CallDelta(msgspec.Struct, frozen=True, omit_defaults=True, tag="call"):
    """A tool call, whole."""

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
    """The reply did not come: a failure of the outside world, as a value."""

    kind: str
    message: str
    retryable: bool = False
    delay_ms: int | None = None


Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta | Finished | Faulted
Spoken: TypeAlias = TextDelta | ThinkingDelta | CallDelta


def piece_of(delta: Spoken) -> bytes:
    """A delta as a line of a journal."""
    return msgspec.json.encode(delta)


def delta_of(piece: bytes) -> Spoken | None:
    """The delta of a journal's line; None for a line that is none."""
    try:
        delta: Spoken = msgspec.json.decode(piece, type=Spoken)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return delta

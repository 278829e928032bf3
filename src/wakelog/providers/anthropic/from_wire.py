"""Parser for the events of the Messages API: a fold from events to deltas, without a socket.

Text is passed on as it arrives; a call only when its input is complete and valid JSON; reasoning ends with its
signature. Events of unknown types are ignored; an event of a known type with the wrong shape is a `ValueError`, and
ends the reply. Token counts are totals: the last one is used.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from wakelog.log.content import JsonObject, Usage
from wakelog.log.deltas import CallDelta, Delta, Faulted, Finished, Spoken, TextDelta, ThinkingDelta
from wakelog.providers.anthropic.faults import broken_off
from wakelog.providers.faults import fault
from wakelog.providers.inputs import input_of
from wakelog.providers.sse import decoded

_KNOWN = (
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
)
_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
}
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}


class Incoming:
    """Parser of one reply."""

    def __init__(self) -> None:
        self.request_id: str | None = None
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._stop: str | None = None
        self._half_a_call = False

    def read(self, event: bytes) -> Iterator[Delta]:
        """Yield the deltas of an event, possibly the end; `ValueError` for a malformed event."""
        told: Any = decoded(event, object)
        match told:
            case {"type": "message_start", "message": dict(message)}:
                self._count(message.get("usage"))
            case {"type": "content_block_start", "index": int(at), "content_block": {"type": str()} as opening}:
                self._blocks[at] = _BLOCKS.get(opening["type"], _Block)()
                yield from self._blocks[at].begin(opening)
            case {"type": "content_block_delta", "index": int(at), "delta": {"type": str()} as piece}:
                yield from self._block(at).go_on(piece)
            case {"type": "content_block_stop", "index": int(at)}:
                yield from self._ended(at)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._stop = _text(delta.get("stop_reason") or "") or self._stop
                self._count(told.get("usage"))
            case {"type": "message_stop"}:
                yield self._finished()
            case {"type": "error"}:
                yield broken_off(told.get("error"))
            case {"type": str(other)} if other not in _KNOWN:
                pass
            case _:
                raise ValueError("an event of no known shape")

    def end(self, why: str) -> Iterator[Delta]:
        """Yield the end, after the last event. A reply that lacks only its final event is complete."""
        yield self._finished() if self._stop is not None and not self._blocks else fault(why)

    def _block(self, at: int) -> "_Block":
        if at not in self._blocks:
            raise ValueError("a piece of nothing")
        return self._blocks[at]

    def _ended(self, at: int) -> list[Spoken]:
        block = self._block(at)
        del self._blocks[at]
        said = block.end()
        self._half_a_call |= isinstance(block, _Call) and not said
        return said

    def _count(self, usage: Any) -> None:
        counts = usage if isinstance(usage, Mapping) else {}
        for theirs, ours in _COUNTS.items():
            count = counts.get(theirs)
            if isinstance(count, int) and count >= 0:
                self._counts[ours] = count

    def _finished(self) -> Finished | Faulted:
        stop = _STOPS.get(self._stop or "end_turn", str(self._stop))
        half = self._half_a_call or any(isinstance(block, _Call) for block in self._blocks.values())
        if half and stop in ("stop", "tools"):
            # A reply that was cut at a limit may end in an incomplete call; one that ended by itself may not.
            return fault("malformed")
        usage = Usage(**self._counts) if self._counts else None
        return Finished(stop, usage=usage, request_id=self.request_id)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


class _Block:
    """A content block being received. This base class is for unknown types, and returns no deltas."""

    def begin(self, opening: JsonObject) -> list[Spoken]:  # noqa: ARG002 - subclasses use it
        """Return the deltas of its opening event; `ValueError` if that is malformed, here and below."""
        return []

    def go_on(self, piece: JsonObject) -> list[Spoken]:  # noqa: ARG002 - subclasses use it
        """Return the deltas of a piece of it."""
        return []

    def end(self) -> list[Spoken]:
        """Return the deltas of its end."""
        return []


class _Words(_Block):
    """Text, passed on as it arrives."""

    def begin(self, opening: JsonObject) -> list[Spoken]:
        return _words(opening.get("text", ""))

    def go_on(self, piece: JsonObject) -> list[Spoken]:
        return _words(piece.get("text")) if piece["type"] == "text_delta" else []


def _words(text: Any) -> list[Spoken]:
    return [TextDelta(_text(text))] if text != "" else []


def _text(value: Any) -> str:
    match value:
        case str():
            return value
    raise ValueError("a text that is none")


class _Thought(_Block):
    """Reasoning, and its signature; the text may be empty."""

    def __init__(self) -> None:
        self._signature = ""
        self._is_thought = False

    def begin(self, opening: JsonObject) -> list[Spoken]:
        self._signature = str(opening.get("signature") or "")
        return self._thinking(opening.get("thinking", ""))

    def go_on(self, piece: JsonObject) -> list[Spoken]:
        match piece:
            case {"type": "thinking_delta"}:
                return self._thinking(piece.get("thinking"))
            case {"type": "signature_delta"}:
                self._signature = _text(piece.get("signature"))
        return []

    def _thinking(self, text: Any) -> list[Spoken]:
        self._is_thought |= text != ""
        return [ThinkingDelta(_text(text))] if text != "" else []

    def end(self) -> list[Spoken]:
        if self._signature:
            return [ThinkingDelta(signature=self._signature)]
        # Without a signature it is never sent back; but it ends here, or the next signature would cover both.
        return [ThinkingDelta(bound={"type": "thinking"})] if self._is_thought else []


class _Redacted(_Block):
    """Encrypted reasoning. It arrives as a whole."""

    def begin(self, opening: JsonObject) -> list[Spoken]:
        return [ThinkingDelta(bound={"type": "redacted_thinking", "data": _text(opening.get("data"))})]


class _Call(_Block):
    """A tool call, whose input arrives as pieces of JSON text."""

    def __init__(self) -> None:
        self._id, self._name, self._input = "", "", None
        self._pieces: list[str] = []

    def begin(self, opening: JsonObject) -> list[Spoken]:
        self._id, self._name = _text(opening.get("id")), _text(opening.get("name"))
        self._input = opening.get("input")
        return []

    def go_on(self, piece: JsonObject) -> list[Spoken]:
        if piece["type"] == "input_json_delta":
            self._pieces.append(_text(piece.get("partial_json")))
        return []

    def end(self) -> list[Spoken]:
        """Return the call, if its input is valid JSON."""
        text = "".join(self._pieces)
        try:
            given = input_of(text) if text.strip() else self._input or {}
        except ValueError:
            return []
        return [CallDelta(self._id, self._name, given)]


_BLOCKS: Mapping[str, type[_Block]] = {
    "text": _Words,
    "thinking": _Thought,
    "redacted_thinking": _Redacted,
    "tool_use": _Call,
}

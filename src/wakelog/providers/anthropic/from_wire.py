"""From the events of the wire to deltas: a small fold, fed event by event, that knows nothing of sockets.

Words are passed on as they come; a call only when all of its input is there and is JSON; a thought ends with its
signature. What is of no type we know belongs to somebody else and is stepped over; what is of a known type but not of
its shape ends the reply as malformed. Counts of tokens are totals: the last one said is the one that holds.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.log.content import JsonObject, Usage
from wakelog.providers.anthropic.faults import fault, refusal
from wakelog.turn.deltas import CallDelta, Faulted, Finished, Spoken, TextDelta, ThinkingDelta

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
    """One reply on its way in. `end` is how it ended, once it has."""

    def __init__(self, request_id: str | None = None) -> None:
        self.end: Finished | Faulted | None = None
        self._request_id = request_id
        self._blocks: dict[int, _Block] = {}
        self._counts: dict[str, int] = {}
        self._stop: str | None = None
        self._is_begun = False
        self._half_a_call = False

    def take(self, raw: str | bytes) -> list[Spoken]:
        """What an event says. It is none of the words that are passed over: `end` may have come with it."""
        try:
            event = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            event = None
        said = self._understood(event)
        if said is None:
            self.end = fault("malformed")
        return said or []

    def over(self) -> Finished | Faulted:
        """How the reply ended, if no more comes. All of it may have been there, but for the last event."""
        if self._stop is not None and not self._blocks:
            return self._finished()
        return fault("cut" if self._is_begun else "malformed")

    def _understood(self, event: Any) -> list[Spoken] | None:
        """What an event says; None if it is not as it should be."""
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._is_begun = True
                self._count(message.get("usage"))
            case {"type": "content_block_start", "index": int(at), "content_block": {"type": str()} as opening}:
                self._blocks[at] = _BLOCKS.get(opening["type"], _Block)()
                return self._blocks[at].begin(opening)
            case {"type": "content_block_delta", "index": int(at), "delta": {"type": str()} as piece}:
                return self._blocks[at].go_on(piece) if at in self._blocks else None
            case {"type": "content_block_stop", "index": int(at)}:
                return self._ended(at)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._stop = delta.get("stop_reason") or self._stop
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self.end = self._finished()
            case {"type": "error"}:
                self.end = refusal(event.get("error"))
            case {"type": str(other)} if other not in _KNOWN:
                pass
            case _:
                return None
        return []

    def _ended(self, at: int) -> list[Spoken] | None:
        block = self._blocks.pop(at, None)
        said = block.end() if block else None
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
            # Where the model was stopped in the middle, half a call is what there is; here it meant to make one.
            return fault("malformed")
        usage = Usage(**self._counts) if self._counts else None
        return Finished(stop, usage=usage, request_id=self._request_id)


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────


class _Block:
    """A piece of a reply under way. This one is of a type that nobody here knows, and says nothing."""

    def begin(self, opening: JsonObject) -> list[Spoken] | None:  # noqa: ARG002 - others look at it
        """What is said as it opens; None if that is not as it should be, here and below."""
        return []

    def go_on(self, piece: JsonObject) -> list[Spoken] | None:  # noqa: ARG002 - others look at it
        """What a piece of it says."""
        return []

    def end(self) -> list[Spoken]:
        """What its end says."""
        return []


class _Words(_Block):
    """Text, passed on as it comes."""

    def begin(self, opening: JsonObject) -> list[Spoken] | None:
        return _words(opening.get("text", ""))

    def go_on(self, piece: JsonObject) -> list[Spoken] | None:
        return _words(piece.get("text")) if piece["type"] == "text_delta" else []


def _words(text: Any) -> list[Spoken] | None:
    if not isinstance(text, str):
        return None
    return [TextDelta(text)] if text else []


class _Thought(_Block):
    """Reasoning, and the signature that makes it worth keeping; the words may be empty."""

    def __init__(self) -> None:
        self._signature = ""
        self._is_thought = False

    def begin(self, opening: JsonObject) -> list[Spoken] | None:
        self._signature = str(opening.get("signature") or "")
        return self._thinking(opening.get("thinking", ""))

    def go_on(self, piece: JsonObject) -> list[Spoken] | None:
        match piece:
            case {"type": "thinking_delta"}:
                return self._thinking(piece.get("thinking"))
            case {"type": "signature_delta", "signature": str(signature)}:
                self._signature = signature
            case {"type": "signature_delta"}:
                return None
        return []

    def _thinking(self, text: Any) -> list[Spoken] | None:
        if not isinstance(text, str):
            return None
        self._is_thought |= bool(text)
        return [ThinkingDelta(text)] if text else []

    def end(self) -> list[Spoken]:
        if self._signature:
            return [ThinkingDelta(signature=self._signature)]
        # Without a signature it never goes back; but it ends here, or the next one would be signed for both.
        return [ThinkingDelta(bound={"type": "thinking"})] if self._is_thought else []


class _Redacted(_Block):
    """Reasoning that nobody here can read. It comes whole."""

    def begin(self, opening: JsonObject) -> list[Spoken] | None:
        sealed = opening.get("data")
        if not isinstance(sealed, str):
            return None
        return [ThinkingDelta(bound={"type": "redacted_thinking", "data": sealed})]


class _Call(_Block):
    """A tool call, whose input comes as pieces of JSON text."""

    def __init__(self) -> None:
        self._id, self._name, self._input = "", "", None
        self._pieces: list[str] = []

    def begin(self, opening: JsonObject) -> list[Spoken] | None:
        match opening:
            case {"id": str(call_id), "name": str(name)}:
                self._id, self._name, self._input = call_id, name, opening.get("input")
                return []
        return None

    def go_on(self, piece: JsonObject) -> list[Spoken] | None:
        match piece:
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._pieces.append(text)
            case {"type": "input_json_delta"}:
                return None
        return []

    def end(self) -> list[Spoken]:
        """The call, if its input is whole."""
        text = "".join(self._pieces)
        try:
            given = msgspec.json.decode(text) if text.strip() else self._input or {}
        except (msgspec.DecodeError, RecursionError):
            return []
        return [CallDelta(self._id, self._name, given)]


_BLOCKS: Mapping[str, type[_Block]] = {
    "text": _Words,
    "thinking": _Thought,
    "redacted_thinking": _Redacted,
    "tool_use": _Call,
}

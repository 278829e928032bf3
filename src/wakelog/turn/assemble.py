"""From deltas to a reply: however an answer was cut into pieces, the same words make the same parts.

Pieces of text that stand beside each other are one part, and so are pieces of one thought; what is bound to the
provider ends a part, and no other words are ever put behind it. The ids of tool calls are made unique within their
reply, because a call is found by them ever after.
"""

from collections.abc import Iterable

from wakelog.log.content import AnyPart, JsonObject, Text, Thinking, ToolCall
from wakelog.turn.deltas import CallDelta, Spoken, TextDelta, ThinkingDelta, delta_of


class Draft:
    """A reply under way."""

    def __init__(self, prior: str = "") -> None:
        self._parts: list[AnyPart] = []
        self._words: list[str] = [prior] if prior else []
        self._thoughts: list[str] = []
        self.chars = len(prior)

    def take(self, delta: Spoken) -> None:
        """Takes in the next piece."""
        match delta:
            case TextDelta("", bound) if bound is None or self._thoughts:
                # Nothing was said, so nothing is ended or bound by it: a thought goes on behind it.
                pass
            case ThinkingDelta("", None, None):
                pass
            case TextDelta(text, bound):
                self._end_thought()
                self._words.append(text)
                self.chars += len(text)
                if bound is not None:
                    self._end_words(bound)
            case ThinkingDelta(thinking, signature, bound):
                self._end_words()
                self._thoughts.append(thinking)
                if signature is not None or bound is not None:
                    self._end_thought(signature, bound)
            case CallDelta(wanted, name, given, bound):
                self._end_words()
                self._end_thought()
                self._parts.append(ToolCall(id=self._free_id(wanted), name=name, input=given, bound=bound))

    @property
    def content(self) -> tuple[AnyPart, ...]:
        """What has been said so far, as parts. To look at it ends nothing."""
        parts = list(self._parts)
        _add_words(parts, "".join(self._words))
        _add_thought(parts, "".join(self._thoughts))
        return tuple(parts)

    def _end_words(self, bound: JsonObject | None = None) -> None:
        _add_words(self._parts, "".join(self._words), bound)
        self._words = []

    def _end_thought(self, signature: str | None = None, bound: JsonObject | None = None) -> None:
        _add_thought(self._parts, "".join(self._thoughts), signature, bound)
        self._thoughts = []

    def _free_id(self, wanted: str) -> str:
        taken = {part.id for part in self._parts if isinstance(part, ToolCall)}
        number, free = 1, wanted or "call"
        while free in taken:
            number += 1
            free = f"{wanted or 'call'}.{number}"
        return free


def _add_words(parts: list[AnyPart], text: str, bound: JsonObject | None = None) -> None:
    before = parts[-1] if parts else None
    if isinstance(before, Text) and before.bound is None:
        # Nothing but an empty piece of something else stood in between.
        parts[-1] = Text(text=before.text + text, bound=bound)
    elif text:
        parts.append(Text(text=text, bound=bound))


def _add_thought(
    parts: list[AnyPart], thinking: str, signature: str | None = None, bound: JsonObject | None = None
) -> None:
    if thinking or signature is not None or bound is not None:
        parts.append(Thinking(thinking=thinking, signature=signature, bound=bound))


def assemble(deltas: Iterable[Spoken], prior: str = "") -> tuple[AnyPart, ...]:
    """The parts that these pieces make, behind what was said before."""
    draft = Draft(prior)
    for delta in deltas:
        draft.take(delta)
    return draft.content


def from_journal(pieces: Iterable[bytes], prior: str = "") -> tuple[AnyPart, ...]:
    """The parts that a journal makes; a line of it that is no piece was written by nobody."""
    return assemble((delta for delta in map(delta_of, pieces) if delta is not None), prior)


def taken_apart(parts: Iterable[AnyPart]) -> list[Spoken]:
    """Pieces that make these parts again: what a replayed reply is told from."""
    pieces: list[Spoken] = []
    for part in parts:
        match part:
            case Text():
                pieces.append(TextDelta(part.text, part.bound))
            case Thinking():
                pieces.append(ThinkingDelta(part.thinking, part.signature, part.bound))
            case ToolCall():
                pieces.append(CallDelta(part.id, part.name, part.input, part.bound))
    return pieces

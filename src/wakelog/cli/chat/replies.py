"""Assemble one reply for display: deltas in, blocks and thoughts out. Pure.

The result is the same however the reply was cut, and whether it was streamed or is read whole. What was taken from
deltas is counted, so that the whole reply adds only what is missing.
"""

from collections.abc import Iterable

from wakelog.cli.chat.blocks import Splitter
from wakelog.cli.chat.shown import Block, Shown, Thought
from wakelog.decide.assemble import taken_apart
from wakelog.log.content import AnyPart
from wakelog.log.deltas import Spoken, TextDelta, ThinkingDelta


class Answer:
    """A reply that is not finished."""

    def __init__(self) -> None:
        self._words = Splitter()
        self._thoughts: list[str] = []
        # Characters of text and thinking, and number of tool calls, taken so far.
        self._seen = {"text": 0, "thinking": 0, "call": 0}

    @property
    def begun(self) -> bool:
        """Return whether anything has arrived."""
        return any(self._seen.values())

    @property
    def thinking(self) -> str:
        """Return the end of the current thought."""
        self._thoughts = ["".join(self._thoughts)] if self._thoughts else []
        return self._thoughts[0][-1_000:] if self._thoughts else ""

    def rest(self, most: int) -> list[str]:
        """Return the last lines of the unfinished block."""
        return self._words.rest(most)

    def take(self, delta: Spoken) -> list[Shown]:
        """Take the next delta."""
        match delta:
            case TextDelta(text=text):
                self._seen["text"] += len(text)
                return [*self._end_thought(), *self._say(text)] if text else []
            case ThinkingDelta(thinking=thinking):
                self._seen["thinking"] += len(thinking)
                ended = self._end_words() if thinking else []
                self._thoughts += [thinking] if thinking else []
                return ended
        self._seen["call"] += 1
        return self.finish()

    def catch_up(self, parts: Iterable[AnyPart]) -> list[Shown]:
        """Take what is new in these parts compared with the deltas taken before."""
        left = dict(self._seen)
        return [shown for delta in taken_apart(parts) if (fresh := _unseen(delta, left)) for shown in self.take(fresh)]

    def go_on(self) -> None:
        """Continue an interrupted reply: its text goes on; thinking and tool calls begin again."""
        self._thoughts = []
        self._seen |= {"thinking": 0, "call": 0}

    def finish(self) -> list[Shown]:
        """End the unfinished block and thought."""
        return [*self._end_words(), *self._end_thought()]

    def _say(self, text: str) -> list[Shown]:
        return [Block(block) for block in self._words.feed(text)]

    def _end_words(self) -> list[Shown]:
        return [Block(block) for block in self._words.finish()]

    def _end_thought(self) -> list[Shown]:
        text = "".join(self._thoughts)
        self._thoughts = []
        return [Thought(text)] if text.strip() else []


def _unseen(delta: Spoken, left: dict[str, int]) -> Spoken | None:
    """Return the part of a delta that was not taken before; None if there is none."""
    match delta:
        case TextDelta(text=text):
            known = min(len(text), left["text"])
            left["text"] -= known
            return TextDelta(text[known:]) if text[known:] else None
        case ThinkingDelta(thinking=thinking):
            known = min(len(thinking), left["thinking"])
            left["thinking"] -= known
            return ThinkingDelta(thinking[known:]) if thinking[known:] else None
    left["call"] -= 1
    return delta if left["call"] < 0 else None

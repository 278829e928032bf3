"""One reply under way: pieces in, blocks and thoughts out. Pure.

However a reply was cut, and whether its pieces were seen as they came or it is read whole afterwards, the same is
shown. What came before as pieces is counted, so that the whole reply adds only what was not seen.
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
        # How many characters of text and of thought, and how many calls, have been taken in.
        self._seen = {"text": 0, "thinking": 0, "call": 0}

    @property
    def begun(self) -> bool:
        """Whether anything has come yet."""
        return any(self._seen.values())

    @property
    def thinking(self) -> str:
        """The end of the thought under way."""
        self._thoughts = ["".join(self._thoughts)] if self._thoughts else []
        return self._thoughts[0][-1_000:] if self._thoughts else ""

    def rest(self, most: int) -> list[str]:
        """The last lines of the block under way."""
        return self._words.rest(most)

    def take(self, delta: Spoken) -> list[Shown]:
        """Takes in the next piece."""
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
        """Takes in as much of these parts as has not been seen as pieces."""
        left = dict(self._seen)
        return [shown for delta in taken_apart(parts) if (fresh := _unseen(delta, left)) for shown in self.take(fresh)]

    def go_on(self) -> None:
        """The text goes on where it was; what was thought and called for is begun again."""
        self._thoughts = []
        self._seen |= {"thinking": 0, "call": 0}

    def finish(self) -> list[Shown]:
        """What is under way is over."""
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
    """The part of a piece that lies behind what was seen of its kind."""
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

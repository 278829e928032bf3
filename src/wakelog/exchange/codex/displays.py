"""Events of Codex that display the text of an item, which is written before or after the event."""

import msgspec

from wakelog.exchange.codex.identities import digest_of_text
from wakelog.exchange.codex.items import displayed_texts
from wakelog.exchange.codex.lines import Line
from wakelog.log.content import JsonObject


class ShownLine(msgspec.Struct, frozen=True):
    """A display event whose item has not come yet, and the number of the line among all lines."""

    line: Line
    timestamp: str
    number: int


class Displays:
    """The texts of the items since the last prompt, and the events whose item has not come."""

    def __init__(self) -> None:
        self._displayed: set[bytes] = set()
        self._waiting: dict[bytes, list[ShownLine]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def first_offset(self) -> int | None:
        """Where the first event that waits is in its file; None if none waits."""
        first = next(iter(self._waiting.values()), None)
        return None if first is None else first[0].line.offset

    def is_displayed(self, text: str) -> bool:
        """Return whether an item has this text."""
        return digest_of_text(text) in self._displayed

    def wait(self, text: str, shown: ShownLine) -> None:
        """Keep an event until an item with its text comes."""
        self._waiting.setdefault(digest_of_text(text), []).append(shown)

    def note_item(self, item: JsonObject, *, is_prompt: bool) -> list[ShownLine]:
        """Take note of the texts of an item; return the events that display them. A prompt begins anew."""
        digests = {digest_of_text(text) for text in displayed_texts(item)}
        if is_prompt:
            self._displayed = digests
        else:
            self._displayed |= digests
        return [shown for digest in digests for shown in self._waiting.pop(digest, ())]

    def take_all(self) -> list[ShownLine]:
        """Return the events that wait, in order; none waits afterwards."""
        waiting = sorted((shown for each in self._waiting.values() for shown in each), key=lambda shown: shown.number)
        self._waiting = {}
        return waiting

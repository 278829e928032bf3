"""Secrets stay out (law 14): what has the shape of one is replaced by a mark before anything is written or shown.

The mark names the kind and holds nothing of the secret; a mark is never taken for a secret, so redacting twice is
redacting once. However a text is cut into pieces, they come out as the whole would: a place is decided when nothing
that may follow can change it, and only from the first undecided place on a text is held back, never more than
`REACH` signs. Of a secret that is known for one nothing is held: what else belongs to it is dropped as it comes.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from wakelog.turn.searching import LONGEST_START, Place, beginnings, starts, unfinished
from wakelog.turn.secrets import REACH, SHAPES
from wakelog.turn.shapes import LOOK_BEHIND, Shape

# How much of what has been decided the next place still looks at.
_MEMORY = LOOK_BEHIND + LONGEST_START
# Names, words of ours and times are shorter than any secret, and most strings of an entry are one of these.
_SHORTEST = min(shape.least for shape in SHAPES)


class Redacted(msgspec.Struct, frozen=True):
    """A text without its secrets, and the words of those that were in it."""

    text: str
    hits: tuple[str, ...] = ()


class Redactor:
    """Redacts a text that comes in pieces."""

    def __init__(self) -> None:
        # What was decided last, then what is held back: `_at` is where the latter begins.
        self._seen = ""
        self._at = 0
        self._within: Shape | None = None
        self.hits: list[str] = []

    @property
    def held(self) -> str:
        """What has been fed and is neither given nor dropped yet."""
        return self._seen[self._at :]

    def feed(self, piece: str) -> str:
        """Takes in the next piece; gives what is decided by it."""
        self._seen += piece
        return self._pass_on(final=False)

    def end(self, piece: str = "") -> str:
        """Takes in the last piece, if there is one more, and gives the rest."""
        self._seen += piece
        return self._pass_on(final=True)

    def _pass_on(self, *, final: bool) -> str:
        given: list[str] = []
        places = beginnings(self._seen, self._at)
        while self._leave(final=final):
            stop = len(self._seen) if final else _first_open(self._seen, self._at)
            hit = _first_hit(self._seen, self._at, stop, places)
            if hit is None:
                given.append(self._seen[self._at : stop])
                self._at = stop
                break
            self._enter(hit, given)
        self._forget()
        return "".join(given)

    def _enter(self, hit: "_Hit", given: list[str]) -> None:
        kept = redact(self._seen[hit.start : hit.secret])
        given += (self._seen[self._at : hit.start], kept.text, hit.shape.mark)
        self.hits += (*kept.hits, hit.shape.word)
        self._at, self._within = hit.end, hit.shape

    def _leave(self, *, final: bool) -> bool:
        """Drops what else belongs to the last secret; says whether all of it is behind us."""
        if self._within is None:
            return True
        end = len(self._seen) if final else max(self._at, len(self._seen) - self._within.sight)
        found = self._within.more.match(self._seen, self._at)
        assert found is not None
        self._at = min(found.end(), end)
        if self._at == end and not final:
            return False
        self._within = None
        return True

    def _forget(self) -> None:
        begin = max(0, self._at - _MEMORY)
        self._seen, self._at = self._seen[begin:], self._at - begin


class _Hit(msgspec.Struct, frozen=True):
    """Where a secret was found: what is kept of it, what is replaced."""

    shape: Shape
    start: int
    secret: int
    end: int


def holds_secret(text: str) -> bool:
    """Whether there is a secret in a whole text."""
    return len(text) >= _SHORTEST and _first_hit(text, 0, len(text), beginnings(text, 0)) is not None


def redact(text: str) -> Redacted:
    """A whole text without its secrets."""
    if not holds_secret(text):
        return Redacted(text)
    redactor = Redactor()
    return Redacted(redactor.end(text), tuple(redactor.hits))


def redact_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A JSON value without the secrets in its strings and keys, and the words of those."""
    hits: list[str] = []
    holder = [value]
    # A list of what is still to be done, where recursion would end with a value that is deep enough.
    undone: list[tuple[Any, Any]] = [(holder, 0)]
    while undone:
        within, place = undone.pop()
        match within[place]:
            case str() as text:
                within[place] = _noted(text, hits)
            case dict() as found:
                within[place] = named = {_noted(key, hits): each for key, each in found.items()}
                undone += [(named, key) for key in named]
            case list() | tuple() as found:
                within[place] = listed = list(found)
                undone += [(listed, at) for at in range(len(listed))]
            case None | bool() | int() | float():
                pass
            case other:
                # Whatever else can be written as JSON is looked at as the JSON it becomes.
                within[place] = _as_json(other)
                undone += [] if within[place] is other else [(within, place)]
    return holder[0], tuple(hits)


def _as_json(value: Any) -> Any:
    """A value as plain JSON; one that JSON cannot hold as it is, for the encoder to refuse."""
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return value


def _noted(text: Any, hits: list[str]) -> Any:
    if not isinstance(text, str):
        return text
    said = redact(text)
    hits += said.hits
    return said.text


def _first_hit(text: str, at: int, stop: int, places: Iterator[Place]) -> _Hit | None:
    """The first secret that begins at one of these places, if it is between two others."""
    for place, shapes in places:
        if place < at:
            continue
        if place >= stop:
            break
        for shape in shapes:
            if found := shape.whole.match(text, place):
                return _Hit(shape, place, place if shape.kept is None else found.start(1), found.end())
    return None


def _first_open(text: str, at: int) -> int:
    """The first place from which on a text could still become a secret; its end where there is none."""
    begin = max(at, len(text) - REACH)
    opened = (
        place for place, shapes in starts(text, begin) if any(shape.opened.match(text, place) for shape in shapes)
    )
    begun = (place for place, before in unfinished(text, begin) if _before(before).match(text, place))
    return min(next(opened, len(text)), next(begun, len(text)))


@cache
def _before(text: str) -> re.Pattern[str]:
    return re.compile(text)

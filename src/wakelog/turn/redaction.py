"""Secrets stay out (law 14): what has the shape of one is replaced by a mark before anything is written or shown.

The mark names the kind and holds nothing of the secret; a mark is never taken for a secret, so redacting twice is
redacting once. However a text is cut into pieces, they come out as the whole would: a place is decided when nothing
that may follow can change it, and only from the first undecided place on a text is held back, never more than
`REACH` signs. Of a secret that is known for one nothing is held: what else belongs to it is dropped as it comes.
"""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from wakelog.log.content import AnyPart, Text, Thinking, ToolCall
from wakelog.turn.secrets import REACH, SHAPES
from wakelog.turn.shapes import LOOK_BEHIND, Shape, Way, beginnings, finder, openings, ways

_LONGEST = max(len(start) for shape in SHAPES for start in shape.starts)
# How much of what has been decided the next place still looks at.
_MEMORY = LOOK_BEHIND + _LONGEST
_BEGUN = beginnings(shape for shape in SHAPES if not shape.any_case)
_BEGUN_IN_ANY_CASE = beginnings(shape for shape in SHAPES if shape.any_case)
_NOTHING: frozenset[str] = frozenset()


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

    def end(self) -> str:
        """Gives the rest: nothing more will come."""
        return self._pass_on(final=True)

    def _pass_on(self, *, final: bool) -> str:
        given: list[str] = []
        while self._leave(final=final):
            stop = len(self._seen) if final else _first_open(self._seen, self._at)
            hit = _first_hit(self._seen, self._at, stop)
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
        found = _pattern(self._within.more).match(self._seen, self._at)
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


def redact(text: str) -> Redacted:
    """A whole text without its secrets."""
    if _finder().search(text) is None:
        return Redacted(text)
    redactor = Redactor()
    given = redactor.feed(text) + redactor.end()
    return Redacted(given, tuple(redactor.hits))


def redact_value(value: Any) -> tuple[Any, tuple[str, ...]]:
    """A JSON value without the secrets in its strings and keys, and the words of those."""
    hits: list[str] = []
    return _cleaned(value, hits), tuple(hits)


def redact_parts(parts: Iterable[AnyPart]) -> tuple[tuple[AnyPart, ...], frozenset[str]]:
    """Parts of a message without secrets, and the ids of the calls whose input had one: these may not be run.

    What is bound to its provider is true only as it came: a text with a hit goes on without it, a signed thought not at all.
    """
    kept: list[AnyPart] = []
    touched: set[str] = set()
    for part in parts:
        match part:
            case Text():
                kept.append(_text_without(part))
            case Thinking():
                kept += _thought_without(part)
            case ToolCall():
                given, hits = redact_value(part.input)
                kept.append(msgspec.structs.replace(part, input=given, bound=None) if hits else part)
                touched |= {part.id} if hits else set()
            case _:
                kept.append(part)
    return tuple(kept), frozenset(touched)


def _text_without(part: Text) -> Text:
    said = redact(part.text)
    return Text(text=said.text) if said.hits else part


def _thought_without(part: Thinking) -> list[AnyPart]:
    thought = redact(part.thinking)
    if not thought.hits:
        return [part]
    bound = part.signature is not None or part.bound is not None
    return [] if bound else [Thinking(thinking=thought.text)]


def _cleaned(value: Any, hits: list[str]) -> Any:
    match value:
        case str():
            said = redact(value)
            hits += said.hits
            return said.text
        case dict():
            return {_cleaned(key, hits): _cleaned(each, hits) for key, each in value.items()}
        case list() | tuple():
            return [_cleaned(each, hits) for each in value]
        case _:
            return value


def _first_hit(text: str, at: int, stop: int) -> _Hit | None:
    """The first secret that begins between two places."""
    found = _finder().search(text, at)
    while found is not None:
        assert found.lastindex is not None
        way = _ways()[found.lastindex - 1]
        start = found.start() - way.offset
        if start >= stop:
            return None
        body = found.start(found.lastindex)
        if start >= at and _is_secret(way.shape, text, start, body):
            return _Hit(way.shape, start, start if way.shape.kept is None else body, found.end())
        found = _finder().search(text, found.start() + 1)
    return None


def _is_secret(shape: Shape, text: str, start: int, body: int) -> bool:
    return _pattern(shape.before).match(text, start) is not None and _pattern(shape.unless).match(text, body) is None


def _first_open(text: str, at: int) -> int:
    """The first place from which on a text could still become a secret; its end where there is none."""
    place = max(at, len(text) - REACH)
    while (found := _opener().search(text, place)) is not None:
        assert found.lastindex is not None
        if _pattern(_openings()[found.lastindex - 1].shape.before).match(text, found.start()):
            return min(found.start(), _first_beginning(text, at))
        place = found.start() + 1
    return _first_beginning(text, at)


def _first_beginning(text: str, at: int) -> int:
    """The first place from which on a text is nothing but the first words of a secret, as far as they have come."""
    for size in range(min(_LONGEST, len(text) - at), 0, -1):
        end = text[-size:]
        befores = _BEGUN.get(end, _NOTHING) | _BEGUN_IN_ANY_CASE.get(end.lower(), _NOTHING)
        if any(_pattern(before).match(text, len(text) - size) for before in befores):
            return len(text) - size
    return len(text)


# The expressions are made when first needed: a command that redacts nothing does not wait for them.
@cache
def _ways() -> list[Way]:
    return ways(SHAPES)


@cache
def _finder() -> re.Pattern[str]:
    return re.compile(finder(_ways()))


@cache
def _openings() -> list[Way]:
    return openings(SHAPES)


@cache
def _opener() -> re.Pattern[str]:
    return re.compile(finder(_openings()))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)

"""Secrets stay out (law 14): what is known for one is replaced by a mark before anything is written or shown.

The mark names the kind and holds nothing of the secret; a mark is never taken for a secret, so redacting twice is
redacting once. However a text is cut into pieces, they come out as the whole would: a place is decided when nothing
that may follow can change it, and only from the first undecided place on a text is held back, never more than
`reach_of` says. Of a secret that is known for one nothing is held: what else belongs to it is dropped as it comes.

There are two sets of shapes, and one way to look for them: keys alone, or keys and the values of assignments.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from wakelog.turn.assignments import ASSIGNED, ASSIGNMENTS, EXACT, may_assign, written_as_json
from wakelog.turn.policy import Redact
from wakelog.turn.searching import SHORT, Finder, Place
from wakelog.turn.secrets import SHAPES
from wakelog.turn.shapes import LOOK_BEHIND, Shape


class Redacted(msgspec.Struct, frozen=True):
    """A text without its secrets, and the words of those that were in it."""

    text: str
    hits: tuple[str, ...] = ()


@cache
def _finder(rule: Redact) -> Finder:
    return Finder(SHAPES if rule == "keys" else (*EXACT, *SHAPES, *ASSIGNMENTS))


def reach_of(rule: Redact) -> int:
    """How many characters of a streamed text are held back at most."""
    return _finder(rule).reach


class Redactor:
    """Redacts a text that comes in pieces."""

    def __init__(self, rule: Redact = "assignments") -> None:
        self._rule = rule
        self._finder = _finder(rule)
        # How much of what has been decided the next place still looks at.
        self._memory = LOOK_BEHIND + self._finder.longest_start
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
        return self._pass_on(piece, final=False)

    def end(self, piece: str = "") -> str:
        """Takes in the last piece, if there is one more, and gives the rest."""
        return self._pass_on(piece, final=True)

    def _pass_on(self, piece: str, *, final: bool) -> str:
        if self._rule == "off":
            return piece
        self._seen += piece
        given: list[str] = []
        text, finder = self._seen, self._finder
        # The places where a secret may be under way: only what stands at the end can be.
        near = [] if final else list(finder.starts(text, max(self._at, len(text) - finder.reach)))
        is_short = not final and len(text) - self._at < SHORT
        places = near if is_short else finder.beginnings(text, self._at)
        while self._leave(final=final):
            stop = len(text) if final else self._first_open(near)
            hit = _first_hit(finder, text, self._at, stop, places)
            if hit is None:
                given.append(text[self._at : stop])
                self._at = stop
                break
            self._enter(hit, given)
        self._forget()
        return "".join(given)

    def _first_open(self, near: list[Place]) -> int:
        """The first place from which on the text could still become a secret; its end where there is none."""
        text, at = self._seen, self._at
        begun = min(self._finder.unfinished(text, at), default=len(text))
        for place, shapes in near:
            if place >= begun:
                break
            if place >= at and any(_is_open(self._finder, shape, text, place) for shape in shapes):
                return place
        return begun

    def _enter(self, hit: "_Hit", given: list[str]) -> None:
        kept = redact(self._seen[hit.start : hit.secret], "keys")
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
        is_cut_escape = self._within.escapes and self._seen[self._at :] == "\\"
        if not final and (self._at == end or is_cut_escape):
            return False
        self._within = None
        return True

    def _forget(self) -> None:
        begin = max(0, self._at - self._memory)
        self._seen, self._at = self._seen[begin:], self._at - begin


class _Hit(msgspec.Struct, frozen=True):
    """Where a secret was found: what is kept of it, what is replaced."""

    shape: Shape
    start: int
    secret: int
    end: int


def holds_secret(text: str, rule: Redact = "assignments") -> bool:
    """Whether there is a secret in a whole text."""
    if rule == "off":
        return False
    finder = _finder(rule)
    if len(text) < finder.shortest:
        return False
    return _first_hit(finder, text, 0, len(text), finder.beginnings(text, 0)) is not None


def redact(text: str, rule: Redact = "assignments") -> Redacted:
    """A whole text without its secrets."""
    if not holds_secret(text, rule):
        return Redacted(text)
    redactor = Redactor(rule)
    return Redacted(redactor.end(text), tuple(redactor.hits))


def holds_assignment(value: Mapping[Any, Any], rule: Redact = "assignments") -> bool:
    """Whether a key of a JSON object says that the text it names is a secret."""
    return rule == "assignments" and any(_is_assigned(name, text) for name, text in value.items())


def _is_assigned(name: Any, text: Any) -> bool:
    """Whether a text is a secret because of its name, as it would be in JSON that is written out."""
    if not (isinstance(name, str) and isinstance(text, str) and may_assign(name, text)):
        return False
    return holds_secret(written_as_json(name, text)) and not holds_secret(text)


def redact_value(value: Any, rule: Redact = "assignments") -> tuple[Any, tuple[str, ...]]:
    """A JSON value without the secrets in its strings and keys, and the words of those."""
    if rule == "off":
        return value, ()
    hits: list[str] = []
    holder = [value]
    # A list of what is still to be done, where recursion would end with a value that is deep enough.
    undone: list[tuple[Any, Any]] = [(holder, 0)]
    while undone:
        within, place = undone.pop()
        match within[place]:
            case str() as text:
                within[place] = _noted(text, rule, hits)
            case dict() as found:
                within[place] = named = {
                    _noted(key, rule, hits): _named_value(key, each, rule, hits) for key, each in found.items()
                }
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


def _noted(text: Any, rule: Redact, hits: list[str]) -> Any:
    if not isinstance(text, str):
        return text
    said = redact(text, rule)
    hits += said.hits
    return said.text


def _named_value(name: Any, value: Any, rule: Redact, hits: list[str]) -> Any:
    """A value of a JSON object; the mark, if its name says that it is a secret."""
    if rule != "assignments" or not _is_assigned(name, value):
        return value
    hits.append(ASSIGNED.word)
    return ASSIGNED.mark


def _first_hit(finder: Finder, text: str, at: int, stop: int, places: Iterable[Place]) -> _Hit | None:
    """The first secret that begins at one of these places, if it is between two others."""
    for place, shapes in places:
        if place < at:
            continue
        if place >= stop:
            break
        for shape in shapes:
            found = shape.found(text, place)
            if found and not (shape.yields and _begins_exact(finder, text, found.start(1))):
                return _Hit(shape, place, place if shape.kept is None else found.start(1), found.end())
    return None


def _begins_exact(finder: Finder, text: str, place: int) -> bool:
    """Whether a secret whose shape names it more exactly begins at a place."""
    return any(not shape.yields and shape.found(text, place) for shape in finder.starting_at(text, place))


def _is_open(finder: Finder, shape: Shape, text: str, place: int) -> bool:
    """Whether it takes more text to say if a secret of a shape begins at a place."""
    if shape.opened.match(text, place):
        return True
    found = shape.found(text, place) if shape.yields else None
    if found is None:
        return False
    within = finder.starting_at(text, found.start(1))
    return any(not each.yields and each.opened.match(text, found.start(1)) for each in within)

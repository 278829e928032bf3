"""Secrets stay out (law 14): what is known for one is replaced by a mark before anything is written or shown.

The mark names the kind and holds nothing of the secret; a mark is never taken for a secret, so redacting twice is
redacting once. However a text is cut into pieces, they come out as the whole would: a place is decided when nothing
that may follow can change it, and only from the first undecided place on a text is held back, never more than
`reach_of` says. Of a secret that is known for one nothing is held: what else belongs to it is dropped as it comes.

There are two sets of shapes, and one way to look for them: keys alone, or keys and the values of assignments.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from wakelog.redaction.assignments import ASSIGNED, ASSIGNMENTS, EXACT, may_assign, written_as_json
from wakelog.redaction.key_shapes import SHAPES
from wakelog.redaction.scanner import SHORT, Finder, Place
from wakelog.redaction.shapes import Redact, Shape


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
        # What was decided last, then what is held back: `_at` is where the latter begins.
        self._seen = ""
        self._at = 0
        # Where the last secret ended: no name begins before that.
        self._floor = 0
        # The places before `_at` where a name begins whose value is not decided on yet.
        self._names: list[int] = []
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
        text, finder = self._seen, self._finder
        named = [(place, finder.starting_at(text, place)) for place in self._names] if self._names else []
        # One sign of a name may have been given: that is not remembered among the names, but looked at again.
        begin = max(self._floor, self._at - 1)
        # Where a secret may be under way: only what stands at the end can be.
        near = [] if final else named + list(finder.starts(text, max(begin, len(text) - finder.reach)))
        begun = [] if final else list(finder.unfinished(text, self._floor))
        is_short = not final and len(text) - self._at < SHORT
        places = near if is_short else named + list(finder.beginnings(text, begin))
        given: list[str] = []
        while self._leave(final=final):
            stop = len(text) if final else self._first_open(near, begun)
            hit = self._first_hit(places, stop) if places else None
            if hit is None:
                given.append(text[self._at : stop])
                self._at = stop
                break
            self._enter(hit, given)
        self._names = self._names_after(near, begun) if near or begun else []
        self._forget()
        return "".join(given)

    def _first_open(self, near: list[Place], begun: list[tuple[int, bool]]) -> int:
        """The first place from which on the text must be held back; its end where there is none.

        A name is given at once, and its value is held back until it is known whether it is a secret.
        """
        text, at = self._seen, self._at
        stop = min([place for place, yields in begun if not yields and place >= at], default=len(text))
        for place, shapes in near:
            if place >= stop:
                break
            for shape in shapes if place >= self._floor else ():
                if shape.yields and shape.opened.match(text, place):
                    name = shape.name.match(text, place)
                    stop = min(stop, max(at, name.end())) if name else stop
                elif not shape.yields and place >= at and shape.opened.match(text, place):
                    return place
        return stop

    def _first_hit(self, places: list[Place], stop: int) -> "_Hit | None":
        first = bisect_left(places, self._at - self._finder.longest_kept, key=_place_of)
        return _first_hit(self._seen, (self._floor, self._at, stop), islice(places, first, None))

    def _names_after(self, near: list[Place], begun: list[tuple[int, bool]]) -> list[int]:
        """The places where a name begins that has been given, and whose value may come yet."""
        names = [place for place, shapes in near if any(_may_go_on(shape, self._seen, place) for shape in shapes)]
        names += [place for place, yields in begun if yields]
        return sorted({place for place in names if self._floor <= place < self._at}) if names else names

    def _enter(self, hit: "_Hit", given: list[str]) -> None:
        kept = redact(self._seen[hit.start : hit.secret], "keys")
        given += (self._seen[self._at : hit.start], kept.text, hit.shape.mark)
        self.hits += (*kept.hits, hit.shape.word)
        self._at, self._within = hit.end, hit.shape

    def _leave(self, *, final: bool) -> bool:
        """Drops what else belongs to the last secret; says whether all of it is behind us."""
        if self._within is None:
            return True
        end = len(self._seen) if final else max(self._at, len(self._seen) - self._within.lookahead)
        found = self._within.more.match(self._seen, self._at)
        assert found is not None
        self._at = self._floor = min(found.end(), end)
        is_cut_escape = self._within.escapes and self._seen[self._at :] == "\\"
        if not final and (self._at == end or is_cut_escape):
            return False
        self._within = None
        return True

    def _forget(self) -> None:
        """Keeps of the text what the next place looks at."""
        begin = self._at - self._finder.memory
        if begin > 0:
            self._seen = self._seen[begin:]
            self._at -= begin
            self._floor = max(0, self._floor - begin)
            self._names = [place - begin for place in self._names]


def _place_of(place: Place) -> int:
    return place[0]


def _may_go_on(shape: Shape, text: str, place: int) -> bool:
    """Whether an assignment that begins at a place is not over yet, or not decided on."""
    return shape.yields and (shape.opened.match(text, place) or shape.whole.match(text, place)) is not None


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
    return _first_hit(text, (0, 0, len(text)), finder.beginnings(text, 0)) is not None


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


def _first_hit(text: str, bounds: tuple[int, int, int], places: Iterable[Place]) -> _Hit | None:
    """The first secret of these places. `bounds`: where a name may begin, where a secret may begin, where both end.

    An assignment stands where its value begins: what is found before or right there comes first.
    """
    floor, at, stop = bounds
    best: _Hit | None = None
    for place, shapes in places:
        if place >= stop:
            break
        for shape in shapes if place >= floor else ():
            if not shape.yields and place < at:
                continue
            found = shape.found(text, place)
            if found and not shape.yields:
                return _Hit(shape, place, place if shape.kept is None else found.start(1), found.end())
            if found and at <= found.start(1) < stop:
                best = _Hit(shape, found.start(1), found.start(1), found.end())
                stop = found.start(1) + 1
                break
    return best

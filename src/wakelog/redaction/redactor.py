"""Redaction of text: replaces secrets by a mark before text is written or displayed (law 14: secrets stay out).

The mark names the kind of secret and contains nothing of it. A mark is never matched as a secret, so redaction is
idempotent. Streamed text gives the same result however it is split: a position is decided once no later text can change
it, and text is held back only from the first undecided position on, at most `held_chars_max` characters. Once a secret
is recognised, its further characters are dropped as they arrive.

There are three sets of shapes, searched in the same way: keys only; keys and values that look random, behind a name
or in a place that says what they are; keys and all values in such places. Beside them the text is searched for known
values (`known_values.py`), which have precedence where they begin first or at the same place. A value that is
recognised only by its name or its surroundings becomes known.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from wakelog.decide.policy import RedactMode
from wakelog.log.redaction_marks import mark_of
from wakelog.redaction.assignments import KIND, MARK, as_json_member, assignment_shapes, may_assign, name_of_member
from wakelog.redaction.colour_codes import CODE_MAX_CHARS, ColourCodes, code_lengths, without_codes
from wakelog.redaction.contexts import KEY_CONTEXTS, context_shapes
from wakelog.redaction.key_shapes import KEY_SHAPES
from wakelog.redaction.known_values import NO_KNOWN_VALUES, VALUE_MAX_CHARS, KnownValues, Occurrence
from wakelog.redaction.scanner import SHORT_TEXT_CHARS, Finder, Position
from wakelog.redaction.shapes import Shape

# The modes in which a name makes its value a secret.
_BY_NAME: tuple[RedactMode, ...] = ("assignments", "strict")


class SecretSpan(msgspec.Struct, frozen=True):
    """The place of a secret in a text, and the mark that replaces it."""

    start: int
    end: int
    mark: str


class Redacted(msgspec.Struct, frozen=True):
    """A text without its secrets, the words (kinds) of the secrets that were in it, and their places, in order."""

    text: str
    hits: tuple[str, ...] = ()
    spans: tuple[SecretSpan, ...] = ()


@cache
def _finder(rule: RedactMode) -> Finder:
    return Finder(shapes_of(rule))


def shapes_of(rule: RedactMode) -> tuple[Shape, ...]:
    """Return the shapes of the secrets that a mode redacts, in order of precedence."""
    if rule == "keys":
        return KEY_SHAPES
    strict = rule == "strict"
    return (*KEY_CONTEXTS, *KEY_SHAPES, *context_shapes(strict=strict), *assignment_shapes(strict=strict))


def held_chars_max(rule: RedactMode) -> int:
    """Return the maximum number of characters of a streamed text that are held back."""
    return _finder(rule).reach + CODE_MAX_CHARS


class Redactor:
    """Redacts text that arrives in pieces."""

    def __init__(self, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES) -> None:
        self._rule = rule
        self._known = known
        self._finder = _finder(rule)
        # The last decided text, then the text held back, which begins at `_at`.
        self._seen = ""
        self._at = 0
        # The end of the last secret: no name begins before it.
        self._floor = 0
        # Positions before `_at` where a name begins whose value is not decided yet.
        self._names: list[int] = []
        self._within: Shape | None = None
        # The number of characters before `_seen`.
        self._dropped = 0
        self._codes = ColourCodes()
        # The secret that is being dropped, as far as it was seen.
        self._value = ""
        self.hits: list[str] = []
        # Places in the text without its colour codes.
        self.spans: list[SecretSpan] = []

    @property
    def held(self) -> str:
        """The text that was fed and is neither returned nor dropped yet."""
        return self._seen[self._at :] + self._codes.cut

    def feed(self, piece: str) -> str:
        """Add the next piece; return the text that is decided by it."""
        return self._process(piece, final=False)

    def end(self, piece: str = "") -> str:
        """Add the last piece, if any; return the rest of the text."""
        return self._process(piece, final=True)

    def _process(self, piece: str, *, final: bool) -> str:
        if self._rule == "off":
            return piece
        has_codes = self._codes.may_occur(piece)
        self._seen += self._codes.take(piece, len(self._seen), final=final) if has_codes else piece
        text, finder = self._seen, self._finder
        named = [(place, finder.starting_at(text, place)) for place in self._names] if self._names else []
        # The first character of a name may have been returned already; `_names` lacks such a name, so look back by one.
        since = max(self._floor, self._at - 1)
        # Positions where an incomplete secret may begin; only those near the end of the text qualify.
        near = [] if final else named + list(finder.starts(text, max(since, len(text) - finder.reach)))
        begun = [] if final else list(finder.unfinished(text, self._floor))
        is_short = not final and len(text) - self._at < SHORT_TEXT_CHARS
        places = near if is_short else named + list(finder.candidates(text, since))
        given: list[str] = []
        search = first_search = self._known.search
        known = search.occurrences(text, self._at) if search.longest else []
        while self._leave(final=final):
            if self._known.search is not search:
                search = self._known.search
                known = search.occurrences(text, self._at)
            # From `begin` on the text may become a known value, which then has precedence.
            begin = len(text) if final or not search.longest else search.first_open(text, self._at)
            stop = len(text) if final else min(begin, self._first_open(near, begun))
            hit = self._next_hit(places, known, stop) if places or known else None
            if hit is None or hit.secret >= begin:
                stop = stop if hit is None else hit.start
                given.append(
                    self._codes.put_back(text, self._at, stop, final=final) if has_codes else text[self._at : stop]
                )
                self._at = stop
                break
            self._enter(hit, given)
        self._names = self._names_after(near, begun) if near or begun else []
        self._drop_decided()
        decided = "".join(given)
        # What was recognised in this piece may also stand before the place where it was recognised.
        return decided if self._known.search is first_search else self._without_known(decided)

    def _without_known(self, text: str) -> str:
        """Return a text without known values."""
        given: list[str] = []
        at = 0
        for found in self._known.search.occurrences(text, 0):
            if found.start >= at:
                given += (text[at : found.start], mark_of(found.kind))
                self.hits.append(found.kind)
                at = found.end
        return "".join((*given, text[at:]))

    def _next_hit(self, places: list[Position], known: list[Occurrence], stop: int) -> "_Hit | None":
        """Return the first secret that begins before `stop`: a known value, or one of the shapes."""
        hit = self._first_hit(places, stop) if places else None
        value = next((each for each in known if each.start >= self._at), None)
        if value is None or value.start >= stop or (hit is not None and hit.secret < value.start):
            return hit
        return _Hit(value.kind, value.start, value.start, value.end)

    def _first_open(self, near: list[Position], begun: list[tuple[int, bool]]) -> int:
        """Return the first position from which the text must be held back; the end of the text if there is none.

        A name is returned at once; its value is held back until it is decided whether it is a secret.
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

    def _first_hit(self, places: list[Position], stop: int) -> "_Hit | None":
        first = bisect_left(places, self._at - self._finder.longest_kept, key=_position_of)
        return _first_hit(self._seen, (self._floor, self._at, stop), islice(places, first, None))

    def _names_after(self, near: list[Position], begun: list[tuple[int, bool]]) -> list[int]:
        """Return the positions of names that were returned already and whose value may still follow."""
        names = [place for place, shapes in near if any(_may_continue(shape, self._seen, place) for shape in shapes)]
        names += [place for place, yields in begun if yields]
        return sorted({place for place in names if self._floor <= place < self._at}) if names else names

    def _enter(self, hit: "_Hit", given: list[str]) -> None:
        mark = mark_of(hit.kind)
        given.append(self._codes.put_back(self._seen, self._at, hit.start))
        kept = Redactor("keys")
        given += (kept.end(self._codes.put_back(self._seen, hit.start, hit.secret, final=True)), mark)
        self.hits += (*kept.hits, hit.kind)
        start, secret = self._dropped + hit.start, self._dropped + hit.secret
        self.spans += [SecretSpan(start + span.start, start + span.end, span.mark) for span in kept.spans]
        self.spans.append(SecretSpan(secret, self._dropped + hit.end, mark))
        self._at, self._within = hit.end, hit.shape
        self._value = self._seen[hit.secret : hit.end]
        if hit.shape is None:
            self._floor = hit.end

    def _leave(self, *, final: bool) -> bool:
        """Drop further characters of the last secret; return whether its end was reached."""
        if self._within is None:
            return True
        end = len(self._seen) if final else max(self._at, len(self._seen) - self._within.lookahead)
        found = self._within.more.match(self._seen, self._at)
        assert found is not None
        begin, self._at = self._at, min(found.end(), end)
        self._floor = self._at
        self._value += self._seen[begin : self._at][: VALUE_MAX_CHARS + 1 - len(self._value)]
        self.spans[-1] = msgspec.structs.replace(self.spans[-1], end=self._dropped + self._at)
        is_cut_escape = self._within.escapes and self._seen[self._at :] == "\\"
        if not final and (self._at == end or is_cut_escape):
            return False
        if self._within.kept is not None:
            # Other secrets are found by their own form wherever they stand.
            self._known.learn(self._value, self._within.kind)
        self._within = None
        return True

    def _drop_decided(self) -> None:
        """Discard decided text that is too old to be looked at again."""
        begin = self._at - self._finder.lookback
        if begin > 0:
            self._seen = self._seen[begin:]
            self._dropped += begin
            self._at -= begin
            self._floor = max(0, self._floor - begin)
            self._names = [place - begin for place in self._names]
            self._codes.shift(begin)


def _position_of(place: Position) -> int:
    return place[0]


def _may_continue(shape: Shape, text: str, place: int) -> bool:
    """Whether an assignment that begins at a position may be incomplete or undecided."""
    return shape.yields and (shape.opened.match(text, place) or shape.whole.match(text, place)) is not None


class _Hit(msgspec.Struct, frozen=True):
    """A secret that was found: `start` to `secret` is kept, `secret` to `end` is replaced."""

    kind: str
    start: int
    secret: int
    end: int
    shape: Shape | None = None
    """None for a known value, whose end is known."""


def holds_secret(text: str, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES) -> bool:
    """Whether a complete text contains a secret."""
    if rule == "off":
        return False
    text = without_codes(text)
    if known.search.longest and known.search.is_in(text):
        return True
    finder = _finder(rule)
    if len(text) < finder.shortest:
        return False
    return _first_hit(text, (0, 0, len(text)), finder.candidates(text, 0)) is not None


def redact(text: str, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES) -> Redacted:
    """Redact a complete text."""
    if not holds_secret(text, rule, known):
        return Redacted(text)
    redactor = Redactor(rule, known)
    return Redacted(redactor.end(text), tuple(redactor.hits), _with_codes(redactor.spans, text))


def _with_codes(spans: Sequence[SecretSpan], text: str) -> tuple[SecretSpan, ...]:
    """Return the places in a text of spans whose places are those in the text without its colour codes."""
    codes = code_lengths(text)
    return tuple(
        SecretSpan(
            span.start + sum(length for place, length in codes if place <= span.start),
            span.end + sum(length for place, length in codes if place < span.end),
            span.mark,
        )
        for span in spans
    )


def holds_assignment(value: Mapping[Any, Any], rule: RedactMode = "assignments") -> bool:
    """Whether a member of a JSON object is a secret because of its name."""
    return any(_is_assigned(name_of_member(value, key), text, rule) for key, text in value.items())


def _is_assigned(name: Any, text: Any, rule: RedactMode) -> bool:
    """Whether a text is a secret only because of its name, by the rules for serialised JSON."""
    if rule not in _BY_NAME or not (isinstance(name, str) and isinstance(text, str)):
        return False
    if not may_assign(name, text, strict=rule == "strict"):
        return False
    return holds_secret(as_json_member(name, text), rule) and not holds_secret(text, rule)


def redact_value(
    value: Any, rule: RedactMode = "assignments", known: KnownValues = NO_KNOWN_VALUES
) -> tuple[Any, tuple[str, ...]]:
    """Redact the strings and keys of a JSON value; return the result and the words of the secrets found."""
    if rule == "off":
        return value, ()
    hits: list[str] = []
    holder = [value]
    # A work list instead of recursion: a deeply nested value would exceed the recursion limit.
    undone: list[tuple[Any, Any]] = [(holder, 0)]
    while undone:
        within, place = undone.pop()
        match within[place]:
            case str() as text:
                within[place] = _redact_text(text, rule, known, hits)
            case dict() as found:
                within[place] = named = {
                    _redact_text(key, rule, known, hits): _named_value(
                        name_of_member(found, key), each, rule, known, hits
                    )
                    for key, each in found.items()
                }
                undone += [(named, key) for key in named]
            case list() | tuple() as found:
                within[place] = listed = list(found)
                undone += [(listed, at) for at in range(len(listed))]
            case None | bool() | int() | float():
                pass
            case other:
                # Other types are converted to the JSON values they are encoded as.
                within[place] = _as_json(other)
                undone += [] if within[place] is other else [(within, place)]
    return holder[0], tuple(hits)


def _as_json(value: Any) -> Any:
    """Return a value as plain JSON values; unchanged if that is impossible, so that the encoder rejects it."""
    try:
        return msgspec.to_builtins(value)
    except (TypeError, ValueError):
        return value


def _redact_text(text: Any, rule: RedactMode, known: KnownValues, hits: list[str]) -> Any:
    if not isinstance(text, str):
        return text
    redacted = redact(text, rule, known)
    hits += redacted.hits
    return redacted.text


def _named_value(name: Any, value: Any, rule: RedactMode, known: KnownValues, hits: list[str]) -> Any:
    """Return a value of a JSON object, or the mark if it is a secret because of its name."""
    if not _is_assigned(name, value, rule):
        return value
    known.learn(value, KIND)
    hits.append(KIND)
    return MARK


def _first_hit(text: str, bounds: tuple[int, int, int], places: Iterable[Position]) -> _Hit | None:
    """Return the first secret at these positions.

    `bounds`: the first position of a name, the first position of a secret, and the end of both. The position of an
    assignment is that of its value; another secret that begins before or exactly there has precedence.
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
                return _Hit(shape.kind, place, place if shape.kept is None else found.start(1), found.end(), shape)
            if found and at <= found.start(1) < stop:
                best = _Hit(shape.kind, found.start(1), found.start(1), found.end(), shape)
                stop = found.start(1) + 1
                break
    return best

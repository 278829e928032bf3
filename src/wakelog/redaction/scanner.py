"""Fast search for positions where a secret may begin; ordinary text has almost none.

Almost every key contains a long run of certain characters, which are rare in ordinary text: the text is translated into
ones and blanks, and runs of ones are searched for. Shapes without such a run are found by a word that each of them
contains. The words are grouped by their rarest character, and each group is one search through the text. The beginnings
themselves are searched for only around these finds. This is a pre-filter: an extra position only costs time, a missing
one would be a missed secret.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, reduce
from typing import TypeAlias

from wakelog.redaction.shapes import LOOK_BEHIND, WORD_CHARS, Piece, Run, Shape, longest

# The position of the start word of a shape, and the shapes it may belong to.
Position: TypeAlias = tuple[int, tuple[Shape, ...]]
# A search for some words in a text in lower case, and how far before its match a secret may begin.
_Clue: TypeAlias = tuple[Callable[[bytes, int], re.Match[bytes] | None], int]
# A prefix of a start word, whether case is ignored, what must precede it, and whether the shape yields.
_StartPrefix: TypeAlias = tuple[str, bool, re.Pattern[str], bool]
# For shorter texts, checking every position costs less than searching for runs and clues first.
SHORT_TEXT_CHARS = 120
_KNOWN_MAX = 1024
# Characters from frequent to rare, in prose and in code. Others count as more frequent.
_RARITY = " ./etaoinsrhldcum-fgpywbvkxjqz"


class Runs:
    """Search for runs of at least `least` characters of a class, which begin at most `far` after a secret begins."""

    def __init__(self, signs: str, least: int, far: int) -> None:
        self._signs = _chars_of(signs)
        self._least = least
        self._far = far
        self._ones = bytes(ord("1" if chr(code) in self._signs else " ") for code in range(256))
        self._run = b"1" * least

    def may_occur(self, signs: bytes) -> bool:
        """Whether a text contains such a run."""
        return self._run in signs.translate(self._ones)

    def around(self, signs: bytes, at: int) -> list[tuple[int, int]]:
        """Return the ranges in which a secret with such a run may begin."""
        found: list[tuple[int, int]] = []
        ones = signs.translate(self._ones)
        begin = ones.find(self._run, at)
        while begin >= 0:
            end = ones.find(b" ", begin)
            end = len(ones) if end < 0 else end
            # For a secret that begins later, less than `least` characters of the run remain.
            found.append((max(at, begin - self._far), end - self._least + 1))
            begin = ones.find(self._run, end)
        return found

    def identifies(self, shape: Shape) -> bool:
        """Whether every secret of a shape contains such a run near its beginning."""
        found = self.distance_max(shape)
        return found is not None and found <= self._far

    def distance_max(self, shape: Shape) -> int | None:
        """Return the maximum distance from the beginning of a secret of a shape to its run; None if it may lack one."""
        fars = [self._behind([start, *shape.pieces]) for start in shape.starts]
        known = [far for far in fars if far is not None]
        return max(known) if len(known) == len(fars) else None

    def _behind(self, pieces: list[Piece]) -> int | None:
        far = run = 0
        for piece in pieces:
            run = self._after(run, piece)
            if run >= self._least:
                return far
            far += longest(piece)
        return None

    def _after(self, run: int, piece: Piece) -> int:
        match piece:
            case str():
                ending = len(piece) - len(piece.rstrip(self._signs))
                return run + ending if ending == len(piece) else ending
            case Run(signs, least, _):
                return run + least if set(_chars_of(signs)) <= set(self._signs) else 0
            case tuple():
                return min(self._after(run, each) for each in piece)
            case list():
                return reduce(self._after, piece, run)


def _chars_of(signs: str) -> str:
    return "".join(re.findall(f"[{signs}]", bytes(range(256)).decode("latin-1")))


_CODE_CHARS = "A-Za-z0-9_+/=%-"
_WORDS = Runs(WORD_CHARS, 20, far=12)
_CODES = Runs(_CODE_CHARS, 40, far=50)
# Without such a run a text has neither of the two: one search through it instead of two.
_EITHER = Runs(_CODE_CHARS, 20, far=0)


class Finder:
    """Finds positions where a secret of one of the shapes may begin. Shapes are in order of precedence."""

    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self.shapes = shapes
        self.longest_start = max(len(start) for shape in shapes for start in shape.starts)
        self._known: dict[str, tuple[Shape, ...]] = {}
        self._gates: dict[tuple[Shape, ...], re.Pattern[str]] = {}

    @cached_property
    def reach(self) -> int:
        """The maximum length of a text that is still undecided."""
        exact = max(shape.reach for shape in self.shapes if not shape.yields)
        # A shape that yields may be undecided until it is known whether its body is another secret.
        return max([exact, *(shape.reach + exact for shape in self.shapes if shape.yields)])

    @cached_property
    def longest_kept(self) -> int:
        """The maximum distance from the name of an assignment to its value."""
        return max((shape.reach - longest(shape.body) for shape in self.shapes if shape.yields), default=0)

    @cached_property
    def lookback(self) -> int:
        """How many characters of decided text later positions may look back at."""
        return LOOK_BEHIND + self.longest_start + self.longest_kept

    @cached_property
    def shortest(self) -> int:
        """The minimum length of a secret."""
        return min(shape.least for shape in self.shapes)

    def candidates(self, text: str, at: int) -> Iterator[Position]:
        """Yield the positions from `at` on where a secret may begin, in order."""
        if len(text) - at < SHORT_TEXT_CHARS:
            for place, shapes in self.starts(text, at):
                if self._is_assigned(shapes, text, place):
                    yield place, shapes
            return
        # One byte per character, so that positions are the same in both.
        signs = text.encode("latin-1", "replace")
        search, longest, done = self._starts.search, self.longest_start, at
        for begin, end in self._stretches(signs, at):
            # Inlined `starts`, to save a generator per range.
            done = max(done, begin)
            while done < end and (found := search(text, done, end + longest)) and (place := found.start()) < end:
                shapes = self.beginning_with(found.group())
                if self._is_assigned(shapes, text, place):
                    yield place, shapes
                done = place + 1
            done = max(done, end)

    def _is_assigned(self, shapes: tuple[Shape, ...], text: str, place: int) -> bool:
        """Whether a start word may begin an assignment; prose has many such words. True if the shapes do not yield."""
        if not shapes or not shapes[0].yields:
            return True
        gate = self._gates.get(shapes)
        if gate is None:
            gate = self._gates[shapes] = re.compile("|".join(map(_name_of, _shortest_names(shapes))))
        return gate.match(text, place) is not None

    def starts(self, text: str, begin: int, end: int | None = None) -> Iterator[Position]:
        """Yield the positions from `begin` to `end` where a start word of a shape is found."""
        end = len(text) if end is None else end
        search = self._starts.search
        while begin < end and (found := search(text, begin, end + self.longest_start)) and found.start() < end:
            yield found.start(), self.beginning_with(found.group())
            begin = found.start() + 1

    def starting_at(self, text: str, place: int) -> tuple[Shape, ...]:
        """Return the shapes with a start word at a position."""
        found = self._starts.match(text, place)
        return self.beginning_with(found.group()) if found else ()

    def unfinished(self, text: str, at: int) -> Iterator[tuple[int, bool]]:
        """Yield the positions where the text ends inside a start word of a shape, and whether that shape yields.

        For a shape that yields, at least two characters must be present.
        """
        lowered = text[-self.longest_start :].lower()
        for ending in (lowered[-2:], lowered[-1:]):
            for begun, any_case, before, yields in self._begun.get(ending, ()):
                if (lowered if any_case else text).endswith(begun):
                    place = len(text) - len(begun)
                    if place >= at and before.match(text, place):
                        yield place, yields

    def _stretches(self, signs: bytes, at: int) -> list[tuple[int, int]]:
        """Return the ranges to search, in order."""
        found = _WORDS.around(signs, at) + _CODES.around(signs, at) if _EITHER.may_occur(signs) else []
        lowered = signs.lower()
        for needs, clues in self._clues.items():
            if needs not in lowered:
                continue
            for search, far in clues:
                clue = search(lowered, at)
                while clue:
                    place = clue.start()
                    found.append((max(at, place - far), place + 1))
                    clue = search(lowered, place + 1)
        found.sort()
        return found

    @cached_property
    def _clues(self) -> dict[bytes, list[_Clue]]:
        """The searches for shapes without a run, by the character without which they are skipped.

        No word is searched for twice, and none that contains another one.
        """
        words: dict[str, dict[str, None]] = {}
        hidden = [shape for shape in self.shapes if not (_WORDS.identifies(shape) or _CODES.identifies(shape))]
        for shape in hidden:
            words.setdefault(shape.needs, {}).update(dict.fromkeys(map(str.lower, shape.clues or shape.starts)))
        kept = {needs.encode(): _shortest(named, words.get("", ())) for needs, named in words.items()}
        return {needs: [self._clue(group, hidden) for group in _grouped(named)] for needs, named in kept.items()}

    def _clue(self, words: list[str], shapes: list[Shape]) -> _Clue:
        """Return the search for words that share their rarest character; a match begins there."""
        patterns = [re.escape(word[_rarest(word) :]) + f"(?<={re.escape(word)})" for word in words]
        far = max(_rarest(word) + self._far(word, shapes) for word in words)
        return re.compile("|".join(patterns).encode()).search, far

    def _far(self, word: str, shapes: list[Shape]) -> int:
        """Return the maximum distance from the beginning of a secret to a clue for it."""
        matching = [shape for shape in shapes if any(word in clue.lower() for clue in shape.clues or shape.starts)]
        places = [start.lower().rfind(word) for shape in matching for start in shape.starts]
        # A clue that is not part of a start word is assumed to be at most `longest_start` after the beginning.
        return max(self.longest_start if place < 0 else place for place in places)

    @cached_property
    def _starts(self) -> re.Pattern[str]:
        """Matches the start words of all shapes, longest first, grouped by their first character."""
        groups: dict[str, set[tuple[int, str]]] = {}
        for shape in self.shapes:
            for start in shape.starts:
                text = re.escape(start[1:])
                for sign in {start[0], start[0].upper()} if shape.any_case else {start[0]}:
                    groups.setdefault(sign, set()).add((-len(start), f"(?i:{text})" if shape.any_case else text))
        return re.compile("|".join(f"{re.escape(sign)}(?:{_choice(texts)})" for sign, texts in groups.items()))

    def beginning_with(self, start: str) -> tuple[Shape, ...]:
        """Return the shapes with a start word that is a prefix of `start`, in order of precedence."""
        known = self._known.get(start)
        if known is None:
            lowered = start.lower()
            known = tuple(s for s in self.shapes if (lowered if s.any_case else start).startswith(s.starts))
            if len(self._known) >= _KNOWN_MAX:
                # A hostile text may contain words in every mix of cases: bound the memory.
                self._known.clear()
            self._known[start] = known
        return known

    @cached_property
    def _begun(self) -> dict[str, list[_StartPrefix]]:
        """All proper prefixes of start words, longest first, by their last one or two characters."""
        found: dict[tuple[str, bool, str, bool], None] = {}
        for shape in self.shapes:
            for start in shape.starts:
                for size in range(2 if shape.yields else 1, len(start)):
                    found[start[:size], shape.any_case, shape.before, shape.yields] = None
        ends: dict[str, list[_StartPrefix]] = {}
        for begun, any_case, before, yields in sorted(found, key=lambda each: -len(each[0])):
            ends.setdefault(begun[-2:].lower(), []).append((begun, any_case, re.compile(before), yields))
        return ends


def _shortest_names(shapes: tuple[Shape, ...]) -> list[Shape]:
    """Return the shapes whose name pattern extends that of no other: if none of these matches, no shape does."""
    return [shape for shape in shapes if not any(_begins_with(shape, other) for other in shapes)]


def _begins_with(shape: Shape, other: Shape) -> bool:
    own, its = shape.kept or [], other.kept or []
    is_alike = (shape.starts, shape.any_case, shape.before) == (other.starts, other.any_case, other.before)
    return is_alike and len(its) < len(own) and own[: len(its)] == its


def _name_of(shape: Shape) -> str:
    return f"(?i:{shape.name.pattern})" if shape.any_case else f"(?:{shape.name.pattern})"


def _rarest(word: str) -> int:
    """Return the position of the rarest character of a word."""
    return max(range(len(word)), key=lambda at: _RARITY.find(word[at]))


def _grouped(words: Iterable[str]) -> Iterable[list[str]]:
    """Return the words in groups that share their rarest character."""
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word[_rarest(word)], []).append(word)
    return groups.values()


def _shortest(words: Iterable[str], always: Iterable[str]) -> list[str]:
    """Return the words that contain no other one of them, nor one of `always`."""
    others = [*words, *always]
    return [word for word in words if not any(each in word and each != word for each in others)]


def _choice(texts: set[tuple[int, str]]) -> str:
    return "|".join(text for _, text in sorted(texts))

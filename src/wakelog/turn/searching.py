"""Where in a text a secret may begin: found cheaply, because ordinary text has nearly no such place.

Almost every key holds a long run of certain signs, and ordinary text holds few: the text is translated into ones and
blanks, and a row of ones is looked for, first of any signs that keys are made of: most texts have none and are done
with. The few shapes without such a run are found by a word they cannot lack. Only around what is found so are the
beginnings themselves looked for. Nothing is decided here: a place too many costs time, one too few would be a secret
missed.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache, reduce
from typing import TypeAlias

from wakelog.turn.secrets import SHAPES
from wakelog.turn.shapes import WORD_SIGNS, Piece, Run, Shape, longest

# Where first words stand, and the shapes they may belong to.
Place: TypeAlias = tuple[int, tuple[Shape, ...]]
# A word without which there is nothing to look for, and the words to look for.
_Clue: TypeAlias = tuple[bytes, list[bytes]]
LONGEST_START = max(len(start) for shape in SHAPES for start in shape.starts)
# A run may begin so far behind the secret that it gives away.
_FAR = 28
# Below this a look at every place costs less than looking for runs and clues first.
_SHORT = 120


class Runs:
    """Runs of certain signs, so long that ordinary text has few of them."""

    def __init__(self, signs: str, least: int) -> None:
        self._signs = _signs_of(signs)
        self._least = least
        self._ones = bytes(ord("1" if chr(code) in self._signs else " ") for code in range(256))

        self._run = b"1" * least

    def within(self, signs: bytes) -> bool:
        """Whether there is one in a text."""
        return self._run in signs.translate(self._ones)

    def around(self, signs: bytes, at: int) -> Iterator[tuple[int, int]]:
        """The stretches in which a secret may begin that holds such a run."""
        ones = signs.translate(self._ones)
        begin = ones.find(self._run, at)
        while begin >= 0:
            end = ones.find(b" ", begin)
            end = len(ones) if end < 0 else end
            yield max(at, begin - _FAR), end
            begin = ones.find(self._run, end)

    def give_away(self, shape: Shape) -> bool:
        """Whether every secret of a shape holds such a run near its beginning."""
        far = self.behind(shape)
        return far is not None and far <= _FAR

    def behind(self, shape: Shape) -> int | None:
        """How far behind its beginning such a run begins at most in every secret of a shape; None where it may lack."""
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
                return run + least if set(_signs_of(signs)) <= set(self._signs) else 0
            case tuple():
                return min(self._after(run, each) for each in piece)
            case list():
                return reduce(self._after, piece, run)


def _signs_of(signs: str) -> str:
    return "".join(re.findall(f"[{signs}]", bytes(range(256)).decode("latin-1")))


# Two that ordinary text has few of, and one that gives away more shapes and is found more often.
_NARROW = (Runs(WORD_SIGNS, 20), Runs("A-Za-z0-9_+/=%-", 40))
_WIDE = Runs("A-Za-z0-9._~+/=%-", 20)


def beginnings(text: str, at: int) -> Iterator[Place]:
    """The places from `at` on where a secret may begin, in order."""
    if len(text) - at < _SHORT:
        yield from starts(text, at)
        return
    # One byte for each sign, so that places are the same in both.
    signs = text.encode("latin-1", "replace")
    done = at
    for begin, end in _stretches(signs, at):
        yield from starts(text, max(begin, done), end)
        done = max(done, end)


def starts(text: str, begin: int, end: int | None = None) -> Iterator[Place]:
    """The places between two where the first words of a shape stand."""
    end = len(text) if end is None else end
    search = _starts().search
    while begin < end and (found := search(text, begin, end + LONGEST_START)) and found.start() < end:
        yield found.start(), _beginning_with(found.group())
        begin = found.start() + 1


def unfinished(text: str, at: int) -> Iterator[tuple[int, str]]:
    """The places where a text ends amid the first words of a shape, each with what must stand before these."""
    lowered = text[-LONGEST_START:].lower()
    for begun, any_case, before in _begun().get(lowered[-2:], ()):
        if len(begun) <= len(text) - at and (lowered if any_case else text).endswith(begun):
            yield len(text) - len(begun), before
    for begun, any_case, before in _begun().get(lowered[-1:], ()):
        if len(text) > at and (lowered if any_case else text).endswith(begun):
            yield len(text) - 1, before


def _stretches(signs: bytes, at: int) -> list[tuple[int, int]]:
    """Where to look, in order."""
    lowered = signs.lower()
    without_run, with_run = _clues()
    found = _around_clues(without_run, lowered, at)
    if _WIDE.within(signs):
        found += [stretch for runs in _NARROW for stretch in runs.around(signs, at)]
        found += _around_clues(with_run, lowered, at)
    return sorted(found)


def _around_clues(clues: list[_Clue], lowered: bytes, at: int) -> list[tuple[int, int]]:
    there = [word for needs, words in clues if needs in lowered for word in words if word in lowered]
    return [stretch for word in there for stretch in _around(word, lowered, at)]


def _around(word: bytes, lowered: bytes, at: int) -> Iterator[tuple[int, int]]:
    found = lowered.find(word, at)
    while found >= 0:
        yield max(at, found - LONGEST_START), found + 1
        found = lowered.find(word, found + 1)


@cache
def _clues() -> tuple[list[_Clue], list[_Clue]]:
    """What gives the shapes away that no narrow run does: those without any run, and those with a wide one."""
    hidden = [shape for shape in SHAPES if not any(runs.give_away(shape) for runs in _NARROW)]
    with_run = [shape for shape in hidden if _WIDE.behind(shape) is not None]
    return [_clue(shape) for shape in hidden if shape not in with_run], [_clue(shape) for shape in with_run]


def _clue(shape: Shape) -> _Clue:
    return shape.needs.encode(), [word.lower().encode() for word in shape.clues or shape.starts]


@cache
def _starts() -> re.Pattern[str]:
    """The first words of any shape, the longest there are. They are told apart by their first sign alone."""
    groups: dict[str, set[tuple[int, str]]] = {}
    for shape in SHAPES:
        for start in shape.starts:
            text = re.escape(start[1:])
            for sign in {start[0], start[0].upper()} if shape.any_case else {start[0]}:
                groups.setdefault(sign, set()).add((-len(start), f"(?i:{text})" if shape.any_case else text))
    return re.compile("|".join(f"{re.escape(sign)}(?:{_choice(texts)})" for sign, texts in groups.items()))


def _choice(texts: set[tuple[int, str]]) -> str:
    return "|".join(text for _, text in sorted(texts))


@lru_cache(maxsize=1024)
def _beginning_with(start: str) -> tuple[Shape, ...]:
    """The shapes that begin with these words, or with the first of them, in the order of their rank."""
    lowered = start.lower()
    return tuple(shape for shape in SHAPES if (lowered if shape.any_case else start).startswith(shape.starts))


@cache
def _begun() -> dict[str, list[tuple[str, bool, str]]]:
    """All that first words may have come to so far, the longest first, by the one or two signs they end with."""
    found: dict[tuple[str, bool, str], None] = {}
    for shape in SHAPES:
        for start in shape.starts:
            found |= {(start[:size], shape.any_case, shape.before): None for size in range(1, len(start))}
    ends: dict[str, list[tuple[str, bool, str]]] = {}
    for begun in sorted(found, key=lambda each: -len(each[0])):
        ends.setdefault(begun[0][-2:].lower(), []).append(begun)
    return ends

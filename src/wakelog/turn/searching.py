"""Where in a text a secret may begin: found cheaply, because ordinary text has nearly no such place.

Almost every key holds a long run of certain signs, and ordinary text holds few: the text is translated into ones and
blanks, and a row of ones is looked for. The few shapes without such a run are found by a word they cannot lack. Only
around what is found so are the beginnings themselves looked for. Nothing is decided here: a place too many costs time,
one too few would be a secret missed.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import TypeAlias

from wakelog.turn.secrets import SHAPES
from wakelog.turn.shapes import WORD_SIGNS, Piece, Run, Shape, longest

# Where first words stand, and the shapes they may belong to.
Place: TypeAlias = tuple[int, tuple[Shape, ...]]
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

    def around(self, signs: bytes, at: int) -> Iterator[tuple[int, int]]:
        """The stretches in which a secret may begin that holds such a run."""
        ones, run = signs.translate(self._ones), b"1" * self._least
        begin = ones.find(run, at)
        while begin >= 0:
            end = ones.find(b" ", begin)
            end = len(ones) if end < 0 else end
            yield max(at, begin - _FAR), end
            begin = ones.find(run, end)

    def are_in(self, pieces: list[Piece]) -> bool:
        """Whether everything that these pieces match holds such a run, and near its beginning."""
        far = run = 0
        for piece in pieces:
            run = self._after(run, piece)
            if run >= self._least:
                return far <= _FAR
            far += longest(piece)
        return False

    def _after(self, run: int, piece: Piece) -> int:
        match piece:
            case str():
                ending = len(piece) - len(piece.rstrip(self._signs))
                return run + ending if ending == len(piece) else ending
            case Run(signs, least, _):
                return run + least if set(_signs_of(signs)) <= set(self._signs) else 0
            case _:
                return 0


def _signs_of(signs: str) -> str:
    return "".join(re.findall(f"[{signs}]", bytes(range(256)).decode("latin-1")))


@cache
def _runs() -> tuple[Runs, ...]:
    return Runs(WORD_SIGNS, 20), Runs("A-Za-z0-9_+/=%-", 40)


def beginnings(text: str, at: int) -> Iterator[Place]:
    """The places from `at` on where a secret may begin, in order."""
    if len(text) - at < _SHORT:
        yield from starts(text, at)
        return
    # One byte for each sign, so that places are the same in both.
    signs = text.encode("latin-1", "replace")
    done = at
    for begin, end in sorted(_stretches(signs, at)):
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


def has_run(shape: Shape) -> bool:
    """Whether every secret of a shape is given away by a run."""
    return all(any(runs.are_in([start, *shape.pieces]) for runs in _runs()) for start in shape.starts)


def _stretches(signs: bytes, at: int) -> Iterator[tuple[int, int]]:
    for runs in _runs():
        yield from runs.around(signs, at)
    yield from _at_clues(signs, at)


def _at_clues(signs: bytes, at: int) -> Iterator[tuple[int, int]]:
    lowered = signs.lower()
    for clue in _clues():
        found = lowered.find(clue, at)
        while found >= 0:
            yield max(at, found - LONGEST_START), found + 1
            found = lowered.find(clue, found + 1)


@cache
def _clues() -> list[bytes]:
    clues = {clue for shape in SHAPES if not has_run(shape) for clue in (shape.clues or shape.starts)}
    return sorted(clue.lower().encode() for clue in clues)


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

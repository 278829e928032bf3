"""Where in a text a secret may begin: found cheaply, because ordinary text has nearly no such place.

Almost every key holds a long run of word signs, and ordinary text holds few: the text is translated into ones and
blanks, and twenty ones are looked for. The few shapes without such a run are found by a word they cannot lack. Only
around what is found so are the beginnings themselves looked for. Nothing is decided here: a place too many costs time,
one too few would be a secret missed.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TypeAlias

from wakelog.turn.secrets import SHAPES
from wakelog.turn.shapes import WORD_SIGNS, Piece, Run, Shape, longest

LONGEST_START = max(len(start) for shape in SHAPES for start in shape.starts)
_LEAST_RUN = 20
# A run may begin so far behind the secret that it gives away.
_FAR = 16
# Below this a look at every place costs less than looking for runs and clues first.
_SHORT = 120
_RUN = b"1" * _LEAST_RUN
_WORD = re.compile(f"[{WORD_SIGNS}]")
_ONES = bytes(ord("1" if _WORD.match(chr(code)) else " ") for code in range(256))
# Where first words stand, and the shapes they may belong to.
Place: TypeAlias = tuple[int, tuple[Shape, ...]]
_NOTHING: frozenset[str] = frozenset()


def beginnings(text: str, at: int) -> Iterator[Place]:
    """The places from `at` on where a secret may begin, in order."""
    if len(text) - at < _SHORT:
        yield from starts(text, at)
        return
    # One byte for each sign, so that places are the same in both.
    signs = text.encode("latin-1", "replace")
    done = at
    for begin, end in sorted([*_around_runs(signs, at), *_at_clues(signs, at)]):
        yield from starts(text, max(begin, done), end)
        done = max(done, end)


def starts(text: str, begin: int, end: int | None = None) -> Iterator[Place]:
    """The places between two where the first words of a shape stand."""
    end = len(text) if end is None else end
    search = _starts().search
    while begin < end and (found := search(text, begin, end + LONGEST_START)) and found.start() < end:
        yield found.start(), _beginning_with(found.group())
        begin = found.start() + 1


def unfinished(text: str, at: int) -> Iterator[tuple[int, frozenset[str]]]:
    """The places where a text ends amid the first words of shapes, each with what may stand before these."""
    exact, folded = _begun()
    if text[-1:].lower() not in _signs_of_starts():
        return
    for size in range(min(LONGEST_START, len(text) - at), 0, -1):
        end = text[-size:]
        befores = exact.get(end, _NOTHING) | folded.get(end.lower(), _NOTHING)
        if befores:
            yield len(text) - size, befores


def has_run(shape: Shape) -> bool:
    """Whether every secret of a shape holds a long run near its beginning."""
    return all(_run_within([start, *shape.pieces]) for start in shape.starts)


def _run_within(pieces: list[Piece]) -> bool:
    far = run = 0
    for piece in pieces:
        run = _run_after(run, piece)
        if run >= _LEAST_RUN:
            return far <= _FAR
        far += longest(piece)
    return False


def _run_after(run: int, piece: Piece) -> int:
    """How long a run surely is behind a piece, if it was so long before it."""
    match piece:
        case str():
            ending = len(piece) - len(piece.rstrip(_signs_of(WORD_SIGNS)))
            return run + ending if ending == len(piece) else ending
        case Run(signs, least, _):
            return run + least if set(_signs_of(signs)) <= set(_signs_of(WORD_SIGNS)) else 0
        case _:
            return 0


def _signs_of(signs: str) -> str:
    return "".join(re.findall(f"[{signs}]", bytes(range(256)).decode("latin-1")))


def _around_runs(signs: bytes, at: int) -> Iterator[tuple[int, int]]:
    ones = signs.translate(_ONES)
    begin = ones.find(_RUN, at)
    while begin >= 0:
        end = ones.find(b" ", begin)
        end = len(ones) if end < 0 else end
        yield max(at, begin - _FAR), end
        begin = ones.find(_RUN, end)


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
def _signs_of_starts() -> frozenset[str]:
    return frozenset(sign.lower() for shape in SHAPES for start in shape.starts for sign in start[:-1])


@cache
def _begun() -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """All that first words may have come to so far: as they are written, and in any case."""
    exact = _cut_short(shape for shape in SHAPES if not shape.any_case)
    return exact, _cut_short(shape for shape in SHAPES if shape.any_case)


def _cut_short(shapes: Iterable[Shape]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for shape in shapes:
        for start in shape.starts:
            for size in range(1, len(start)):
                found[start[:size]] = found.get(start[:size], _NOTHING) | {shape.before}
    return found

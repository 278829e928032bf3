"""How the shape of a secret is written down, and the two expressions that are made of it.

A shape is a sequence of pieces: words that stand there, a choice of sequences, a run of signs. From one sequence come
the expression that finds it and the one that tells a text which could still become it, so the two agree whatever
a text is cut into. Nothing here knows any particular secret (`secrets.py`) or what is done about one (`redaction.py`).

Found quickly: every shape begins with fixed words, and a text is searched for the rarest sign of those words alone;
what stands before and behind it is looked at only there. Every repetition has a bound, so the cost of a position has
one too, and hostile text costs no more than its length times that bound.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

# Where a key may begin: behind whatever is no letter or digit, and behind those letters that only end an escape.
AFTER_ANY_BREAK = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv])|(?<=[0-9;\[]m)"
    r"|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
)
ANYWHERE = ""
LOOK_BEHIND = 6
_SEPARATORS = "_-.:~/=$"
_RAREST_FIRST = "0123456789JZQXKVYWUGFHBjqzxSNPDRMLOCTIEAkvwybgpfmuhdlcrsionate"
_NEVER = "(?!)"


class Run(msgspec.Struct, frozen=True):
    """So many signs of a class (as between square brackets)."""

    signs: str
    least: int
    most: int

    @property
    def text(self) -> str:
        """The expression of it."""
        return f"[{self.signs}]{{{self.least},{self.most}}}"


# A tuple is a choice, a list a sequence.
Piece: TypeAlias = "str | Run | tuple[Piece, ...] | list[Piece]"


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of secret: its word, the fixed words it begins with, and what must follow.

    `kept` stays readable before the mark; without it the mark stands for the beginning too. `unless` rules out what
    only looks alike, `before` and `behind` say what may stand around it. `rest` are the signs that belong to the
    secret however many come; with `until` they end where that stands.
    """

    word: str
    starts: tuple[str, ...]
    body: list[Piece]
    kept: list[Piece] | None = None
    unless: str = "(?!)"
    before: str = AFTER_ANY_BREAK
    behind: str = ""
    rest: str = "A-Za-z0-9_-"
    until: str = ""
    any_case: bool = False

    @property
    def mark(self) -> str:
        """What stands in the place of the secret."""
        return f"[redacted: {self.word}]"

    @property
    def more(self) -> str:
        """The expression of what else belongs to the secret, once it is known for one."""
        stop = f"(?!{re.escape(self.until)})" if self.until else ""
        return f"(?:{stop}[{self.rest}])*+" if stop else f"[{self.rest}]*+"

    @property
    def sight(self) -> int:
        """How many signs behind the last one of `more` may still decide about it."""
        return max(0, len(self.until) - 1)

    @property
    def reach(self) -> int:
        """How long a text can be that does not yet say whether it is this secret."""
        begin = max(map(len, self.starts))
        return begin + sum(map(longest, [*(self.kept or ()), *self.body])) + bool(self.behind)


def longest(piece: Piece) -> int:
    """The most signs that a piece can be."""
    match piece:
        case str():
            return len(piece)
        case Run():
            return piece.most
        case tuple():
            return max(map(longest, piece))
        case list():
            return sum(map(longest, piece))


def whole(piece: Piece) -> str:
    """The expression that matches a piece."""
    match piece:
        case str():
            return re.escape(piece)
        case Run():
            return piece.text
        case tuple():
            return f"(?:{'|'.join(map(whole, piece))})"
        case list():
            return "".join(map(whole, piece))


def inside(piece: Piece) -> str:
    """The expression of all that ends with the text before the piece does."""
    match piece:
        case str():
            text = _NEVER
            for sign in reversed(piece):
                text = rf"(?:\Z|{re.escape(sign)}{text})"
            return text
        case Run():
            return rf"[{piece.signs}]{{0,{piece.most - 1}}}\Z"
        case tuple():
            return f"(?:{'|'.join(map(inside, piece))})"
        case list():
            text = _NEVER
            for each in reversed(piece):
                text = f"(?:{inside(each)}|{whole(each)}{text})"
            return text


class Way(msgspec.Struct, frozen=True):
    """One way to find a shape: by a sign that stands so many places behind its first. It has one group, the body."""

    shape: Shape
    sign: str
    offset: int
    text: str


def ways(shapes: tuple[Shape, ...]) -> list[Way]:
    """Every way to find one of these."""
    # Of two beginnings that end alike the longer is meant; at the same place the shape that was named first.
    return _in_order(way for shape in shapes for way in _ways(shape))


def openings(shapes: tuple[Shape, ...]) -> list[Way]:
    """Every way to find, at the end of a text, what has begun as one of these and could still become it."""
    return _in_order(way for shape in shapes for way in _openings(shape))


def finder(found: list[Way]) -> str:
    """The expression that finds any of these ways: `lastindex` says which."""
    groups: dict[str, list[str]] = {}
    for way in found:
        groups.setdefault(way.sign, []).append(way.text)
    return "|".join(f"{re.escape(sign)}(?:{'|'.join(texts)})" for sign, texts in groups.items())


def beginnings(shapes: Iterable[Shape]) -> dict[str, set[str]]:
    """All that the first words of a shape may have come to so far, each with what may stand before them."""
    found: dict[str, set[str]] = {}
    for shape in shapes:
        for start in shape.starts:
            for size in range(1, len(start)):
                found.setdefault(start[:size], set()).add(shape.before)
    return found


def _in_order(found: Iterable[Way]) -> list[Way]:
    listed = list(found)
    signs = list(dict.fromkeys(way.sign for way in listed))
    return sorted(listed, key=lambda way: (signs.index(way.sign), -way.offset))


def _ways(shape: Shape) -> Iterator[Way]:
    behind = f"(?!{shape.behind})" if shape.behind else ""
    follows = f"{whole(shape.kept or [])}({whole(shape.body)}){behind}"
    places: dict[tuple[str, int, str], list[str]] = {}
    for start in shape.starts:
        at = _rarest(start)
        places.setdefault((start[at], at, start[at + 1 :]), []).append(re.escape(start[: at + 1]))
    for (sign, at, ahead), seen in places.items():
        yield from _in_cases(shape, sign, at, f"(?<={'|'.join(seen)}){re.escape(ahead)}{follows}")


def _openings(shape: Shape) -> Iterator[Way]:
    pieces: list[Piece] = [*(shape.kept or ()), *shape.body]
    # What may not stand behind it has to be seen, too.
    follows = rf"(?:{inside(pieces)}|{whole(pieces)}\Z)" if shape.behind else inside(pieces)
    for sign in dict.fromkeys(start[0] for start in shape.starts):
        starts = "|".join(re.escape(start[1:]) for start in shape.starts if start[0] == sign)
        yield from _in_cases(shape, sign, 0, f"(?:{starts}){follows}()")


def _in_cases(shape: Shape, sign: str, offset: int, text: str) -> Iterator[Way]:
    if not shape.any_case:
        yield Way(shape, sign, offset, text)
        return
    for written in sorted({sign.lower(), sign.upper()}):
        yield Way(shape, written, offset, f"(?i:{text})")


def _rarest(start: str) -> int:
    separators = [at for at, sign in enumerate(start) if sign in _SEPARATORS]
    return separators[0] if separators else min(range(len(start)), key=lambda at: _RAREST_FIRST.index(start[at]))

"""How the shape of a secret is written down, and the expressions that are made of it.

A shape begins with fixed words; then come pieces: more words, a choice of sequences, a run of signs. From one sequence
come the expression that matches it and the one that tells a text which could still become it, so the two agree
whatever a text is cut into. Every repetition has a bound, so the cost of a place has one too. Nothing here knows any
particular secret (`key_shapes.py`), where to look for one (`scanner.py`) or what is done about it (`redactor.py`).
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Literal, TypeAlias

import msgspec

Redact: TypeAlias = Literal["keys", "assignments", "off"]
"""Which secrets are removed: those with the shape of a key, these and the values of assignments, or none."""
# Where a key may begin: behind whatever is no letter or digit, and behind those letters that only end an escape.
AFTER_ANY_BREAK = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv])|(?<=[0-9;\[][A-HJKSTfm])"
    r"|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
)
ANYWHERE = ""
# How far before its first words a shape may look, and how much of a streamed text is therefore remembered.
LOOK_BEHIND = 256
NEVER = "(?!)"
# Nearly every key is a run of these.
WORD_SIGNS = "A-Za-z0-9_-"


class Run(msgspec.Struct, frozen=True):
    """So many signs of a class (as between square brackets).

    With `escapes` a backslash and the sign behind it count as one more sign of the class. A run that is `maximal` is
    never shorter than it could be: what stands right behind it is no sign of the class, unless it has the most.
    """

    signs: str
    least: int
    most: int
    escapes: bool = False
    maximal: bool = False

    @property
    def unit(self) -> str:
        """The expression of one sign."""
        return rf"(?:[{self.signs}]|\\[\s\S])" if self.escapes else f"[{self.signs}]"


# A tuple is a choice, a list a sequence.
Piece: TypeAlias = "str | Run | tuple[Piece, ...] | list[Piece]"


class Shape(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """One kind of secret: its word, the words it begins with (any of them), and what must follow.

    `kept` stays readable before the mark; without it the mark stands for the beginning too. `unless` rules out what
    only looks alike, `before` and `behind` say what must and what may not stand around it. `rest` are the signs
    that belong to the secret however many come; with `until` they end where that stands. `clues`
    are words one of which stands in every secret, near its beginning: quicker to look for than the beginnings. `needs`
    is a word that stands in every secret, right behind it, or at most `LOOK_BEHIND` before it.

    `check` is asked about a text that matches, and says whether it is a secret: it gets what stands before the match
    (at most `LOOK_BEHIND` signs), what is kept, and the body. A shape that `yields` counts from its body on: what it
    keeps is a name that may be shown at once, and a shape that does not yield and begins with the body, or before it,
    comes first.
    """

    word: str
    starts: tuple[str, ...]
    body: list[Piece]
    kept: list[Piece] | None = None
    unless: str = NEVER
    before: str = AFTER_ANY_BREAK
    behind: str = ""
    rest: str = WORD_SIGNS
    until: str = ""
    any_case: bool = False
    clues: tuple[str, ...] = ()
    needs: str = ""
    check: Callable[[str, str, str], bool] | None = None
    yields: bool = False

    @property
    def mark(self) -> str:
        """What stands in the place of the secret."""
        return f"[redacted: {self.word}]"

    @property
    def pieces(self) -> list[Piece]:
        """All that follows the beginning."""
        return [*(self.kept or ()), *self.body]

    @property
    def reach(self) -> int:
        """How long a text can be that does not yet say whether it is this secret."""
        return max(map(len, self.starts)) + longest(self.pieces) + bool(self.behind)

    @property
    def least(self) -> int:
        """How short a text can be that is this secret."""
        return min(map(len, self.starts)) + shortest(self.pieces)

    @property
    def lookahead(self) -> int:
        """How many signs behind the last one of `more` may still decide about it."""
        return max(0, len(self.until) - 1)

    @cached_property
    def escapes(self) -> bool:
        """Whether a backslash makes the sign behind it belong to the secret."""
        last = self.body[-1]
        return isinstance(last, Run) and last.escapes

    def found(self, text: str, place: int) -> re.Match[str] | None:
        """The secret of this shape that begins at a place of a text."""
        match = self.whole.match(text, place)
        if match is None or self.check is None:
            return match
        before = text[max(0, place - LOOK_BEHIND) : place]
        return match if self.check(before, text[place : match.start(1)], match.group(1)) else None

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """Matches the shape where it begins. The one group is the body."""
        behind = f"(?!{self.behind})" if self.behind else ""
        return self._compiled(f"{whole(self.kept or [])}(?!{self.unless})({whole(self.body)}){behind}")

    @cached_property
    def name(self) -> re.Pattern[str]:
        """Matches what is kept: all that stands before the body."""
        return self._compiled(whole(self.kept or []))

    @cached_property
    def opened(self) -> re.Pattern[str]:
        """Matches, where the shape begins, a text that ends too early to say whether it is one."""
        # What may not stand behind it has to be seen, too.
        pending = rf"|{whole(self.pieces)}\Z" if self.behind else ""
        return self._compiled(f"(?:{inside(self.pieces)}{pending})")

    @cached_property
    def more(self) -> re.Pattern[str]:
        """Matches what else belongs to the secret, once it is known for one."""
        stop = f"(?!{re.escape(self.until)})" if self.until else ""
        return re.compile(f"(?:{stop}{Run(self.rest, 1, 1, escapes=self.escapes).unit})*+")

    def _compiled(self, follows: str) -> re.Pattern[str]:
        starts = "|".join(map(re.escape, self.starts))
        return re.compile(f"{self.before}(?:{starts}){follows}", re.IGNORECASE if self.any_case else 0)


def longest(piece: Piece) -> int:
    """The most signs that a piece can be."""
    match piece:
        case str():
            return len(piece)
        case Run():
            return piece.most * (2 if piece.escapes else 1)
        case tuple():
            return max(map(longest, piece))
        case list():
            return sum(map(longest, piece))


def shortest(piece: Piece) -> int:
    """The fewest signs that a piece can be."""
    match piece:
        case str():
            return len(piece)
        case Run():
            return piece.least
        case tuple():
            return min(map(shortest, piece))
        case list():
            return sum(map(shortest, piece))


def whole(piece: Piece) -> str:
    """The expression that matches a piece."""
    match piece:
        case str():
            return re.escape(piece)
        case Run():
            return f"{piece.unit}{{{piece.least},{piece.most}}}{'+' if piece.maximal else ''}"
        case tuple():
            return f"(?:{'|'.join(map(whole, piece))})"
        case list():
            return "".join(map(whole, piece))


def inside(piece: Piece) -> str:
    """The expression of all that ends with the text before the piece does."""
    match piece:
        case str():
            return _nested((r"\Z", re.escape(sign)) for sign in reversed(piece))
        case Run():
            cut = r"\\?" if piece.escapes else ""
            return rf"{piece.unit}{{0,{piece.most - 1}}}{cut}\Z"
        case tuple():
            return f"(?:{'|'.join(map(inside, piece))})"
        case list():
            return _nested((inside(each), whole(each)) for each in reversed(piece))


def _nested(steps: Iterator[tuple[str, str]]) -> str:
    text = NEVER
    for ended, passed in steps:
        text = f"(?:{ended}|{passed}{text})"
    return text

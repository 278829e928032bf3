"""Shapes of secrets: their description, and the regular expressions compiled from it.

A shape begins with a fixed start word; then come pieces: more words, choices, sequences, and runs of characters. The
expression for the complete shape and the one for an incomplete text that may still become it are generated from the
same pieces, so they agree wherever a stream is split. Every repetition that decides about a match is bounded, so the
cost per position is bounded too. Particular secrets are in `key_shapes.py` and `assignments.py`, the search is in
`scanner.py`, and the replacement in `redactor.py`.
"""

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeAlias

import msgspec

# A key may begin after anything but a letter or digit, and after letters and digits that end an escape sequence.
AFTER_ANY_BREAK = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrtv])|(?<=[0-9;\[][A-HJKSTfm])"
    r"|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
)
ANYWHERE = ""
# How far before its start word a shape may look, and how much of a streamed text is kept for that.
LOOK_BEHIND = 256
NEVER = "(?!)"
# Most keys are a run of these characters.
WORD_CHARS = "A-Za-z0-9_-"


class Run(msgspec.Struct, frozen=True):
    """`least` to `most` characters of a class, written as between square brackets in a regular expression.

    With `escapes` a backslash and the next character count as one character of the class. A `maximal` run is matched
    possessively: the next character is not of the class, unless the run has `most` characters.
    """

    chars: str
    least: int
    most: int
    escapes: bool = False
    maximal: bool = False

    @property
    def unit(self) -> str:
        """The regular expression for one character."""
        return rf"(?:[{self.chars}]|\\[\s\S])" if self.escapes else f"[{self.chars}]"


# A tuple is a choice, a list a sequence.
Piece: TypeAlias = "str | Run | tuple[Piece, ...] | list[Piece]"


class Shape(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """One kind of secret: its word (used in the mark), its possible start words, and the pieces that must follow.

    `kept` stays readable before the mark; if it is None, the mark replaces the start word too. `unless` (tested at the
    body) excludes lookalikes. `before` must match before the start word, `behind` must not match after the body. `rest`
    are the characters that continue a recognised secret, without limit, or up to the text `until`. Every secret
    contains one of `clues` near its beginning: these are faster to search for than the start words. `needs` is a
    character that is in every secret or directly after it.

    `check` decides whether a match is a secret; it gets the text before the match (at most `LOOK_BEHIND` characters),
    the kept part, and the body. The position of a shape that `yields` is that of its body: the kept part is a name that
    may be displayed at once, and a shape that does not yield has precedence if it begins at the body or before.
    """

    kind: str
    starts: tuple[str, ...]
    body: list[Piece]
    kept: list[Piece] | None = None
    unless: str = NEVER
    before: str = AFTER_ANY_BREAK
    behind: str = ""
    rest: str = WORD_CHARS
    until: str = ""
    any_case: bool = False
    clues: tuple[str, ...] = ()
    needs: str = ""
    check: Callable[[str, str, str], bool] | None = None
    yields: bool = False

    @property
    def mark(self) -> str:
        """The text that replaces the secret."""
        return f"[redacted: {self.kind}]"

    @property
    def pieces(self) -> list[Piece]:
        """The pieces after the start word."""
        return [*(self.kept or ()), *self.body]

    @property
    def reach(self) -> int:
        """The maximum length of a text for which it is undecided whether it is this secret."""
        return max(map(len, self.starts)) + longest(self.pieces) + bool(self.behind)

    @property
    def least(self) -> int:
        """The minimum length of this secret."""
        return min(map(len, self.starts)) + shortest(self.pieces)

    @property
    def lookahead(self) -> int:
        """How many characters after the last one that matches may still decide whether that belongs to the secret."""
        return max(0, len(self.until) - 1)

    @cached_property
    def escapes(self) -> bool:
        """Whether a backslash and the next character belong to the secret."""
        last = self.body[-1]
        return isinstance(last, Run) and last.escapes

    def found(self, text: str, place: int) -> re.Match[str] | None:
        """Return the match of a secret of this shape at a position of a text, if `check` accepts it."""
        match = self.whole.match(text, place)
        if match is None or self.check is None:
            return match
        before = text[max(0, place - LOOK_BEHIND) : place]
        return match if self.check(before, text[place : match.start(1)], match.group(1)) else None

    @cached_property
    def whole(self) -> re.Pattern[str]:
        """Matches the shape at its beginning. Group 1 is the body."""
        behind = f"(?!{self.behind})" if self.behind else ""
        return self._compiled(f"{pattern_of(self.kept or [])}(?!{self.unless})({pattern_of(self.body)}){behind}")

    @cached_property
    def name(self) -> re.Pattern[str]:
        """Matches the kept part: the start word and everything up to the body."""
        return self._compiled(pattern_of(self.kept or []))

    @cached_property
    def opened(self) -> re.Pattern[str]:
        """Matches, at the beginning of the shape, a text that ends too early to decide whether it matches."""
        # With `behind`, the character after the body must be known too.
        pending = rf"|{pattern_of(self.pieces)}\Z" if self.behind else ""
        return self._compiled(f"(?:{partial_pattern_of(self.pieces)}{pending})")

    @cached_property
    def more(self) -> re.Pattern[str]:
        """Matches the further characters of a recognised secret."""
        stop = f"(?!{re.escape(self.until)})" if self.until else ""
        return re.compile(f"(?:{stop}{Run(self.rest, 1, 1, escapes=self.escapes).unit})*+")

    def _compiled(self, follows: str) -> re.Pattern[str]:
        starts = "|".join(map(re.escape, self.starts))
        return re.compile(f"{self.before}(?:{starts}){follows}", re.IGNORECASE if self.any_case else 0)


def longest(piece: Piece) -> int:
    """Return the maximum length of a piece."""
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
    """Return the minimum length of a piece."""
    match piece:
        case str():
            return len(piece)
        case Run():
            return piece.least
        case tuple():
            return min(map(shortest, piece))
        case list():
            return sum(map(shortest, piece))


def pattern_of(piece: Piece) -> str:
    """Return the regular expression that matches a piece."""
    match piece:
        case str():
            return re.escape(piece)
        case Run():
            return f"{piece.unit}{{{piece.least},{piece.most}}}{'+' if piece.maximal else ''}"
        case tuple():
            return f"(?:{'|'.join(map(pattern_of, piece))})"
        case list():
            return "".join(map(pattern_of, piece))


def partial_pattern_of(piece: Piece) -> str:
    """Return the regular expression that matches if the text ends inside the piece."""
    match piece:
        case str():
            return _nested((r"\Z", re.escape(sign)) for sign in reversed(piece))
        case Run():
            cut = r"\\?" if piece.escapes else ""
            return rf"{piece.unit}{{0,{piece.most - 1}}}{cut}\Z"
        case tuple():
            return f"(?:{'|'.join(map(partial_pattern_of, piece))})"
        case list():
            return _nested((partial_pattern_of(each), pattern_of(each)) for each in reversed(piece))


def _nested(steps: Iterator[tuple[str, str]]) -> str:
    text = NEVER
    for ended, passed in steps:
        text = f"(?:{ended}|{passed}{text})"
    return text

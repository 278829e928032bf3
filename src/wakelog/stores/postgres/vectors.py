"""Text search vectors: build a tsvector from the words of `lexing`, and a tsquery to search it.

Both are written as text with every word quoted, and passed as parameters: no parser or dictionary of the server
processes them, and no word can act as an operator. Pure.
A tsvector has limits. Of a word that is too long only the beginning is stored. Positions are stored for the first
sixteen thousand words, and are used only for ranking. If a text has more different words than fit, the sign `+` is
stored instead of the rest; words are letters and digits, so the sign is never a word. In these cases the search also
looks at the folded text.
"""

from collections.abc import Sequence

import msgspec

from wakelog.stores.catalog.lexing import Lexing
from wakelog.stores.catalog.query import Query, Term

MORE = "+"
_WORD_MAX_BYTES = 2_046
_POSITION_MAX = 16_383
_POSITIONS_MAX = 255
# A tsvector may have 1 MiB; a word takes its bytes, a count, and two bytes for each position.
_VECTOR_MAX_BYTES = 1_000_000
_WORD_COST = 6


def vector(folded: str) -> str:
    """The tsvector of a folded text: words in order, separated by single spaces."""
    places: dict[str, list[int]] = {}
    for position, word in enumerate(folded.split(" ") if folded else (), 1):
        places.setdefault(_cut(word), []).append(position)
    written, room = [], _VECTOR_MAX_BYTES
    for word, positions in places.items():
        kept = [position for position in positions[:_POSITIONS_MAX] if position <= _POSITION_MAX]
        room -= len(word.encode()) + _WORD_COST + 2 * len(kept)
        if room < 0:
            written.append(_quoted(MORE))
            break
        written.append(f"{_quoted(word)}:{','.join(map(str, kept))}" if kept else _quoted(word))
    return " ".join(written)


class Wanted(msgspec.Struct, frozen=True):
    """The conditions on a text: a tsquery of all words, and strings that must or must not be in `folded`.

    `held`: phrases and long words, which the vector cannot decide; they must be in the folded text as well. `each`: the
    strings that must be in it if the vector is incomplete. `shunned`: strings that must not be in it. `is_possible`:
    False if a wanted term has no letters or digits, so that no text can match.
    """

    query: str
    held: list[str]
    each: list[str]
    shunned: list[str]
    is_possible: bool


def wanted(query: Query, lexing: Lexing) -> Wanted:
    """The conditions for the terms of a query."""
    folded = lexing.folded([term.text for term in query.terms])
    terms = [(term, text) for term, text in zip(query.terms, folded, strict=True) if text]
    must = [(term, text) for term, text in terms if not term.without]
    return Wanted(
        query=" & ".join(word for term, text in must for word in _asked(term, text)),
        held=[_in_folded(term, text) for term, text in must if " " in text or len(text.encode()) >= _WORD_MAX_BYTES],
        each=[_in_folded(term, text) for term, text in must],
        shunned=[_in_folded(term, text) for term, text in terms if term.without],
        is_possible=len(must) == len(query.wanted),
    )


def _asked(term: Term, folded: str) -> Sequence[str]:
    """The words of a term, written for a tsquery."""
    *before, last = map(_quoted, map(_cut, folded.split(" ")))
    return [*before, f"{last}:*" if term.prefix else last]


def _cut(word: str) -> str:
    """A word, cut to the length that can be indexed."""
    if len(word) * 4 <= _WORD_MAX_BYTES:
        return word
    return word.encode()[:_WORD_MAX_BYTES].decode("utf-8", "ignore")


def _in_folded(term: Term, folded: str) -> str:
    return f" {folded}" if term.prefix else f" {folded} "


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"

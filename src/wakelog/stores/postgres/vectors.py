"""Words as PostgreSQL indexes them: a tsvector of what `lexing` has cut, and a tsquery to ask it with.

Both are written as text with every word in quotes, and handed over as values: no parser or dictionary of the server
looks at them, and no operator can come in with a word. Pure.
A tsvector has limits: of a word that is too long, its beginning stands there; positions are kept for the first sixteen
thousand words, and only count for the rank; and where a text has more different words than fit, a sign says so. A word
is letters and digits, so it can be no word. Whoever asks looks into the folded text where the vector says too little.
"""

from collections.abc import Sequence

import msgspec

from wakelog.stores.catalog.lexing import Lexing
from wakelog.stores.catalog.query import Query, Term

MORE = "+"
_WORD_MAX_BYTES = 2_046
_POSITION_MAX = 16_383
_POSITIONS_MAX = 255
# A tsvector ends at 1 MiB; a word takes up its bytes, a count, and two bytes for every position.
_VECTOR_MAX_BYTES = 1_000_000
_WORD_COST = 6


def vector(folded: str) -> str:
    """A tsvector of words that stand in their order with a space between two."""
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
    """What a text must hold, and what it must not: a tsquery of all words, and texts to look for in `folded`.

    A vector does not say what stands beside what, nor how a long word ends: `held` must be in the text as well. Where
    it does not say all, `each` must be. `is_possible`: no text holds a word in which there is no letter.
    """

    query: str
    held: list[str]
    each: list[str]
    shunned: list[str]
    is_possible: bool


def wanted(query: Query, lexing: Lexing) -> Wanted:
    """The terms of a query."""
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
    """The words of a term as they stand in a tsquery."""
    *before, last = map(_quoted, map(_cut, folded.split(" ")))
    return [*before, f"{last}:*" if term.prefix else last]


def _cut(word: str) -> str:
    """A word, or as much of it as can be indexed."""
    if len(word) * 4 <= _WORD_MAX_BYTES:
        return word
    return word.encode()[:_WORD_MAX_BYTES].decode("utf-8", "ignore")


def _in_folded(term: Term, folded: str) -> str:
    return f" {folded}" if term.prefix else f" {folded} "


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"

"""Full-text search in PostgreSQL: build tsvectors and tsqueries, find entries with the GIN index, rank them.

Vectors and queries are written as text with every word quoted, and passed as parameters: no parser or dictionary of the
server processes them, and no word can act as an operator. The words come from the tokenizer that all stores share.
A tsvector has limits. Of a word that is too long only the beginning is stored. Positions are stored for the first
sixteen thousand words, and are used only for ranking. If a text has more different words than fit, the sign `+` is
stored instead of the rest; words are letters and digits, so the sign is never a word. In these cases, and for phrases,
the search also looks at the tokenized text.
Entries are ranked with `ts_rank_cd`, in a deterministic order. Excerpts are made as in the other stores.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

import msgspec
from psycopg.rows import TupleRow

from wakelog.ports.catalogs import SearchHit
from wakelog.stores.catalog.full_text import BEGINNING_CHARS, Tokenizer, first_words, match_expression
from wakelog.stores.catalog.query import FieldName, HitPosition, Query, Term, encode_cursor, values_to_bind
from wakelog.stores.postgres.connections import Connection

TRUNCATED = "+"
_WORD_MAX_BYTES = 2_046
_POSITION_MAX = 16_383
_POSITIONS_MAX = 255
# A tsvector may have 1 MiB; a word takes its bytes, a count, and two bytes for each position.
_VECTOR_MAX_BYTES = 1_000_000
_WORD_COST = 6


def build_tsvector(folded: str) -> str:
    """The tsvector of a folded text: words in order, separated by single spaces."""
    places: dict[str, list[int]] = {}
    for position, word in enumerate(folded.split(" ") if folded else (), 1):
        places.setdefault(_clip_word(word), []).append(position)
    written, room = [], _VECTOR_MAX_BYTES
    for word, positions in places.items():
        kept = [position for position in positions[:_POSITIONS_MAX] if position <= _POSITION_MAX]
        room -= len(word.encode()) + _WORD_COST + 2 * len(kept)
        if room < 0:
            written.append(_quoted_word(TRUNCATED))
            break
        written.append(f"{_quoted_word(word)}:{','.join(map(str, kept))}" if kept else _quoted_word(word))
    return " ".join(written)


class TextConditions(msgspec.Struct, frozen=True):
    """The conditions on a text: a tsquery of all words, and strings that must or must not be in the folded text.

    `phrases`: phrases and long words, which the vector cannot decide; they must be in the folded text as well. `terms`:
    the strings that must be in it if the vector is incomplete. `excluded`: strings that must not be in it.
    `is_possible`: False if a wanted term has no letters or digits, so that no text can match.
    """

    query: str
    phrases: list[str]
    terms: list[str]
    excluded: list[str]
    is_possible: bool


def text_conditions(query: Query, lexing: Tokenizer) -> TextConditions:
    """The conditions for the terms of a query."""
    folded = lexing.tokenize([term.text for term in query.terms])
    terms = [(term, text) for term, text in zip(query.terms, folded, strict=True) if text]
    must = [(term, text) for term, text in terms if not term.without]
    return TextConditions(
        query=" & ".join(word for term, text in must for word in _tsquery_words(term, text)),
        phrases=[_in_folded(term, text) for term, text in must if " " in text or len(text.encode()) >= _WORD_MAX_BYTES],
        terms=[_in_folded(term, text) for term, text in must],
        excluded=[_in_folded(term, text) for term, text in terms if term.without],
        is_possible=len(must) == len(query.wanted),
    )


def _tsquery_words(term: Term, folded: str) -> Sequence[str]:
    """The words of a term, written for a tsquery."""
    *before, last = map(_quoted_word, map(_clip_word, folded.split(" ")))
    return [*before, f"{last}:*" if term.prefix else last]


def _clip_word(word: str) -> str:
    """A word, cut to the length that can be indexed."""
    if len(word) * 4 <= _WORD_MAX_BYTES:
        return word
    return word.encode()[:_WORD_MAX_BYTES].decode("utf-8", "ignore")


def _in_folded(term: Term, folded: str) -> str:
    return f" {folded}" if term.prefix else f" {folded} "


def _quoted_word(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


_RANKED: LiteralString = """
WITH found AS (
  SELECT -ts_rank_cd(e.words, asked.query, 1)::float8 AS rank, -e.time_ms AS age_ms, s.name, e.place,
         s.id AS session, e.id AS entry, e.type, e.timestamp, e.seq
  FROM wakelog.entries AS e JOIN wakelog.sessions AS s ON s.name = e.name, (SELECT %s::tsquery AS query) AS asked
  WHERE e.words @@ (asked.query || %s::tsquery) AND (e.words @@ asked.query OR (true
"""
_BEST_FIRST: LiteralString = """
)
SELECT * FROM found
WHERE (rank, age_ms, name, place) > (%s::float8, %s::bigint, %s::text COLLATE "C", %s::bigint)
ORDER BY rank, age_ms, name, place LIMIT %s
"""
_NEWEST: LiteralString = """
SELECT 0::float8, -e.time_ms, s.name, e.place, s.id, e.id, e.type, e.timestamp, e.seq
FROM wakelog.entries AS e JOIN wakelog.sessions AS s ON s.name = e.name
WHERE e.time_ms <= %s AND (-e.time_ms, s.name, e.place) > (%s::bigint, %s::text COLLATE "C", %s::bigint)
"""
_NEWEST_FIRST: LiteralString = " ORDER BY e.time_ms DESC, s.name, e.place LIMIT %s"
_CONDITIONS: dict[FieldName, LiteralString] = {
    "agent": "s.agent = %s",
    "sender": "s.sender = %s",
    "cwd": "(s.cwd = %s OR starts_with(s.cwd, %s))",
    "tool": "strpos(e.tools, %s) > 0",
    "type": "e.type = %s",
    "since": "e.time_ms >= %s",
}
_END_OF_TERMS: LiteralString = "))"
_CONTAINS: LiteralString = " AND strpos(e.folded, %s) > 0"
_LACKS: LiteralString = " AND strpos(e.folded, %s) = 0"
_TEXTS = """
SELECT e.text FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS wanted (name, place, at)
JOIN wakelog.entries AS e ON e.name = wanted.name AND e.place = wanted.place ORDER BY wanted.at
"""
# As bytes: a database with the encoding SQL_ASCII may cut a character in two.
_BEGINNINGS = """
SELECT convert_to(left(e.text, %s::int), 'SQL_ASCII')
FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS wanted (name, place, at)
JOIN wakelog.entries AS e ON e.name = wanted.name AND e.place = wanted.place ORDER BY wanted.at
"""
_FIRST_POSITION = HitPosition(0, float("-inf"), -(1 << 63) + 1, "", -1)


class PostgresSearch:
    """The search of one query. `mark` goes into the cursors of the hits."""

    def __init__(self, lexing: Tokenizer, query: Query, now_ms: int, mark: int) -> None:
        self._lexing = lexing
        self._mark = mark
        self._match = match_expression(query)
        self._wanted = text_conditions(query, lexing)
        conditions: list[LiteralString] = [_CONTAINS] * len(self._wanted.phrases) + [_LACKS] * len(
            self._wanted.excluded
        )
        values: list[Any] = [*self._wanted.phrases, *self._wanted.excluded]
        for field in query.fields:
            conditions += (" AND NOT " if field.without else " AND ", _CONDITIONS[field.name])
            values += values_to_bind(field, now_ms)
        self._conditions, self._values = "".join(conditions), values

    def hits_after(self, connection: Connection, after: HitPosition | None, limit: int) -> list[SearchHit]:
        """Up to `limit` hits behind a place; the first ones for None."""
        if not self._wanted.is_possible:
            return []
        find = self._ranked if self._wanted.query else self._newest
        found = find(connection, after or _FIRST_POSITION, limit)
        excerpts = self._excerpts(connection, [row[2] for row in found], [row[3] for row in found])
        return [self._hit(row, excerpt) for row, excerpt in zip(found, excerpts, strict=True)]

    def _ranked(self, connection: Connection, after: HitPosition, limit: int) -> list[TupleRow]:
        start = (after.rank, after.age_ms, after.name, after.place)
        each: LiteralString = _CONTAINS * len(self._wanted.terms) + _END_OF_TERMS
        values = (self._wanted.query, f"'{TRUNCATED}'", *self._wanted.terms, *self._values, *start, limit)
        return connection.execute(_RANKED + each + self._conditions + _BEST_FIRST, values, binary=True).fetchall()

    def _newest(self, connection: Connection, after: HitPosition, limit: int) -> list[TupleRow]:
        """The hits of a query without words: all entries that meet its other conditions, the newest first."""
        start = (-after.age_ms, after.age_ms, after.name, after.place)
        values = (*start, *self._values, limit)
        return connection.execute(_NEWEST + self._conditions + _NEWEST_FIRST, values, binary=True).fetchall()

    def _hit(self, row: tuple[Any, ...], excerpt: str) -> SearchHit:
        rank, age_ms, name, place, session, entry, kind, stamp, seq = row
        cursor = encode_cursor(HitPosition(self._mark, rank, age_ms, name, place))
        return SearchHit(session, name, entry, kind, stamp, excerpt, cursor, seq)

    def _excerpts(self, connection: Connection, names: list[str], places: list[int]) -> list[str]:
        """The excerpts of hits. Texts may be long, so they are streamed one by one."""
        if not names:
            return []
        with connection.cursor(binary=True) as cursor:
            if not self._match:
                texts = cursor.stream(_BEGINNINGS, (BEGINNING_CHARS, names, places))
                return [first_words(raw.decode("utf-8", "ignore")) for (raw,) in texts]
            texts = (text for (text,) in cursor.stream(_TEXTS, (names, places)))
            return self._lexing.excerpts(texts, self._match)

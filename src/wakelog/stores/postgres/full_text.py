"""Full-text search in PostgreSQL: build tsvectors and tsqueries, find entries with the GIN index, rank them.

Vectors and queries are written as text with every word quoted, and passed as parameters: no parser or dictionary of the
server processes them, and no word can act as an operator. The words come from the tokenizer that all stores share.
A tsvector has limits. Of a word that is too long only the beginning is stored. Positions are stored for the first
sixteen thousand words, and for 255 occurrences of a word. If a text has more different words than fit, the sign `+` is
stored instead of the rest; words are letters and digits, so the sign is never a word. Only for such texts the tokenized
text is stored too, and the search looks at it; for all others the vector decides, phrases included.
Entries are ranked with `ts_rank_cd`, in a deterministic order. Excerpts are made as in the other stores, from the lines
of the logs: the catalog does not store the texts a second time (`log_texts.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, LiteralString

import msgspec
from psycopg.rows import TupleRow

from wakelog.ports.catalogs import SearchHit
from wakelog.stores.catalog.full_text import Tokenizer, first_words, match_expression
from wakelog.stores.catalog.log_texts import IndexedEntry, text_in, texts
from wakelog.stores.catalog.query import FieldName, HitPosition, Query, Term, encode_cursor, values_to_bind
from wakelog.stores.postgres.connections import Connection

TRUNCATED = "+"
_WORD_MAX_BYTES = 2_046
_POSITION_MAX = 16_383
_POSITIONS_MAX = 255
# A tsvector may have 1 MiB; a word takes its bytes, a count, and two bytes for each position.
_VECTOR_MAX_BYTES = 1_000_000
_WORD_COST = 6


def build_tsvector(folded: str) -> tuple[str, bool]:
    """The tsvector of a folded text (words in order, separated by single spaces), and whether it has all of it."""
    places: dict[str, list[int]] = {}
    is_complete = True
    for position, word in enumerate(folded.split(" ") if folded else (), 1):
        places.setdefault(_clip_word(word), []).append(position)
    written, room = [], _VECTOR_MAX_BYTES
    for word, positions in places.items():
        kept = [position for position in positions[:_POSITIONS_MAX] if position <= _POSITION_MAX]
        size = len(word.encode())
        room -= size + _WORD_COST + 2 * len(kept)
        is_complete = is_complete and len(kept) == len(positions) and 0 < size < _WORD_MAX_BYTES
        if room < 0:
            written.append(_quoted_word(TRUNCATED))
            is_complete = False
            break
        written.append(f"{_quoted_word(word)}:{','.join(map(str, kept))}" if kept else _quoted_word(word))
    return " ".join(written), is_complete


class TextConditions(msgspec.Struct, frozen=True):
    """The conditions on a text: a tsquery of all words, and terms that the text must or must not have as well.

    A term is a tsquery, for a complete vector, and a string that is then in the folded text, for an incomplete one.
    `phrases`: wanted phrases and long words, which the tsquery of all words does not decide. `terms`: the strings of
    all wanted terms. `excluded`: unwanted terms. `is_possible`: False if a wanted term has no letters or digits, so
    that no text can match.
    """

    query: str
    phrases: list[tuple[str, str]]
    terms: list[str]
    excluded: list[tuple[str, str]]
    is_possible: bool


def text_conditions(query: Query, lexing: Tokenizer) -> TextConditions:
    """The conditions for the terms of a query."""
    folded = lexing.tokenize([term.text for term in query.terms])
    terms = [(term, text) for term, text in zip(query.terms, folded, strict=True) if text]
    must = [(term, text) for term, text in terms if not term.without]
    return TextConditions(
        query=" & ".join(word for term, text in must for word in _tsquery_words(term, text)),
        phrases=[_both(term, text) for term, text in must if " " in text or len(text.encode()) >= _WORD_MAX_BYTES],
        terms=[_in_folded(term, text) for term, text in must],
        excluded=[_both(term, text) for term, text in terms if term.without],
        is_possible=len(must) == len(query.wanted),
    )


def _tsquery_words(term: Term, folded: str) -> Sequence[str]:
    """The words of a term, written for a tsquery."""
    *before, last = map(_quoted_word, map(_clip_word, folded.split(" ")))
    return [*before, f"{last}:*" if term.prefix else last]


def _both(term: Term, folded: str) -> tuple[str, str]:
    """A term as a tsquery for words one after the other, and as a part of a folded text."""
    return " <-> ".join(_tsquery_words(term, folded)), _in_folded(term, folded)


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
         s.id AS session, e.id AS entry, e.type, e.timestamp, e.seq, e.mark
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
SELECT 0::float8, -e.time_ms, s.name, e.place, s.id, e.id, e.type, e.timestamp, e.seq, e.mark
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
# The folded text is empty where the vector has all of it.
_HAS: LiteralString = " AND CASE e.folded WHEN '' THEN e.words @@ %s::tsquery ELSE strpos(e.folded, %s) > 0 END"
_LACKS: LiteralString = " AND NOT CASE e.folded WHEN '' THEN e.words @@ %s::tsquery ELSE strpos(e.folded, %s) > 0 END"
# LATERAL with a LIMIT makes the planner look each row up by its key, whatever its row estimates are.
_ROWS_BY_ID = """
SELECT line.bytes FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS wanted (name, id, at)
LEFT JOIN LATERAL (SELECT session FROM wakelog.directory WHERE name = wanted.name LIMIT 1) AS log ON true
LEFT JOIN LATERAL (
  SELECT bytes FROM wakelog.lines WHERE session = log.session AND id = wanted.id LIMIT 1) AS line ON true
ORDER BY wanted.at
"""
_ROW_BY_SEQ = """
SELECT bytes FROM wakelog.lines
WHERE session = (SELECT session FROM wakelog.directory WHERE name = %s) AND seq = %s
"""
_LOG = """
SELECT bytes FROM wakelog.lines WHERE session = (SELECT session FROM wakelog.directory WHERE name = %s) ORDER BY number
"""
_FIRST_POSITION = HitPosition(0, float("-inf"), -(1 << 63) + 1, "", -1)


class PostgresSearch:
    """The search of one query. `mark` goes into the cursors of the hits."""

    def __init__(self, lexing: Tokenizer, query: Query, now_ms: int, mark: int) -> None:
        self._lexing = lexing
        self._mark = mark
        self._match = match_expression(query)
        self._wanted = text_conditions(query, lexing)
        conditions: list[LiteralString] = [_HAS] * len(self._wanted.phrases) + [_LACKS] * len(self._wanted.excluded)
        values: list[Any] = [value for term in (*self._wanted.phrases, *self._wanted.excluded) for value in term]
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
        excerpts = self._excerpts(connection, [_indexed_entry(row) for row in found])
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
        rank, age_ms, name, place, session, entry, kind, stamp, seq, _ = row
        cursor = encode_cursor(HitPosition(self._mark, rank, age_ms, name, place))
        return SearchHit(session, name, entry, kind, stamp, excerpt, cursor, seq)

    def _excerpts(self, connection: Connection, entries: Sequence[IndexedEntry]) -> list[str]:
        """The excerpts of hits. Texts may be long, so they are streamed one by one."""
        if not entries:
            return []
        missed: list[int] = []
        found = self._cut(_streamed_texts(connection, entries, missed))
        for at in missed:
            found[at : at + 1] = self._cut(_looked_up(connection, entries[at]))
        return found

    def _cut(self, texts: Iterable[str]) -> list[str]:
        return self._lexing.excerpts(texts, self._match) if self._match else list(map(first_words, texts))


def _indexed_entry(row: TupleRow) -> IndexedEntry:
    _, _, name, place, _, entry, _, _, seq, mark = row
    return IndexedEntry(name, place, entry, seq, mark)


def _streamed_texts(connection: Connection, entries: Sequence[IndexedEntry], missed: list[int]) -> Iterator[str]:
    """The texts of entries, found by their ids. The position of one that is not found so goes to `missed`."""
    given = ([entry.session for entry in entries], [entry.id for entry in entries])
    with connection.cursor(binary=True) as cursor:
        for at, (raw,) in enumerate(cursor.stream(_ROWS_BY_ID, given)):
            text = text_in([raw], entries[at]) if raw is not None else None
            if text is None:
                missed.append(at)
            yield text or ""


def _looked_up(connection: Connection, entry: IndexedEntry) -> Iterator[str]:
    """The text of an entry, found by its seq or in the whole log."""

    def rows(statement: LiteralString, *given: Any) -> Iterator[bytes]:
        with connection.cursor(binary=True) as cursor:
            for (raw,) in cursor.stream(statement, given):
                yield raw

    return texts([entry], lambda one: rows(_ROW_BY_SEQ, one.session, one.seq), lambda one: rows(_LOG, one.session))

"""Search in PostgreSQL: find entries with the GIN index and rank them with `ts_rank_cd`, in a deterministic order.

The index contains single words; for phrases, and for texts with too many words for the index, the folded text is
searched too. Statements are composed of the constants here; user input is passed as parameters. Excerpts are made as
in the other stores.
"""

from typing import Any, LiteralString

from psycopg.rows import TupleRow

from wakelog.ports import Hit
from wakelog.stores.catalog.cursors import HitPlace, written
from wakelog.stores.catalog.excerpts import BEGINNING_CHARS, beginning
from wakelog.stores.catalog.lexing import Lexing
from wakelog.stores.catalog.matching import expression
from wakelog.stores.catalog.query import FieldName, Query, bound
from wakelog.stores.postgres.pool import Connection
from wakelog.stores.postgres.vectors import MORE, wanted

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
_ALL_SAID: LiteralString = "))"
_HELD: LiteralString = " AND strpos(e.folded, %s) > 0"
_SHUNNED: LiteralString = " AND strpos(e.folded, %s) = 0"
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
_FIRST = HitPlace(0, float("-inf"), -(1 << 63) + 1, "", -1)


class Hits:
    """The search of one query. `mark` goes into the cursors of the hits."""

    def __init__(self, lexing: Lexing, query: Query, now_ms: int, mark: int) -> None:
        self._lexing = lexing
        self._mark = mark
        self._match = expression(query)
        self._wanted = wanted(query, lexing)
        conditions: list[LiteralString] = [_HELD] * len(self._wanted.held) + [_SHUNNED] * len(self._wanted.shunned)
        values: list[Any] = [*self._wanted.held, *self._wanted.shunned]
        for field in query.fields:
            conditions += (" AND NOT " if field.without else " AND ", _CONDITIONS[field.name])
            values += bound(field, now_ms)
        self._conditions, self._values = "".join(conditions), values

    def behind(self, connection: Connection, after: HitPlace | None, limit: int) -> list[Hit]:
        """Up to `limit` hits behind a place; the first ones for None."""
        if not self._wanted.is_possible:
            return []
        find = self._ranked if self._wanted.query else self._newest
        found = find(connection, after or _FIRST, limit)
        excerpts = self._excerpts(connection, [row[2] for row in found], [row[3] for row in found])
        return [self._hit(row, excerpt) for row, excerpt in zip(found, excerpts, strict=True)]

    def _ranked(self, connection: Connection, after: HitPlace, limit: int) -> list[TupleRow]:
        start = (after.rank, after.age_ms, after.name, after.place)
        each: LiteralString = _HELD * len(self._wanted.each) + _ALL_SAID
        values = (self._wanted.query, f"'{MORE}'", *self._wanted.each, *self._values, *start, limit)
        return connection.execute(_RANKED + each + self._conditions + _BEST_FIRST, values, binary=True).fetchall()

    def _newest(self, connection: Connection, after: HitPlace, limit: int) -> list[TupleRow]:
        """The hits of a query without words: all entries that meet its other conditions, the newest first."""
        start = (-after.age_ms, after.age_ms, after.name, after.place)
        values = (*start, *self._values, limit)
        return connection.execute(_NEWEST + self._conditions + _NEWEST_FIRST, values, binary=True).fetchall()

    def _hit(self, row: tuple[Any, ...], excerpt: str) -> Hit:
        rank, age_ms, name, place, session, entry, kind, stamp, seq = row
        cursor = written(HitPlace(self._mark, rank, age_ms, name, place))
        return Hit(session, name, entry, kind, stamp, excerpt, cursor, seq)

    def _excerpts(self, connection: Connection, names: list[str], places: list[int]) -> list[str]:
        """The excerpts of hits. Texts may be long, so they are streamed one by one."""
        if not names:
            return []
        with connection.cursor(binary=True) as cursor:
            if not self._match:
                texts = cursor.stream(_BEGINNINGS, (BEGINNING_CHARS, names, places))
                return [beginning(raw.decode("utf-8", "ignore")) for (raw,) in texts]
            return [self._lexing.excerpt(text, self._match) for (text,) in cursor.stream(_TEXTS, (names, places))]

"""Run a search query in SQLite: FTS5 matches and ranks; ties are broken by time, session name and place.

Row ids are never used to order hits, because they depend on the order in which logs were indexed. Statements are
built from the constants here; user input is bound as a parameter or quoted inside an FTS5 expression.
"""

import sqlite3
from typing import Any

import msgspec

from wakelog.errors import BadQuery
from wakelog.ports import Hit
from wakelog.stores.catalog.cursors import HitPlace, written
from wakelog.stores.catalog.excerpts import BEGINNING_CHARS, SNIPPET, beginning, tidy
from wakelog.stores.catalog.matching import any_of, expression
from wakelog.stores.catalog.query import Query, bound

# Rows fetched per hit returned, so that the hits that tie with the last one are mostly included.
_SPARE = 4
_FIRST = HitPlace(0, float("-inf"), -(1 << 63) + 1, "", -1)
_RANKED = """
SELECT rank, -e.time_ms, s.name, e.place, s.id, e.id, e.type, e.timestamp, e.rowid, e.seq
FROM words JOIN entries AS e ON e.rowid = words.rowid JOIN sessions AS s ON s.key = e.session
WHERE words MATCH ? AND rank >= ?
"""
_NEWEST = """
SELECT 0.0, -e.time_ms, s.name, e.place, s.id, e.id, e.type, e.timestamp, e.rowid, e.seq
FROM entries AS e JOIN sessions AS s ON s.key = e.session
WHERE e.time_ms <= ? AND (-e.time_ms, s.name, e.place) > (?, ?, ?)
"""
_BEST_FIRST = " ORDER BY rank LIMIT ?"
_NEWEST_FIRST = " ORDER BY e.time_ms DESC, s.name, e.place LIMIT ?"
_WITHOUT = " AND e.rowid NOT IN (SELECT rowid FROM words WHERE words MATCH ?)"
_CONDITIONS = {
    "agent": "s.agent = ?",
    "sender": "s.sender = ?",
    "cwd": "(s.cwd = ? OR instr(s.cwd, ?) = 1)",
    "tool": "instr(e.tools, ?) > 0",
    "type": "e.type = ?",
    "since": "e.time_ms >= ?",
}
_EXCERPT = "SELECT " + SNIPPET + " FROM words WHERE words MATCH ? AND rowid = ?"  # noqa: S608 - constants
_BEGINNING = "SELECT substr(text, 1, ?) FROM words WHERE rowid = ?"


class _Found(msgspec.Struct, frozen=True, order=True):
    """A hit, ordered by its place in the result order."""

    place: HitPlace
    session: str
    entry: str
    type: str
    timestamp: str
    rowid: int
    seq: int | None


class Hits:
    """The hits of one query. `mark` identifies the query in the cursors of the hits."""

    def __init__(self, db: sqlite3.Connection, query: Query, now_ms: int, mark: int) -> None:
        self._db = db
        self._mark = mark
        self._match = expression(query)
        conditions = [f" AND {'NOT ' if field.without else ''}{_CONDITIONS[field.name]}" for field in query.fields]
        values = [value for field in query.fields for value in bound(field, now_ms)]
        if query.unwanted and not self._match:
            conditions.append(_WITHOUT)
            values.append(any_of(query.unwanted))
        self._conditions, self._values = "".join(conditions), values

    def behind(self, after: HitPlace | None, limit: int) -> list[Hit]:
        """Return up to `limit` hits after a place; raise `BadQuery` if FTS5 rejects the expression."""
        find = self._ranked if self._match else self._newest
        try:
            return [self._hit(found) for found in find(after or _FIRST, limit)]
        except sqlite3.OperationalError as error:
            if "fts5" in str(error):
                raise BadQuery(f"the query cannot be understood: {error}") from error
            raise

    def _ranked(self, after: HitPlace, limit: int) -> list[_Found]:
        """Return the best-ranked hits. Fetches rows until all hits that tie with the last one returned are known."""
        statement, count = _RANKED + self._conditions + _BEST_FIRST, limit * _SPARE
        while True:
            rows = self._db.execute(statement, (self._match, after.rank, *self._values, count)).fetchall()
            found = sorted(hit for row in rows if (hit := self._found(row)).place > after)
            if len(rows) < count or (len(found) >= limit and found[limit - 1].place.rank < rows[-1][0]):
                return found[:limit]
            count *= _SPARE

    def _newest(self, after: HitPlace, limit: int) -> list[_Found]:
        """Return the newest entries that satisfy the conditions, for a query without search words."""
        statement = _NEWEST + self._conditions + _NEWEST_FIRST
        start = (-after.age_ms, after.age_ms, after.name, after.place)
        return [self._found(row) for row in self._db.execute(statement, (*start, *self._values, limit))]

    def _found(self, row: tuple[Any, ...]) -> _Found:
        return _Found(HitPlace(self._mark, *row[:4]), *row[4:])

    def _hit(self, found: _Found) -> Hit:
        if self._match:
            excerpt = tidy(self._db.execute(_EXCERPT, (self._match, found.rowid)).fetchone()[0])
        else:
            excerpt = beginning(self._db.execute(_BEGINNING, (BEGINNING_CHARS, found.rowid)).fetchone()[0])
        cursor = written(found.place)
        about = (found.session, found.place.name, found.entry, found.type, found.timestamp)
        return Hit(*about, excerpt, cursor, found.seq)

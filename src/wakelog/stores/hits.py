"""From a query to hits: the best entries first, and among equals an order that does not depend on this file.

FTS5 ranks; its row numbers tell only in which order a log was met, so they never decide between two hits.
"""

import sqlite3
from typing import Any

import msgspec

from wakelog.errors import BadQuery
from wakelog.log.times import parse_ms
from wakelog.ports import Hit

# As many as are shown, several times over: so those equal to the last one shown are mostly all there.
_SPARE = 4
_MATCHES = """
SELECT rank, s.name, e.seq, s.id, e.id, e.type, e.timestamp, words.rowid
FROM words JOIN entries AS e ON e.rowid = words.rowid JOIN sessions AS s ON s.key = e.session
WHERE words MATCH ?
"""
_BEST = f"{_MATCHES} ORDER BY rank LIMIT ?"
_EQUAL = f"{_MATCHES} AND rank <= ?"
_EXCERPT = "SELECT snippet(words, 0, '«', '»', '…', 24) FROM words WHERE words MATCH ? AND rowid = ?"


class _Found(msgspec.Struct, frozen=True, order=True):
    """A hit in the order of hits: the best, then the newest, then by its place."""

    rank: float
    age_ms: int
    name: str
    seq: int
    session: str
    entry: str
    type: str
    timestamp: str
    rowid: int


def search(db: sqlite3.Connection, match: str, limit: int) -> list[Hit]:
    """The hits of an FTS5 expression, or `BadQuery` if FTS5 does not take it."""
    try:
        ranked = _ranked(db, match, limit)
    except sqlite3.OperationalError as error:
        if "fts5" in str(error):
            raise BadQuery(f"the query cannot be understood: {error}") from error
        raise
    chosen = sorted(_found(*row) for row in ranked)[:limit]
    return [_hit(db, match, found) for found in chosen]


def _ranked(db: sqlite3.Connection, match: str, limit: int) -> list[tuple[Any, ...]]:
    """The best matches, and with the last of them all that are as good: who of those is shown is decided later."""
    best = db.execute(_BEST, (match, limit * _SPARE)).fetchall()
    if len(best) <= limit:
        return best
    worst = best[limit - 1][0]
    if len(best) == limit * _SPARE and best[-1][0] == worst:
        return db.execute(_EQUAL, (match, worst)).fetchall()
    return [row for row in best if row[0] <= worst]


def _found(rank: float, name: str, seq: int, session: str, entry: str, kind: str, stamp: str, rowid: int) -> _Found:
    return _Found(rank, -(parse_ms(stamp) or 0), name, seq, session, entry, kind, stamp, rowid)


def _hit(db: sqlite3.Connection, match: str, found: _Found) -> Hit:
    (excerpt,) = db.execute(_EXCERPT, (match, found.rowid)).fetchone()
    return Hit(found.session, found.name, found.entry, found.type, found.timestamp, " ".join(excerpt.split()))

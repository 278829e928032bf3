"""From a query to hits: the best entries first, and among equals an order that does not depend on this file.

FTS5 ranks; its row numbers tell only in which order a log was met, so they never decide between two hits.
"""

import sqlite3
from collections.abc import Iterator

import msgspec

from wakelog.errors import BadQuery
from wakelog.log.times import parse_ms
from wakelog.ports import Hit

_BEST = "SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
_PLACE = """
SELECT s.name, s.id, e.id, e.seq, e.type, e.timestamp
FROM entries AS e JOIN sessions AS s ON s.key = e.session WHERE e.rowid = ?
"""
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
        found = db.execute(_BEST, (match, limit + 1)).fetchall()
        if len(found) > limit and found[limit][1] == found[limit - 1][1]:
            # Where equals stand on both sides of the cut, all of them are looked at.
            found = list(_up_to(db.execute(_BEST, (match, -1)), found[limit][1]))
    except sqlite3.OperationalError as error:
        if "fts5" in str(error):
            raise BadQuery(f"the query cannot be understood: {error}") from error
        raise
    chosen = sorted(_found(db, rowid, rank) for rowid, rank in found)[:limit]
    return [_hit(db, match, hit) for hit in chosen]


def _up_to(ranked: Iterator[tuple[int, float]], worst: float) -> Iterator[tuple[int, float]]:
    for rowid, rank in ranked:
        if rank > worst:
            return
        yield rowid, rank


def _found(db: sqlite3.Connection, rowid: int, rank: float) -> _Found:
    name, session, entry, seq, kind, stamp = db.execute(_PLACE, (rowid,)).fetchone()
    return _Found(rank, -(parse_ms(stamp) or 0), name, seq, session, entry, kind, stamp, rowid)


def _hit(db: sqlite3.Connection, match: str, found: _Found) -> Hit:
    (excerpt,) = db.execute(_EXCERPT, (match, found.rowid)).fetchone()
    return Hit(found.session, found.name, found.entry, found.type, found.timestamp, " ".join(excerpt.split()))

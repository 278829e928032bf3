"""Full-text search with SQLite FTS5: excerpts, match expressions, the tokenizer, and the search itself.

An excerpt is one line of text of limited length, cut by FTS5, with the matches enclosed in «».
All text in a match expression is quoted, so user input never acts as an FTS5 operator.
The tokenizer serves databases with another one: PostgreSQL's parsers depend on the locale of the server and split
paths, numbers and tags differently. Texts are tokenized here, in an empty in-memory SQLite database, so that all stores
find the same entries.
FTS5 matches and ranks; ties are broken by time, session name and place. Row ids are never used to order hits, because
they depend on the order in which logs were indexed.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec

from wakelog.errors import BadQuery
from wakelog.ports.catalogs import SearchHit
from wakelog.stores.catalog.query import HitPosition, Query, Term, encode_cursor, values_to_bind

EXCERPT_MAX_CHARS = 400
_EXCERPT_WORDS = 24
SNIPPET_SQL = "snippet(words, 0, '«', '»', '…', 24)"
# Enough text for `first_words` to build an excerpt from.
BEGINNING_CHARS = 8 * EXCERPT_MAX_CHARS


def tidy_snippet(snippet: str) -> str:
    """Return an FTS5 snippet as one line; if longer than `EXCERPT_MAX_CHARS`, cut around its first match."""
    excerpt = " ".join(snippet.split())
    if len(excerpt) <= EXCERPT_MAX_CHARS:
        return excerpt
    start = max(0, excerpt.find("«") - EXCERPT_MAX_CHARS // 4)
    piece = excerpt[start : start + EXCERPT_MAX_CHARS - 3]
    is_open = piece.rfind("«") > piece.rfind("»")
    return f"{'…' if start else ''}{piece}{'»' if is_open else ''}…"


def first_words(text: str) -> str:
    """Return the first words of a text, for a query without search words; reads `BEGINNING_CHARS` characters."""
    words = text[:BEGINNING_CHARS].split()
    is_all = len(words) <= _EXCERPT_WORDS and len(text) < BEGINNING_CHARS
    return tidy_snippet(" ".join(words[:_EXCERPT_WORDS]) + ("" if is_all else "…"))


def match_expression(query: Query) -> str:
    """Return the expression for the wanted and unwanted terms; empty if no term is wanted."""
    wanted, unwanted = match_all(query.wanted), match_any(query.unwanted)
    return f"({wanted}) NOT ({unwanted})" if wanted and unwanted else wanted


def match_all(terms: Iterable[Term]) -> str:
    """Return an expression that requires all of the terms."""
    return " AND ".join(map(_quoted_term, terms))


def match_any(terms: Iterable[Term]) -> str:
    """Return an expression that requires at least one of the terms."""
    return " OR ".join(map(_quoted_term, terms))


def _quoted_term(term: Term) -> str:
    text = term.text.replace('"', '""')
    return f'"{text}"*' if term.prefix else f'"{text}"'


_TOKENIZER_TABLES = (
    "CREATE VIRTUAL TABLE cut USING fts5 (text, content = '', columnsize = 0, tokenize = 'unicode61')",
    "CREATE VIRTUAL TABLE tokens USING fts5vocab (cut, instance)",
    "CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61')",
)
_TOKENS = """
SELECT doc, group_concat(term, ' ') FROM (SELECT doc, term FROM tokens ORDER BY doc, offset) GROUP BY doc
"""
_EXCERPTS_OF_TEXTS = "SELECT rowid, " + SNIPPET_SQL + " FROM words WHERE words MATCH ?"  # noqa: S608 - constants
_EXCERPT_CHARS_AT_ONCE = 1024 * 1024


class Tokenizer:
    """An in-memory SQLite database that tokenises texts."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        # FTS5 cuts a word of more than 32 KiB, possibly in the middle of a character.
        self._db.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for statement in _TOKENIZER_TABLES:
            self._db.execute(statement)

    def tokenize(self, texts: Sequence[str]) -> list[str]:
        """Return the tokens of each text in order, separated by spaces, in lower case and without accents."""
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT INTO cut (rowid, text) VALUES (?, ?)", list(enumerate(texts)))
            found = dict(self._db.execute(_TOKENS))
        finally:
            self._db.execute("ROLLBACK")
        return [found.get(at, "") for at in range(len(texts))]

    def excerpts(self, texts: Iterable[str], match: str) -> list[str]:
        """Return the part of each text that an FTS5 expression matches; its beginning if there is no match.

        Many texts are indexed at once, as long as they are short.
        """
        found: list[str] = []
        some: list[str] = []
        size = 0
        for text in texts:
            some.append(text)
            size += len(text)
            if size > _EXCERPT_CHARS_AT_ONCE:
                found += self._excerpts(some, match)
                some, size = [], 0
        return found + self._excerpts(some, match)

    def _excerpts(self, texts: Sequence[str], match: str) -> list[str]:
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", list(enumerate(texts)))
            found = dict(self._db.execute(_EXCERPTS_OF_TEXTS, (match,)))
        finally:
            self._db.execute("ROLLBACK")
        return [tidy_snippet(found[at]) if at in found else first_words(text) for at, text in enumerate(texts)]

    def close(self) -> None:
        """Close the database."""
        self._db.close()


# Rows fetched per hit returned, so that the hits that tie with the last one are mostly included.
_FETCH_FACTOR = 4
_FIRST_POSITION = HitPosition(0, float("-inf"), -(1 << 63) + 1, "", -1)
_RANKED = """
SELECT rank, -e.time_ms, s.name, e.place, s.id, e.id, e.type, e.timestamp, e.rowid, e.seq, e.session, e.mark
FROM words JOIN entries AS e ON e.rowid = words.rowid JOIN sessions AS s ON s.key = e.session
WHERE words MATCH ? AND rank >= ?
"""
_NEWEST = """
SELECT 0.0, -e.time_ms, s.name, e.place, s.id, e.id, e.type, e.timestamp, e.rowid, e.seq, e.session, e.mark
FROM entries AS e JOIN sessions AS s ON s.key = e.session
WHERE e.time_ms <= ? AND (-e.time_ms, s.name, e.place) > (?, ?, ?)
"""
_BEST_FIRST = " ORDER BY rank LIMIT ?"
_NEWEST_FIRST = " ORDER BY e.time_ms DESC, s.name, e.place LIMIT ?"
_EXCLUDING = " AND e.rowid NOT IN (SELECT rowid FROM words WHERE words MATCH ?)"
_CONDITIONS = {
    "agent": "s.agent = ?",
    "sender": "s.sender = ?",
    "cwd": "(s.cwd = ? OR instr(s.cwd, ?) = 1)",
    "tool": "instr(e.tools, ?) > 0",
    "type": "e.type = ?",
    "since": "e.time_ms >= ?",
}
_EXCERPT_OF_ROW = "SELECT " + SNIPPET_SQL + " FROM words WHERE words MATCH ? AND rowid = ?"  # noqa: S608 - constants
_BEGINNING = "SELECT substr(text, 1, ?) FROM words WHERE rowid = ?"


class RankedEntry(msgspec.Struct, frozen=True, order=True, gc=False):
    """A hit, ordered by its place in the result order. `key` is the session's key in the catalog."""

    place: HitPosition
    session: str
    entry: str
    type: str
    timestamp: str
    rowid: int
    seq: int | None
    key: int
    mark: int


class StoredTexts:
    """Excerpts of hits from a table that has the texts themselves."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def excerpts(self, found: Sequence[RankedEntry], match: str) -> list[str]:
        """Return the part of each text that the expression matches; without an expression, the beginning."""
        if match:
            return [tidy_snippet(self._value(_EXCERPT_OF_ROW, match, hit.rowid)) for hit in found]
        return [first_words(self._value(_BEGINNING, BEGINNING_CHARS, hit.rowid)) for hit in found]

    def _value(self, statement: str, *values: str | int) -> str:
        return str(self._db.execute(statement, values).fetchone()[0])


class TextSource(Protocol):
    """Where the excerpts of hits come from: `StoredTexts`, or the logs beside the catalog."""

    def excerpts(self, found: Sequence[RankedEntry], match: str) -> list[str]:
        """See `StoredTexts`."""
        ...


class FtsSearch:
    """The hits of one query. `mark` identifies the query in the cursors of the hits."""

    def __init__(self, db: sqlite3.Connection, texts: TextSource, query: Query, now_ms: int, mark: int) -> None:
        self._db = db
        self._texts = texts
        self._mark = mark
        self._match = match_expression(query)
        conditions = [f" AND {'NOT ' if field.without else ''}{_CONDITIONS[field.name]}" for field in query.fields]
        values = [value for field in query.fields for value in values_to_bind(field, now_ms)]
        if query.unwanted and not self._match:
            conditions.append(_EXCLUDING)
            values.append(match_any(query.unwanted))
        self._conditions, self._values = "".join(conditions), values

    def hits_after(self, after: HitPosition | None, limit: int) -> list[SearchHit]:
        """Return up to `limit` hits after a place; raise `BadQuery` if FTS5 rejects the expression."""
        find = self._ranked if self._match else self._newest
        try:
            found = find(after or _FIRST_POSITION, limit)
            return list(map(self._hit, found, self._texts.excerpts(found, self._match)))
        except sqlite3.OperationalError as error:
            if "fts5" in str(error):
                raise BadQuery(f"not a valid query: {error}") from error
            raise

    def _ranked(self, after: HitPosition, limit: int) -> list[RankedEntry]:
        """Return the best-ranked hits. Fetches rows until all hits that tie with the last one returned are known."""
        statement, count = _RANKED + self._conditions + _BEST_FIRST, limit * _FETCH_FACTOR
        while True:
            rows = self._db.execute(statement, (self._match, after.rank, *self._values, count)).fetchall()
            found = sorted(hit for row in rows if (hit := self._found(row)).place > after)
            if len(rows) < count or (len(found) >= limit and found[limit - 1].place.rank < rows[-1][0]):
                return found[:limit]
            count *= _FETCH_FACTOR

    def _newest(self, after: HitPosition, limit: int) -> list[RankedEntry]:
        """Return the newest entries that satisfy the conditions, for a query without search words."""
        statement = _NEWEST + self._conditions + _NEWEST_FIRST
        start = (-after.age_ms, after.age_ms, after.name, after.place)
        return [self._found(row) for row in self._db.execute(statement, (*start, *self._values, limit))]

    def _found(self, row: tuple[Any, ...]) -> RankedEntry:
        return RankedEntry(HitPosition(self._mark, *row[:4]), *row[4:])

    def _hit(self, found: RankedEntry, excerpt: str) -> SearchHit:
        cursor = encode_cursor(found.place)
        about = (found.session, found.place.name, found.entry, found.type, found.timestamp)
        return SearchHit(*about, excerpt, cursor, found.seq)

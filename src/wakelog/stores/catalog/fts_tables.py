"""Catalog tables in SQLite with FTS5: create, fill and query them, independent of the database file.

`index_file.py` uses them on a file in the cache, `stores/sqlite/catalog.py` on the file of the store. The schema comes
from the catalog migrations of the SQLite store, so that it is defined in one place.
User input is bound or quoted and never becomes part of a statement.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from wakelog.ports.catalogs import SearchHit
from wakelog.stores import load
from wakelog.stores.catalog.query import HitPosition, Query, RowPosition, storable_text
from wakelog.stores.catalog.tables import (
    CATALOG_VERSION,
    Batch,
    IndexedLog,
    RowFilters,
    RowUpdate,
    SearchableEntry,
    SessionChange,
)
from wakelog.stores.database.migrations import migrations

if TYPE_CHECKING:
    from wakelog.stores.catalog.full_text import TextSource

_CATALOG_TABLES = ("catalog", "sessions", "bookmarks", "entries", "words")
_WORDS_WITHOUT_TEXTS = "CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = 'unicode61')"


def create_catalog_tables(db: sqlite3.Connection, *, with_texts: bool = True) -> None:
    """Drop the catalog tables and create empty ones of this version. The caller provides the transaction.

    Without texts the table `words` is only an index: the texts are in the logs.
    """
    for table in _CATALOG_TABLES:
        db.execute(f"DROP TABLE IF EXISTS {table}")
    for step in migrations("sqlite"):
        if step.name.endswith("catalog.sql"):
            for statement in _statements(step.sql):
                db.execute(statement)
    if not with_texts:
        db.execute("DROP TABLE words")
        db.execute(_WORDS_WITHOUT_TEXTS)
    db.execute("UPDATE catalog SET version = ?", (CATALOG_VERSION,))


def _statements(sql: str) -> Iterator[str]:
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


_TIME_MS_MAX = (1 << 63) - 1
_ROWS = """
SELECT row FROM sessions
WHERE archived IS coalesce(?, archived) AND agent IS coalesce(?, agent)
  AND sender IS coalesce(?, sender) AND cwd IS coalesce(?, cwd)
  AND state IS coalesce(?, state) AND empty IS coalesce(?, empty)
  AND updated_ms <= ? AND (updated_ms < ? OR name > ?)
ORDER BY updated_ms DESC, name LIMIT ?
"""
_COUNT = """
SELECT count(*) FROM sessions
WHERE archived IS coalesce(?, archived) AND agent IS coalesce(?, agent)
  AND sender IS coalesce(?, sender) AND cwd IS coalesce(?, cwd)
  AND state IS coalesce(?, state) AND empty IS coalesce(?, empty)
  AND updated_ms <= ? AND (updated_ms < ? OR name > ?)
"""
_FIND_EXACT = "SELECT row FROM sessions WHERE id = ? OR name = ? ORDER BY updated_ms DESC, name LIMIT ?"
_FIND_PREFIX = """
SELECT row FROM sessions WHERE id >= ? AND id < ? OR name >= ? AND name < ?
ORDER BY updated_ms DESC, name LIMIT ?
"""
_DAMAGED = "SELECT 1 FROM sessions WHERE name = ? AND damage > 0"
_INDEXED_LOG = """
SELECT key, name, size, changed, id, places, bookmark FROM sessions LEFT JOIN bookmarks USING (key) WHERE name = ?
"""
_FORKS = "SELECT name FROM sessions WHERE origin = ? AND damage >= ?"
_MARKS = "SELECT mark FROM entries WHERE session = ? AND place >= ? ORDER BY place"
_PLACES = "SELECT coalesce(max(place), -1) + 1 FROM entries WHERE session = ?"
_DELETE_WORDS = """
DELETE FROM words WHERE rowid IN (SELECT rowid FROM entries WHERE session = ? AND place >= ?)
"""
_DELETE_ENTRIES = "DELETE FROM entries WHERE session = ? AND place >= ?"
_MARK_OUTDATED = "UPDATE sessions SET size = -1, changed = -1 WHERE name = ?"
_LAST_ROWID = "SELECT coalesce(max(rowid), 0) FROM entries"
_ADD_ENTRY = "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_WORDS = "INSERT INTO words (rowid, text) VALUES (?, ?)"
_STORE_ROW = "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class FtsTables:
    """See `CatalogTables`. Subclasses provide the database, its transactions and the session keys."""

    # ── provided by subclasses ───────────────────────────────────────────────────────────────────

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Enclose queries; gives the connection."""
        raise NotImplementedError

    def _transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Enclose one transaction; gives the connection."""
        raise NotImplementedError

    def _new_key(self, db: sqlite3.Connection, name: str) -> int | None:
        """Return the key for a session that has no row yet; None if it cannot have one."""
        raise NotImplementedError

    def _texts(self, db: sqlite3.Connection) -> "TextSource":
        """Return the texts that excerpts are cut from."""
        texts: TextSource = load("wakelog.stores.catalog.full_text").StoredTexts(db)
        return texts

    def _delete_words(self, db: sqlite3.Connection, key: int, start: int) -> None:
        """Delete the words of a session from place `start` on."""
        db.execute(_DELETE_WORDS, (key, start))
        db.execute(_DELETE_ENTRIES, (key, start))

    # ── filling ──────────────────────────────────────────────────────────────────────────────────

    def refreshing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`."""
        return contextlib.nullcontext()

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`."""
        return contextlib.nullcontext()

    def seen(self, names: Sequence[str]) -> Mapping[str, IndexedLog]:
        """See `CatalogTables`."""
        with self._reading() as db:
            found = (_indexed_log(db, name) for name in names)
            return {seen.name: seen for seen in found if seen is not None}

    def marks(self, name: str, seen: IndexedLog | None, start: int) -> Sequence[int]:
        """See `CatalogTables`."""
        with self._reading() as db:
            key = seen.key if seen is not None else self._new_key(db, name)
            return [mark for (mark,) in db.execute(_MARKS, (key, start))]

    def forks(self, parents: Iterable[str], *, damage: int) -> Sequence[str]:
        """See `CatalogTables`."""
        with self._reading() as db:
            return [name for parent in parents for (name,) in db.execute(_FORKS, (storable_text(parent), damage))]

    def write(self, batch: Batch) -> None:
        """See `CatalogTables`."""
        with self._transaction() as db:
            for name in batch.gone:
                self._delete_session(db, name)
            for name in batch.outdated:
                _mark_outdated(db, name)
            for change in batch.changes.values():
                self._apply(db, change)

    def _apply(self, db: sqlite3.Connection, change: SessionChange) -> None:
        """Apply the change of one session. Newer data of other processes is kept; words after a gap are dropped."""
        current = _indexed_log(db, change.name)
        key = current.key if current is not None else self._new_key(db, change.name)
        if key is None:
            return
        if change.cut is not None:
            self._delete_words(db, key, change.cut)
        places = _add_words(db, key, change.words)
        kept = change.kept
        if kept is None or (current is not None and current.is_ahead_of(kept.due)):
            return
        if places == kept.places:
            _store_row(db, key, kept)
        else:
            _mark_outdated(db, change.name)

    def _delete_session(self, db: sqlite3.Connection, name: str) -> None:
        seen = _indexed_log(db, name)
        if seen is not None:
            self._delete_words(db, seen.key, 0)
            _delete_row(db, seen.key)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def rows(self, filters: RowFilters, after: RowPosition | None, limit: int | None) -> Sequence[bytes]:
        """See `CatalogTables`."""
        return self._column(_ROWS, (*_filter_values(filters), *_start_values(after), -1 if limit is None else limit))

    def count(self, filters: RowFilters, after: RowPosition | None) -> int:
        """See `CatalogTables`."""
        return int(self._column(_COUNT, (*_filter_values(filters), *_start_values(after)))[0])

    def find(self, ref: str, limit: int) -> Sequence[bytes]:
        """See `CatalogTables`."""
        end = ref + "\U0010ffff"
        return self._column(_FIND_EXACT, (ref, ref, limit)) or self._column(_FIND_PREFIX, (ref, end, ref, end, limit))

    def is_damaged(self, name: str) -> bool:
        """See `CatalogTables`."""
        return bool(self._column(_DAMAGED, (name,)))

    def search(
        self, query: Query, now_ms: int, mark: int, after: HitPosition | None, limit: int
    ) -> Sequence[SearchHit]:
        """See `CatalogTables`."""
        with self._reading() as db:
            full_text = load("wakelog.stores.catalog.full_text")
            hits: Sequence[SearchHit] = full_text.FtsSearch(db, self._texts(db), query, now_ms, mark).hits_after(
                after, limit
            )
            return hits

    def _column(self, statement: str, values: Sequence[Any]) -> list[Any]:
        with self._reading() as db:
            return [value for (value,) in db.execute(statement, values)]


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def _filter_values(filters: RowFilters) -> tuple[Any, ...]:
    texts = (None if text is None else storable_text(text) for text in (filters.agent, filters.sender, filters.cwd))
    return (filters.archived, *texts, filters.state, filters.empty)


def _start_values(after: RowPosition | None) -> tuple[int, int, str]:
    return (after.updated_ms, after.updated_ms, after.name) if after is not None else (_TIME_MS_MAX, _TIME_MS_MAX, "")


def _indexed_log(db: sqlite3.Connection, name: str) -> IndexedLog | None:
    row = db.execute(_INDEXED_LOG, (name,)).fetchone()
    return IndexedLog(*row) if row is not None else None


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def _add_words(db: sqlite3.Connection, key: int, words: Sequence[SearchableEntry]) -> int:
    """Add the words that continue the stored ones without a gap; return the number of places then stored."""
    (places,) = db.execute(_PLACES, (key,)).fetchone()
    new = [worded for worded in words if worded.place >= places]
    if not new or new[0].place != places:
        return int(places)
    (rowid,) = db.execute(_LAST_ROWID).fetchone()
    numbered = list(enumerate(new, rowid + 1))
    db.executemany(
        _ADD_ENTRY,
        [(at, key, w.place, w.id, w.type, w.tools, w.timestamp, w.time_ms, w.mark, w.seq) for at, w in numbered],
    )
    db.executemany(_ADD_WORDS, [(at, worded.text) for at, worded in numbered])
    return new[-1].place + 1


def _store_row(db: sqlite3.Connection, key: int, kept: RowUpdate) -> None:
    row, stat = kept.row, kept.due.stat
    texts = (storable_text(row.id), storable_text(row.agent), storable_text(row.sender), storable_text(row.cwd))
    origin = storable_text(row.origin) if row.origin is not None else None
    # Not `INSERT OR REPLACE`: SQLite must be able to undo that statement, and FTS5 flushes all pending data for it.
    _delete_row(db, key)
    values = (key, row.name, stat.size, stat.changed, *texts, origin, row.archived, kept.updated_ms, row.damage)
    db.execute(_STORE_ROW, (*values, kept.places, row.state, row.is_empty, msgspec.json.encode(row)))
    if kept.bookmark is not None:
        db.execute("INSERT INTO bookmarks VALUES (?, ?)", (key, kept.bookmark))


def _mark_outdated(db: sqlite3.Connection, name: str) -> None:
    """Mark the row as outdated, so that the next refresh reads the whole log."""
    db.execute(_MARK_OUTDATED, (name,))


def _delete_row(db: sqlite3.Connection, key: int) -> None:
    db.execute("DELETE FROM bookmarks WHERE key = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))

"""SQLite catalog: tables in the store's own file, brought up to date on `refresh`.

The texts that are searched are not stored again: an excerpt is cut from the log's own line (`log_texts.py`). FTS5 can
delete a text from such an index only if it is given that text once more. So if another program has changed or removed
lines of a log, the whole catalog is rebuilt; wakelog itself never does.

Appends do not update it. Logs are read without blocking writers; the results are then written in short transactions
without a sync, and appends can run between them. Several processes may refresh at once and share the work.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from wakelog.errors import StoreError
from wakelog.ports.stores import SessionStat, Store
from wakelog.stores import load
from wakelog.stores.catalog.fts_tables import FtsTables, create_catalog_tables
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.tables import CATALOG_VERSION, CatalogUnusable, ChangedLog
from wakelog.stores.sqlite import SqliteStore
from wakelog.stores.sqlite.file import SqliteFile

if TYPE_CHECKING:
    from wakelog.stores.catalog.full_text import RankedEntry, Tokenizer
    from wakelog.stores.catalog.log_texts import IndexedEntry

# Logs only grow, so the number of the last line shows whether a log has changed.
_CHANGES = """
WITH ends AS (SELECT key, name, coalesce((SELECT max(number) FROM lines WHERE session = logs.key), 0) AS rows FROM logs)
SELECT ends.name, coalesce((SELECT size FROM lines WHERE session = ends.key AND number = rows), 0), rows,
  sessions.size, sessions.changed
FROM ends LEFT JOIN sessions ON sessions.key = ends.key AND sessions.name = ends.name
WHERE sessions.key IS NULL OR sessions.changed <> rows
ORDER BY ends.key DESC
"""
_GONE = """
SELECT name FROM sessions
WHERE NOT EXISTS (SELECT 1 FROM logs WHERE logs.key = sessions.key AND logs.name = sessions.name)
"""
_ENTRIES_FROM = "SELECT rowid, place, id, seq, mark FROM entries WHERE session = ? AND place >= ?"
_DELETE_TEXT = "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)"
_DELETE_ENTRIES = "DELETE FROM entries WHERE session = ? AND place >= ?"
_ROW_BY_ID = "SELECT bytes FROM lines WHERE session = ? AND id = ?"
_ROW_BY_NUMBER = "SELECT bytes FROM lines WHERE session = ? AND number = ? + 1"
_LOG = "SELECT bytes FROM lines WHERE session = ? ORDER BY number"


def catalog_in(store: SqliteStore) -> Index:
    """The catalog of a SQLite store."""
    return Index(store, SqliteCatalog(store.file))


class SqliteCatalog(FtsTables):
    """See `CatalogTables`."""

    failures: tuple[type[Exception], ...] = (StoreError, CatalogUnusable, msgspec.MsgspecError)
    batch_bytes = 64 * 1024 * 1024
    # Bytes written in one transaction. Appends wait while it lasts.
    write_bytes = 512 * 1024

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._is_current = False
        self._tokenizer: Tokenizer | None = None

    def changes(self, store: Store) -> tuple[dict[str, ChangedLog], list[str]]:  # noqa: ARG002 - read from the file
        """See `CatalogTables`. Uses a query instead of listing the sessions of the store."""
        with self._reading() as db:
            # A store without sessions needs no catalog, and reading must not create one.
            if db.execute("SELECT 1 FROM logs").fetchone() is None:
                return {}, []
            self._check_version(db)
            due = [_changed_log(*row) for row in db.execute(_CHANGES)]
            return {one.stat.name: one for one in due}, [name for (name,) in db.execute(_GONE)]

    def rebuild(self) -> None:
        """See `CatalogTables`. `StoreError` for a catalog of a newer wakelog, which is left unchanged."""
        was_current, self._is_current = self._is_current, False
        with self._transaction() as db:
            version = _version(db)
            if version > CATALOG_VERSION:
                raise StoreError("the catalog was written by a newer wakelog", hint="upgrade wakelog")
            # If two processes found an older catalog, the second finds it rebuilt already.
            if was_current or version < CATALOG_VERSION:
                create_catalog_tables(db, with_texts=False)

    def _check_version(self, db: sqlite3.Connection) -> None:
        self._is_current = _version(db) == CATALOG_VERSION
        if not self._is_current:
            raise StoreError("the catalog has another version")

    def close(self) -> None:
        """See `CatalogTables`. The store closes the file."""
        if self._tokenizer is not None:
            self._tokenizer.close()
            self._tokenizer = None

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return self._file.reading()

    def _transaction(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return self._file.writing(durable=False)

    def _new_key(self, db: sqlite3.Connection, name: str) -> int | None:
        """The key of the session's log, so that a half-finished catalog row is found again."""
        found = db.execute("SELECT key FROM logs WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else None

    def _texts(self, db: sqlite3.Connection) -> "LogTexts":
        if self._tokenizer is None:
            self._tokenizer = load("wakelog.stores.catalog.full_text").Tokenizer()
        return LogTexts(db, self._tokenizer)

    def _delete_words(self, db: sqlite3.Connection, key: int, start: int) -> None:
        texts = self._texts(db)
        found = db.execute(_ENTRIES_FROM, (key, start)).fetchall()
        for (rowid, *_), text in zip(found, texts.of((key, *about) for _, *about in found), strict=True):
            db.execute(_DELETE_TEXT, (rowid, text))
        db.execute(_DELETE_ENTRIES, (key, start))


class LogTexts:
    """Excerpts of hits from the lines of the logs in the same file. See `StoredTexts`."""

    def __init__(self, db: sqlite3.Connection, tokenizer: "Tokenizer") -> None:
        self._db = db
        self._tokenizer = tokenizer

    def excerpts(self, found: "Sequence[RankedEntry]", match: str) -> list[str]:
        """See `StoredTexts`."""
        texts = self.of((hit.key, hit.place.place, hit.entry, hit.seq, hit.mark) for hit in found)
        if match:
            return self._tokenizer.excerpts(texts, match)
        return list(map(load("wakelog.stores.catalog.full_text").first_words, texts))

    def of(self, entries: Iterable[tuple[Any, ...]]) -> Iterator[str]:
        """The texts of entries, given as the fields of `IndexedEntry`. `CatalogUnusable` if a log does not have one."""
        log_texts = load("wakelog.stores.catalog.log_texts")
        texts: Iterator[str] = log_texts.texts(
            (log_texts.IndexedEntry(*entry) for entry in entries), self._rows, self._log
        )
        return texts

    def _rows(self, entry: "IndexedEntry") -> Iterator[bytes]:
        """The rows with the id or the seq of an entry."""
        for statement, value in ((_ROW_BY_ID, entry.id), (_ROW_BY_NUMBER, entry.seq)):
            for (raw,) in self._db.execute(statement, (entry.session, value)).fetchall():
                yield raw

    def _log(self, entry: "IndexedEntry") -> Iterator[bytes]:
        return (raw for (raw,) in self._db.execute(_LOG, (entry.session,)))


def _version(db: sqlite3.Connection) -> int:
    """The version of the stored catalog; 0 if there is none."""
    is_there = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'catalog'").fetchone() is not None
    return int(db.execute("SELECT max(version) FROM catalog").fetchone()[0] or 0) if is_there else 0


def _changed_log(name: str, size: int, rows: int, old_size: int | None, old_rows: int | None) -> ChangedLog:
    before = None if old_size is None or old_rows is None else (old_size, old_rows)
    return ChangedLog(SessionStat(name, size, rows), before)

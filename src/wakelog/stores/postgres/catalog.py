"""PostgreSQL catalog: tables beside the logs in the schema `wakelog`, with a GIN index for full text search.

Appends do not update it and do not wait for it. Logs are read outside of any transaction, and the results are written
in short transactions, one at a time, under an advisory lock that ends with the transaction. The holder of that lock
needs no other connection, so no connection pool is too small. For a role without write permission the index is kept
in memory instead. SQL statements are constants; user input and stored text are passed as parameters.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, LiteralString

import msgspec
from psycopg import errors
from psycopg.rows import TupleRow

from wakelog.errors import StoreError
from wakelog.ports.catalogs import SearchHit
from wakelog.ports.stores import SessionStat, Store
from wakelog.stores.catalog.full_text import Tokenizer
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.query import HitPosition, Query, RowPosition, storable_text
from wakelog.stores.catalog.tables import (
    CATALOG_VERSION,
    Batch,
    CatalogUnusable,
    ChangedLog,
    IndexedLog,
    RowFilters,
    RowUpdate,
    SearchableEntry,
    SessionChange,
)
from wakelog.stores.database.migrations import migrations
from wakelog.stores.postgres import PostgresStore
from wakelog.stores.postgres.connections import Connection
from wakelog.stores.postgres.database import Database
from wakelog.stores.postgres.full_text import PostgresSearch, build_tsvector

# The lock key is "wake", "list" in ASCII.
_LOCK = "SELECT pg_advisory_xact_lock(2002872165, 1818850164), set_config('synchronous_commit', 'off', true)"
_CHANGES = """
SELECT d.session, d.name, l.size, l.rows, s.size, s.changed
FROM wakelog.directory AS d JOIN wakelog.logs AS l USING (session) LEFT JOIN wakelog.sessions AS s USING (name)
WHERE s.name IS NULL OR s.size <> l.size OR s.changed <> l.rows
UNION ALL
SELECT NULL, s.name, NULL, NULL, s.size, s.changed FROM wakelog.sessions AS s
WHERE NOT EXISTS (SELECT FROM wakelog.directory AS d WHERE d.name = s.name)
ORDER BY 1 DESC
"""
_INDEXED_LOGS = "SELECT 0, name, size, changed, id, places, bookmark FROM wakelog.sessions WHERE name = ANY(%s)"
_PLACES = "SELECT name, max(place) + 1 FROM wakelog.entries WHERE name = ANY(%s) GROUP BY name"
_MARKS = "SELECT mark FROM wakelog.entries WHERE name = %s AND place >= %s ORDER BY place"
_FORKS = "SELECT name FROM wakelog.sessions WHERE origin = ANY(%s) AND damage >= %s"
_DELETE_WORDS = "DELETE FROM wakelog.entries WHERE name = ANY(%s)"
_DELETE_ROWS = "DELETE FROM wakelog.sessions WHERE name = ANY(%s)"
_MARK_OUTDATED = "UPDATE wakelog.sessions SET size = -1, changed = -1 WHERE name = ANY(%s)"
_DELETE_WORDS_FROM = "DELETE FROM wakelog.entries WHERE name = %s AND place >= %s"
_COPY_ENTRIES = """
COPY wakelog.entries (name, place, id, type, tools, timestamp, time_ms, mark, seq, text, folded, words) FROM STDIN
"""
_STORE_ROW = """
INSERT INTO wakelog.sessions VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE SET
  size = excluded.size, changed = excluded.changed, id = excluded.id, agent = excluded.agent,
  sender = excluded.sender, cwd = excluded.cwd, origin = excluded.origin, archived = excluded.archived,
  updated_ms = excluded.updated_ms, damage = excluded.damage, places = excluded.places,
  state = excluded.state, empty = excluded.empty, row = excluded.row, bookmark = excluded.bookmark
"""
_FROM_FILTERED = """
FROM wakelog.sessions
WHERE (%(archived)s::boolean IS NULL OR archived = %(archived)s)
  AND (%(agent)s::text IS NULL OR agent = %(agent)s)
  AND (%(sender)s::text IS NULL OR sender = %(sender)s)
  AND (%(cwd)s::text IS NULL OR cwd = %(cwd)s)
  AND (%(state)s::text IS NULL OR state = %(state)s)
  AND (%(empty)s::boolean IS NULL OR empty = %(empty)s)
  AND updated_ms <= %(updated_ms)s AND (updated_ms < %(updated_ms)s OR name > %(name)s)
"""
_ROWS = f"SELECT row {_FROM_FILTERED} ORDER BY updated_ms DESC, name LIMIT %(limit)s::bigint"
_COUNT = f"SELECT count(*) {_FROM_FILTERED}"
_FIND_EXACT = """
SELECT row FROM wakelog.sessions WHERE id = %(ref)s OR name = %(ref)s ORDER BY updated_ms DESC, name LIMIT %(limit)s
"""
_FIND_PREFIX = """
SELECT row FROM wakelog.sessions WHERE starts_with(id, %(ref)s) OR starts_with(name, %(ref)s)
ORDER BY updated_ms DESC, name LIMIT %(limit)s
"""
_DAMAGED = "SELECT FROM wakelog.sessions WHERE name = %(name)s AND damage > 0"
_VERSION = "SELECT coalesce(max(version), 0) FROM wakelog.catalog"
_TABLES_EXIST = """
SELECT bool_and(to_regclass(name) IS NOT NULL)
FROM unnest(ARRAY['wakelog.catalog', 'wakelog.sessions', 'wakelog.entries']) AS name
"""
# Whether the tables have a column that earlier versions did not have.
_TABLES_ARE_CURRENT = """
SELECT EXISTS (
  SELECT FROM pg_attribute WHERE attrelid = to_regclass('wakelog.sessions') AND attname = 'state' AND NOT attisdropped)
"""
_TRUNCATE = "TRUNCATE wakelog.sessions, wakelog.entries"
_NO_PENDING_WORDS = "ALTER INDEX IF EXISTS wakelog.entries_by_words SET (fastupdate = off)"
_TIME_MS_MAX = (1 << 63) - 1
# SQLSTATEs: missing tables or columns, contradictory rows, missing permissions, a read-only server.
_UNUSABLE = ("42P01", "42703", "42804", "23505", "22P02", "42501", "25006")


def catalog_in(store: PostgresStore) -> Index:
    """The catalog of a PostgreSQL store."""
    return Index(store, PostgresCatalog(store.database))


class PostgresCatalog:
    """See `CatalogTables`."""

    failures: tuple[type[Exception], ...] = (CatalogUnusable, msgspec.MsgspecError)
    batch_bytes = 64 * 1024 * 1024
    write_bytes = 2 * 1024 * 1024

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lexing = Tokenizer()
        self._places: dict[str, int] = {}
        self._is_current = False

    # ── refreshing ───────────────────────────────────────────────────────────────────────────────

    def refreshing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`."""
        return contextlib.nullcontext()

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """See `CatalogTables`."""
        return contextlib.nullcontext()

    def changes(self, store: Store) -> tuple[dict[str, ChangedLog], list[str]]:  # noqa: ARG002 - read from the database
        """See `CatalogTables`. Uses a query instead of listing the sessions of the store."""
        if not self._has_sessions():
            return {}, []
        self._check_version()
        rows = self._read(_CHANGES)
        work = {name: _changed_log(name, size, *known) for _, name, size, *known in rows if size is not None}
        return work, [name for _, name, size, *_ in rows if size is None]

    def _has_sessions(self) -> bool:
        """Whether the store has sessions. Without any it needs no catalog, and reading must not create one."""
        return self._is_current or bool(self._read("SELECT FROM wakelog.directory LIMIT 1"))

    def _check_version(self) -> None:
        self._is_current = self._read(_VERSION)[0][0] == CATALOG_VERSION
        if not self._is_current:
            raise CatalogUnusable("the catalog has another version")

    def seen(self, names: Sequence[str]) -> Mapping[str, IndexedLog]:
        """See `CatalogTables`. Also reads the number of indexed entries of all these sessions, for `marks`."""
        if not names:
            return {}
        self._places = dict(self._read(_PLACES, (list(names),)))
        return {row[1]: IndexedLog(*row) for row in self._read(_INDEXED_LOGS, (list(names),))}

    def marks(self, name: str, seen: IndexedLog | None, start: int) -> Sequence[int]:  # noqa: ARG002 - the name is the key
        """See `CatalogTables`."""
        if self._places.get(name, 0) <= start:
            return ()
        return [mark for (mark,) in self._read(_MARKS, (name, start))]

    def forks(self, parents: Iterable[str], *, damage: int) -> Sequence[str]:
        """See `CatalogTables`."""
        names = [storable_text(parent) for parent in parents]
        return [name for (name,) in self._read(_FORKS, (names, damage))] if names else ()

    def write(self, batch: Batch) -> None:
        """See `CatalogTables`."""
        changes = list(batch.changes.values())
        copied = self._copied([(change.name, worded) for change in changes for worded in change.words])
        with self._connected() as connection, connection.transaction():
            connection.execute(_LOCK)
            connection.execute(_DELETE_WORDS, (batch.gone,))
            connection.execute(_DELETE_ROWS, (batch.gone,))
            places = _add_words(connection, changes, copied)
            kept, unkept = _rows_to_write(connection, changes, places)
            connection.execute(_MARK_OUTDATED, ([*batch.outdated, *unkept],))
            connection.cursor().executemany(_STORE_ROW, kept)

    def _copied(self, words: Sequence[tuple[str, SearchableEntry]]) -> dict[tuple[str, int], tuple[Any, ...]]:
        """The rows to copy for indexed entries, by session name and place."""
        folded = self._lexing.tokenize([worded.text for _, worded in words])
        return {
            (name, one.place): _entry_values(name, one, text) for (name, one), text in zip(words, folded, strict=True)
        }

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def rows(self, filters: RowFilters, after: RowPosition | None, limit: int | None) -> Sequence[bytes]:
        """See `CatalogTables`."""
        return [row for (row,) in self._read(_ROWS, {**_filter_values(filters, after), "limit": limit})]

    def count(self, filters: RowFilters, after: RowPosition | None) -> int:
        """See `CatalogTables`."""
        return sum(count for (count,) in self._read(_COUNT, _filter_values(filters, after)))

    def find(self, ref: str, limit: int) -> Sequence[bytes]:
        """See `CatalogTables`."""
        given = {"ref": ref, "limit": limit}
        return [row for (row,) in self._read(_FIND_EXACT, given) or self._read(_FIND_PREFIX, given)]

    def is_damaged(self, name: str) -> bool:
        """See `CatalogTables`."""
        return bool(self._read(_DAMAGED, {"name": name}))

    def search(
        self, query: Query, now_ms: int, mark: int, after: HitPosition | None, limit: int
    ) -> Sequence[SearchHit]:
        """See `CatalogTables`."""
        if not self._database.version():
            return []
        hits = PostgresSearch(self._lexing, query, now_ms, mark)
        with self._connected() as connection:
            return hits.hits_after(connection, after, limit)

    # ── rebuilding and closing ───────────────────────────────────────────────────────────────────

    def rebuild(self) -> None:
        """See `CatalogTables`. `CatalogUnusable` for a catalog of a newer wakelog, which is left unchanged."""
        was_current, self._is_current = self._is_current, False
        with _as_unusable():
            self._database.bring_up_to_date()
        with self._connected() as connection, connection.transaction():
            connection.execute(_LOCK)
            version = _scalar(connection, _VERSION) if _scalar(connection, _TABLES_EXIST) else -1
            if version > CATALOG_VERSION:
                raise CatalogUnusable("the catalog was written by a newer wakelog")
            # Tables of this version are only emptied: the role may have no permission to create tables.
            if was_current or version < 0 or not _scalar(connection, _TABLES_ARE_CURRENT):
                _create_tables(connection)
            # If two processes found an older catalog, the second finds it rebuilt already.
            if was_current or version < CATALOG_VERSION:
                connection.execute(_TRUNCATE)
                _index_at_once(connection)
                connection.execute("DELETE FROM wakelog.catalog")
                connection.execute("INSERT INTO wakelog.catalog VALUES (%s)", (CATALOG_VERSION,))

    def close(self) -> None:
        """See `CatalogTables`. Does nothing: the store closes the connections."""

    def _read(self, statement: LiteralString, given: Sequence[Any] | Mapping[str, Any] = ()) -> list[TupleRow]:
        """The rows of a query; none if there is no schema yet."""
        if not self._database.version():
            return []
        with self._connected() as connection:
            return connection.execute(statement, given, binary=True).fetchall()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Connection]:
        with _as_unusable(), self._database.connections.using() as connection:
            yield connection


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def _add_words(
    connection: Connection, changes: Sequence[SessionChange], copied: Mapping[tuple[str, int], tuple[Any, ...]]
) -> dict[str, int]:
    """Delete outdated entries and add those that follow the stored ones; return the number of entries by session."""
    for change in changes:
        if change.cut is not None:
            connection.execute(_DELETE_WORDS_FROM, (change.name, change.cut))
    names = [change.name for change in changes]
    places = dict.fromkeys(names, 0) | dict(connection.execute(_PLACES, (names,)).fetchall())
    with connection.cursor() as cursor, cursor.copy(_COPY_ENTRIES) as copy:
        for change in changes:
            for worded in change.words:
                if worded.place == places[change.name]:
                    copy.write_row(copied[change.name, worded.place])
                    places[change.name] += 1
    return places


def _rows_to_write(
    connection: Connection, changes: Sequence[SessionChange], places: Mapping[str, int]
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """The session rows to write, and the names of sessions with a wrong number of entries, which are read again."""
    kept = {change.name: change.kept for change in changes if change.kept is not None}
    known = {row[1]: IndexedLog(*row) for row in connection.execute(_INDEXED_LOGS, (list(kept),)).fetchall()}
    newer = {name: one for name, one in kept.items() if name not in known or not known[name].is_ahead_of(one.due)}
    rows = [_row_values(one) for name, one in newer.items() if places[name] == one.places]
    return rows, [name for name, one in newer.items() if places[name] != one.places]


def _entry_values(name: str, one: SearchableEntry, folded: str) -> tuple[Any, ...]:
    about = (one.place, storable_text(one.id), one.type, one.tools, storable_text(one.timestamp), one.time_ms, one.mark)
    vector, is_complete = build_tsvector(folded)
    # The column `text` stays empty: the text is in the log. The folded text is needed only beside a vector that does
    # not have all of it. The columns themselves stay, so that the schema is the one that other wakelogs know.
    return (name, *about, one.seq, "", "" if is_complete else f" {folded} ", vector)


def _row_values(kept: RowUpdate) -> tuple[Any, ...]:
    row, stat = kept.row, kept.due.stat
    texts = (storable_text(row.id), storable_text(row.agent), storable_text(row.sender), storable_text(row.cwd))
    origin = storable_text(row.origin) if row.origin is not None else None
    counts = (row.archived, kept.updated_ms, row.damage, kept.places, row.state, row.is_empty)
    return (row.name, stat.size, stat.changed, *texts, origin, *counts, msgspec.json.encode(row), kept.bookmark)


# ── values ───────────────────────────────────────────────────────────────────────────────────────


def _changed_log(name: str, size: int, rows: int, old_size: int | None, old_rows: int | None) -> ChangedLog:
    before = None if old_size is None or old_rows is None else (old_size, old_rows)
    return ChangedLog(SessionStat(name, size, rows), before)


def _filter_values(filters: RowFilters, after: RowPosition | None) -> dict[str, Any]:
    start = {"updated_ms": after.updated_ms, "name": after.name} if after else {"updated_ms": _TIME_MS_MAX, "name": ""}
    texts = {"agent": filters.agent, "sender": filters.sender, "cwd": filters.cwd}
    clean = {key: text if text is None else storable_text(text) for key, text in texts.items()}
    return {"archived": filters.archived, "state": filters.state, "empty": filters.empty, **clean, **start}


def _scalar(connection: Connection, question: LiteralString) -> Any:
    found = connection.execute(question).fetchone()
    return found[0] if found else None


def _create_tables(connection: Connection) -> None:
    """Drop and create the catalog tables: one of them is missing, or an older wakelog created them."""
    connection.execute("DROP TABLE IF EXISTS wakelog.catalog, wakelog.sessions, wakelog.entries")
    for step in migrations("postgres"):
        if step.name.endswith("catalog.sql"):
            connection.execute(step.sql, prepare=False)


def _index_at_once(connection: Connection) -> None:
    """Let the GIN index take words at once. Its list of pending words grows to 4 MB, and the file never shrinks.

    Only the owner of the tables can change that; for another role the catalog works as it is.
    """
    with contextlib.suppress(errors.InsufficientPrivilege), connection.transaction():
        connection.execute(_NO_PENDING_WORDS)


@contextlib.contextmanager
def _as_unusable() -> Iterator[None]:
    """Turn errors that concern only the catalog tables into `CatalogUnusable`."""
    try:
        yield
    except StoreError as error:
        if getattr(error.__cause__, "sqlstate", None) in _UNUSABLE:
            raise CatalogUnusable(str(error)) from error
        raise

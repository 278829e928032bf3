"""The floors of the stores: each bare driver, storing the same bytes with the same durability.

A floor is the code of a ten-line program: one table of (session, seq, bytes), or one file per session.
"""

import os
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import psycopg

HANDS = 16


class Driver(Protocol):
    """A bare way to store lines."""

    words: str

    def append(self, session: str, seq: int, raw: bytes) -> None:
        """Append one line; it is durable when this returns."""
        ...

    def append_all(self, lines: Sequence[tuple[str, int, bytes]]) -> None:
        """Append a line to each of many sessions; all are durable when this returns."""
        ...

    def fill(self, session: str, lines: Sequence[bytes]) -> None:
        """Append many lines at once."""
        ...

    def load(self, session: str) -> list[bytes]:
        """Return all lines of a session."""
        ...

    def tail(self, session: str, count: int) -> list[bytes]:
        """Return the last lines of a session, the last first."""
        ...

    def close(self) -> None:
        """Close the files or connections."""
        ...


class Finder(Protocol):
    """A bare way to list and to search: rows in the order of their time, texts in a full-text index."""

    words: str

    def fill(self, rows: Sequence[tuple[int, bytes]], texts: Sequence[str]) -> None:
        """Store the rows and texts."""
        ...

    def newest(self, count: int) -> list[bytes]:
        """Return the last changed rows."""
        ...

    def search(self, word: str, count: int) -> list[tuple[Any, ...]]:
        """Return the best texts with an excerpt each."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class BareFts:
    """SQLite: a table with an index on the time, and FTS5."""

    words = "sqlite3 and FTS5, the same rows and texts"

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path)

    def fill(self, rows: Sequence[tuple[int, bytes]], texts: Sequence[str]) -> None:
        self._db.execute("CREATE TABLE listed (updated INTEGER, row BLOB)")
        self._db.execute("CREATE INDEX by_time ON listed (updated DESC)")
        self._db.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
        self._db.executemany("INSERT INTO listed VALUES (?, ?)", rows)
        self._db.executemany("INSERT INTO found VALUES (?)", [(text,) for text in texts])
        self._db.commit()

    def newest(self, count: int) -> list[bytes]:
        rows = self._db.execute("SELECT row FROM listed ORDER BY updated DESC LIMIT ?", (count,))
        return [row for (row,) in rows]

    def search(self, word: str, count: int) -> list[tuple[Any, ...]]:
        words = "SELECT snippet(found, 0, '<', '>', '…', 24) FROM found WHERE found MATCH ? ORDER BY rank LIMIT ?"
        return self._db.execute(words, (f'"{word}"', count)).fetchall()

    def close(self) -> None:
        self._db.close()


class BareTsvector:
    """PostgreSQL: a table with an index on the time, and a GIN index."""

    words = "psycopg, tsvector and GIN, the same rows and texts"

    def __init__(self, url: str) -> None:
        self._db: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)

    def fill(self, rows: Sequence[tuple[int, bytes]], texts: Sequence[str]) -> None:
        self._db.execute("CREATE TABLE listed (updated bigint, row bytea)")
        self._db.execute("CREATE INDEX ON listed (updated DESC)")
        self._db.execute("CREATE TABLE found (text text, words tsvector)")
        with self._db.transaction(), self._db.cursor() as cursor:
            cursor.executemany("INSERT INTO listed VALUES (%s, %b)", rows)
            words = "INSERT INTO found VALUES (%(text)s, to_tsvector('simple', %(text)s))"
            cursor.executemany(words, [{"text": text} for text in texts])
        self._db.execute("CREATE INDEX ON found USING gin (words)")
        self._db.execute("ANALYZE found")

    def newest(self, count: int) -> list[bytes]:
        cursor = self._db.cursor(binary=True)
        rows = cursor.execute("SELECT row FROM listed ORDER BY updated DESC LIMIT %s", (count,))
        return [row for (row,) in rows]

    def search(self, word: str, count: int) -> list[tuple[Any, ...]]:
        words = """
        SELECT ts_headline('simple', text, query) FROM (
          SELECT text, query FROM found, plainto_tsquery('simple', %s) AS query
          WHERE words @@ query ORDER BY ts_rank_cd(words, query) DESC LIMIT %s) AS best
        """
        return self._db.execute(words, (word, count)).fetchall()

    def close(self) -> None:
        self._db.close()


class BareFiles:
    """One file per session."""

    words = "`os.write` + `os.fdatasync`"

    def __init__(self, folder: str) -> None:
        os.makedirs(folder)
        self._folder = folder
        self._files: dict[str, int] = {}
        self._hands = ThreadPoolExecutor(HANDS)

    def _file(self, session: str) -> int:
        if session not in self._files:
            path = os.path.join(self._folder, session)
            self._files[session] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return self._files[session]

    def append(self, session: str, seq: int, raw: bytes) -> None:  # noqa: ARG002 - a file counts for itself
        file = self._file(session)
        os.write(file, raw)
        os.fdatasync(file)

    def append_all(self, lines: Sequence[tuple[str, int, bytes]]) -> None:
        for session, _, raw in lines:
            os.write(self._file(session), raw)
        shares = [[self._file(session) for session, _, _ in lines[hand::HANDS]] for hand in range(HANDS)]
        list(self._hands.map(_sync_each, shares))

    def fill(self, session: str, lines: Sequence[bytes]) -> None:
        os.write(self._file(session), b"".join(lines))

    def load(self, session: str) -> list[bytes]:
        with open(os.path.join(self._folder, session), "rb") as file:
            return file.read().split(b"\n")

    def tail(self, session: str, count: int) -> list[bytes]:
        file = self._file(session)
        size = os.fstat(file).st_size
        return os.pread(file, 256 * 1024, max(0, size - 256 * 1024)).split(b"\n")[:-count:-1]

    def close(self) -> None:
        self._hands.shutdown()
        for file in self._files.values():
            os.close(file)


def _sync_each(files: Sequence[int]) -> None:
    for file in files:
        os.fdatasync(file)


class BareSqlite:
    """One table, a write-ahead log, synchronous=FULL."""

    words = "sqlite3, one table, WAL with synchronous=FULL"

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE lines (session TEXT, seq INTEGER, bytes BLOB, UNIQUE (session, seq))")

    def append(self, session: str, seq: int, raw: bytes) -> None:
        self._db.execute("INSERT INTO lines VALUES (?, ?, ?)", (session, seq, raw))

    def append_all(self, lines: Sequence[tuple[str, int, bytes]]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO lines VALUES (?, ?, ?)", lines)
        self._db.execute("COMMIT")

    def fill(self, session: str, lines: Sequence[bytes]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany("INSERT INTO lines VALUES (?, ?, ?)", [(session, *row) for row in enumerate(lines)])
        self._db.execute("COMMIT")

    def load(self, session: str) -> list[bytes]:
        rows = self._db.execute("SELECT bytes FROM lines WHERE session = ? ORDER BY seq", (session,))
        return [raw for (raw,) in rows]

    def tail(self, session: str, count: int) -> list[bytes]:
        words = "SELECT bytes FROM lines WHERE session = ? ORDER BY seq DESC LIMIT ?"
        return [raw for (raw,) in self._db.execute(words, (session, count))]

    def close(self) -> None:
        self._db.close()


class BarePostgres:
    """One table, a commit an insert, prepared statements."""

    words = "psycopg, one table, a commit each, prepared"

    def __init__(self, url: str) -> None:
        self._db: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True, prepare_threshold=1)
        self._db.execute("CREATE TABLE bare (session text, seq bigint, bytes bytea, PRIMARY KEY (session, seq))")

    def append(self, session: str, seq: int, raw: bytes) -> None:
        self._db.execute("INSERT INTO bare VALUES (%s, %s, %b)", (session, seq, raw))

    def append_all(self, lines: Sequence[tuple[str, int, bytes]]) -> None:
        with self._db.transaction(), self._db.cursor() as cursor:
            cursor.executemany("INSERT INTO bare VALUES (%s, %s, %b)", lines)

    def fill(self, session: str, lines: Sequence[bytes]) -> None:
        with self._db.transaction(), self._db.cursor() as cursor:
            rows = [(session, seq, raw) for seq, raw in enumerate(lines)]
            cursor.executemany("INSERT INTO bare VALUES (%s, %s, %b)", rows)

    def load(self, session: str) -> list[bytes]:
        cursor = self._db.cursor(binary=True)
        rows = cursor.execute("SELECT bytes FROM bare WHERE session = %s ORDER BY seq", (session,))
        return [raw for (raw,) in rows]

    def tail(self, session: str, count: int) -> list[bytes]:
        cursor = self._db.cursor(binary=True)
        words = "SELECT bytes FROM bare WHERE session = %s ORDER BY seq DESC LIMIT %s"
        return [raw for (raw,) in cursor.execute(words, (session, count))]

    def close(self) -> None:
        self._db.close()

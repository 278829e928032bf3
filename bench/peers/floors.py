"""The floors: the least work that stores the same message durably, in each kind of storage.

They are peers like the others, so that their own durability is measured in the same way.
"""

import json
import os
import sqlite3
from collections.abc import Sequence

import psycopg


def _packed(text: str) -> str:
    return json.dumps({"role": "user", "content": text}, ensure_ascii=False)


class _Floor:
    """The common part of the three: JSON in, dictionaries out, no branches."""

    packages: tuple[str, ...] = ()
    objects = "dictionaries (`json.loads`)"
    forks = ""

    def texts(self, loaded: Sequence[object]) -> list[str]:
        return [said["content"] for said in loaded if isinstance(said, dict)]

    def fork(self, text: str) -> None:
        raise NotImplementedError


class File(_Floor):
    call = "`os.write` + `os.fdatasync`"

    def open(self, place: str) -> None:
        self._path = os.path.join(place, "floor.jsonl")
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, text: str) -> None:
        os.write(self._file, _packed(text).encode() + b"\n")
        os.fdatasync(self._file)

    def load(self) -> list[object]:
        with open(self._path, "rb") as file:
            return [json.loads(line) for line in file]

    def settings(self) -> str:
        return ""

    def close(self) -> None:
        os.close(self._file)


class Sqlite(_Floor):
    call = "`INSERT`, `COMMIT`; WAL, synchronous=FULL"

    def open(self, place: str) -> None:
        self._db = sqlite3.connect(os.path.join(place, "floor.sqlite"), isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE IF NOT EXISTS said (seq INTEGER PRIMARY KEY, message TEXT NOT NULL)")

    def append(self, text: str) -> None:
        self._db.execute("INSERT INTO said (message) VALUES (?)", (_packed(text),))

    def load(self) -> list[object]:
        return [json.loads(message) for (message,) in self._db.execute("SELECT message FROM said ORDER BY seq")]

    def settings(self) -> str:
        return pragmas(self._db)

    def close(self) -> None:
        self._db.close()


class Postgres(_Floor):
    call = "`INSERT`, prepared, autocommit"

    def open(self, place: str) -> None:
        self._db = psycopg.connect(place, autocommit=True)
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS said (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, message bytea)"
        )

    def append(self, text: str) -> None:
        self._db.execute("INSERT INTO said (message) VALUES (%b)", (_packed(text).encode(),), prepare=True)

    def load(self) -> list[object]:
        rows = self._db.execute("SELECT message FROM said ORDER BY seq", prepare=True, binary=True)
        return [json.loads(message) for (message,) in rows]

    def settings(self) -> str:
        return shown(self._db)

    def close(self) -> None:
        self._db.close()


def pragmas(db: sqlite3.Connection) -> str:
    """Return what a connection to SQLite says of its durability."""
    mode = db.execute("PRAGMA journal_mode").fetchone()[0]
    return said_pragmas(mode, db.execute("PRAGMA synchronous").fetchone()[0])


def said_pragmas(mode: str, synchronous: int) -> str:
    """Return the two pragmas in words."""
    return f"journal_mode={mode.upper()}, synchronous={('OFF', 'NORMAL', 'FULL', 'EXTRA')[synchronous]}"


def shown(db: psycopg.Connection) -> str:
    """Return what a connection to PostgreSQL says of its durability."""
    found = db.execute("SHOW synchronous_commit").fetchone()
    return f"synchronous_commit={found[0] if found else 'unknown'}"

"""Sessions of other agents for tests: the samples beside the project, and sources made of bytes in memory.

The samples are not part of the project. They are looked for in `shared/samples` of the folders above it; tests that
need them are skipped, with this reason, where they are absent.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, SourceLine
from wakelog.exchange.sessions import ForeignSession, ImportedEntry, SkippedRecords

_FOUND = [place / "shared" / "samples" for place in Path(__file__).resolve().parents]
SAMPLES = next((place for place in _FOUND if place.is_dir()), None)
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "EXPECTED.json").read_text()) if SAMPLES is not None else {}
needs_samples = pytest.mark.skipif(SAMPLES is None, reason="the folder shared/samples is not beside the project")


class MemoryFile:
    """A source file made of bytes, with the files beside it: the reference of `SourceFile`."""

    def __init__(self, raw: bytes, path: str = "session.jsonl", others: dict[str, bytes] | None = None) -> None:
        self.path = path
        self._raw = raw
        self._others = others or {}

    def lines(self) -> Iterator[SourceLine]:
        offset = 0
        for number, line in enumerate(self._raw.split(b"\n"), 1):
            if line or offset < len(self._raw):
                raw, is_ended = line if len(line) <= LINE_BYTES_MAX else None, offset + len(line) < len(self._raw)
                yield SourceLine(number, offset, raw, len(line), is_ended)
            offset += len(line) + 1

    def content(self, limit: int = LINE_BYTES_MAX) -> bytes:
        assert len(self._raw) <= limit
        return self._raw

    def beside(self, relative: str) -> "MemoryFile | None":
        raw = self._others.get(relative)
        return None if raw is None else MemoryFile(raw, self._path_of(relative), self._below(relative))

    def list_beside(self, relative: str) -> Sequence["MemoryFile"]:
        names = sorted(name for name in self._others if PurePosixPath(name).parent == PurePosixPath(relative))
        return [found for name in names if (found := self.beside(name)) is not None]

    def _path_of(self, relative: str) -> str:
        return str(PurePosixPath(self.path).parent / relative)

    def _below(self, relative: str) -> dict[str, bytes]:
        folder = f"{PurePosixPath(relative).parent}/"
        return {name.removeprefix(folder): raw for name, raw in self._others.items() if name.startswith(folder)}


def sample(name: str) -> MemoryFile:
    """Return a sample with all files below its folder."""
    assert SAMPLES is not None
    path = SAMPLES / name
    others = {
        str(other.relative_to(path.parent)): other.read_bytes()
        for other in path.parent.rglob("*")
        if other.is_file() and other != path
    }
    return MemoryFile(path.read_bytes(), str(path), others)


def jsonl(*records: Any) -> bytes:
    """Return records as lines of JSON."""
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def entries_of(session: ForeignSession) -> list[Any]:
    """Return the bodies of a session's entries."""
    return [item.body for item in session.items if isinstance(item, ImportedEntry)]


def account_of(items: Iterable[Any]) -> dict[str, int]:
    """Return how many records became entries, were kept verbatim, were skipped and were bad."""
    found = {"mapped": 0, "verbatim": 0, "skipped": 0, "bad": 0}
    for item in items:
        match item:
            case ImportedEntry():
                found["verbatim" if item.is_verbatim else "mapped"] += item.records
            case SkippedRecords():
                found["skipped"] += item.count
            case BadRecord():
                found["bad"] += 1
    return found


class MemoryDatabase:
    """A source database over a connection of `sqlite3`: the reference of `SourceDatabase`."""

    def __init__(self, connection: sqlite3.Connection, path: str = "opencode.db") -> None:
        self.path = path
        self._connection = connection

    def columns(self, table: str) -> tuple[str, ...]:
        return tuple(row[0] for row in self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,)))

    def rows(
        self, table: str, columns: Sequence[str], *, where: dict[str, Any] | None = None, order: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        there = self.columns(table)
        if not there or any(column not in there for column in where or {}):
            return
        chosen = ", ".join(f'"{column}"' if column in there else "NULL" for column in columns)
        conditions = " AND ".join(f'"{column}" IS ?' for column in where or {})
        ordered = ", ".join(f'"{column}"' for column in order if column in there)
        query = f'SELECT {chosen} FROM "{table}"'
        query += (f" WHERE {conditions}" if conditions else "") + (f" ORDER BY {ordered}" if ordered else "")
        yield from self._connection.execute(query, list((where or {}).values()))


def sample_database(name: str) -> MemoryDatabase:
    """Return a sample database, opened for reading only."""
    assert SAMPLES is not None
    path = SAMPLES / name
    return MemoryDatabase(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True), str(path))

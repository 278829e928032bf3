"""Rows of a table of a damaged SQLite database: those that can be read, in a temporary copy.

A page that cannot be read takes the rows in it, and nothing else: rows are taken by their number, without an index, and
behind a stretch that fails the next number that can be read is looked for.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

_DAMAGE_CODES = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOTADB))
_ROW_MIN, _ROW_MAX = -(1 << 63), (1 << 63) - 1


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that pages of the database cannot be read."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE_CODES


def quoted_name(identifier: str) -> str:
    """Return the name of a table or column for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


class ReadableCopy:
    """The rows of one table that can be read, in a temporary database with the same names and row numbers."""

    def __init__(self, source: sqlite3.Connection, table: str, columns: Sequence[str]) -> None:
        self._source = source
        self._table = quoted_name(table)
        self._columns = [quoted_name(column) for column in columns]
        self.lost_stretches = 0
        """How many stretches of rows could not be read."""
        self.lost_cells = 0
        """How many cells of the other rows could not be read."""
        self.connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self.connection.execute(f"CREATE TABLE {self._table} ({', '.join(self._columns)})")
        names, marks = ", ".join(("rowid", *self._columns)), ", ".join("?" * (len(columns) + 1))
        self.connection.execute("BEGIN")
        insert = f"INSERT INTO {self._table} ({names}) VALUES ({marks})"  # noqa: S608 - the names are quoted
        self.connection.executemany(insert, self._rows())
        self.connection.execute("COMMIT")

    def index(self, columns: Sequence[str]) -> None:
        """Make an index over columns that rows are looked for by."""
        if columns:
            name = quoted_name("index of " + ", ".join(columns))
            chosen = ", ".join(map(quoted_name, columns))
            self.connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {self._table} ({chosen})")

    def _rows(self) -> Iterator[tuple[object, ...]]:
        at: int | None = _ROW_MIN
        while at is not None:
            try:
                number = self._first_row(at)
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self.lost_stretches += 1
                at = self._behind_damage(at)
                continue
            if number is None:
                return
            yield (number, *self._row(number))
            at = number + 1 if number < _ROW_MAX else None

    def _first_row(self, at: int) -> int | None:
        """Return the first row number that is not below `at`; None if there is none."""
        sql = f"SELECT rowid FROM {self._table} NOT INDEXED WHERE rowid >= ? ORDER BY rowid LIMIT 1"  # noqa: S608
        with closing(self._source.execute(sql, (at,))) as found:
            row = found.fetchone()
        return None if row is None else row[0]

    def _behind_damage(self, failed: int) -> int | None:
        """Return the least number that rows can be read from again; None if there is none."""
        start = max(failed, 0)
        step = 1
        while start + step <= _ROW_MAX and not self._is_readable(start + step):
            step *= 2
        if start + step > _ROW_MAX:
            return None
        low, high = start + step // 2, start + step
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_readable(middle) else (middle, high)
        return high

    def _is_readable(self, at: int) -> bool:
        try:
            self._first_row(at)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            return False
        return True

    def _row(self, number: int) -> tuple[object, ...]:
        try:
            return self._cells(number, ", ".join(self._columns))
        except sqlite3.DatabaseError as error:
            if not is_damage(error) and not isinstance(error, sqlite3.DataError):
                raise
        return tuple(self._cell(number, column) for column in self._columns)

    def _cell(self, number: int, column: str) -> object:
        """Return one cell; None if it cannot be read or is too large."""
        try:
            return self._cells(number, column)[0]
        except sqlite3.DatabaseError as error:
            if not is_damage(error) and not isinstance(error, sqlite3.DataError):
                raise
            self.lost_cells += 1
            return None

    def _cells(self, number: int, chosen: str) -> tuple[object, ...]:
        sql = f"SELECT {chosen} FROM {self._table} NOT INDEXED WHERE rowid = ?"  # noqa: S608 - the names are quoted
        with closing(self._source.execute(sql, (number,))) as found:
            return tuple(found.fetchone())

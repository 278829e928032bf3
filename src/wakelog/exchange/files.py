"""Files and databases of other agents on disk, opened for reading only and with limits.

What is read is not trusted: only regular files are opened, links below a folder are not followed, lines and documents
have a largest size, and a compressed file may not grow without bound. A file is read up to the size that it had when it
was opened, so that a tool may go on writing it.
"""

import codecs
import os
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import IO, Any, Self

from wakelog.errors import NoAccess, NotFound, StoreError, UsageError
from wakelog.exchange.damaged_tables import ReadableCopy, is_damage
from wakelog.exchange.damaged_tables import quoted_name as _name
from wakelog.exchange.records import LINE_BYTES_MAX, SourceLine
from wakelog.exchange.sync_index import Signature, signature_of

_CHUNK = 1 << 20
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# A compressed file may become this many times as large, or this large, whichever is more.
_RATIO_MAX, _INFLATED_MIN = 200, 256 << 20
_SQL_STEPS = 1_000_000
_SQL_ROUNDS_MAX = 20_000


class DiskFile:
    """A regular file. Implements `SourceFile`."""

    def __init__(
        self, path: str, *, follow_link: bool = True, opened: Signature | None = None, root: str | None = None
    ) -> None:
        self.path = path
        self._root = os.path.dirname(path) if root is None else root
        self.opened: Signature = {} if opened is None else opened
        """What was opened or listed through this file, as it was then: what the result of reading it depends on."""
        descriptor = _open_regular(path, follow_link=follow_link)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            self.is_compressed = file.read(len(_ZSTD_MAGIC)) == _ZSTD_MAGIC
        self.size = found.st_size
        self.opened[path] = found.st_size, found.st_mtime_ns
        self._follow_link = follow_link

    @contextmanager
    def _chunks(self) -> Iterator[Iterator[bytes]]:
        with os.fdopen(_open_regular(self.path, follow_link=self._follow_link), "rb", buffering=0) as file:
            yield _inflated(file, self.size) if self.is_compressed else _limited(file, self.size)

    def lines(self) -> Iterator[SourceLine]:
        """See `SourceFile`."""
        with self._chunks() as chunks:
            yield from _lines(chunks)

    def blocks(self) -> Iterator[bytes]:
        """Yield the content in blocks, decompressed."""
        with self._chunks() as chunks:
            yield from chunks

    def content(self, limit: int = LINE_BYTES_MAX) -> bytes:
        """See `SourceFile`."""
        pieces: list[bytes] = []
        size = 0
        with self._chunks() as chunks:
            for chunk in chunks:
                pieces.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise UsageError(f"{self.path} is larger than {limit >> 20} MB")
        return b"".join(pieces).removeprefix(codecs.BOM_UTF8)

    def below(self, *, up: int) -> "DiskFile":
        """Return this file with access to everything below a folder some levels above its own."""
        root = os.path.dirname(os.path.abspath(self.path))
        for _ in range(up):
            root = os.path.dirname(root)
        return DiskFile(self.path, follow_link=self._follow_link, opened=self.opened, root=root)

    def beside(self, relative: str) -> "DiskFile | None":
        """See `SourceFile`."""
        path = _below(self._root, os.path.dirname(self.path), relative)
        if path is None:
            return None
        try:
            return DiskFile(path, follow_link=False, opened=self.opened, root=self._root)
        except (NotFound, UsageError):
            self.opened[path] = signature_of(path)
            return None

    def list_beside(self, relative: str) -> "Sequence[DiskFile]":
        """See `SourceFile`."""
        folder = _below(self._root, os.path.dirname(self.path), relative)
        if folder is None:
            return []
        self.opened[folder] = signature_of(folder)
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            return []
        found = [self.beside(os.path.join(relative, name)) for name in names]
        return [file for file in found if file is not None]


def _open_regular(path: str, *, follow_link: bool) -> int:
    """Open a regular file for reading; a device or a pipe is refused before anything is read from it."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow_link else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"there is no file {path}") from None
    except PermissionError:
        raise NoAccess(f"{path} cannot be read: no permission") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be opened: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"{path} is not a regular file")
    return descriptor


def _below(root: str, folder: str, relative: str) -> str | None:
    """Return a path from a folder; None if it would leave the root folder, by its words or through a link."""
    if os.path.isabs(relative) or "\0" in relative:
        return None
    root, folder = os.path.realpath(root), os.path.realpath(folder)
    path = os.path.normpath(os.path.join(folder, relative))
    real = os.path.realpath(path)
    return path if real == path and os.path.commonpath([root, real]) == root else None


def _limited(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the content of a file up to a size; `StoreError` if it has become shorter."""
    while size > 0:
        chunk = file.read(min(_CHUNK, size))
        if not chunk:
            raise StoreError(f"{file.name} became shorter while it was read", hint="import it again")
        size -= len(chunk)
        yield chunk


def _inflated(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the content of a zstd file; `UsageError` if it is much larger than the file."""
    try:
        import zstandard  # noqa: PLC0415 - an optional package
    except ImportError:
        hint = "install the extra `exchange`"
        raise UsageError(f"{file.name} is compressed with zstd, which needs another package", hint=hint) from None
    left = max(_INFLATED_MIN, _RATIO_MAX * size)
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file) as reader:
            while chunk := reader.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise UsageError(f"{file.name} is more than {_RATIO_MAX} times as large when decompressed")
                yield chunk
    except zstandard.ZstdError as error:
        raise UsageError(f"{file.name} cannot be decompressed: {error}") from None


def _lines(chunks: Iterator[bytes]) -> Iterator[SourceLine]:
    """Yield the lines of chunks. Of a line that is too long, only its size is kept."""
    number, offset = 1, 0
    pieces: list[bytes] = []
    size = 0
    for at, chunk in enumerate(chunks):
        start = 0
        if at == 0 and chunk.startswith(codecs.BOM_UTF8):
            # The mark of the byte order is no part of the first line.
            start = offset = len(codecs.BOM_UTF8)
        while (end := chunk.find(b"\n", start)) != -1:
            size += end - start
            raw = b"".join([*pieces, chunk[start:end]]) if size <= LINE_BYTES_MAX else None
            yield SourceLine(number, offset, raw, size)
            number, offset, start, size = number + 1, offset + size + 1, end + 1, 0
            pieces.clear()
        size += len(chunk) - start
        if size > LINE_BYTES_MAX:
            pieces.clear()
        else:
            pieces.append(chunk[start:])
    if size:
        yield SourceLine(number, offset, b"".join(pieces) if size <= LINE_BYTES_MAX else None, size, is_ended=False)


class DiskDatabase:
    """A SQLite database, opened read-only. Implements `SourceDatabase`; use it in a `with` statement.

    Each reader sees one consistent state while the tool goes on writing. Only ordinary tables are read: views and
    virtual tables could run code of the file's author.
    """

    def __init__(self, path: str) -> None:
        os.close(_open_regular(path, follow_link=True))
        self.path = path
        self.opened: Signature = {file: signature_of(file) for file in (path, f"{path}-wal")}
        """What the result of reading it depends on, as it was when it was opened."""
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._readable: dict[str, ReadableCopy] = {}
        self.damage: list[str] = []
        """What could not be read so far, as sentences."""
        try:
            self._connection = sqlite3.connect(self._uri(), uri=True, isolation_level=None, check_same_thread=False)
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LINE_BYTES_MAX)
            self._connection.text_factory = _text_of
            self._rounds = 0
            self._connection.set_progress_handler(self._is_too_long, _SQL_STEPS)
            for pragma in ("trusted_schema=OFF", "query_only=ON", "cell_size_check=ON", "mmap_size=0"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("BEGIN")
            schema = {
                name: str(sql).strip().upper()
                for name, sql in self._connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
                if isinstance(name, str) and not str(sql).lstrip().upper().startswith("CREATE VIRTUAL")
            }
            self._tables = {name: self._table_columns(name) for name in schema}
            # Their rows have no numbers, so the readable ones of a damaged table are not found.
            self._without_numbers = frozenset(name for name, sql in schema.items() if "WITHOUT ROWID" in sql)
        except sqlite3.Error as error:
            raise UsageError(f"{path} is not a readable SQLite database: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for copy in self._readable.values():
            copy.connection.close()
        self._connection.close()
        if self._copy is not None:
            self._copy.cleanup()

    def _uri(self) -> str:
        """Return how to open the database so that no file is made beside it.

        SQLite makes the shared-memory file of a write-ahead log if it is missing, even for readers. So a database
        without a log is opened as one that does not change, and one whose log was left by a killed process is copied.
        """
        path = os.path.abspath(self.path)
        with open(path, "rb") as file:
            has_log_mode = file.read(20)[18:19] == b"\x02"
        if not has_log_mode or os.path.exists(f"{path}-shm"):
            return f"file:{_quoted(path)}?mode=ro"
        if not os.path.exists(f"{path}-wal") or os.path.getsize(f"{path}-wal") == 0:
            return f"file:{_quoted(path)}?mode=ro&immutable=1"
        self._copy = tempfile.TemporaryDirectory(prefix="wakelog-import-")
        for ending in ("", "-wal"):
            shutil.copyfile(path + ending, os.path.join(self._copy.name, "copy.db" + ending))
        return f"file:{_quoted(os.path.join(self._copy.name, 'copy.db'))}?mode=ro"

    def _is_too_long(self) -> int:
        self._rounds += 1
        return int(self._rounds > _SQL_ROUNDS_MAX)

    def _table_columns(self, table: str) -> tuple[str, ...]:
        with closing(self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))) as found:
            return tuple(name for (name,) in found)

    @property
    def tables(self) -> Mapping[str, tuple[str, ...]]:
        """The tables with their columns."""
        return self._tables

    def columns(self, table: str) -> tuple[str, ...]:
        """See `SourceDatabase`."""
        return self._tables.get(table, ())

    def rows(
        self, table: str, columns: Sequence[str], *, where: dict[str, Any] | None = None, order: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """See `SourceDatabase`."""
        known, given = set(self.columns(table)), where or {}
        if not known or not known.issuperset(given):
            return
        chosen = ", ".join(_name(column) if column in known else "NULL" for column in columns)
        condition = " AND ".join(f"{_name(column)} IS ?" for column in given)
        sorting = ", ".join(_name(column) for column in order if column in known)
        source = f"FROM {_name(table)}"
        source += (f" WHERE {condition}" if condition else "") + (f" ORDER BY {sorting}" if sorting else "")
        values = tuple(given.values())
        if table in self._readable:
            yield from self._copied_rows(table, chosen, source, given)
            return
        seen: list[int] = []
        try:
            number_of = "NULL" if table in self._without_numbers else "rowid"
            for number, *row in self._fetched(self._connection, f"SELECT {number_of}, {chosen} {source}", values):
                yield tuple(row)
                seen.append(number)
        except sqlite3.DataError:
            # A cell is too large, and the rows behind it cannot be fetched any more.
            for number in self._row_ids(table, source, values)[len(seen) :]:
                yield tuple(self._cell(table, column, number) if column in known else None for column in columns)
        except sqlite3.Error as error:
            self._copy_readable(table, error)
            yield from self._copied_rows(table, chosen, source, given, frozenset(seen))

    @staticmethod
    def _fetched(connection: sqlite3.Connection, sql: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        found = connection.execute(sql, values)
        try:
            yield from found
        finally:
            # A reader that failed is ended after the database was closed.
            with suppress(sqlite3.ProgrammingError):
                found.close()

    def _copy_readable(self, table: str, error: sqlite3.Error) -> None:
        """Copy the rows of a table that can be read; `StoreError` if the error is not damage of the database."""
        if not is_damage(error) or table in self._without_numbers:
            raise StoreError(f"{self.path}: {table} cannot be read: {error}") from None
        try:
            copy = ReadableCopy(self._connection, table, self.columns(table))
        except sqlite3.Error as failure:
            raise StoreError(f"{self.path}: {table} cannot be read: {failure}") from None
        copy.connection.text_factory = _text_of
        self._readable[table] = copy
        lost = f"{copy.lost_stretches} stretches of rows and {copy.lost_cells} cells are lost"
        self.damage.append(f"the table {table} is damaged ({error}); {lost}")

    def _copied_rows(
        self, table: str, chosen: str, source: str, given: dict[str, Any], seen: frozenset[int] = frozenset()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows of the copy of a damaged table, without those that were yielded before."""
        copy = self._readable[table]
        copy.index(tuple(given))
        for number, *row in self._fetched(copy.connection, f"SELECT rowid, {chosen} {source}", tuple(given.values())):
            if number not in seen:
                yield tuple(row)

    def _row_ids(self, table: str, source: str, values: tuple[Any, ...]) -> list[int]:
        try:
            with closing(self._connection.execute(f"SELECT rowid {source}", values)) as found:
                return [number for (number,) in found]
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {table} cannot be read: {error}") from None

    def _cell(self, table: str, column: str, row: int) -> Any:
        """Return one cell; None if it is too large."""
        sql = f"SELECT {_name(column)} FROM {_name(table)} WHERE rowid = ?"  # noqa: S608 - the names are quoted
        try:
            with closing(self._connection.execute(sql, (row,))) as found:
                cells = found.fetchone()
        except sqlite3.DataError:
            return None
        return cells[0] if cells else None


def _text_of(raw: bytes) -> str:
    """Return a text of a database, whose bytes need not be valid."""
    return raw.decode("utf-8", "replace")


def _quoted(path: str) -> str:
    """Return a path as a part of a URI."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")

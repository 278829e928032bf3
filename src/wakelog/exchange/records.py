"""What readers of other formats read: files with lines, whole documents, and databases; and JSON records out of lines.

Nothing here opens anything. A `SourceFile` gives the same bytes however often it is read, up to the size that it had
when it was opened, so a reader may make two passes over a file that grows.

Lines of other agents are often damaged: a killed process leaves a torn last line, the next record is written behind it
without a newline, or two whole records stand on one line. `json_records` returns every record that can be read and one
`BadRecord` for each stretch that cannot, so that nothing is dropped silently.
"""

from collections.abc import Iterable, Iterator, Sequence
from json import JSONDecodeError, JSONDecoder
from typing import Any, Protocol, TypeAlias

import msgspec

LINE_BYTES_MAX = 32 * 1024 * 1024
"""Longer lines are not decoded; a `SourceFile` yields them without content."""
_DEPTH_MAX = 200
# A line with more objects and lists than this would take many times its size in memory.
_CONTAINERS_MAX = 500_000
_EXCERPT_CHARS = 80
# How often the text of a damaged line may be passed over in search of records, and how many characters in all.
_PASSES_MAX, _SEARCHED_MAX = 10, 64 * 1024 * 1024
_BLANKS_MAX = 100


class SourceLine(msgspec.Struct, frozen=True, gc=False):
    """One line of a file without its newline. `raw` is None if the line is longer than `LINE_BYTES_MAX`."""

    number: int
    offset: int
    raw: bytes | None
    size: int
    is_ended: bool = True
    """Whether a newline follows. A last line without one may be written to the end later."""


class SourceFile(Protocol):
    """A file of another agent, opened for reading."""

    path: str
    """Shown to people, and recorded as the origin."""

    def lines(self) -> Iterator[SourceLine]:
        """Yield the lines from the beginning, each time anew."""
        ...

    def content(self, limit: int = LINE_BYTES_MAX) -> bytes:
        """Return the whole content; `UsageError` if it is longer than `limit`."""
        ...

    def beside(self, relative: str) -> "SourceFile | None":
        """Return a file by its path from the folder of this one; None if there is none.

        None, too, if the path would leave the folder that the source was opened for: the folder of this file, unless
        its format has records elsewhere (`storage` of OpenCode, whose session files name messages two folders up).
        """
        ...

    def list_beside(self, relative: str) -> Sequence["SourceFile"]:
        """Return the files in a folder, given as for `beside`, sorted by name."""
        ...


class SourceDatabase(Protocol):
    """A SQLite database of another agent, opened for reading only."""

    path: str

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table; empty if there is no such table."""
        ...

    def rows(
        self, table: str, columns: Sequence[str], *, where: dict[str, Any] | None = None, order: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table; columns that it lacks, and cells that are too large, are None.

        `where` compares columns with values; no row has the value of a column that the table lacks.
        """
        ...


class Record(msgspec.Struct, frozen=True, gc=False):
    """One JSON record of a file and its place."""

    line: int
    offset: int
    value: Any


class BadRecord(msgspec.Struct, frozen=True, gc=False):
    """Bytes that are not a record: where, how many, and why."""

    line: int
    offset: int
    size: int
    reason: str


JsonRecord: TypeAlias = Record | BadRecord


def json_records(lines: Iterable[SourceLine]) -> Iterator[JsonRecord]:
    """Yield the JSON objects of lines, also several on one line, and a `BadRecord` for what is not JSON."""
    decode = msgspec.json.Decoder().decode
    for line in lines:
        raw = line.raw
        if raw is None:
            yield BadRecord(line.number, line.offset, line.size, f"longer than {LINE_BYTES_MAX // 1_048_576} MB")
            continue
        if not raw.strip():
            continue
        containers = raw.count(b"{") + raw.count(b"[")
        if containers > _CONTAINERS_MAX:
            yield BadRecord(line.number, line.offset, line.size, f"more than {_CONTAINERS_MAX:,} objects and lists")
            continue
        try:
            value = decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield from _glued_records(line, raw)
            continue
        if containers <= _DEPTH_MAX and isinstance(value, dict):
            # The common case: too few brackets to be nested too deeply.
            yield Record(line.number, line.offset, value)
        else:
            yield _checked(line, line.offset, len(raw), value)


def decode_document(raw: bytes) -> Any | None:
    """Return the value of a document of JSON; None if it is not JSON, or would take many times its size in memory."""
    if len(raw) > LINE_BYTES_MAX or raw.count(b"{") + raw.count(b"[") > _CONTAINERS_MAX:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _glued_records(line: SourceLine, raw: bytes) -> Iterator[JsonRecord]:
    """Yield the records of a line that is not one JSON value: whole ones, and the stretches between them.

    Behind a damaged stretch, a record ends where the line ends or another record begins. Any other object there is a
    part of the record that was damaged.
    """
    text = raw.decode("utf-8", "surrogateescape")
    places = _Places(line, text)
    decoder = JSONDecoder()
    at = bad_from = 0
    left = min(_PASSES_MAX * len(text), _SEARCHED_MAX)
    while (start := text.find("{", at)) != -1 and left > 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            left -= _search_cost(error, start, len(text))
            at = _next_start(text, start + 1)
            continue
        left -= end - start
        if at > bad_from or text[bad_from:start].strip():
            if _is_inside(text, start, end, is_ended=line.is_ended):
                at = end
                continue
            yield places.bad(bad_from, start)
        offset, size = places.bytes_of(start, end)
        found = _checked(line, offset, size, value)
        yield msgspec.structs.replace(found, value=_with_valid_text(value)) if isinstance(found, Record) else found
        at = bad_from = end
    if text[bad_from:].strip():
        yield places.bad(bad_from, len(text))


def _search_cost(error: Exception, start: int, size: int) -> int:
    """Return how many characters were passed over for an error. Making it passes over all lines before its place."""
    if not isinstance(error, JSONDecodeError):
        return size - start
    return max(error.pos - start + 1, error.pos // 16)


def _is_inside(text: str, start: int, end: int, *, is_ended: bool) -> bool:
    """Return whether an object behind damage belongs to the damaged record, and is not a record of its own."""
    if text[end : end + _BLANKS_MAX].lstrip()[:1] not in ("", "{"):
        return True
    # Without a newline the damaged record is being written: its last value is complete, and it is not.
    return not is_ended and text[max(0, start - _BLANKS_MAX) : start].rstrip()[-1:] in (":", ",", "[")


class _Places:
    """Where stretches of the text of a line are in its file. They are asked for in order, so each is counted once."""

    def __init__(self, line: SourceLine, text: str) -> None:
        self._line = line
        self._text = text
        self._chars, self._bytes = 0, 0

    def bytes_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the offset of a stretch in the file, and its size."""
        self._bytes += self._size(self._chars, start)
        self._chars = start
        return self._line.offset + self._bytes, self._size(start, end)

    def _size(self, start: int, end: int) -> int:
        return len(self._text[start:end].encode("utf-8", "surrogateescape"))

    def bad(self, start: int, end: int) -> BadRecord:
        """Return a stretch that is not a record."""
        offset, size = self.bytes_of(start, end)
        excerpt = self._text[start : min(end, start + _EXCERPT_CHARS)].encode("utf-8", "replace").decode()
        return BadRecord(self._line.number, offset, size, f"not JSON: {excerpt}")


def _with_valid_text(value: Any) -> Any:
    """Return a value without lone surrogates, which no entry can hold: they become `?`."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case dict():
            return {_with_valid_text(key): _with_valid_text(item) for key, item in value.items()}
        case list():
            return [_with_valid_text(item) for item in value]
    return value


def _next_start(text: str, at: int) -> int:
    """Return where the next record of a line may begin: an object whose first key is a string."""
    found = text.find('{"', at)
    return len(text) if found == -1 else found


def _checked(line: SourceLine, offset: int, size: int, value: Any) -> JsonRecord:
    """Return a record, or a `BadRecord` for a value that is no object or is nested too deeply to be handled."""
    if not isinstance(value, dict):
        return BadRecord(line.number, offset, size, "not a JSON object")
    if is_too_deep(value):
        return BadRecord(line.number, offset, size, f"nested more than {_DEPTH_MAX} levels deep")
    return Record(line.number, offset, value)


def is_too_deep(value: Any) -> bool:
    """Return whether containers are nested more than `_DEPTH_MAX` levels deep."""
    level: list[Any] = [value]
    for _ in range(_DEPTH_MAX):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True

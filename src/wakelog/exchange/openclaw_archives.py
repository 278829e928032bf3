"""Compressed records in the database of OpenClaw: archives of sessions that were reset or deleted, and single events.

Archives are lines of JSON. They are decompressed piece by piece, each time they are read, and only up to a limit.
"""

import io
from collections.abc import Iterator
from typing import IO, Any

from wakelog.errors import UsageError
from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, JsonRecord, SourceDatabase, SourceLine, json_records

TABLE = "session_transcript_archives"
_INFLATED_MAX = 256 * 1024 * 1024
_WINDOW_MAX = 1 << 27


def archive_records(source: SourceDatabase, place: dict[str, Any], mark: bytes) -> Iterator[JsonRecord]:
    """Yield the records of an archive whose lines hold a mark; a `BadRecord` where it cannot be read any further."""
    for blob, encoding in source.rows(TABLE, ("archive_blob", "encoding"), where=place):
        read = 0
        try:
            with _opened(blob if isinstance(blob, bytes) else b"", encoding) as file:
                lines = (line for line in _lines(file) if mark in (line.raw or b""))
                for record in json_records(lines):
                    read = record.line
                    yield record
        except UsageError as error:
            yield BadRecord(read + 1, 0, len(blob or b""), f"archive: {error}")


def inflated(blob: bytes) -> bytes:
    """Return the text of one compressed event; `UsageError` if it cannot be decompressed."""
    with _opened(blob, "zstd") as file:
        text = file.read(LINE_BYTES_MAX + 1)
        if len(text) > LINE_BYTES_MAX:
            raise UsageError(f"more than {LINE_BYTES_MAX // 1_048_576} MB when decompressed")
        return text


def _opened(blob: bytes, encoding: object) -> IO[bytes]:
    if encoding != "zstd":
        return io.BytesIO(blob)
    try:
        import zstandard  # noqa: PLC0415 - an optional package
    except ImportError:
        raise UsageError("compressed with zstd, which needs the extra `exchange`") from None

    class Stream(io.RawIOBase):
        """Reads through the decompressor, whose errors are errors of the file."""

        def __init__(self) -> None:
            self._reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX).stream_reader(blob)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            try:
                return self._reader.readinto(buffer)
            except zstandard.ZstdError as error:
                raise UsageError(f"cannot be decompressed: {error}") from None

    return io.BufferedReader(Stream())


def _lines(file: IO[bytes]) -> Iterator[SourceLine]:
    """Yield the lines of a file. Of a line that is too long, only its size is kept."""
    number, offset = 1, 0
    while raw := file.readline(LINE_BYTES_MAX + 1):
        size, whole = len(raw), raw
        while not whole.endswith(b"\n") and (whole := file.readline(LINE_BYTES_MAX)):
            size += len(whole)
            _check(offset + size)
        _check(offset + size)
        is_whole = size == len(raw) and size <= LINE_BYTES_MAX
        yield SourceLine(number, offset, raw.removesuffix(b"\n") if is_whole else None, size)
        number, offset = number + 1, offset + size


def _check(size: int) -> None:
    if size > _INFLATED_MAX:
        raise UsageError(f"more than {_INFLATED_MAX // 1_048_576} MB when decompressed")

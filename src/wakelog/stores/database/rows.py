"""Rows of a log: split bytes into rows at line ends, and derive the other columns of each row.

Pure. The bytes are authoritative; the derived columns only help to find them. A row that is not an entry, or repeats
an entry, is stored too, without derived columns.
"""

from collections.abc import Iterator

from wakelog.log.codec import envelope_of
from wakelog.log.ids import is_id
from wakelog.log.lines import Reader, split
from wakelog.log.seal import unsealed
from wakelog.log.times import parse_ms
from wakelog.stores.database.tables import Row

_TYPE_MAX_CHARS = 128
# The latest time that every database can store: the end of the year 9999.
_TIME_MS_MAX = 253_402_300_799_999


def row_of(raw: bytes, body: bytes, seq: int) -> Row:
    """The row of an encoded entry `body` with this seq; `raw` are its bytes as stored."""
    said = envelope_of(body)
    if said is None:
        return Row(raw, seq)
    return Row(
        raw,
        seq,
        said.id if is_id(said.id) else None,
        said.parent_id if said.parent_id is not None and is_id(said.parent_id) else None,
        said.type if 0 < len(said.type) <= _TYPE_MAX_CHARS and said.type.isprintable() else None,
        _time_ms(said.timestamp),
    )


def rows_of(raw: bytes, *, last_seq: int) -> Iterator[Row]:
    """The rows of a part of a log that follows seq `last_seq`, one for each line."""
    reader = Reader(next_seq=last_seq + 1)
    for line in split([raw]):
        entries = reader.feed(line)
        if len(entries) == 1 and entries[0].seq > last_seq:
            last_seq = entries[0].seq
            yield row_of(line.bytes, unsealed(entries[0].raw), last_seq)
        else:
            yield Row(line.bytes)


def _time_ms(timestamp: str) -> int | None:
    time_ms = parse_ms(timestamp)
    return time_ms if time_ms is not None and 0 <= time_ms <= _TIME_MS_MAX else None

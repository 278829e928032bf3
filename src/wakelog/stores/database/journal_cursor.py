"""Journal cursor: read new pieces of growing journals without reading old ones again.

For each session the last piece read and the number of pieces of each journal are cached. The cache is used only if that
piece is still stored under its key and the caller has exactly those pieces; else the journals are read from the start.
"""

from collections.abc import Iterator, Mapping

import msgspec

from wakelog.ports.stores import JournalPiece
from wakelog.stores.database.tables import JournalRow, StoreTables


class _Position(msgspec.Struct, frozen=True):
    """Read position in a session's journals: the last piece read, and the number of pieces by reply id."""

    last: JournalRow
    counts: dict[str, int]

    def matches(self, had: Mapping[str, int]) -> bool:
        """Whether the caller has exactly these pieces."""
        return all(had.get(reply_id, 0) == count for reply_id, count in self.counts.items())


class JournalCursor:
    """Reads the journals of many sessions, each from its last read position."""

    def __init__(self, tables: StoreTables) -> None:
        self._tables = tables
        self._positions: dict[str, _Position] = {}

    def new_pieces(self, session: str, had: Mapping[str, int]) -> tuple[JournalPiece, ...]:
        """The new pieces, or the first of them if there are many; `had` is the number the caller has, by reply id."""
        position = self._positions.get(session)
        rows = (
            self._tables.journals(session, since=position.last.key)
            if position is not None and position.matches(had)
            else []
        )
        if position is None or rows[:1] != [position.last]:
            # The cached position does not apply: count all pieces again.
            last, counts, rows = None, dict[str, int](), self._tables.journals(session)
        else:
            last, counts, rows = position.last, dict(position.counts), rows[1:]
        pieces: list[JournalPiece] = []
        while rows:
            last = rows[-1]
            pieces += _new_pieces(rows, counts, had)
            # If the caller has all pieces of this page, go on with the next page.
            rows = self._tables.journals(session, since=last.key + 1) if not pieces else []
        if last is None:
            self._positions.pop(session, None)
        else:
            self._positions[session] = _Position(last, counts)
        return tuple(pieces)


class JournalPieces:
    """The pieces of one journal, read in pages each time they are iterated over."""

    def __init__(self, tables: StoreTables, session: str, reply: str) -> None:
        self._tables = tables
        self._session = session
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        """The pieces; none if the journal was dropped."""
        since = 0
        while rows := self._tables.pieces(self._session, self._reply, since=since):
            for row in rows:
                yield row.bytes
            since = rows[-1].key + 1


def _new_pieces(rows: list[JournalRow], counts: dict[str, int], had: Mapping[str, int]) -> Iterator[JournalPiece]:
    for row in rows:
        offset = counts.get(row.reply, 0)
        counts[row.reply] = offset + 1
        if offset >= had.get(row.reply, 0):
            yield JournalPiece(row.reply, offset, row.bytes)

"""Journals as they grow: whoever follows one is told what has come since, and no piece is read twice for that.

What is remembered only saves reading. It is the last piece that was told, which must still stand where it stood, and
how many there were before; whoever has had other pieces than those is told from the beginning.
"""

from collections.abc import Iterator, Mapping

import msgspec

from wakelog.ports import Piece
from wakelog.stores.database.tables import JournalRow, Tables


class _Stood(msgspec.Struct, frozen=True):
    """The last piece that was told of a session, and how many its journals had with it."""

    last: JournalRow
    counts: dict[str, int]

    def fits(self, had: Mapping[str, int]) -> bool:
        """Whether somebody has had exactly these."""
        return all(had.get(reply_id, 0) == count for reply_id, count in self.counts.items())


class ReadingOn:
    """The journals of many sessions, each read on from where it stood."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._stood: dict[str, _Stood] = {}

    def fresh(self, session: str, had: Mapping[str, int]) -> tuple[Piece, ...]:
        """The pieces behind those that were had; where they are many, the first of them."""
        stood = self._stood.get(session)
        rows = self._tables.journals(session, since=stood.last.key) if stood is not None and stood.fits(had) else []
        if stood is None or rows[:1] != [stood.last]:
            # Nobody knows how what stands there now came to be: all of it is counted again.
            last, counts, rows = None, dict[str, int](), self._tables.journals(session)
        else:
            last, counts, rows = stood.last, dict(stood.counts), rows[1:]
        pieces: list[Piece] = []
        while rows:
            last = rows[-1]
            pieces += _counted(rows, counts, had)
            # Rows that were all had are only counted: the news is behind them.
            rows = self._tables.journals(session, since=last.key + 1) if not pieces else []
        if last is None:
            self._stood.pop(session, None)
        else:
            self._stood[session] = _Stood(last, counts)
        return tuple(pieces)


class JournalPieces:
    """The pieces of one journal, read each time they are iterated over, a few rows at a time."""

    def __init__(self, tables: Tables, session: str, reply: str) -> None:
        self._tables = tables
        self._session = session
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        """The whole pieces; none if the journal is gone."""
        since = 0
        while rows := self._tables.pieces(self._session, self._reply, since=since):
            for row in rows:
                yield row.bytes
            since = rows[-1].key + 1


def _counted(rows: list[JournalRow], counts: dict[str, int], had: Mapping[str, int]) -> Iterator[Piece]:
    for row in rows:
        offset = counts.get(row.reply, 0)
        counts[row.reply] = offset + 1
        if offset >= had.get(row.reply, 0):
            yield Piece(row.reply, offset, row.bytes)

"""News of a session: new entries of its log and new pieces of its journals, from a position of a reader.

`Store.follow` returns lines and raw pieces behind a position. A `Cursor` is that position. It gives each entry and each
piece once, also of a journal that is restarted, and no piece of a reply that an entry has completed meanwhile.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wakelog.log.content import ContentDelta, Reply, decode_delta
from wakelog.log.entry import Entry, Message, ModelCall, Partial, Resumed
from wakelog.log.lines import Damage, EntryReader
from wakelog.ports.stores import FollowResult, StopSignal, Store


class StreamedPiece(msgspec.Struct, frozen=True):
    """A piece of a journal. `offset` is the number of pieces before it."""

    journal: str
    delta: ContentDelta
    offset: int = 0


class News(msgspec.Struct, frozen=True):
    """New entries of a log, then new pieces of its journals. `damage`: lines that are not entries."""

    entries: tuple[Entry, ...] = ()
    pieces: tuple[StreamedPiece, ...] = ()
    damage: tuple[Damage, ...] = ()
    restarted_journals: frozenset[str] = frozenset()
    """The journals that an entry of these news starts again."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.entries or self.pieces or self.damage)


class Cursor:
    """A position in a log and, unless `pieces` is None, in its journals: the number of pieces read, by reply id."""

    def __init__(self, next_seq: int, pieces: Mapping[str, int] | None) -> None:
        self.next_seq = next_seq
        self.pieces = None if pieces is None else dict(pieces)
        self._closed: set[str] = set()
        self._reported: set[int] = set()

    def follow(
        self, store: Store, name: str, *, timeout_s: float = 0.0, stop: StopSignal | None = None
    ) -> FollowResult:
        """Wait for news behind this position."""
        pieces = None if self.pieces is None else dict(self.pieces)
        return store.follow(name, after=self.next_seq - 1, pieces=pieces, timeout_s=timeout_s, stop=stop)

    def advance(self, result: FollowResult, limit: "Cursor | None" = None) -> News:
        """Return the news of a result and move behind them, but not behind `limit`."""
        reader = EntryReader(next_seq=self.next_seq)
        found = reader.feed_all(result.lines)
        last_seq = reader.next_seq if limit is None else min(reader.next_seq, limit.next_seq)
        entries: list[Entry] = []
        for entry in found:
            if self.next_seq <= entry.seq < last_seq:
                entries.append(entry)
                self.next_seq = entry.seq + 1
        # A line that is damaged but has a seq counts too.
        self.next_seq = max(self.next_seq, last_seq)
        damage = tuple(item for item in reader.damage if item.offset not in self._reported)
        self._reported |= {item.offset for item in damage}
        restarted = self._note_journals(found)
        pieces = tuple(self._new_pieces(result, restarted, limit))
        return News(tuple(entries), pieces, damage, restarted)

    def _note_journals(self, entries: Iterable[Entry]) -> frozenset[str]:
        """Note which journals these entries close; return those that they start again, which are read from their start.

        A closed journal exists until it is dropped; nothing in it is new. A journal is started again after that.
        """
        restarted: set[str] = set()
        for entry in entries:
            match entry.value:
                case Partial(reply_id=reply_id):
                    self._closed.add(reply_id)
                    restarted.discard(reply_id)
                case Message(message=Reply()):
                    self._closed.add(entry.id)
                    restarted.discard(entry.id)
                case Resumed(reply_id=reply_id) | ModelCall(reply_id=reply_id):
                    if reply_id in self._closed or isinstance(entry.value, Resumed):
                        self._closed.discard(reply_id)
                        restarted.add(reply_id)
        self._forget(restarted)
        return frozenset(restarted)

    def _new_pieces(
        self, result: FollowResult, restarted: frozenset[str], limit: "Cursor | None"
    ) -> Iterator[StreamedPiece]:
        if self.pieces is None:
            return
        for piece in result.pieces:
            is_beyond = limit is not None and piece.offset >= (limit.pieces or {}).get(piece.reply_id, 0)
            # A piece of a journal that is started again may be of the old one or the new one. It is read again.
            if piece.reply_id in restarted or is_beyond or piece.offset < self.pieces.get(piece.reply_id, 0):
                continue
            self.pieces[piece.reply_id] = piece.offset + 1
            delta = decode_delta(piece.raw)
            if delta is not None and piece.reply_id not in self._closed:
                yield StreamedPiece(piece.reply_id, delta, piece.offset)

    def _forget(self, restarted: Iterable[str]) -> None:
        for reply_id in restarted:
            if self.pieces is not None:
                self.pieces.pop(reply_id, None)

    def pass_on(self, news: News) -> News:
        """Return the part of these news that lies behind this position, and move behind them."""
        entries = tuple(entry for entry in news.entries if entry.seq >= self.next_seq)
        if entries:
            self.next_seq = entries[-1].seq + 1
        if self.pieces is None:
            return News(entries, (), news.damage)
        self._forget(news.restarted_journals)
        pieces = tuple(piece for piece in news.pieces if piece.offset >= self.pieces.get(piece.journal, 0))
        self.pieces |= {piece.journal: piece.offset + 1 for piece in pieces}
        return News(entries, pieces, news.damage, news.restarted_journals)

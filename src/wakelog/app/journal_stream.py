"""Journal pieces of a followed session: each once, and none of a reply that an entry has ended meanwhile."""

from collections.abc import Sequence

import msgspec

from wakelog.log.content import ContentDelta, Reply, decode_delta
from wakelog.log.entry import Entry, Message, Partial, Resumed
from wakelog.ports.stores import FollowResult


class StreamedPiece(msgspec.Struct, frozen=True):
    """A piece of a journal."""

    journal: str
    delta: ContentDelta


class JournalCursor:
    """The number of pieces taken from each journal; `positions` is the `pieces` argument of `Store.follow`."""

    def __init__(self) -> None:
        self.positions: dict[str, int] = {}
        self._complete: set[str] = set()

    def take(self, news: FollowResult, entries: Sequence[Entry]) -> list[StreamedPiece]:
        """Return the new pieces; `entries` are those of the same `news`."""
        stale = set(filter(None, map(_ended_journal, entries)))
        for reply_id in stale:
            self.positions.pop(reply_id, None)
        # The journal of a complete reply still exists for a moment; nothing in it is new.
        self._complete |= {entry.id for entry in entries if isinstance(entry.value, Message)}
        found: list[StreamedPiece] = []
        for piece in news.pieces:
            if piece.reply_id in stale:
                # The piece may be of the old journal or of the new one. The journal is read again from its start.
                continue
            self.positions[piece.reply_id] = piece.offset + 1
            delta = decode_delta(piece.raw)
            if delta is not None and piece.reply_id not in self._complete:
                found.append(StreamedPiece(piece.reply_id, delta))
        return found


def _ended_journal(entry: Entry) -> str:
    """Return the id of the reply whose journal ends or begins again with this entry; empty if there is none."""
    match entry.value:
        case Partial(reply_id=reply_id) | Resumed(reply_id=reply_id):
            return reply_id
        case Message(message=Reply()):
            return entry.id
    return ""

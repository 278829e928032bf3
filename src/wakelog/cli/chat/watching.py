"""Watch a session for a chat: its new entries, those of its sub-agents, and the pieces of its journals.

Everything is read from the store, so any process may run the session. Entries come before pieces, so that a piece
belongs to a reply that is not complete yet.
"""

import msgspec

from wakelog.cli.journal_pieces import JournalPieces, Streamed
from wakelog.errors import NotFound
from wakelog.log.content import ToolResult
from wakelog.log.entry import Entry, Message, Spawned
from wakelog.log.lines import Reader
from wakelog.ports import Store


class Heard(msgspec.Struct, frozen=True):
    """An entry and the name of its session."""

    session: str
    entry: Entry


class Watch:
    """Watches one session from a position in its log."""

    def __init__(self, store: Store, name: str, after: int) -> None:
        self._store = store
        self.name = name
        self._next = after + 1
        self._pieces = JournalPieces()
        self._children: dict[str, int] = {}
        self._sent: dict[tuple[str, str, str], str] = {}

    def news(self) -> list[Heard | Streamed]:
        """Return everything new since the last call. Does not wait."""
        news = self._store.follow(self.name, after=self._next - 1, pieces=self._pieces.had, timeout_s=0)
        reader = Reader(next_seq=self._next)
        entries = [Heard(self.name, entry) for entry in reader.feed_all(news.lines)]
        self._next = reader.next_seq
        own = [heard.entry for heard in entries]
        over = self._looked_after(entries)
        inner = [heard for child in list(self._children) for heard in self._of_child(child)]
        over |= self._looked_after(inner)
        for child in over:
            self._children.pop(child, None)
        if inner:
            entries = sorted([*entries, *inner], key=lambda heard: heard.entry.value.timestamp)
        return [*entries, *self._pieces.take(news, own)]

    def _looked_after(self, entries: list[Heard]) -> set[str]:
        """Record started sub-agents; return those with a result, because nothing more happens in them."""
        over: set[str] = set()
        for heard in entries:
            match heard.entry.value:
                case Spawned(child_session=child, reply_id=reply_id, tool_call_id=call_id):
                    self._children.setdefault(child, 0)
                    self._sent[heard.session, reply_id, call_id] = child
                case Message(message=ToolResult(reply_id=reply_id, tool_call_id=call_id)):
                    over.add(self._sent.pop((heard.session, reply_id or "", call_id), ""))
        return over

    def _of_child(self, child: str) -> list[Heard]:
        reader = Reader(next_seq=self._children[child])
        try:
            entries = reader.feed_all(self._store.load(child, after=self._children[child] - 1))
        except NotFound:
            # A sub-agent's name is logged before its session exists.
            return []
        self._children[child] = reader.next_seq
        return [Heard(child, entry) for entry in entries]

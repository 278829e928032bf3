"""In-memory channel: keeps the text of replies. It defines what it means that a channel holds a reply.

Replay compares with it, and tests check other channels against it. It displays nothing, and it keeps the whole text of
a reply after its end too.
"""

import io

from wakelog.channels.offsets import Shown


class Held:
    """Keeps the text of every reply."""

    def __init__(self, name: str = "held") -> None:
        self.name = name
        self.attempts: dict[str, int] = {}
        self.ended: set[str] = set()
        self._shown = Shown()
        self._texts: dict[str, io.StringIO] = {}

    @property
    def replies(self) -> dict[str, str]:
        """The text of each reply that has begun, in the order they began."""
        return {reply_id: text.getvalue() for reply_id, text in self._texts.items()}

    async def begin(self, reply_id: str, attempt: int) -> None:
        """Record the attempt; the text held so far stays."""
        self.attempts[reply_id] = attempt
        self._texts.setdefault(reply_id, io.StringIO())

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Keep the new part of the text; `UsageError` for a gap or a contradiction."""
        fresh = self._shown.fresh(reply_id, offset, text)
        self._texts.setdefault(reply_id, io.StringIO()).write(fresh)
        self._shown.add(reply_id, fresh)

    async def reset(self, reply_id: str) -> None:
        """Discard the text of this reply."""
        self._shown.reset(reply_id)
        self.ended.discard(reply_id)
        self._texts[reply_id] = io.StringIO()

    async def end(self, reply_id: str) -> None:
        """Mark the reply as complete."""
        self._texts.setdefault(reply_id, io.StringIO())
        self._shown.end(reply_id)
        self.ended.add(reply_id)

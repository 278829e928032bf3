"""The channel that keeps what it is given: the reference of what "a channel holds" means.

Replay compares with it, tests measure other channels by it. It shows nothing and forgets nothing: a
reply's text is there, whole, after it has ended too.
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
        """Notes the attempt; what is held stays."""
        self.attempts[reply_id] = attempt
        self._texts.setdefault(reply_id, io.StringIO())

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Keeps what is fresh; gaps and contradictions are refused."""
        fresh = self._shown.fresh(reply_id, offset, text)
        self._texts.setdefault(reply_id, io.StringIO()).write(fresh)
        self._shown.add(reply_id, fresh)

    async def reset(self, reply_id: str) -> None:
        """Lets go of what is held of this reply."""
        self._shown.reset(reply_id)
        self.ended.discard(reply_id)
        self._texts[reply_id] = io.StringIO()

    async def end(self, reply_id: str) -> None:
        """The reply is whole."""
        self._texts.setdefault(reply_id, io.StringIO())
        self._shown.end(reply_id)
        self.ended.add(reply_id)

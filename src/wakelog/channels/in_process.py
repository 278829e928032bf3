"""In-process channels: one keeps the text of replies in memory, one calls a Python function with their events.

`MemoryChannel` defines what it means that a channel holds a reply: replay compares with it, and tests check other
channels against it. It keeps the whole text of a reply after its end too.
`CallbackChannel` leaves repeats out: within one process the function gets each character of a reply once. Another
process that wakes the session does not share this state, so a reply may come again from offset 0, with the same id.
If the function raises, the reply counts as undelivered and the current text as not passed: the reply is delivered
again later.
"""

import inspect
import io
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from wakelog.channels.offsets import ShownText


class MemoryChannel:
    """Keeps the text of every reply."""

    def __init__(self, name: str = "held") -> None:
        self.name = name
        self.attempts: dict[str, int] = {}
        self.ended: set[str] = set()
        self._shown = ShownText()
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
        fresh = self._shown.new_part(reply_id, offset, text)
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


class Begin(msgspec.Struct, frozen=True):
    """A reply starts, or starts again: `attempt` counts from 1."""

    reply_id: str
    attempt: int


class DeltaText(msgspec.Struct, frozen=True):
    """New text, and its offset in the reply."""

    reply_id: str
    attempt: int
    offset: int
    text: str


class Reset(msgspec.Struct, frozen=True):
    """The text passed so far is void; the reply comes again from offset 0."""

    reply_id: str
    attempt: int


class End(msgspec.Struct, frozen=True):
    """The reply is complete and has `offset` characters. This event may be repeated."""

    reply_id: str
    attempt: int
    offset: int


ReplyEvent: TypeAlias = Begin | DeltaText | Reset | End
Callback: TypeAlias = Callable[[ReplyEvent], Awaitable[object] | object]


class CallbackChannel:
    """Calls a function, plain or async, with the events of replies."""

    def __init__(self, function: Callback, name: str = "callback") -> None:
        self.name = name
        self._function = function
        self._attempts: dict[str, int] = {}
        self._shown = ShownText()

    async def begin(self, reply_id: str, attempt: int) -> None:
        """Pass a `Begin` event."""
        self._attempts[reply_id] = attempt
        await self._call(Begin(reply_id, attempt))

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Pass the new part of the text; it counts as shown once the function has returned."""
        fresh = self._shown.new_part(reply_id, offset, text)
        if fresh:
            await self._call(DeltaText(reply_id, self._attempt(reply_id), self._shown.size(reply_id), fresh))
            self._shown.add(reply_id, fresh)

    async def reset(self, reply_id: str) -> None:
        """Pass a `Reset` event, unless the reply began here without text: an earlier process may have passed text."""
        if self._shown.size(reply_id) or self._attempts.get(reply_id) != 1:
            await self._call(Reset(reply_id, self._attempt(reply_id)))
        self._shown.reset(reply_id)

    async def end(self, reply_id: str) -> None:
        """Pass an `End` event; the reply counts as complete once the function has returned."""
        await self._call(End(reply_id, self._attempt(reply_id), self._shown.size(reply_id)))
        self._shown.end(reply_id)

    def _attempt(self, reply_id: str) -> int:
        return self._attempts.get(reply_id, 1)

    async def _call(self, event: ReplyEvent) -> None:
        answer = self._function(event)
        if inspect.isawaitable(answer):
            await answer

"""Replies for a Python function: each call of the port becomes one small event.

Repeats are taken out before the function sees them: within one process it gets each character of a
reply once. Another process that wakes the session knows nothing of this one, so a reply may come again
from offset 0, with the same id. Where the function raises, the reply counts as not delivered and the piece
at hand as not given: the reply is delivered again later.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from wakelog.channels.offsets import Shown


@dataclass(frozen=True, slots=True)
class Begin:
    """A reply starts, or starts again: `attempt` counts from 1."""

    reply_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class DeltaText:
    """Text that was not there yet, and where it stands in the reply."""

    reply_id: str
    attempt: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Reset:
    """What was given of this reply is void; it comes again from offset 0."""

    reply_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class End:
    """The reply is complete, with so many characters. It may be said again."""

    reply_id: str
    attempt: int
    offset: int


Event: TypeAlias = Begin | DeltaText | Reset | End
Function: TypeAlias = Callable[[Event], Awaitable[object] | object]


class CallbackChannel:
    """Calls a function, plain or async, with what happens to replies."""

    def __init__(self, function: Function, name: str = "callback") -> None:
        self.name = name
        self._function = function
        self._attempts: dict[str, int] = {}
        self._shown = Shown()

    async def begin(self, reply_id: str, attempt: int) -> None:
        """Says so."""
        self._attempts[reply_id] = attempt
        await self._call(Begin(reply_id, attempt))

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Gives what is fresh, and counts it once the function has returned."""
        fresh = self._shown.fresh(reply_id, offset, text)
        if fresh:
            await self._call(DeltaText(reply_id, self._attempt(reply_id), self._shown.size(reply_id), fresh))
            self._shown.add(reply_id, fresh)

    async def reset(self, reply_id: str) -> None:
        """Says so, if anything was given."""
        if self._shown.size(reply_id):
            await self._call(Reset(reply_id, self._attempt(reply_id)))
        self._shown.reset(reply_id)

    async def end(self, reply_id: str) -> None:
        """Says so, and counts the reply as whole once the function has returned."""
        await self._call(End(reply_id, self._attempt(reply_id), self._shown.size(reply_id)))
        self._shown.end(reply_id)

    def _attempt(self, reply_id: str) -> int:
        return self._attempts.get(reply_id, 1)

    async def _call(self, event: Event) -> None:
        answer = self._function(event)
        if inspect.isawaitable(answer):
            await answer

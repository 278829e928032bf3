"""The stream of a model's reply: limited to what one entry can hold, filtered, and always closed."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from wakelog.decide.policy import Reasoning
from wakelog.decide.reasoning import ReasoningFilter
from wakelog.log.codec import BRACKETS_MAX, LINE_MAX_BYTES, NESTING_MAX, structure_of
from wakelog.log.deltas import CallDelta, Delta, Faulted, Finished, Spoken, piece_of

# Half a line: a reply becomes one entry or one `partial`, which has other fields too.
REPLY_MAX_BYTES = LINE_MAX_BYTES // 2
# Lists and objects of the entry itself: its usage, its message, its text parts.
_BRACKETS_AROUND = 100
TOO_LONG = Faulted("reply_too_long", f"the reply was stopped when it had grown beyond {REPLY_MAX_BYTES:,} bytes")
TOO_NESTED = Faulted(
    "reply_too_nested",
    f"the reply was stopped: it is nested deeper than {NESTING_MAX} levels "
    f"or made of more than {BRACKETS_MAX:,} lists and objects",
)


async def listen(
    reply: AsyncIterator[Delta], prior: str = "", *, reasoning: Reasoning = "keep", is_recorded: bool = False
) -> AsyncGenerator[Delta, None]:
    """Yield the deltas of a reply that continues `prior`; end with a fault if the reply would not fit into one entry.

    `reasoning` says how much of the model's reasoning is kept. A reply that `is_recorded` is not limited: its end is in
    the log.
    """
    room = _Room(prior)
    kept = ReasoningFilter(reasoning)
    async with _hanging_up(reply):
        async for delta in reply:
            if not isinstance(delta, Finished | Faulted) and not is_recorded:
                fault = room.take(delta)
                if fault is not None:
                    yield fault
                    return
            for heard in kept.take(delta):
                yield heard


class _Room:
    """The remaining capacity of the entry that will hold the reply."""

    def __init__(self, prior: str) -> None:
        self._bytes = REPLY_MAX_BYTES - len(prior.encode())
        self._brackets = BRACKETS_MAX - _BRACKETS_AROUND
        self._last: type[Spoken] | None = None

    def take(self, delta: Spoken) -> Faulted | None:
        """Subtract the size of a delta; return a fault if it does not fit."""
        piece = piece_of(delta)
        self._bytes -= len(piece)
        if self._bytes < 0:
            return TOO_LONG
        is_plain = not isinstance(delta, CallDelta) and delta.bound is None
        # Consecutive deltas of one kind make one part.
        brackets, is_too_deep = (int(type(delta) is not self._last), False) if is_plain else structure_of(piece)
        self._brackets -= brackets
        self._last = type(delta)
        return TOO_NESTED if is_too_deep or self._brackets < 0 else None


@contextlib.asynccontextmanager
async def _hanging_up(reply: AsyncIterator[Delta]) -> AsyncIterator[None]:
    """Close the stream when reading stops, so that the model does not generate (and cost) until garbage collection."""
    try:
        yield
    finally:
        if isinstance(reply, AsyncGenerator):
            await reply.aclose()

"""Listening to a model: what it says as it comes, no longer than an entry can hold, and hung up on in the end."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.turn.deltas import Delta, Faulted, Finished, piece_of
from wakelog.turn.policy import Reasoning
from wakelog.turn.reasoning import ReasoningFilter

# Half a line: a reply becomes one entry, or one `partial`, with all that stands around it.
REPLY_MAX_BYTES = LINE_MAX_BYTES // 2
TOO_LONG = Faulted("reply_too_long", f"the reply was stopped when it had grown beyond {REPLY_MAX_BYTES:,} bytes")


async def listen(
    reply: AsyncIterator[Delta], prior: str = "", *, reasoning: Reasoning = "keep"
) -> AsyncGenerator[Delta, None]:
    """A reply as it comes, behind what was said before; ended by a fault where it would not fit into one entry.

    `reasoning` says how much of the model's reasoning is heard.
    """
    size = len(prior.encode())
    kept = ReasoningFilter(reasoning)
    async with _hanging_up(reply):
        async for delta in reply:
            size += 0 if isinstance(delta, Finished | Faulted) else len(piece_of(delta))
            if size > REPLY_MAX_BYTES:
                yield TOO_LONG
                return
            for heard in kept.take(delta):
                yield heard


@contextlib.asynccontextmanager
async def _hanging_up(reply: AsyncIterator[Delta]) -> AsyncIterator[None]:
    """Whoever stops listening hangs up: no model goes on talking, and costing, until somebody collects it."""
    try:
        yield
    finally:
        if isinstance(reply, AsyncGenerator):
            await reply.aclose()

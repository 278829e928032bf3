"""Work that a person may interrupt: whichever comes first, the end of the work or a cancel.

What they had read of a reply when they stopped it is written into the entry that ends the turn: "no, not like that" is
said about something, and the model must know about what.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from wakelog.log.content import Text
from wakelog.log.entry import Cancelled, Queued
from wakelog.runtime.step import Step


async def unless_cancelled(step: Step, work: Coroutine[Any, Any, None]) -> Queued | None:
    """Does the work; stops it and gives the cancel if a person asks for one before it is done."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(step.world.cancelled(step.session, step.decided_on))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return None
        return watching.result()
    finally:
        try:
            await stopped(working)
        finally:
            await stopped(watching)


def end_turn(step: Step, asked: Queued, said: str = "") -> None:
    """Ends the turn because a person has asked for it."""
    content = (Text(text=said),) if said else ()
    step.write(Cancelled(reason="asked by a person", queued_id=asked.id, content=content))


async def stopped(task: "asyncio.Future[Any]") -> None:
    """Cancels a task and waits until it is over; what it was doing then is of no interest any more."""
    if task.done():
        if not task.cancelled():
            # Whoever wanted to know has looked; the loop need not report it again.
            task.exception()
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def all_stopped(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancels tasks at the same time and waits until all are over: together they take as long as the slowest."""
    ended = await asyncio.gather(*map(stopped, tasks), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error

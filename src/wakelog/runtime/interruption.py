"""Cancellable work: it runs until it ends or a person cancels, whichever comes first.

The displayed text of a cancelled reply is written into the entry that ends the turn, so that the model knows what the
next message ("no, not like that") refers to.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from wakelog.log.content import Text
from wakelog.log.entry import Cancelled, Queued
from wakelog.runtime.step import Step


async def unless_cancelled(step: Step, work: Coroutine[Any, Any, None]) -> Queued | None:
    """Run the work. If a person cancels before it is done, stop it and return the cancel; else return None."""
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
    """Write the entry that ends the turn at a person's request; `said` is the displayed text of the reply."""
    content = (Text(text=said),) if said else ()
    step.write(Cancelled(reason="asked by a person", queued_id=asked.id, content=content))


async def stopped(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait for its end. Raises an error of the cancellation; a task that is done is left alone."""
    if task.done():
        if not task.cancelled():
            # Marks the exception as retrieved, so that the event loop does not report it.
            task.exception()
        return
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


async def cancel_all_and_wait(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancel tasks concurrently, wait until all have ended, and raise the first error."""
    ended = await asyncio.gather(*map(stopped, tasks), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error

"""Run blocking work in daemon threads, so that process exit never waits for it."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def behind(work: Callable[[], T]) -> T:
    """Await `work()` in a daemon thread; return its result or raise its exception."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            settle = _giving(done, work())
        except Exception as wrong:  # noqa: BLE001 - it is raised where it is waited for
            settle = _raising(done, wrong)
        # The event loop may be closed by now; then nothing awaits the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    threading.Thread(target=run, name="wakelog-behind", daemon=True).start()
    return await done


def _giving(done: "asyncio.Future[T]", found: T) -> Callable[[], None]:
    return lambda: done.set_result(found)


def _raising(done: "asyncio.Future[T]", error: Exception) -> Callable[[], None]:
    return lambda: done.set_exception(error)

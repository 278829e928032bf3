"""Work behind a chat, in a thread that nobody waits for: whoever leaves has left at once, however long it takes."""

import asyncio
import contextlib
import threading
from collections.abc import Callable


async def behind(work: Callable[[], None]) -> None:
    """Waits for some work, beside everything else that goes on; raises what went wrong with it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as wrong:  # noqa: BLE001 - it is raised where it is waited for
            error = wrong
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, done, error)

    threading.Thread(target=run, name="wakelog-behind", daemon=True).start()
    await done


def _settle(done: "asyncio.Future[None]", error: Exception | None) -> None:
    if done.done():
        return
    done.set_exception(error) if error is not None else done.set_result(None)

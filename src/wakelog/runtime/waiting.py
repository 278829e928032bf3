"""Waiting for entries in an event loop, without blocking it. `wakelog.watcher` itself does not import asyncio.

The thread of a session calls `LoopSignal.set`, which wakes the task that waits in the event loop.
"""

import asyncio
import contextlib
from collections.abc import Callable

from wakelog.errors import Unavailable
from wakelog.log.entry import Entry
from wakelog.ports.stores import Store
from wakelog.stores.retrying import without_retries
from wakelog.watcher import Subscription

# How long to wait before a failed reading is repeated, unless the thread reports earlier that the store answers.
_RETRY_S = 5.0


class LoopSignal:
    """An event of the running event loop that other threads may set: `on_news` of subscriptions in that loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """Set the event, from any thread."""
        # The event loop may be closed by now; then nothing waits.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for `set`, or until the timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        self._event.clear()


async def wait_for_entry(store: Store, name: str, *, after: int, is_wanted: Callable[[Entry], bool]) -> Entry:
    """Return the first wanted entry after seq `after`, when it is there. Outages are waited out without blocking."""
    signal = LoopSignal()
    subscription = Subscription(without_retries(store), name, after=after)
    subscription.start(signal.set)
    try:
        while True:
            pause_s = None
            try:
                for entry in (entry for news in subscription.fetch() for entry in news.entries):
                    if is_wanted(entry):
                        return entry
            except Unavailable:
                pause_s = _RETRY_S
            if subscription.is_over:
                # The store was closed; the run that waits uses it again.
                subscription.start(signal.set)
            await signal.wait(pause_s)
    finally:
        subscription.close()

"""An event loop with simulated time: it jumps to the next timer as soon as there is nothing else to do.

A minute of loop time takes milliseconds, and events happen in the same order every time. Nothing may wait for a thread,
a process or a socket in it.
"""

import asyncio
from collections import deque
from typing import Any


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """See above. `advance` moves the time, as a call that blocks the loop would."""

    # Attributes of `asyncio.BaseEventLoop` that its type stub leaves out.
    _ready: deque[Any]
    _scheduled: list[Any]

    def __init__(self):
        super().__init__()
        self._elapsed = 0.0

    def time(self):
        return self._elapsed

    def advance(self, seconds):
        self._elapsed += seconds

    def _run_once(self):
        if not self._ready and self._scheduled:
            self._elapsed = max(self._elapsed, self._scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]


class FakeUptime:
    """See `stores.retrying.Uptime`: the time of a `FakeTimeLoop`."""

    def __init__(self, loop):
        self._loop = loop

    def now(self):
        return self._loop.time()

    def sleep(self, seconds):
        self._loop.advance(seconds)


def run_in(loop, coroutine):
    """Run a coroutine to its end in a `FakeTimeLoop`."""
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        asyncio.set_event_loop(None)
        loop.close()

"""Followers of a store: the calls of `Store.follow` that wait in this process, each woken by news, a stop or a close.

A store has one `Followers`. A call of `follow` that waits enters `waiting` and blocks in `Follower.wait`. A file event
or a notification calls `Follower.wake`. Closing the store ends every wait with `StoreClosed`, and every later call with
the same `StopSignal`, so that a thread between two calls does not open the store again.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator

from wakelog.errors import StoreClosed
from wakelog.ports.stores import StopSignal

# How long `close` waits for calls that are reading at that moment.
_CLOSE_S = 1.0


class Follower:
    """One call of `follow`. `timeout_s` is its time limit, counted from now."""

    def __init__(self, timeout_s: float, stop: StopSignal | None) -> None:
        self.is_closed = False
        self._until = time.monotonic() + timeout_s
        self._stop = stop
        self._news = threading.Event()

    @property
    def is_over(self) -> bool:
        """Whether the call has to return: its time is up, or it was stopped."""
        return time.monotonic() >= self._until or (self._stop is not None and self._stop.is_set)

    def wake(self) -> None:
        """End the current wait, or the next one."""
        self._news.set()

    def wait(self, at_most_s: float) -> bool:
        """Wait for `wake`, at most this many seconds; return whether it was called. `StoreClosed` after a close."""
        left_s = max(0.0, self._until - time.monotonic())
        is_woken = self._news.wait(min(at_most_s, left_s))
        self._news.clear()
        self.check_open()
        return is_woken

    def check_open(self) -> None:
        """Raise `StoreClosed` if the store was closed during the call."""
        if self.is_closed or (self._stop is not None and self._stop.is_closed):
            raise StoreClosed("the store was closed", hint="subscribe again to continue")


class Followers:
    """The followers that wait in one store object."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Condition()
        self._waiting: set[Follower] = set()
        self._stops: weakref.WeakSet[StopSignal] = weakref.WeakSet()

    @contextlib.contextmanager
    def waiting(self, timeout_s: float, stop: StopSignal | None) -> Iterator[Follower]:
        """Enter a call of `follow`."""
        if self._pid != os.getpid():
            # The threads that waited are those of the parent process.
            self._begin()
        follower = Follower(timeout_s, stop)
        follower.check_open()
        with self._lock:
            self._waiting.add(follower)
            if stop is not None:
                self._stops.add(stop)
        try:
            with stop.waking(follower.wake) if stop is not None else contextlib.nullcontext():
                yield follower
        finally:
            with self._lock:
                self._waiting.discard(follower)
                self._lock.notify_all()

    def wake(self) -> None:
        """Wake all followers; each looks for its own news."""
        with self._lock:
            for follower in self._waiting:
                follower.wake()

    def close(self) -> None:
        """End all waits with `StoreClosed`, and return when the calls have ended: they may use open files."""
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            for stop in self._stops:
                stop.is_closed = True
            self._stops = weakref.WeakSet()
            for follower in self._waiting:
                follower.is_closed = True
                follower.wake()
            self._lock.wait_for(lambda: not self._waiting, timeout=_CLOSE_S)

"""Waits of store calls: stop times of leases, and file locks with a limit on the wait.

Stores are synchronous: while one call waits, its thread does nothing else, and no tool can be stopped. So a call that
waits (for a server, a lock, the next try) waits no longer than the earliest stop time of all leases held on the
thread. Stop times are in `seconds_since_boot`, and are read only when a call waits.
Rule 1: a free lock costs one system call. Everything else here runs only while another process holds the lock.
Rule 2: a wait ends after `LockWait.timeout_s` in total, whatever the lock holder does: a holder that was stopped with
SIGSTOP keeps its locks. Under a lease it ends when that lease must be given up, if that is sooner.
Rule 3: after two milliseconds of polling, waiters join the kernel's queue. `flock` has no timeout, so a thread
makes the blocking call and the caller waits for the thread. Polling alone was measured: 8 writers of one session took
2 to 4 times as long, and single appends waited for seconds, because the process that has just released the lock takes
it again before the others poll.
Rule 4: stores print nothing. `LockWait.on_wait` is called once for each long wait, so that a front end can show
the user which process the command waits for.
"""

import _thread
import fcntl
import math
import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

from wakelog.errors import StoreBusy
from wakelog.stores.process_identity import flock_holder, seconds_since_boot


class _StopTimes(threading.local):
    """The stop times of the leases that are held on one thread, by holder object."""

    def __init__(self) -> None:
        self.stops: dict[int, float] = {}


_stop_times = _StopTimes()


def set_stop_time(holder: object, stop_at: float) -> None:
    """Require calls on this thread to return by `stop_at`, until the holder's stop time is cleared."""
    _stop_times.stops[id(holder)] = stop_at


def clear_stop_time(holder: object) -> None:
    """Remove the stop time of a holder whose lease has ended."""
    _stop_times.stops.pop(id(holder), None)


def earliest_stop() -> float | None:
    """The earliest stop time on this thread; None without a lease."""
    return min(_stop_times.stops.values(), default=None)


def is_time_up() -> bool:
    """Whether a waiting call must give up now."""
    stop_at = earliest_stop()
    return stop_at is not None and seconds_since_boot() >= stop_at


DEFAULT_TIMEOUT_S = 30.0
NOTICE_AFTER_S = 1.5
# Pauses between two tries where a lock can only be polled.
_FIRST_PAUSE_S = 0.000_2
_LONGEST_PAUSE_S = 0.01
_PAUSE_GROWTH = 1.5
# Most locks are held for less than a millisecond or two, so they are polled for that long before a thread is started.
_QUICK_TRIES = 20
_QUICK_PAUSE_S = 0.000_1
# Interval at which `QueueWait` checks whether the lock holder is stopped.
_HOLDER_CHECK_S = 1.0


class LockHolder(Protocol):
    """A lock holder: a process of this machine or a backend of a server. `str(holder)` names and describes it."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped by a signal or a debugger."""

    @property
    def hint(self) -> str:
        """What a user can do to free the lock."""


class LockWaitNotice(NamedTuple):
    """Notice of a long wait for a lock. `holder` is None where it cannot be determined."""

    lock: str
    """The description of the lock: `the append lock of crab_user_1`."""
    holder: LockHolder | None
    waited_s: float

    def __str__(self) -> str:
        by = f", held by {self.holder}" if self.holder else ""
        return f"waiting for {self.lock}{by}"


class LockWait(NamedTuple):
    """How long a store waits for a lock, and the callback for long waits."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    on_wait: Callable[[LockWaitNotice], None] | None = None


DEFAULT_WAIT = LockWait()


class Wait:
    """One wait for a lock, started after the first try failed. `find_holder` returns the lock's holder, if known."""

    def __init__(self, policy: LockWait, lock: str, find_holder: Callable[[], LockHolder | None]) -> None:
        self._policy = policy
        self._lock = lock
        self._find_holder = find_holder
        self._begun = time.monotonic()
        self._limit_s = min(policy.timeout_s, lease_time_left_s())
        self._pause_s = _FIRST_PAUSE_S
        self._is_notified = policy.on_wait is None

    def pause(self, seconds: float | None = None) -> None:
        """Sleep before the next try: `seconds`, or longer each time; `StoreBusy` when the time is up."""
        left_s = self.left_s()
        if seconds is None:
            # Waiters that sleep equally long would all try at the same moment.
            seconds = self._pause_s * (0.5 + time.monotonic_ns() % 1024 / 2048)
            self._pause_s = min(self._pause_s * _PAUSE_GROWTH, _LONGEST_PAUSE_S)
        time.sleep(min(left_s, seconds))

    def acquire(self, lock: "threading.Lock | threading.RLock") -> None:
        """Wait for a thread lock of this process; `StoreBusy` when the time is up."""
        while not lock.acquire(timeout=min(self.left_s(), NOTICE_AFTER_S)):
            pass

    def left_s(self) -> float:
        """Seconds until the limit. Calls `on_wait` once when it is due; raises `StoreBusy` at the limit."""
        waited_s = time.monotonic() - self._begun
        if waited_s >= self._limit_s:
            raise busy_error(self._lock, self._find_holder(), waited_s)
        if not self._is_notified and waited_s >= NOTICE_AFTER_S:
            self._is_notified = True
            assert self._policy.on_wait is not None
            self._policy.on_wait(LockWaitNotice(self._lock, self._find_holder(), waited_s))
        return self._limit_s - waited_s


class QueueWait(Wait):
    """Part of a longer wait, for an optional lock: it also ends when the lock holder is a stopped process."""

    def __init__(self, whole: Wait, limit_s: float, find_holder: Callable[[], LockHolder | None]) -> None:
        super().__init__(LockWait(limit_s), "the queue", find_holder)
        self._whole = whole

    def left_s(self) -> float:
        """See `Wait`. The holder is checked once a second."""
        left_s = min(self._whole.left_s(), super().left_s())
        if time.monotonic() - self._begun >= _HOLDER_CHECK_S:
            holder = self._find_holder()
            if holder is not None and holder.is_stopped:
                raise busy_error(self._lock, holder, _HOLDER_CHECK_S)
        return min(left_s, _HOLDER_CHECK_S)


def lease_time_left_s() -> float:
    """Seconds until the earliest stop time of the leases held on this thread; infinite without a lease."""
    stop_at = earliest_stop()
    return math.inf if stop_at is None else max(0.0, stop_at - seconds_since_boot())


def busy_error(lock: str, holder: LockHolder | None, waited_s: float) -> StoreBusy:
    """The error for a lock that was not free in time; it names the holder where that is known."""
    by = str(holder) if holder else "another process"
    hint = holder.hint if holder else "find the process that holds it, let it finish or end it, and try again"
    pid = holder.pid if holder else None
    return StoreBusy(f"{by} holds {lock}; gave up after {waited_s:.3g} s", hint=hint, holder_pid=pid)


def lock_file(descriptor: int, how: int, lock: str, policy: LockWait) -> None:
    """Take a `flock` lock, shared or exclusive, within the limit; `OSError` for anything but a taken lock."""
    if not try_lock(descriptor, how):
        wait_for_file_lock(descriptor, how, Wait(policy, lock, lambda: file_lock_holder(descriptor)))


def file_lock_holder(file: int | str) -> LockHolder | None:
    """The process that holds a `flock` lock on a file, which is given by a descriptor or its path."""
    return flock_holder(file)


def wait_for_file_lock(descriptor: int, how: int, wait: Wait) -> None:
    """Wait for a `flock` lock that another process holds. After an error the caller must close the descriptor."""
    for _ in range(_QUICK_TRIES):
        wait.pause(_QUICK_PAUSE_S)
        if try_lock(descriptor, how):
            return
    place = _file_id(descriptor)
    if place in _abandoned:
        _poll(descriptor, how, wait)
    else:
        _block(descriptor, how, wait, place)


def try_lock(descriptor: int, how: int) -> bool:
    """Take a `flock` lock without waiting; False where another process holds it."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _poll(descriptor: int, how: int, wait: Wait) -> None:
    while not try_lock(descriptor, how):
        wait.pause()


def _block(descriptor: int, how: int, wait: Wait, place: tuple[int, int]) -> None:
    """Wait in the kernel's queue for a lock until the time is up."""
    call = _BlockingCall(descriptor, how)
    try:
        wait.acquire(call.is_done)
    except BaseException:
        call.abandon(place)
        raise
    if call.error is not None:
        raise call.error


def _file_id(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


# Files on which a thread still waits for a lock that its caller has abandoned. A second wait for the same lock polls,
# so that one stopped process never costs more than one thread for each of its locks.
_abandoned: set[tuple[int, int]] = set()


class _BlockingCall:
    """A blocking `flock` call in a daemon thread. The thread uses a copy of the descriptor, so the caller may close its
    own at any time; a lock that is granted after the caller gave up is released at once.
    """

    def __init__(self, descriptor: int, how: int) -> None:
        self.is_done = threading.Lock()
        self.is_done.acquire()
        self.error: OSError | None = None
        self._place: tuple[int, int] | None = None
        self._ending = threading.Lock()
        self._has_ended = False
        self._copy = os.dup(descriptor)
        # Not `threading.Thread`: its `start` waits until the thread runs, and every append that waits starts one.
        _thread.start_new_thread(self._run, (how,))

    def _run(self, how: int) -> None:
        try:
            fcntl.flock(self._copy, how)
        except OSError as error:
            self.error = error
        with self._ending:
            self._has_ended = True
            if self._place is not None:
                fcntl.flock(self._copy, fcntl.LOCK_UN)
                _abandoned.discard(self._place)
            os.close(self._copy)
        self.is_done.release()

    def abandon(self, place: tuple[int, int]) -> None:
        """Abandon the call. A lock that was granted meanwhile is released when the caller closes its descriptor."""
        with self._ending:
            if not self._has_ended:
                self._place = place
                _abandoned.add(place)

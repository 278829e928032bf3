"""The time at which calls to a store must return on this thread, because a lease that is held here runs out.

Stores are synchronous: while one call waits, nothing else happens on its thread, and no tool can be stopped. So a call
that waits (for a server, a lock, the next try) may wait no longer than the earliest stop time of all leases that are
held on the thread. Times are those of `seconds_since_boot`. Reading this costs nothing while calls succeed.
"""

import threading

from wakelog.stores.holding import seconds_since_boot


class _Held(threading.local):
    """The stop times of the leases that are held on one thread, by holder object."""

    def __init__(self) -> None:
        self.stops: dict[int, float] = {}


_held = _Held()


def set_stop_time(holder: object, stop_at: float) -> None:
    """Calls on this thread must return by then, as long as this holder has its lease."""
    _held.stops[id(holder)] = stop_at


def clear_stop_time(holder: object) -> None:
    """The holder has no lease any more."""
    _held.stops.pop(id(holder), None)


def earliest_stop() -> float | None:
    """The earliest stop time on this thread; None while no lease is held here."""
    return min(_held.stops.values(), default=None)


def is_time_up() -> bool:
    """Whether a call that still waits must give up now."""
    stop_at = earliest_stop()
    return stop_at is not None and seconds_since_boot() >= stop_at

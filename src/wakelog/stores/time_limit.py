"""Time limit of store calls: the time at which calls on this thread must return, because a lease held here runs out.

Stores are synchronous: while one call waits, its thread does nothing else, and no tool can be stopped. So a call that
waits (for a server, a lock, the next try) may wait no longer than the earliest stop time of all leases held on the
thread. Times are those of `seconds_since_boot`. The limit is read only when a call waits.
"""

import threading

from wakelog.stores.holding import seconds_since_boot


class _Held(threading.local):
    """The stop times of the leases that are held on one thread, by holder object."""

    def __init__(self) -> None:
        self.stops: dict[int, float] = {}


_held = _Held()


def set_stop_time(holder: object, stop_at: float) -> None:
    """Require calls on this thread to return by `stop_at`, until the holder's stop time is cleared."""
    _held.stops[id(holder)] = stop_at


def clear_stop_time(holder: object) -> None:
    """Remove the stop time of a holder whose lease has ended."""
    _held.stops.pop(id(holder), None)


def earliest_stop() -> float | None:
    """The earliest stop time on this thread; None without a lease."""
    return min(_held.stops.values(), default=None)


def is_time_up() -> bool:
    """Whether a waiting call must give up now."""
    stop_at = earliest_stop()
    return stop_at is not None and seconds_since_boot() >= stop_at

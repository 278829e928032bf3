"""Limit on waiting for another process's lock, and a note on stderr about a long wait."""

import math
import os

from wakelog.cli.failures import note
from wakelog.errors import UsageError
from wakelog.stores.locking import DEFAULT_TIMEOUT_S, LockWait, Waiting

VARIABLE = "WAKELOG_LOCK_TIMEOUT"
_LONGEST_S = 24 * 60 * 60


def lock_wait() -> LockWait:
    """Return the limit from `WAKELOG_LOCK_TIMEOUT`, in seconds, or the default; long waits are noted on stderr."""
    timeout_s = _timeout_s()

    def tell(waiting: Waiting) -> None:
        note(f"{waiting}; gives up after {timeout_s:.3g} s")

    return LockWait(timeout_s, tell)


def _timeout_s() -> float:
    given = os.environ.get(VARIABLE)
    if not given:
        return DEFAULT_TIMEOUT_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"{VARIABLE} must be a number of seconds, not {given[:40]!r}", hint="for example 30")
    return seconds

"""Retry limit: the only bound on repeated tries to append to a log. Pure.

A try that was refused because the log has grown is repeated: another writer made progress. A try that was refused
although the log is unchanged would be refused again, so such tries end with an error after `IDLE_TRIES_MAX`. The error
is not a `Conflict`: callers that repeat an append after a `Conflict` do not repeat these tries, so loops inside loops
stop together.
"""

from wakelog.errors import Conflict, StoreError

IDLE_TRIES_MAX = 20
"""How many tries in a row may be refused while the log stays the same."""
_TRIES_MAX = 10_000


class RetryLimit:
    """Counts the refused tries of one append to the session `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._refused = 0
        self._idle = 0
        self._end: object = None

    def refused(self, end: object) -> bool:
        """Count a refused try; return whether the log has changed since the previous one.

        `end` is a value that changes with the log. `StoreError` if the log has not changed for `IDLE_TRIES_MAX` tries,
        `Conflict` if other writers were faster far too often.
        """
        self._refused += 1
        has_changed = self._refused == 1 or end != self._end
        self._idle = 0 if has_changed else self._idle + 1
        self._end = end
        if self._idle >= IDLE_TRIES_MAX:
            raise StoreError(
                f"{self._name} accepts no entry: {self._idle + 1} tries were refused and its log did not change",
                hint=f"see `wakelog verify {self._name}`; `wakelog fork {self._name} --new-session` continues it",
            )
        if self._refused >= _TRIES_MAX:
            raise Conflict(f"{self._name} is too busy: other writers were faster {self._refused:,} times")
        return has_changed

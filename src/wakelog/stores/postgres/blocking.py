"""Lock waits in PostgreSQL: find the backend that blocks a statement, while the statement waits.

The server ends the wait (`lock_timeout`), and cannot say afterwards which transaction held the lock. So the wait of the
driver queries the server at times, on a second connection. Statements that are answered quickly have no extra cost.
"""

import time
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

import psycopg

from wakelog.errors import StoreBusy
from wakelog.stores.locking import NOTICE_AFTER_S, LockWait, Waiting, busy
from wakelog.stores.postgres.url import PostgresUrl

T = TypeVar("T")

# Backends that wait for the same lock block each other too; the lock holder is the one that is not blocked itself.
_BLOCKER = """
WITH RECURSIVE blocking (pid) AS (
  SELECT unnest(pg_blocking_pids(%(pid)s))
  UNION SELECT unnest(pg_blocking_pids(pid)) FROM blocking
)
SELECT pid, coalesce(application_name, ''), coalesce(state, '')
FROM blocking JOIN pg_stat_activity USING (pid) WHERE cardinality(pg_blocking_pids(pid)) = 0 LIMIT 1
"""
# The driver reports silence of the server for the first time after this interval.
_INTERVAL_S = 0.1
# The last query for the blocking backend comes this long before the server's timeout.
_BEFORE_END_S = 0.5


class Backend(NamedTuple):
    """A backend of the server that holds a lock: its pid on the server, application name and state."""

    pid: int
    application: str
    state: str

    def __str__(self) -> str:
        about = ", ".join(filter(None, (self.application, self.state)))
        return f"backend {self.pid} ({about})" if about else f"backend {self.pid}"

    @property
    def is_stopped(self) -> bool:
        """Always False: the state of a process on the server is not known."""
        return False

    @property
    def hint(self) -> str:
        """What a user can do to free the lock."""
        return f"let it finish, or end it with `SELECT pg_terminate_backend({self.pid})`; then try again"


class LockWatch:
    """Watches the statements of one connection for lock waits."""

    def __init__(self, url: PostgresUrl, lock_wait: LockWait) -> None:
        self._url = url
        self._policy = lock_wait
        self._begun = 0.0
        self._looks: list[float] = []
        self._is_told = False
        self._blocker: Backend | None = None

    def watched(self, statement: Generator[Any, Any, T], pid: int) -> Generator[Any, Any, T]:
        """Wrap the driver's generator of a statement; checks the time in each interval without an answer."""
        self._begun = 0.0
        try:
            wanted = next(statement)
            while True:
                ready = yield wanted
                if not ready:
                    self._silence(pid)
                wanted = statement.send(ready)
        except StopIteration as done:
            value: T = done.value
            return value

    def _silence(self, pid: int) -> None:
        """Handle an interval without an answer: query for the blocking backend when that is due."""
        now = time.monotonic()
        if not self._begun:
            limit = self._policy.timeout_s
            self._begun, self._is_told, self._blocker = now - _INTERVAL_S, False, None
            self._looks = [min(NOTICE_AFTER_S, limit / 2), max(limit / 2, limit - _BEFORE_END_S)]
        if self._looks and now - self._begun >= self._looks[0]:
            self._looks.pop(0)
            self._look(pid, now - self._begun)

    def _look(self, pid: int, waited_s: float) -> None:
        self._blocker = self._found(pid) or self._blocker
        if self._blocker is not None and not self._is_told and self._policy.on_wait is not None:
            self._is_told = True
            self._policy.on_wait(Waiting(self._lock, self._blocker, waited_s))

    def _found(self, pid: int) -> Backend | None:
        """The backend that blocks the one with this pid; None if there is none, or the query fails."""
        try:
            with psycopg.connect(**self._url.parameters()) as connection:
                found = connection.execute(_BLOCKER, {"pid": pid}).fetchone()
        except psycopg.Error:
            return None
        return Backend(*found) if found else None

    @property
    def _lock(self) -> str:
        return f"a lock in {self._url}"

    def busy(self) -> StoreBusy:
        """The error for a statement that the server ended because of `lock_timeout`."""
        waited_s = time.monotonic() - self._begun if self._begun else 0.0
        return busy(self._lock, self._blocker if self._begun else None, waited_s)

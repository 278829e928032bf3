"""PostgreSQL errors and lock waits: turn errors of server and driver into a `StoreError`, and name lock holders.

Errors are recognised by their SQLSTATE. A failed connection has none, only text, in English or in the language of the
server; unrecognised text is repeated in one line. No message contains a password.
The server ends a lock wait (`lock_timeout`), and cannot say afterwards which transaction held the lock. So the wait of
the driver queries the server at times, on a second connection, for the backend that blocks the statement. Statements
that are answered quickly have no extra cost.
"""

import re
import time
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

import psycopg

from wakelog.errors import Damaged, NoAccess, StoreBusy, StoreError, Unavailable
from wakelog.stores.locking import NOTICE_AFTER_S, LockWait, LockWaitNotice, busy_error
from wakelog.stores.postgres.url import PostgresUrl

_GRANT_HINT = "GRANT USAGE ON SCHEMA wakelog, and ALL ON ALL TABLES and ALL SEQUENCES IN SCHEMA wakelog, TO that role"
_TRY_AGAIN = "try again in a moment"
_MESSAGES: dict[str, tuple[str, str]] = {
    "28P01": ("the password is wrong or missing", "check user and password in the URL"),
    "28000": ("this user may not log in", "check the user in the URL, and the server's pg_hba.conf"),
    "3D000": ("there is no such database", "create it with `createdb NAME`, or check the name in the URL"),
    "42501": ("this role lacks a permission", _GRANT_HINT),
    "53100": ("the server's disk is full", "free some space there; acknowledged entries are kept"),
    "53200": ("the server is out of memory", _TRY_AGAIN),
    "53300": ("the server has too many connections", "raise max_connections, or use a connection pooler"),
    "25006": ("the server is read-only, like a standby", "use the address of the primary in the URL"),
    "57P01": ("the server is shutting down", _TRY_AGAIN),
    "57P02": ("the server is recovering from a crash", _TRY_AGAIN),
    "57P03": ("the server does not accept connections at the moment", _TRY_AGAIN),
    "57014": ("the server cancelled the statement", "raise statement_timeout for this role"),
    "40P01": ("deadlock of two transactions", _TRY_AGAIN),
    "40001": ("too many concurrent writers", _TRY_AGAIN),
    "42P01": ("tables of wakelog are missing", "restore them from a backup"),
}
_DAMAGE = ("XX001", "XX002")
_NO_ACCESS = ("28P01", "28000", "42501")
# Temporary errors: a restart, crash recovery, too many connections, conflicts with other transactions.
_TRANSIENT = ("53300", "57P01", "57P02", "57P03", "55P03", "40P01", "40001")
_KINDS = dict.fromkeys(_NO_ACCESS, NoAccess) | dict.fromkeys(_TRANSIENT, Unavailable)
# Error texts of refused connections, and the SQLSTATE that each corresponds to.
_CONNECTION_TEXTS: tuple[tuple[str, str], ...] = (
    (r"password authentication failed|no password supplied|SASL authentication failed", "28P01"),
    (r'role ".*" does not exist|no pg_hba\.conf entry|not permitted to log in|authentication failed', "28000"),
    (r'database ".*" does not exist', "3D000"),
    (r"permission denied for database", "42501"),
    (r"too many clients|too many connections|remaining connection slots|no more connections allowed", "53300"),
    (r"shutting down", "57P01"),
    (r"starting up|in recovery mode|not yet accepting|not accepting connections", "57P03"),
)
_POOLER = re.compile(r"unsupported startup parameter")
# Texts of connection errors that a retry cannot solve.
_PERMANENT_TEXTS = re.compile(
    r"support SSL|certificate|support GSSAPI|authentication method|invalid port|invalid .* value"
)
_REASON = re.compile(r".*failed: (?:FATAL: *)?([^\n]+)")


def statement_error(error: psycopg.Error, url: PostgresUrl) -> StoreError:
    """The `StoreError` for an error of a statement."""
    code, text = error.sqlstate or "", error.diag.message_primary or str(error)
    if code in _DAMAGE:
        return Damaged(f"{url} reports damaged files: {_one_line(text)}", hint="restore them from a backup")
    if code not in _MESSAGES:
        kind = Unavailable if is_connection_error(error) else StoreError
        return kind(f"{url} reports: {_one_line(text)}", hint="see the server's log")
    return _error_of_code(code, url, _one_line(text))


def connection_error(error: psycopg.Error, url: PostgresUrl) -> StoreError:
    """The `StoreError` for a connection that could not be opened."""
    text = str(error)
    if _POOLER.search(text):
        return StoreError(
            f"{url} is a connection pooler", hint="add pooler=transaction to the URL: …?pooler=transaction"
        )
    for pattern, code in _CONNECTION_TEXTS:
        if re.search(pattern, text):
            return _error_of_code(code, url, f"user {url.user}, database {url.database}")
    reasons = _REASON.findall(text)
    kind = StoreError if _PERMANENT_TEXTS.search(text) else Unavailable
    return kind(
        f"cannot connect to {url}: {_one_line(reasons[-1] if reasons else text)}",
        hint="check host and port in the URL, and that the server is running",
    )


def _error_of_code(code: str, url: PostgresUrl, about: str) -> StoreError:
    what, hint = _MESSAGES[code]
    kind = _KINDS.get(code, StoreError)
    return kind(f"{url}: {what} ({about})", hint=hint)


def is_connection_error(error: psycopg.Error) -> bool:
    """Whether an error concerns the connection, not the statement: it has no SQLSTATE, or one of class 08."""
    is_of_connection = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return is_of_connection and (error.sqlstate is None or error.sqlstate.startswith("08"))


def lost_connection_error(url: PostgresUrl, *, is_doubtful: bool) -> Unavailable:
    """The error for a connection that broke. `is_doubtful`: it is unknown whether the statement was executed."""
    doubt = "; the outcome is unknown" if is_doubtful else ""
    return Unavailable(f"the connection to {url} was lost{doubt}", hint="try again")


def timeout_error(url: PostgresUrl) -> Unavailable:
    """The error for a server that did not answer before a lease on this thread must be given up."""
    return Unavailable(f"{url} did not answer in time", hint="try again")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


T = TypeVar("T")
# Backends that wait for the same lock block each other too; the lock holder is the one that is not blocked itself.
_FIND_BLOCKER = """
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
            self._policy.on_wait(LockWaitNotice(self._lock, self._blocker, waited_s))

    def _found(self, pid: int) -> Backend | None:
        """The backend that blocks the one with this pid; None if there is none, or the query fails."""
        try:
            with psycopg.connect(**self._url.parameters()) as connection:
                found = connection.execute(_FIND_BLOCKER, {"pid": pid}).fetchone()
        except psycopg.Error:
            return None
        return Backend(*found) if found else None

    @property
    def _lock(self) -> str:
        return f"a lock in {self._url}"

    def busy(self) -> StoreBusy:
        """The error for a statement that the server ended because of `lock_timeout`."""
        waited_s = time.monotonic() - self._begun if self._begun else 0.0
        return busy_error(self._lock, self._blocker if self._begun else None, waited_s)

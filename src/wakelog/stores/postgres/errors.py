"""PostgreSQL errors: turn errors of the server and the driver into a `StoreError` with a message and a hint.

Errors are recognised by their SQLSTATE. A failed connection has none, only text, in English or in the language of the
server; unrecognised text is repeated in one line. No message contains a password.
"""

import re

import psycopg

from wakelog.errors import Damaged, NoAccess, StoreError, Unavailable
from wakelog.stores.postgres.url import PostgresUrl

_GRANTS = "GRANT USAGE ON SCHEMA wakelog, and ALL ON ALL TABLES and ALL SEQUENCES IN SCHEMA wakelog, TO that role"
_TRY_AGAIN = "try again in a moment"
_SAID: dict[str, tuple[str, str]] = {
    "28P01": ("the password is wrong or missing", "check user and password in the URL"),
    "28000": ("this user may not log in", "check the user in the URL, and the server's pg_hba.conf"),
    "3D000": ("there is no such database", "make it with `createdb NAME`, or check the name in the URL"),
    "42501": ("this role lacks a right", _GRANTS),
    "53100": ("the server's disk is full", "free space there; what was acknowledged is kept"),
    "53200": ("the server is out of memory", _TRY_AGAIN),
    "53300": ("the server has too many connections", "raise max_connections, or put a pooler before it"),
    "25006": ("the server is read-only, as a standby is", "name the primary in the URL"),
    "57P01": ("the server is shutting down", _TRY_AGAIN),
    "57P02": ("the server has crashed and recovers", _TRY_AGAIN),
    "57P03": ("the server does not take connections at the moment", _TRY_AGAIN),
    "57014": ("the server gave the statement up", "raise statement_timeout for this role"),
    "40P01": ("two transactions waited for each other", _TRY_AGAIN),
    "40001": ("too many others write at the same time", _TRY_AGAIN),
    "42P01": ("the tables of wakelog are not there, or not all of them", "restore them from a backup"),
}
_DAMAGE = ("XX001", "XX002")
_NO_ACCESS = ("28P01", "28000", "42501")
# Temporary errors: a restart, crash recovery, too many connections, conflicts with other transactions.
_PASSING = ("53300", "57P01", "57P02", "57P03", "55P03", "40P01", "40001")
_KINDS = dict.fromkeys(_NO_ACCESS, NoAccess) | dict.fromkeys(_PASSING, Unavailable)
# Error texts of refused connections, and the SQLSTATE that each corresponds to.
_MEANT: tuple[tuple[str, str], ...] = (
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
_WRONG = re.compile(r"support SSL|certificate|support GSSAPI|authentication method|invalid port|invalid .* value")
_REASON = re.compile(r".*failed: (?:FATAL: *)?([^\n]+)")


def explained(error: psycopg.Error, url: PostgresUrl) -> StoreError:
    """The `StoreError` for an error of a statement."""
    code, said = error.sqlstate or "", error.diag.message_primary or str(error)
    if code in _DAMAGE:
        return Damaged(f"{url} finds its own files damaged: {_line(said)}", hint="restore them from a backup")
    if code not in _SAID:
        kind = Unavailable if is_lost(error) else StoreError
        return kind(f"{url} says: {_line(said)}", hint="the server's log may say more")
    return _known(code, url, _line(said))


def refused(error: psycopg.Error, url: PostgresUrl) -> StoreError:
    """The `StoreError` for a connection that could not be opened."""
    text = str(error)
    if _POOLER.search(text):
        return StoreError(f"{url} is a pooler", hint="add pooler=transaction to the URL: …?pooler=transaction")
    for pattern, code in _MEANT:
        if re.search(pattern, text):
            return _known(code, url, f"user {url.user}, database {url.database}")
    reasons = _REASON.findall(text)
    kind = StoreError if _WRONG.search(text) else Unavailable
    return kind(
        f"cannot connect to {url}: {_line(reasons[-1] if reasons else text)}",
        hint="check host and port in the URL, and that the server runs",
    )


def _known(code: str, url: PostgresUrl, about: str) -> StoreError:
    what, hint = _SAID[code]
    kind = _KINDS.get(code, StoreError)
    return kind(f"{url}: {what} ({about})", hint=hint)


def is_lost(error: psycopg.Error) -> bool:
    """Whether an error concerns the connection, not the statement: it has no SQLSTATE, or one of class 08."""
    is_of_connection = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return is_of_connection and (error.sqlstate is None or error.sqlstate.startswith("08"))


def lost(url: PostgresUrl, *, is_doubtful: bool) -> Unavailable:
    """The error for a connection that broke. `is_doubtful`: it is unknown whether the statement was executed."""
    doubt = "; the outcome is unknown" if is_doubtful else ""
    return Unavailable(f"the connection to {url} was lost{doubt}", hint="try again")


def gave_no_answer(url: PostgresUrl) -> Unavailable:
    """The error for a server that did not answer before a lease on this thread must be given up."""
    return Unavailable(f"{url} did not answer in time", hint="try again")


def _line(text: str) -> str:
    return " ".join(text.split())[:300]

"""Schema and errors of a SQLite database: recognise our files, apply migrations, translate result codes.

Nothing here holds a connection or a lock; `file.py` calls these functions with its connections.
"""

import errno
import os
import sqlite3

from wakelog.errors import Damaged, NoAccess, StoreError, Unavailable
from wakelog.stores.database.migrations import Migration, migrations

# "wake" in ASCII. Databases of other programs have another id and are refused.
APPLICATION_ID = 0x77616B65
# The first bytes of a SQLite file. The last 4 of the first 72 bytes are the application id.
_MAGIC, _BEGINNING_BYTES = b"SQLite format 3\0", 72


def check_file_header(path: str) -> None:
    """Refuse a file that is not a database, or is one of another program, before a lock file is created beside it."""
    with open(path, "rb") as file:
        beginning = file.read(_BEGINNING_BYTES)
    if not beginning.startswith(_MAGIC):
        raise Damaged(f"{path} is not a database", hint=_HINTS[sqlite3.SQLITE_NOTADB])
    program = int.from_bytes(beginning[-4:], "big")
    # The id of a new database may still be in its write-ahead log only.
    if program not in (0, APPLICATION_ID):
        raise StoreError(f"{path} is a database of another program", hint="choose another file")


def empty_database() -> sqlite3.Connection:
    """Return an in-memory database with all migrations applied."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for step in migrations("sqlite"):
        apply_migration(connection, step)
    return connection


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration that was applied to a database."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def apply_migration(connection: sqlite3.Connection, step: Migration) -> None:
    """Apply one migration, statement by statement, in the caller's transaction."""
    statement = ""
    for line in step.sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(f"PRAGMA user_version = {step.version:d}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")


_HINTS = {
    sqlite3.SQLITE_FULL: os.strerror(errno.ENOSPC) + ": free some space and try again",
    sqlite3.SQLITE_READONLY: "the file or its folder is read-only; check its owner and permissions",
    sqlite3.SQLITE_PERM: "check the owner and permissions of the file",
    sqlite3.SQLITE_CANTOPEN: "check that the folder exists, and its owner and permissions",
    sqlite3.SQLITE_LOCKED: "another program has locked the file; let it finish and try again",
    sqlite3.SQLITE_IOERR: "the disk reported an error; entries acknowledged before are kept",
    sqlite3.SQLITE_NOTADB: "give the path of a wakelog database, or of a file that does not exist yet",
    sqlite3.SQLITE_CORRUPT: "restore a backup, or try `sqlite3 FILE .recover`",
}

_KINDS: dict[int, type[StoreError]] = {
    sqlite3.SQLITE_NOTADB: Damaged,
    sqlite3.SQLITE_CORRUPT: Damaged,
    sqlite3.SQLITE_PERM: NoAccess,
    sqlite3.SQLITE_BUSY: Unavailable,
    sqlite3.SQLITE_LOCKED: Unavailable,
}


def store_error(what: str, error: sqlite3.Error) -> StoreError:
    """The `StoreError` for an SQLite error, with a hint what to do."""
    code = result_code(error)
    return _KINDS.get(code, StoreError)(f"{what}: {error}", hint=_HINTS.get(code, ""))


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether an error means that another connection holds the lock."""
    return result_code(error) == sqlite3.SQLITE_BUSY


def result_code(error: sqlite3.Error) -> int:
    """The primary result code of an error: the lower byte of the extended code; 0 if there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF

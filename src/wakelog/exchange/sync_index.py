"""Which files were imported into a store, and how large and how old they were: a derived file that may be deleted.

An import of a file that is as it was then parses nothing. The index is a database in the cache folder. Without it, for
another store, or with another version of wakelog, files are read again, and nothing is imported twice. Paths are kept
as bytes, or as a text with a character for each byte: names of files need not be valid text.
"""

import hashlib
import os
import sqlite3
from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeAlias

import msgspec

from wakelog.decoding import decoder_of
from wakelog.version import VERSION

Signature: TypeAlias = dict[str, tuple[int, int]]
"""Size and modification time, in nanoseconds, of each file and folder that an import has read; (-1, 0) if absent."""
_TABLE = """
CREATE TABLE IF NOT EXISTS imported (
    store TEXT NOT NULL, path BLOB NOT NULL, signature BLOB NOT NULL, sessions BLOB NOT NULL, PRIMARY KEY (store, path)
) WITHOUT ROWID
"""


def signature_of(path: str | bytes) -> tuple[int, int]:
    """Return the size and the modification time of a file or folder; (-1, 0) if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return -1, 0
    return found.st_size, found.st_mtime_ns


class SyncIndex:
    """The index for one store. A damaged or unwritable index is treated as empty: it only saves time.

    With `create=False` no file is made, for commands that only read.
    """

    def __init__(self, folder: str, store_url: str, *, create: bool = True) -> None:
        # A digest, because a URL may have a password in it.
        self._store = hashlib.sha256(f"{VERSION} {store_url}".encode("utf-8", "surrogateescape")).hexdigest()
        path = os.path.join(folder, "imports.db")
        self._database = _open(path) if create or os.path.exists(path) else _open_in_memory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def unchanged(self, path: str) -> list[str] | None:
        """Return the ids of the sessions of a file that is as it was when it was imported; None if it has changed.

        Empty for a file that was found to have no session.
        """
        try:
            row = self._database.execute(
                "SELECT signature, sessions FROM imported WHERE store = ? AND path = ?",
                (self._store, os.fsencode(path)),
            ).fetchone()
            before = None if row is None else decoder_of(Signature).decode(row[0])
            sessions = [] if row is None else msgspec.json.decode(row[1], type=list[str])
        except (sqlite3.Error, msgspec.DecodeError):
            return None
        if not before or any(signature_of(each.encode("latin-1")) != tuple(known) for each, known in before.items()):
            return None
        return sessions

    def remember(self, path: str, signature: Mapping[str, tuple[int, int]], sessions: list[str]) -> None:
        """Record that a file was imported as it was when it was opened."""
        kept = {os.fsencode(each).decode("latin-1"): known for each, known in signature.items()}
        values = (self._store, os.fsencode(path), msgspec.json.encode(kept), msgspec.json.encode(sessions))
        try:
            with self._database:
                self._database.execute("INSERT OR REPLACE INTO imported VALUES (?, ?, ?, ?)", values)
        except sqlite3.Error:
            # The next import reads the file again.
            return


def _open(path: str) -> sqlite3.Connection:
    """Open or create the index; one that cannot be used is replaced by an empty one in memory."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        database = sqlite3.connect(path, timeout=5)
        database.execute("PRAGMA journal_mode=WAL")
        # Without a sync for each file: what a power cut takes away is imported again, and found to be there.
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute(_TABLE)
    except (sqlite3.Error, OSError):
        return _open_in_memory()
    return database


def _open_in_memory() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute(_TABLE)
    return database

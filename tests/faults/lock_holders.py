"""Child processes that take a lock of a store through the store's own code, report it, and keep it.

Run as `python -m tests.faults.lock_holders LOCK URL SESSION`. The child prints `held`, waits for `go`, lets the lock go
and prints `free`.
"""

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.faults.children import tell, wait_for
from wakelog.stores import open_store
from wakelog.stores.catalog.index import index_path
from wakelog.stores.catalog.index_file import IndexFile
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.postgres import PostgresStore
from wakelog.stores.sqlite import SqliteStore

MODULE = "tests.faults.lock_holders"


def append_lock(url: str, session: str) -> AbstractContextManager[Any]:
    """The lock of one append, in each kind of store: a file lock, a transaction, a row of a transaction."""
    store = open_store(url)
    if isinstance(store, SqliteStore):
        return store.file.writing()
    if isinstance(store, PostgresStore):
        return _row_lock(store, session)
    return _folder_store(url)._logs.append_lock(store.name(session))


def _folder_store(url: str) -> JsonlStore:
    store = open_store(url)
    assert isinstance(store, JsonlStore)
    return store


@contextlib.contextmanager
def _row_lock(store: PostgresStore, session: str) -> Iterator[None]:
    with store.database.connections.using() as connection, connection.transaction():
        connection.execute("SELECT FROM wakelog.logs WHERE session = %s FOR UPDATE", (session,))
        yield


def queue(url: str, session: str) -> AbstractContextManager[Any]:
    """The lock file that orders the writers of a SQLite database, outside of any transaction."""
    store = open_store(url)
    assert isinstance(store, SqliteStore)
    return store.file.turn()


def creating(url: str, session: str) -> AbstractContextManager[Any]:
    """The lock for new sessions of a folder."""
    return _folder_store(url)._naming._creating()


def blobs(url: str, session: str) -> AbstractContextManager[Any]:
    """The lock of the blobs of a folder, as garbage collection takes it."""
    store = _folder_store(url)
    os.makedirs(os.path.join(store.folder.path, ".blobs"), exist_ok=True)
    return store.blobs._locked(fcntl.LOCK_EX)


def index(url: str, session: str) -> AbstractContextManager[Any]:
    """The lock of the index of a folder."""
    return IndexFile(index_path(url)).locked()


@contextlib.contextmanager
def torn_append(url: str, session: str) -> Iterator[None]:
    """The append lock with half a line written: a writer in the middle of its write."""
    store = _folder_store(url)
    with store._logs.append_lock(store.name(session)) as log:
        os.write(log.log, b'{"v":1,"seq":')
        yield


LOCKS: dict[str, Callable[[str, str], AbstractContextManager[Any]]] = {
    each.__name__: each for each in (append_lock, queue, creating, blobs, index, torn_append)
}


def main() -> None:
    """Hold the named lock until told to release it."""
    lock, url, session = sys.argv[1:]
    with LOCKS[lock](url, session):
        tell("held", os.getpid())
        wait_for("go")
    tell("free")


if __name__ == "__main__":
    main()

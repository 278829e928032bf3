"""The derived index: one row a session and full text over all of them, so that lists and searches read no logs.

Rule 1: everything here can be deleted or damaged at any time; only the time of the next command changes.
Rule 2: logs are read, never written (law 9); one whose size and time of change are as they were is not
even opened, and one that grew is read from where it was left.
Rule 3: what reads logs is loaded when there is one to read, so that a list of unchanged logs costs little.
Rule 4: the order of rows and hits is a function of the logs, not of the history of this file.
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from wakelog.ports import Hit, Stat, Store
from wakelog.stores import load
from wakelog.stores.hits import search
from wakelog.stores.index_file import IN_MEMORY, IndexFile, Unusable
from wakelog.stores.query import as_text, fts_query
from wakelog.stores.session_row import SessionRow

if TYPE_CHECKING:
    from wakelog.stores.indexing import Indexing

__all__ = ["Index", "SessionRow", "index_path"]

FIND_MAX = 20
# Work done so far is committed this often, in bytes of logs: an interrupted first run is not lost.
_BATCH_BYTES = 64 * 1024 * 1024
_ROWS = """
SELECT row FROM sessions
WHERE archived IS coalesce(?, archived) AND agent IS coalesce(?, agent)
  AND sender IS coalesce(?, sender) AND cwd IS coalesce(?, cwd)
ORDER BY updated_ms DESC, name LIMIT ?
"""
_COUNT = """
SELECT count(*) FROM sessions
WHERE archived IS coalesce(?, archived) AND agent IS coalesce(?, agent)
  AND sender IS coalesce(?, sender) AND cwd IS coalesce(?, cwd)
"""
_EXACT = "SELECT row FROM sessions WHERE id = ? OR name = ? ORDER BY updated_ms DESC, name LIMIT ?"
_BEGINS = """
SELECT row FROM sessions WHERE id >= ? AND id < ? OR name >= ? AND name < ?
ORDER BY updated_ms DESC, name LIMIT ?
"""
_DAMAGED = "SELECT 1 FROM sessions WHERE name = ? AND damage > 0"
_row = msgspec.json.Decoder(SessionRow)
T = TypeVar("T")


def index_path(store_url: str) -> str:
    """Where the index of a store is kept: in the cache, under a name made from the store's place."""
    scheme, colon, place = store_url.partition(":")
    if scheme == "memory" and colon:
        return IN_MEMORY
    path = os.path.realpath(os.path.expanduser(place if colon and scheme == "jsonl" else store_url))
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = os.path.expanduser("~/.cache")
    return os.path.join(cache, "wakelog", f"{digest}.sqlite")


class Index:
    """The index of one store. `refresh` brings it up to date; the questions answer from what it holds then."""

    def __init__(self, store: Store, path: str) -> None:
        self._store = store
        self._file = IndexFile(path)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def rows(
        self,
        *,
        limit: int | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
    ) -> list[SessionRow]:
        """The sessions, the last changed first; `archived` None gives those put away as well."""
        return self._rows(_ROWS, (*_filters(agent, sender, cwd, archived=archived), -1 if limit is None else limit))

    def count(
        self,
        *,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
    ) -> int:
        """How many sessions there are, by the same filters."""
        wanted = _filters(agent, sender, cwd, archived=archived)
        return int(self._ask(lambda db: db.execute(_COUNT, wanted).fetchone())[0])

    def find(self, ref: str) -> list[SessionRow]:
        """The session whose id or name this is; else those that begin with it."""
        ref = as_text(ref)
        end = ref + "\U0010ffff"
        return self._rows(_EXACT, (ref, ref, FIND_MAX)) or self._rows(_BEGINS, (ref, end, ref, end, FIND_MAX))

    def is_damaged(self, name: str) -> bool:
        """Whether something in the session of that name could not be read."""
        return self._ask(lambda db: db.execute(_DAMAGED, (as_text(name),)).fetchone()) is not None

    def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        """See `ports.Search`. Equally good hits come newest first."""
        match = fts_query(query)
        return self._ask(lambda db: search(db, match, limit)) if limit > 0 else []

    def _rows(self, query: str, values: Sequence[Any]) -> list[SessionRow]:
        return self._ask(lambda db: [_row.decode(row) for (row,) in db.execute(query, values)])

    def _ask(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """An answer from the file; if it turns out to be damaged, from a new one."""
        try:
            return question(self._file.connection)
        except (sqlite3.DatabaseError, Unusable):
            self._file.discard()
            self.refresh()
            return question(self._file.connection)

    # ── bringing up to date ──────────────────────────────────────────────────────────────────────

    def refresh(self, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Takes in what has changed since. `progress` is told how many logs of how many are done."""
        for way_out in (self._file.discard, self._file.give_up):
            try:
                return self._refresh(progress)
            except (sqlite3.DatabaseError, Unusable):
                way_out()
        return self._refresh(progress)

    def _refresh(self, progress: Callable[[int, int], None] | None) -> None:
        with self._file.locked() as db:
            work, gone = self._changes(db)
            if work or gone:
                indexing: Indexing = load("wakelog.stores.indexing").Indexing(self._store, db, work, gone)
                while indexing.is_due:
                    with self._file.writing():
                        indexing.run(_BATCH_BYTES, progress)

    def _changes(self, db: sqlite3.Connection) -> tuple[dict[str, Stat], list[str]]:
        """The logs that are not as they were, and the names of those that are no more."""
        seen = {row[0]: row for row in db.execute("SELECT name, size, changed FROM sessions")}
        work = {}
        for stat in self._store.sessions():
            if seen.pop(stat.name, None) != (stat.name, stat.size, stat.changed):
                work[stat.name] = stat
        return work, list(seen)


def _filters(*texts: str | None, archived: bool | None) -> tuple[Any, ...]:
    return (archived, *(None if text is None else as_text(text) for text in texts))

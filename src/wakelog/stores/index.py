"""The derived index: one row a session and full text over all of them, so that lists and searches read no logs.

Rule 1: everything here can be deleted or damaged at any time; only the time of the next command changes.
Rule 2: logs are read, never written (law 9); one whose size and time of change are as they were is not
even opened, and one that grew is read from where it was left.
Rule 3: the order of rows and hits is a function of the logs, not of the history of this file.
"""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from wakelog.errors import NotFound, WakelogError
from wakelog.log.entry import Entry
from wakelog.log.times import parse_ms
from wakelog.ports import Hit, Stat, Store
from wakelog.stores.hits import search
from wakelog.stores.index_file import IN_MEMORY, IndexFile, Unusable
from wakelog.stores.query import as_text, fts_query
from wakelog.stores.searchable import searchable
from wakelog.stores.summary import Bookmark, LogFold, Rewritten, SessionRow

__all__ = ["Index", "SessionRow", "index_path"]

FIND_MAX = 20
# Work done so far is committed this often, in bytes of logs: an interrupted first run is not lost.
_BATCH_BYTES = 64 * 1024 * 1024
_PENDING_BYTES = 4 * 1024 * 1024
_INTEGER_MAX = 2**63 - 1
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
_SEEN = "SELECT key, size, id, bookmark FROM sessions LEFT JOIN bookmarks USING (key) WHERE name = ?"
_row = msgspec.json.Decoder(SessionRow)
_bookmark = msgspec.json.Decoder(Bookmark)
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

    def search(self, query: str, *, limit: int = 50) -> list[Hit]:
        """See `ports.Search`. Equally good hits come newest first."""
        match = fts_query(query)
        return self._ask(lambda db: search(db, match, limit)) if limit > 0 else []

    def _rows(self, query: str, values: Sequence[Any]) -> list[SessionRow]:
        found = self._ask(lambda db: db.execute(query, values).fetchall())
        return [_row.decode(row) for (row,) in found]

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
            done: set[str] = set()
            while work or gone:
                with self._file.writing():
                    while gone:
                        self._take_up(db, self._drop(db, gone.pop()), work, done)
                    self._index_batch(db, work, done, progress)

    def _changes(self, db: sqlite3.Connection) -> tuple[dict[str, Stat], list[str]]:
        """The logs that are not as they were, and the names of those that are no more."""
        seen = {name: (size, changed) for name, size, changed in db.execute("SELECT name, size, changed FROM sessions")}
        work = {}
        for stat in self._store.sessions():
            if seen.pop(stat.name, None) != (stat.size, stat.changed):
                work[stat.name] = stat
        return work, list(seen)

    def _index_batch(
        self,
        db: sqlite3.Connection,
        work: dict[str, Stat],
        done: set[str],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        budget = _BATCH_BYTES
        while work and budget > 0:
            stat = work.pop(next(iter(work)))
            done.add(stat.name)
            budget -= stat.size
            self._take_up(db, self._index(db, stat), work, done)
            if progress is not None:
                progress(len(done), len(done) + len(work))

    def _take_up(self, db: sqlite3.Connection, names: Iterable[str], work: dict[str, Stat], done: set[str]) -> None:
        """Forks whose parent is not what it was are read again, whole."""
        for name in names:
            if name not in done:
                known = db.execute("SELECT key, size, changed FROM sessions WHERE name = ?", (name,)).fetchone()
                db.execute("DELETE FROM bookmarks WHERE key = ?", (known[0],))
                work.setdefault(name, Stat(name, known[1], known[2]))

    def _index(self, db: sqlite3.Connection, stat: Stat) -> list[str]:
        """Indexes one log; gives the forks whose rows may have changed with it."""
        known = db.execute(_SEEN, (stat.name,)).fetchone()
        key, size, old_id, bookmark = known or (None, -1, stat.name, None)
        if key is not None and bookmark is not None and stat.size > size >= 0:
            try:
                self._index_growth(db, stat, key, _bookmark.decode(bookmark))
            except Rewritten:
                pass
            else:
                # What a fork inherited still stands; only one that missed something may have found it now.
                return _forks(db, (old_id, stat.name), damage=1)
        try:
            new_id = self._index_whole(db, stat, key)
        except NotFound:
            return self._drop(db, stat.name)
        return _forks(db, (old_id, new_id, stat.name))

    def _index_growth(self, db: sqlite3.Connection, stat: Stat, key: int, bookmark: Bookmark) -> None:
        fold = LogFold(stat, bookmark)
        fresh = [entry for line in self._store.load(stat.name, after=bookmark.after) for entry in fold.feed(line)]
        row, mark = fold.summary(self._store)
        self._add_words(db, key, fresh)
        _keep(db, key, stat, row, mark)

    def _index_whole(self, db: sqlite3.Connection, stat: Stat, key: int | None) -> str:
        if key is not None:
            _forget_words(db, key)
        else:
            key = db.execute("SELECT coalesce(max(key), 0) + 1 FROM sessions").fetchone()[0]
        fold, failed = LogFold(stat), False
        try:
            self._add_words(db, key, (entry for line in self._store.load(stat.name) for entry in fold.feed(line)))
        except NotFound:
            raise
        except WakelogError:
            failed = True
        row, mark = fold.summary(self._store)
        if failed:
            # It is opened again every time: what kept it from being read need not show in its size or time.
            row, mark = msgspec.structs.replace(row, damage=row.damage + 1, state="damaged"), None
            stat = Stat(stat.name, -1, -1)
        _keep(db, key, stat, row, mark)
        return row.id

    def _add_words(self, db: sqlite3.Connection, key: int, entries: Iterable[Entry]) -> None:
        """Adds the text of entries, a few megabytes at a time."""
        places: list[tuple[Any, ...]] = []
        texts: list[tuple[int, str]] = []
        pending = 0
        rowid = db.execute("SELECT coalesce(max(rowid), 0) FROM entries").fetchone()[0]
        for entry in entries:
            words = searchable(entry.value)
            if words is None:
                continue
            rowid += 1
            seq, stamp = min(entry.seq, _INTEGER_MAX), entry.value.timestamp
            places.append((rowid, key, entry.id, seq, entry.type, words.tool, stamp))
            texts.append((rowid, words.text))
            pending += len(words.text)
            if pending > _PENDING_BYTES:
                _insert(db, places, texts)
                pending = 0
        _insert(db, places, texts)

    def _drop(self, db: sqlite3.Connection, name: str) -> list[str]:
        """Forgets a session; gives the forks that came from it."""
        known = db.execute("SELECT key, id FROM sessions WHERE name = ?", (name,)).fetchone()
        if known is None:
            return []
        _forget_words(db, known[0])
        _forget(db, known[0])
        return _forks(db, (known[1], name))


# ── writing ──────────────────────────────────────────────────────────────────────────────────────


def _keep(db: sqlite3.Connection, key: int, stat: Stat, row: SessionRow, bookmark: Bookmark | None) -> None:
    updated_ms = parse_ms(row.updated) or 0
    values = (key, row.name, stat.size, stat.changed, row.id, row.agent, row.sender, row.cwd, row.origin)
    # Not `INSERT OR REPLACE`: SQLite could then undo the statement, and FTS5 writes out all it has gathered for that.
    _forget(db, key)
    db.execute(
        "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, row.archived, updated_ms, row.damage, msgspec.json.encode(row)),
    )
    if bookmark is not None:
        db.execute("INSERT INTO bookmarks VALUES (?, ?)", (key, msgspec.json.encode(bookmark)))


def _insert(db: sqlite3.Connection, places: list[tuple[Any, ...]], texts: list[tuple[int, str]]) -> None:
    db.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", places)
    db.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
    places.clear()
    texts.clear()


def _forget(db: sqlite3.Connection, key: int) -> None:
    db.execute("DELETE FROM bookmarks WHERE key = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))


def _forget_words(db: sqlite3.Connection, key: int) -> None:
    db.execute("DELETE FROM words WHERE rowid IN (SELECT rowid FROM entries WHERE session = ?)", (key,))
    db.execute("DELETE FROM entries WHERE session = ?", (key,))


def _forks(db: sqlite3.Connection, parents: Iterable[str], *, damage: int = 0) -> list[str]:
    """The sessions that name one of these as where they came from, and have at least so many damage reports."""
    query = "SELECT name FROM sessions WHERE origin = ? AND damage >= ?"
    return [name for parent in parents for (name,) in db.execute(query, (parent, damage)).fetchall()]


def _filters(*texts: str | None, archived: bool | None) -> tuple[Any, ...]:
    return (archived, *(None if text is None else as_text(text) for text in texts))

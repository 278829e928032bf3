"""Reading changed logs into the index: the half of it that knows entries.

A log that only grew is read from its bookmark on, any other one whole. What stands in a fork's row depends on
its parent's log too, so forks of a log that was rewritten, came or went are taken up with it.
"""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from wakelog.errors import NotFound, WakelogError
from wakelog.log.entry import Entry
from wakelog.log.times import parse_ms
from wakelog.ports import Stat, Store
from wakelog.stores.searchable import searchable
from wakelog.stores.session_row import SessionRow
from wakelog.stores.summary import Bookmark, LogFold, Rewritten

_PENDING_BYTES = 4 * 1024 * 1024
_INTEGER_MAX = 2**63 - 1
_STAT = "SELECT key, size, changed FROM sessions WHERE name = ?"
_SEEN = "SELECT key, size, id, bookmark FROM sessions LEFT JOIN bookmarks USING (key) WHERE name = ?"
_bookmark = msgspec.json.Decoder(Bookmark)


class Indexing:
    """One bringing up to date: the logs to read, and the names of those that are no more."""

    def __init__(self, store: Store, db: sqlite3.Connection, work: dict[str, Stat], gone: list[str]) -> None:
        self._store = store
        self._db = db
        self._work = work
        self._gone = gone
        self._done: set[str] = set()

    @property
    def is_due(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._work or self._gone)

    def run(self, budget: int, progress: Callable[[int, int], None] | None) -> None:
        """Indexes logs of about so many bytes, inside one transaction of the caller's."""
        while self._gone:
            self._take_up(self._drop(self._gone.pop()))
        while self._work and budget > 0:
            stat = self._work.pop(next(iter(self._work)))
            self._done.add(stat.name)
            budget -= stat.size
            self._take_up(self._index(stat))
            if progress is not None:
                progress(len(self._done), len(self._done) + len(self._work))

    def _take_up(self, names: Iterable[str]) -> None:
        """Forks whose parent is not what it was are read again, whole."""
        for name in names:
            if name not in self._done:
                known = self._db.execute(_STAT, (name,)).fetchone()
                self._db.execute("DELETE FROM bookmarks WHERE key = ?", (known[0],))
                self._work.setdefault(name, Stat(name, known[1], known[2]))

    def _index(self, stat: Stat) -> list[str]:
        """Indexes one log; gives the forks whose rows may have changed with it."""
        known = self._db.execute(_SEEN, (stat.name,)).fetchone()
        key, size, old_id, bookmark = known or (None, -1, stat.name, None)
        if key is not None and bookmark is not None and stat.size > size >= 0:
            try:
                self._index_growth(stat, key, _bookmark.decode(bookmark))
            except (Rewritten, WakelogError):
                pass
            else:
                # What a fork inherited still stands; only one that missed something may have found it now.
                return _forks(self._db, (old_id, stat.name), damage=1)
        try:
            new_id = self._index_whole(stat, key)
        except NotFound:
            return self._drop(stat.name)
        return _forks(self._db, (old_id, new_id, stat.name))

    def _index_growth(self, stat: Stat, key: int, bookmark: Bookmark) -> None:
        fold = LogFold(stat, bookmark)
        fresh = [entry for line in self._store.load(stat.name, after=bookmark.after) for entry in fold.feed(line)]
        row, mark = fold.summary(self._store)
        self._add_words(key, fresh)
        _keep(self._db, key, stat, row, mark)

    def _index_whole(self, stat: Stat, key: int | None) -> str:
        if key is not None:
            _forget_words(self._db, key)
        else:
            key = self._db.execute("SELECT coalesce(max(key), 0) + 1 FROM sessions").fetchone()[0]
        fold, failed = LogFold(stat), False
        try:
            self._add_words(key, (entry for line in self._store.load(stat.name) for entry in fold.feed(line)))
        except NotFound:
            raise
        except WakelogError:
            failed = True
        row, mark = fold.summary(self._store)
        if failed:
            # It is opened again every time: what kept it from being read need not show in its size or time.
            row, mark = msgspec.structs.replace(row, damage=row.damage + 1, state="damaged"), None
            stat = Stat(stat.name, -1, -1)
        _keep(self._db, key, stat, row, mark)
        return row.id

    def _add_words(self, key: int, entries: Iterable[Entry]) -> None:
        """Adds the text of entries, a few megabytes at a time."""
        places: list[tuple[Any, ...]] = []
        texts: list[tuple[int, str]] = []
        pending = 0
        rowid = self._db.execute("SELECT coalesce(max(rowid), 0) FROM entries").fetchone()[0]
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
                _insert(self._db, places, texts)
                pending = 0
        _insert(self._db, places, texts)

    def _drop(self, name: str) -> list[str]:
        """Forgets a session; gives the forks that came from it."""
        known = self._db.execute("SELECT key, id FROM sessions WHERE name = ?", (name,)).fetchone()
        if known is None:
            return []
        _forget_words(self._db, known[0])
        _forget(self._db, known[0])
        return _forks(self._db, (known[1], name))


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

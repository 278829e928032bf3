"""SQLite implementation of `StoreTables` and of `ports.Blobs`. Every method is one transaction or one query.

Only one writer runs at a time, so the end that a transaction reads is the end it appends to. Leases count seconds since
boot: a database file is used on one machine at a time, and suspending it or setting its clock does not matter.
Blobs are rows of the same file, synced when put and checked against the digest when read. Their ages use the wall
clock, as those of files do. A wrong clock changes only when an unused blob may be removed.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from wakelog.errors import Damaged
from wakelog.log.content import BlobRef
from wakelog.log.ids import digest_of
from wakelog.ports.stores import SessionStat, StoredBlob, missing_blob
from wakelog.stores.database.tables import (
    PIECES_MAX,
    Addition,
    FirstRow,
    JournalRow,
    LeaseRow,
    Row,
    SessionRef,
    StoredEnd,
    StoredRow,
)
from wakelog.stores.file_events import watching_paths
from wakelog.stores.followers import Follower
from wakelog.stores.group_commit import Group
from wakelog.stores.process_identity import ProcessIdentity, boot_id, seconds_since_boot
from wakelog.stores.sqlite.file import SqliteFile

_PUT_BLOB = """
INSERT INTO blobs (digest, put_s, bytes) VALUES (?, ?, ?)
ON CONFLICT (digest) DO UPDATE SET put_s = excluded.put_s, bytes = excluded.bytes
"""
_GET_BLOB = "SELECT bytes FROM blobs WHERE digest = ?"
_LIST_BLOBS = "SELECT digest, length(bytes), put_s FROM blobs"
_REMOVE_BLOB = "DELETE FROM blobs WHERE digest = ? AND put_s <= ? RETURNING 1"


class SqliteBlobs:
    """See `ports.Blobs`. `now` is the clock of ages, in seconds since 1970."""

    def __init__(self, file: SqliteFile, *, now: Callable[[], float] = time.time) -> None:
        self._file = file
        self._now = now

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        with self._file.writing() as db:
            db.execute(_PUT_BLOB, (digest, self._now(), content))
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        with self._file.reading() as db:
            found = db.execute(_GET_BLOB, (ref.digest,)).fetchone()
        if found is None:
            raise missing_blob(ref.digest, self._file.path)
        content: bytes = found[0]
        if len(content) != ref.bytes or digest_of(content) != ref.digest:
            raise Damaged(f"the blob {ref.digest} does not match its digest", hint="put the bytes again")
        return content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        self.get(ref)

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        with self._file.reading() as db:
            rows = db.execute(_LIST_BLOBS).fetchall()
        now = self._now()
        return (StoredBlob(digest, size, max(0.0, now - put_s)) for digest, size, put_s in rows)

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        with self._file.writing() as db:
            return db.execute(_REMOVE_BLOB, (digest, self._now() - older_than_s)).fetchone() is not None

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:  # noqa: ARG002 - a transaction leaves nothing
        """See `ports.Blobs`. Always 0: an unfinished transaction leaves nothing behind."""
        return 0


# How long a follower waits before it asks for commits again: without file events; for `_COMMIT_S` after a file event,
# from the first interval to the second; and otherwise.
_POLL_WITHOUT_EVENTS_S = 0.05
_FIRST_POLL_S, _POLL_S = 0.001, 0.02
_COMMIT_S = 2.0
_LOOK_S = 1.0
_FIRST_ROWS_MAX = 500
_NUMBER_MAX = (1 << 63) - 1
_FIND_SESSION = "SELECT id, name FROM logs WHERE id = ?1 UNION ALL SELECT id, name FROM logs WHERE name = ?1 LIMIT 1"
_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM logs WHERE stem = ?"
_FIRST_ROWS = """
SELECT logs.name, logs.number, coalesce(first.bytes, x'') FROM logs LEFT JOIN lines AS first
  ON first.session = logs.key AND first.number = 1
WHERE logs.stem = ?1 AND logs.number <= ?2 AND (logs.number < ?2 OR logs.name < ?3)
ORDER BY logs.number DESC, logs.name DESC LIMIT ?4
"""
_MAKE = "INSERT INTO logs (id, name, stem, number) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING key"
# The last line gives the end of the log. If the log ends elsewhere, the fence is not current or the key belongs to
# another id, a NOT NULL column is NULL and the row is ignored. (An INSERT … SELECT would keep a copy of every page that
# it touches, to be able to undo a part of itself.)
_APPEND = """
INSERT OR IGNORE INTO lines (session, number, size, seq, id, parent, type, time_ms, bytes)
VALUES (
  (SELECT key FROM logs WHERE key = ?1 AND id = ?2 AND (?3 IS NULL OR fence = ?3)),
  (SELECT max(number) + 1 FROM lines WHERE session = ?1),
  (SELECT CASE WHEN size = ?4 THEN ?4 + length(?10) END FROM lines WHERE session = ?1 ORDER BY number DESC LIMIT 1),
  ?5, ?6, ?7, ?8, ?9, ?10)
"""
_ENDS = """
SELECT logs.key, coalesce(last.number, 0) FROM logs LEFT JOIN lines AS last
  ON last.session = logs.key AND last.number = (SELECT max(number) FROM lines WHERE session = logs.key)
WHERE logs.id = ?1 AND coalesce(last.size, 0) = ?2 AND (?3 IS NULL OR fence = ?3)
"""
_SESSIONS = """
SELECT name, coalesce(last.size, 0), coalesce(last.number, 0) FROM logs LEFT JOIN lines AS last
  ON last.session = logs.key AND last.number = (SELECT max(number) FROM lines WHERE session = logs.key)
"""
_INSERT = """
INSERT INTO lines (session, number, size, seq, id, parent, type, time_ms, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ID_TAKEN = "SELECT 1 FROM lines WHERE id = ? AND session = ?"
_SEQ_TAKEN = "SELECT 1 FROM lines WHERE session = ? AND seq = ? AND seq <> number - 1"
_LAST = """
SELECT number, size, bytes FROM lines WHERE session = (SELECT key FROM logs WHERE id = ?) ORDER BY number DESC LIMIT 1
"""
_ROWS = """
SELECT lines.number, lines.size, bytes FROM lines
WHERE session = (SELECT key FROM logs WHERE id = ?) AND lines.number > ? ORDER BY lines.number
"""
_ROWS_BEFORE = """
SELECT lines.number, lines.size, bytes FROM lines
WHERE session = (SELECT key FROM logs WHERE id = ?) AND lines.number < ? ORDER BY lines.number DESC
"""
_NUMBER_OF = """
WITH log AS (SELECT key FROM logs WHERE id = :session)
SELECT number FROM lines, log WHERE session = log.key AND number = :seq + 1 AND seq = :seq
UNION ALL
SELECT number FROM lines, log WHERE session = log.key AND seq = :seq AND seq <> number - 1
"""
_ROW_OF = """
SELECT lines.number, lines.size, bytes FROM lines JOIN logs ON logs.key = lines.session
WHERE lines.id = ? AND logs.id = ?
"""
_TAKE = """
UPDATE logs SET holder = ?, fence = ?, expires = ?, boot = ?, pids = ?, pid = ?, born = ? WHERE id = ?
"""
_RENEW = "UPDATE logs SET expires = ? WHERE id = ? AND fence = ? RETURNING 1"
_RELEASE = "UPDATE logs SET expires = 0 WHERE id = ? AND fence = ?"
_LEASE = "SELECT holder, fence, expires, boot, pids, pid, born FROM logs WHERE id = ? AND fence IS NOT NULL"
_JOURNAL = """
INSERT INTO journals (session, reply, bytes)
SELECT key, :reply, :piece FROM logs WHERE id = :session AND (:fence IS NULL OR fence = :fence)
RETURNING 1
"""
_JOURNALS = """
SELECT key, reply, bytes FROM journals WHERE session = (SELECT key FROM logs WHERE id = ?) ORDER BY key
LIMIT ?
"""
# The plus keeps SQLite from using the index by session: few pieces of any session are newer than the key.
_JOURNALS_SINCE = """
SELECT key, reply, bytes FROM journals WHERE +session = (SELECT key FROM logs WHERE id = ?) AND key >= ? ORDER BY key
LIMIT ?
"""
_REPLIES = """
SELECT reply FROM journals WHERE session = (SELECT key FROM logs WHERE id = ?) GROUP BY reply ORDER BY min(key)
"""
_PIECES = """
SELECT key, reply, bytes FROM journals
WHERE session = (SELECT key FROM logs WHERE id = ?) AND reply = ? AND key >= ? ORDER BY key LIMIT ?
"""
_DROP = "DELETE FROM journals WHERE session = (SELECT key FROM logs WHERE id = ?) AND reply = ?"


class SqliteTables:
    """See `StoreTables`. `now` returns seconds since boot, for leases."""

    def __init__(self, file: SqliteFile, *, now: Callable[[], float] | None = None) -> None:
        self._file = file
        self._now = now or seconds_since_boot
        self._blobs = SqliteBlobs(file)
        # Row keys by session id. An append checks that the key still belongs to the id.
        self._keys: dict[str, int] = {}

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def known(self, ref: str) -> SessionRef | None:
        """See `StoreTables`."""
        with self._file.reading() as db:
            row = db.execute(_FIND_SESSION, (ref,)).fetchone()
        return SessionRef(*row) if row else None

    def sessions(self) -> Iterator[SessionStat]:
        """See `StoreTables`."""
        with self._file.reading() as db:
            rows = db.execute(_SESSIONS).fetchall()
        return (SessionStat(*row) for row in rows)

    def last_number(self, stem: str) -> int:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return int(db.execute(_LAST_NUMBER, (stem,)).fetchone()[0])

    def first_rows(self, stem: str, *, below: tuple[int, str] | None) -> Sequence[FirstRow]:
        """See `StoreTables`. The first page has one row, which is enough for most callers."""
        number, name = below or (_NUMBER_MAX, "")
        with self._file.reading() as db:
            rows = db.execute(_FIRST_ROWS, (stem, number, name, _FIRST_ROWS_MAX if below else 1)).fetchall()
        return [FirstRow(*row) for row in rows]

    def make(self, session: str, name: str, stem: str, number: int, rows: Sequence[Row]) -> bool:
        """See `StoreTables`."""
        with self._file.writing() as db:
            made = db.execute(_MAKE, (session, name, stem, number)).fetchone()
            if made is None:
                return False
            return _add_one_by_one(db, Addition(session, 0, tuple(rows), refuse_known=False))

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def add(self, addition: Addition) -> bool:
        """See `StoreTables`."""
        with self._file.turn(durable=addition.durable) as db:
            return self._add_by_itself(db, addition)

    def add_group(self, group: Group[Addition, bool]) -> list[bool]:
        """See `StoreTables`. The group is taken in the transaction, when no other process can delay it any more."""
        with self._file.turn() as db:
            if (addition := group.take_alone()) is not None:
                return [self._add_by_itself(db, addition)]
            with self._file.transaction(db):
                return self._add_together(db, group.take())

    def _add_by_itself(self, db: sqlite3.Connection, addition: Addition) -> bool:
        """Add rows to one log. One row is one statement, without an explicit transaction."""
        if _is_plain(addition) and self._file.repeated(lambda: self._append(db, addition)):
            return True
        with self._file.transaction(db):
            return self._add(db, addition)

    def _add_together(self, db: sqlite3.Connection, additions: Sequence[Addition]) -> list[bool]:
        if self._add_at_once(db, additions):
            return [True] * len(additions)
        return [self._add(db, addition) for addition in additions]

    def _add_at_once(self, db: sqlite3.Connection, additions: Sequence[Addition]) -> bool:
        """Add one row to each of many logs in the caller's transaction; or to none, if any of them is refused."""
        if not all(map(_is_plain, additions)):
            return False
        values = [_append_values(self._key(db, addition.session), addition) for addition in additions]
        if db.executemany(_APPEND, values).rowcount == len(additions):
            return True
        # It is not known which one was refused. Another writer may run now, so the caller adds them one by one.
        db.execute("ROLLBACK")
        self._file.begin(db)
        return False

    def _add(self, db: sqlite3.Connection, addition: Addition) -> bool:
        """Add rows to a log in the caller's transaction; False if they are refused."""
        return (_is_plain(addition) and self._append(db, addition)) or _add_one_by_one(db, addition)

    def _append(self, db: sqlite3.Connection, addition: Addition) -> bool:
        if db.execute(_APPEND, _append_values(self._key(db, addition.session), addition)).rowcount == 1:
            return True
        self._keys.pop(addition.session, None)
        return False

    def _key(self, db: sqlite3.Connection, session: str) -> int | None:
        key = self._keys.get(session)
        if key is None:
            found = db.execute("SELECT key FROM logs WHERE id = ?", (session,)).fetchone()
            if found is None:
                return None
            key = self._keys[session] = int(found[0])
        return key

    def sync(self) -> None:
        """See `StoreTables`."""
        self._file.sync()

    def end(self, session: str) -> StoredEnd:
        """See `StoreTables`. The size of a log is that of its last row."""
        with self._file.reading() as db:
            last = _stored_row(db.execute(_LAST, (session,)).fetchone())
        return StoredEnd(last.size, last) if last else StoredEnd()

    def rows(self, session: str, *, after: int, budget: int) -> Sequence[StoredRow]:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return list(_page(budget, db.execute(_ROWS, (session, after))))

    def rows_before(self, session: str, *, before: int, budget: int) -> Sequence[StoredRow]:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return list(_page(budget, db.execute(_ROWS_BEFORE, (session, before))))

    def number_of(self, session: str, *, seq: int) -> int | None:
        """See `StoreTables`."""
        with self._file.reading() as db:
            found = db.execute(_NUMBER_OF, {"session": session, "seq": seq}).fetchone()
        return int(found[0]) if found else None

    def row_of(self, session: str, entry: str) -> StoredRow | None:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return _stored_row(db.execute(_ROW_OF, (entry, session)).fetchone())

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def take(
        self, addition: Addition, holder: str, process: ProcessIdentity, *, ttl_s: float, void: int | None
    ) -> bool:
        """See `StoreTables`."""
        with self._file.writing() as db:
            lease = self._lease(db, addition.session)
            if lease is not None and lease.is_in_force and lease.fence != void:
                return False
            if not self._add(db, addition):
                return False
            whose = (process.boot, process.pids, process.pid, process.born)
            fence = addition.rows[0].seq
            db.execute(_TAKE, (holder, fence, self._now() + ttl_s, *whose, addition.session))
            return True

    def renew(self, session: str, fence: int, *, ttl_s: float) -> bool:
        """See `StoreTables`."""
        with self._file.writing(durable=False) as db:
            return db.execute(_RENEW, (self._now() + ttl_s, session, fence)).fetchone() is not None

    def release(self, session: str, fence: int) -> None:
        """See `StoreTables`."""
        with self._file.writing(durable=False) as db:
            db.execute(_RELEASE, (session, fence))

    def lease(self, session: str) -> LeaseRow | None:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return self._lease(db, session)

    def _lease(self, db: sqlite3.Connection, session: str) -> LeaseRow | None:
        row = db.execute(_LEASE, (session,)).fetchone()
        if row is None:
            return None
        holder, fence, expires, *process = row
        # Seconds since boot are meaningless after a reboot.
        stands = process[0] == boot_id() and expires > self._now()
        return LeaseRow(holder, fence, stands, ProcessIdentity(*process))

    # ── journals and news ────────────────────────────────────────────────────────────────────────

    def journal(self, session: str, reply: str, piece: bytes, *, fence: int | None) -> bool:
        """See `StoreTables`."""
        given = {"session": session, "reply": reply, "piece": piece, "fence": fence}
        with self._file.writing(durable=False) as db:
            return db.execute(_JOURNAL, given).fetchone() is not None

    def journals(self, session: str, *, since: int = 0) -> list[JournalRow]:
        """See `StoreTables`."""
        with self._file.reading() as db:
            query = (_JOURNALS_SINCE, (session, since, PIECES_MAX)) if since else (_JOURNALS, (session, PIECES_MAX))
            return [JournalRow(*row) for row in db.execute(*query)]

    def journal_replies(self, session: str) -> list[str]:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return [reply for (reply,) in db.execute(_REPLIES, (session,))]

    def pieces(self, session: str, reply: str, *, since: int = 0) -> list[JournalRow]:
        """See `StoreTables`."""
        with self._file.reading() as db:
            return [JournalRow(*row) for row in db.execute(_PIECES, (session, reply, since, PIECES_MAX))]

    def drop(self, session: str, reply: str) -> None:
        """See `StoreTables`."""
        with self._file.writing(durable=False) as db:
            db.execute(_DROP, (session, reply))

    @contextlib.contextmanager
    def watching(self, session: str, follower: Follower) -> Iterator[Callable[[], None]]:  # noqa: ARG002 - one file
        """See `StoreTables`. Waits for a change of the write-ahead log, then for the commit to be visible."""
        with watching_paths(follower.wake) as watches:
            waiting = _CommitWait(self._commits, follower, has_events=watches.set(self._file.watched_paths()))
            yield waiting.wait

    def _commits(self) -> int:
        with self._file.reading() as db:
            return int(db.execute("PRAGMA data_version").fetchone()[0])

    # ── blobs and closing ────────────────────────────────────────────────────────────────────────

    @property
    def blobs(self) -> SqliteBlobs:
        """See `StoreTables`."""
        return self._blobs

    def close(self) -> None:
        """See `StoreTables`."""
        self._file.close()


class _CommitWait:
    """The wait of one follower for commits, which change SQLite's `data_version`.

    A file event comes with the write of a commit, before its sync; the commit is visible only after it. So after an
    event `data_version` is polled for a while. It is read from shared memory: no file is read.
    """

    def __init__(self, commits: Callable[[], int], follower: Follower, *, has_events: bool) -> None:
        self._commits = commits
        self._follower = follower
        self._has_events = has_events
        self._seen = commits()
        self._ended = 0.0

    def wait(self) -> None:
        """Wait until there is a commit that no earlier wait has seen. Ends at most 1 / `_POLL_S` times a second."""
        time.sleep(max(0.0, self._ended + _POLL_S - time.monotonic()))
        pause_s, busy_until = _POLL_S, 0.0
        while (now := self._commits()) == self._seen and not self._follower.is_over:
            if self._follower.wait(self._interval(pause_s, busy_until)):
                pause_s, busy_until = _FIRST_POLL_S, time.monotonic() + _COMMIT_S
            pause_s = min(2 * pause_s, _POLL_S)
        self._seen, self._ended = now, time.monotonic()

    def _interval(self, pause_s: float, busy_until: float) -> float:
        if not self._has_events:
            return _POLL_WITHOUT_EVENTS_S
        return _LOOK_S if time.monotonic() > busy_until else pause_s


def _is_plain(addition: Addition) -> bool:
    """Whether an addition is a single row with `refuse_known`, as an ordinary append is."""
    return len(addition.rows) == 1 and addition.refuse_known


def _append_values(key: int | None, addition: Addition) -> tuple[str | int | bytes | None, ...]:
    """The parameters of `_APPEND` for an addition of one row."""
    row = addition.rows[0]
    columns = (row.seq, row.id, row.parent, row.type, row.time_ms, row.raw)
    return key, addition.session, addition.fence, addition.size, *columns


def _add_one_by_one(db: sqlite3.Connection, addition: Addition) -> bool:
    """Add rows to a log one by one; handles many rows, ids that are taken and repeated seqs. False if refused."""
    rows, size = addition.rows, addition.size
    found = db.execute(_ENDS, (addition.session, size, addition.fence)).fetchone()
    if found is None:
        return False
    key, number = found
    if addition.refuse_known and rows[0].id and db.execute(_ID_TAKEN, (rows[0].id, key)).fetchone():
        return False
    for row in rows:
        number, size = number + 1, size + len(row.raw)
        taken = row.id and db.execute(_ID_TAKEN, (row.id, key)).fetchone()
        entry = None if taken else row.id
        seq = row.seq if row.seq == number - 1 else _free_seq(db, key, row.seq)
        db.execute(_INSERT, (key, number, size, seq, entry, row.parent, row.type, row.time_ms, row.raw))
    return True


def _free_seq(db: sqlite3.Connection, key: int, seq: int | None) -> int | None:
    """`seq`, or None if the log has it already, which is possible in logs written by other programs."""
    return None if db.execute(_SEQ_TAKEN, (key, seq)).fetchone() else seq


def _page(budget: int, rows: Iterable[tuple[int, int, bytes]]) -> Iterator[StoredRow]:
    """The first rows, up to about `budget` bytes. SQLite reads each row only when it is fetched."""
    for row in rows:
        yield StoredRow(*row)
        budget -= len(row[2])
        if budget <= 0:
            return


def _stored_row(row: tuple[int, int, bytes] | None) -> StoredRow | None:
    return StoredRow(*row) if row else None

"""PostgreSQL implementation of `StoreTables` and of `ports.Blobs`. Every method is one statement.

Those that add rows are in `appends.py`. Leases use the server's clock, so the clocks of workers do not matter. Integer
parameters are always 64 bits wide: a statement whose parameters change their types would be prepared again.
Blobs are rows of the same database, durable when put and checked against the digest when read. Putting an existing blob
renews its time, and repairs it if damaged, in one statement. Removal checks the age of the newest version of the row,
so a blob that was just put is never removed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, LiteralString

from psycopg.errors import UniqueViolation

from wakelog.errors import Damaged, StoreError
from wakelog.log.content import BlobRef
from wakelog.log.ids import digest_of, is_digest
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
from wakelog.stores.followers import Follower
from wakelog.stores.group_commit import Group
from wakelog.stores.postgres.appends import (
    APPEND,
    APPEND_IF_UNLOCKED,
    APPEND_ROWS,
    CREATE_SESSION,
    TAKE_LEASE,
    append_many_parameters,
    append_parameters,
    create_parameters,
)
from wakelog.stores.postgres.database import Database, with_commit_mode
from wakelog.stores.postgres.notifications import Notifications
from wakelog.stores.process_identity import ProcessIdentity

_BLOBS_PAGE_MAX = 10_000
# Correct bytes are not written again, because that would only make the table grow.
_PUT_BLOB = with_commit_mode("""
INSERT INTO wakelog.blobs AS b (digest, put, bytes) VALUES (%(digest)s, clock_timestamp(), %(bytes)s)
ON CONFLICT (digest) DO UPDATE SET put = clock_timestamp(),
  bytes = CASE WHEN b.digest = 'sha256:' || encode(sha256(b.bytes), 'hex') THEN b.bytes ELSE excluded.bytes END
RETURNING <commit>
""")
# Content of the wrong size is not transferred.
_GET_BLOB = """
SELECT CASE WHEN octet_length(bytes) = %(size)s THEN bytes END FROM wakelog.blobs WHERE digest = %(digest)s
"""
# The server computes the digest, so the content is not transferred.
_CHECK_BLOB = """
SELECT octet_length(bytes) = %(size)s AND digest = 'sha256:' || encode(sha256(bytes), 'hex')
FROM wakelog.blobs WHERE digest = %(digest)s
"""
_LIST_BLOBS = """
SELECT digest, octet_length(bytes), extract(epoch FROM clock_timestamp() - put)::float8
FROM wakelog.blobs WHERE digest > %(after)s ORDER BY digest LIMIT %(most)s
"""
_REMOVE_BLOB = with_commit_mode("""
DELETE FROM wakelog.blobs
WHERE digest = %(digest)s AND greatest(0, extract(epoch FROM clock_timestamp() - put)) >= %(older_than_s)s
RETURNING <commit>
""")


class PostgresBlobs:
    """See `ports.Blobs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, content: bytes, media_type: str = "") -> BlobRef:
        """See `ports.Blobs`."""
        digest = digest_of(content)
        self._database.write(_PUT_BLOB, {"digest": digest, "bytes": bytes(content)})
        return BlobRef(digest=digest, bytes=len(content), media_type=media_type)

    def get(self, ref: BlobRef) -> bytes:
        """See `ports.Blobs`."""
        content: bytes | None = self._asked(_GET_BLOB, ref)
        if content is None or digest_of(content) != ref.digest:
            raise _damaged_blob(ref)
        return content

    def check(self, ref: BlobRef) -> None:
        """See `ports.Blobs`."""
        if not self._asked(_CHECK_BLOB, ref):
            raise _damaged_blob(ref)

    def _asked(self, question: LiteralString, ref: BlobRef) -> Any:
        """The result of a query about one blob; `NotFound` if there is no such blob."""
        size = ref.bytes if 0 <= ref.bytes < 1 << 31 else -1
        found = self._database.read(question, {"digest": ref.digest, "size": size}) if is_digest(ref.digest) else []
        if not found:
            raise missing_blob(ref.digest, str(self._database.url))
        return found[0][0]

    def stored(self) -> Iterator[StoredBlob]:
        """See `ports.Blobs`."""
        after = ""
        while found := self._database.read(_LIST_BLOBS, {"after": after, "most": _BLOBS_PAGE_MAX}):
            for digest, size, age_s in found:
                yield StoredBlob(digest, size, max(0.0, age_s))
            after = found[-1][0]

    def remove(self, digest: str, *, older_than_s: float) -> bool:
        """See `ports.Blobs`."""
        if not is_digest(digest) or not self._database.version():
            return False
        return bool(self._database.write(_REMOVE_BLOB, {"digest": digest, "older_than_s": float(older_than_s)}))

    def tidy(self, *, older_than_s: float, dry_run: bool = False) -> int:  # noqa: ARG002 - a transaction leaves nothing
        """See `ports.Blobs`. Always 0: an unfinished transaction leaves nothing behind."""
        return 0


def _damaged_blob(ref: BlobRef) -> Damaged:
    return Damaged(f"the blob {ref.digest} does not match its digest", hint="put the bytes again")


_ROWS_MAX = 1_000
# Few lines are shorter than this, including their seal.
_ROW_BYTES = 512
_SESSIONS_PAGE_MAX = 10_000
_FIRST_ROWS_MAX = 500
_BIGINT_MAX = (1 << 63) - 1
_FIND_SESSION = """
SELECT session, name FROM wakelog.directory WHERE session = %(ref)s OR name = %(ref)s
ORDER BY session = %(ref)s DESC LIMIT 1
"""
_SESSIONS = """
SELECT session, name, size, rows FROM wakelog.directory JOIN wakelog.logs USING (session)
WHERE session > %(after)s ORDER BY session LIMIT %(most)s
"""
_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM wakelog.directory WHERE stem = %(stem)s"
# LATERAL makes the planner look the lines up by key for the few sessions of a page, whatever its row estimates are.
_FIRST_ROWS = """
SELECT page.name, page.number, coalesce(first.bytes, ''::bytea) FROM (
  SELECT session, name, number FROM wakelog.directory
  WHERE stem = %(stem)s AND number <= %(number)s AND (number < %(number)s OR name < %(name)s)
  ORDER BY number DESC, name DESC LIMIT %(most)s) AS page
LEFT JOIN LATERAL (
  SELECT bytes FROM wakelog.lines WHERE session = page.session AND number = 1 LIMIT 1) AS first ON true
ORDER BY page.number DESC, page.name DESC
"""
_END = """
SELECT log.size, last.number, last.size, last.bytes FROM wakelog.logs AS log LEFT JOIN LATERAL (
  SELECT number, size, bytes FROM wakelog.lines
  WHERE session = %(session)s ORDER BY number DESC LIMIT 1) AS last ON true
WHERE log.session = %(session)s
"""
# The range of numbers limits the index scan, which a condition on sizes would not. It begins at an existing row, so
# that rows removed from the middle of a log do not hide the rest.
_ROWS = """
WITH first AS (
  SELECT number, size - octet_length(bytes) AS start FROM wakelog.lines
  WHERE session = %(session)s AND number > %(after)s ORDER BY number LIMIT 1)
SELECT number, size, bytes FROM wakelog.lines
WHERE session = %(session)s
  AND number >= (SELECT number FROM first) AND number < (SELECT number FROM first) + %(most)s
  AND (size <= (SELECT start FROM first) + %(budget)s OR number = (SELECT number FROM first))
ORDER BY number
"""
_ROWS_BEFORE = """
WITH last AS (
  SELECT number, size FROM wakelog.lines
  WHERE session = %(session)s AND number < %(before)s ORDER BY number DESC LIMIT 1)
SELECT number, size, bytes FROM wakelog.lines
WHERE session = %(session)s
  AND number <= (SELECT number FROM last) AND number > (SELECT number FROM last) - %(most)s
  AND (size - octet_length(bytes) >= (SELECT size FROM last) - %(budget)s OR number = (SELECT number FROM last))
ORDER BY number DESC
"""
_NUMBER_OF = "SELECT number FROM wakelog.lines WHERE session = %(session)s AND seq = %(seq)s"
_ROW_OF = "SELECT number, size, bytes FROM wakelog.lines WHERE session = %(session)s AND id = %(id)s"
# The server syncs its write-ahead log in order, so a commit that writes something makes all earlier commits durable.
_SYNC = with_commit_mode("""
SELECT pg_logical_emit_message(true, 'wakelog', ''), <commit>
""")
_RENEW = with_commit_mode("""
UPDATE wakelog.logs SET expires = clock_timestamp() + %(ttl_s)s * interval '1 second'
WHERE session = %(session)s AND fence = %(fence)s
RETURNING <commit>
""")
_RELEASE = with_commit_mode("""
UPDATE wakelog.logs SET expires = NULL WHERE session = %(session)s AND fence = %(fence)s RETURNING <commit>
""")
_LEASE = """
SELECT holder, fence, coalesce(expires > clock_timestamp(), false), boot, pids, pid, born
FROM wakelog.logs WHERE session = %(session)s AND fence IS NOT NULL
"""
# The row lock serialises this with a concurrent take of the lease: the later one checks the newest version of the row.
_JOURNAL = with_commit_mode("""
WITH log AS (
  SELECT session, followed FROM wakelog.logs
  WHERE session = %(session)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s) FOR NO KEY UPDATE
), added AS (
  INSERT INTO wakelog.journals (session, reply, bytes) SELECT session, %(reply)s, %(piece)s FROM log
)
SELECT followed > clock_timestamp(), <commit> FROM log
""")
_JOURNALS = """
SELECT piece, reply, bytes FROM wakelog.journals WHERE session = %(session)s AND piece >= %(since)s ORDER BY piece
LIMIT %(most)s
"""
_REPLIES = """
SELECT reply FROM wakelog.journals WHERE session = %(session)s GROUP BY reply ORDER BY min(piece)
"""
_PIECES = """
SELECT piece, reply, bytes FROM wakelog.journals
WHERE session = %(session)s AND reply = %(reply)s AND piece >= %(since)s ORDER BY piece LIMIT %(most)s
"""
_DROP = with_commit_mode("""
WITH gone AS (DELETE FROM wakelog.journals WHERE session = %(session)s AND reply = %(reply)s) SELECT <commit>
""")


class PostgresTables:
    """See `StoreTables`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._blobs = PostgresBlobs(database)
        self._notifications = Notifications(database)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def known(self, ref: str) -> SessionRef | None:
        """See `StoreTables`."""
        found = self._database.read(_FIND_SESSION, {"ref": ref})
        return SessionRef(*found[0]) if found else None

    def sessions(self) -> Iterator[SessionStat]:
        """See `StoreTables`."""
        after = ""
        while found := self._database.read(_SESSIONS, {"after": after, "most": _SESSIONS_PAGE_MAX}):
            for _, name, size, rows in found:
                yield SessionStat(name, size, rows)
            after = found[-1][0]

    def last_number(self, stem: str) -> int:
        """See `StoreTables`."""
        found = self._database.read(_LAST_NUMBER, {"stem": stem})
        return int(found[0][0]) if found else 0

    def first_rows(self, stem: str, *, below: tuple[int, str] | None) -> Sequence[FirstRow]:
        """See `StoreTables`. The first page has one row, which is enough for most callers."""
        number, name = below or (_BIGINT_MAX, "")
        given = {"stem": stem, "number": number, "name": name, "most": _FIRST_ROWS_MAX if below else 1}
        return [FirstRow(*row) for row in self._database.read(_FIRST_ROWS, given)]

    def make(self, session: str, name: str, stem: str, number: int, rows: Sequence[Row]) -> bool:
        """See `StoreTables`."""
        # A number too large for the column is stored as 0, so it does not count as the last number.
        counted = number if number < _BIGINT_MAX else 0
        given = {"session": session, "name": name, "stem": stem, "number": counted} | create_parameters(rows)
        return bool(self._database.write(CREATE_SESSION, given))

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def add(self, addition: Addition) -> bool:
        """See `StoreTables`."""
        if len(addition.rows) != 1 or not addition.refuse_known:
            return bool(self._add_many([addition], APPEND_ROWS))
        try:
            found = self._database.write(
                APPEND, append_parameters(addition), durable=addition.durable, again=_is_resolved_by_id(addition)
            )
        except StoreError as error:
            # Another row has this id or seq; `APPEND_ROWS` handles both cases.
            if isinstance(error.__cause__, UniqueViolation):
                return bool(self._add_many([addition], APPEND_ROWS))
            raise
        self._notify(addition.session, found)
        return bool(found)

    def add_group(self, group: Group[Addition, bool]) -> list[bool]:
        """See `StoreTables`. Of several additions to one log, all but the first are refused."""
        additions = group.take()
        if len(additions) == 1:
            return [self.add(additions[0])]
        first = {addition.session: addition for addition in reversed(additions)}
        let_in = self._add_many(list(first.values()), APPEND_IF_UNLOCKED)
        return [addition is first[addition.session] and addition.session in let_in for addition in additions]

    def _notify(self, session: str, found: Sequence[tuple[bool | None, Any]]) -> None:
        if found and found[0][0]:
            self._notifications.notify([session])

    def _add_many(self, additions: Sequence[Addition], statement: LiteralString) -> set[str]:
        again = all(_is_resolved_by_id(addition) for addition in additions)
        durable = any(addition.durable for addition in additions)
        found = self._database.write(statement, append_many_parameters(additions), durable=durable, again=again)
        self._notifications.notify([session for session, is_followed, _ in found if is_followed])
        return {session for session, _, _ in found}

    def sync(self) -> None:
        """See `StoreTables`."""
        self._database.write(_SYNC, {})

    def end(self, session: str) -> StoredEnd:
        """See `StoreTables`. The size of a log is in `logs`; its last rows may be missing."""
        found = self._database.read(_END, {"session": session})
        if not found:
            return StoredEnd()
        size, *last = found[0]
        return StoredEnd(size, StoredRow(*last) if last[0] is not None else None)

    def rows(self, session: str, *, after: int, budget: int) -> Sequence[StoredRow]:
        """See `StoreTables`."""
        given = {"session": session, "after": after, "budget": budget, "most": _rows_max(budget)}
        return [StoredRow(*row) for row in self._database.read(_ROWS, given)]

    def rows_before(self, session: str, *, before: int, budget: int) -> Sequence[StoredRow]:
        """See `StoreTables`."""
        given = {"session": session, "before": before, "budget": budget, "most": _rows_max(budget)}
        return [StoredRow(*row) for row in self._database.read(_ROWS_BEFORE, given)]

    def number_of(self, session: str, *, seq: int) -> int | None:
        """See `StoreTables`."""
        if seq > _BIGINT_MAX:
            return None
        found = self._database.read(_NUMBER_OF, {"session": session, "seq": seq})
        return int(found[0][0]) if found else None

    def row_of(self, session: str, entry: str) -> StoredRow | None:
        """See `StoreTables`."""
        return self._row(self._database.read(_ROW_OF, {"session": session, "id": entry}))

    def _row(self, found: Sequence[tuple[int, int, bytes]]) -> StoredRow | None:
        return StoredRow(*found[0]) if found else None

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def take(
        self, addition: Addition, holder: str, process: ProcessIdentity, *, ttl_s: float, void: int | None
    ) -> bool:
        """See `StoreTables`."""
        whose = {"boot": process.boot, "pids": process.pids, "pid": process.pid, "born": process.born}
        lease = {"holder": _storable_text(holder), "ttl_s": float(ttl_s), "void": void}
        found = self._database.write(TAKE_LEASE, append_parameters(addition) | whose | lease)
        self._notify(addition.session, found)
        return bool(found)

    def renew(self, session: str, fence: int, *, ttl_s: float) -> bool:
        """See `StoreTables`."""
        given = {"session": session, "fence": fence, "ttl_s": float(ttl_s)}
        return bool(self._database.write(_RENEW, given, durable=False))

    def release(self, session: str, fence: int) -> None:
        """See `StoreTables`."""
        self._database.write(_RELEASE, {"session": session, "fence": fence}, durable=False)

    def lease(self, session: str) -> LeaseRow | None:
        """See `StoreTables`."""
        found = self._database.read(_LEASE, {"session": session})
        if not found:
            return None
        holder, fence, stands, *process = found[0]
        return LeaseRow(holder, fence, stands, ProcessIdentity(*process))

    # ── journals and news ────────────────────────────────────────────────────────────────────────

    def journal(self, session: str, reply: str, piece: bytes, *, fence: int | None) -> bool:
        """See `StoreTables`."""
        given = {"session": session, "reply": reply, "piece": piece, "fence": fence}
        found = self._database.write(_JOURNAL, given, durable=False, again=False)
        if found and found[0][0]:
            self._notifications.notify_of_piece(session)
        return bool(found)

    def journals(self, session: str, *, since: int = 0) -> list[JournalRow]:
        """See `StoreTables`."""
        given = {"session": session, "since": since, "most": PIECES_MAX}
        return [JournalRow(*row) for row in self._database.read(_JOURNALS, given)]

    def journal_replies(self, session: str) -> list[str]:
        """See `StoreTables`."""
        return [reply for (reply,) in self._database.read(_REPLIES, {"session": session})]

    def pieces(self, session: str, reply: str, *, since: int = 0) -> list[JournalRow]:
        """See `StoreTables`."""
        given = {"session": session, "reply": reply, "since": since, "most": PIECES_MAX}
        return [JournalRow(*row) for row in self._database.read(_PIECES, given)]

    def drop(self, session: str, reply: str) -> None:
        """See `StoreTables`."""
        self._database.write(_DROP, {"session": session, "reply": reply}, durable=False)

    def watching(self, session: str, follower: Follower) -> AbstractContextManager[Callable[[], None]]:
        """See `StoreTables`."""
        return self._notifications.watching(session, follower)

    # ── blobs and closing ────────────────────────────────────────────────────────────────────────

    @property
    def blobs(self) -> PostgresBlobs:
        """See `StoreTables`."""
        return self._blobs

    def close(self) -> None:
        """See `StoreTables`."""
        self._notifications.close()
        self._database.close()


def _is_resolved_by_id(addition: Addition) -> bool:
    """Whether an addition may be repeated: if the first try was committed, the second is refused by the entry's id."""
    return addition.refuse_known and all(row.id for row in addition.rows)


def _storable_text(text: str) -> str:
    """Text that PostgreSQL can store: without NUL and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _rows_max(budget: int) -> int:
    """The most rows to read for a page of `budget` bytes."""
    return min(_ROWS_MAX, 1 + budget // _ROW_BYTES)

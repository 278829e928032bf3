"""SQL statements that add rows to logs in PostgreSQL. Each operation is one statement, and so one round trip.

Rule 1: each statement first updates the row in `logs`, and only if the log has the expected size and the fence is
current. PostgreSQL checks that again on the newest version of the row, after waiting for its lock. A log only grows, so
if the size is right, what the statement has read of its lines is right too.
Rule 2: locks are held only within a statement, never while waiting for a client, so a process that is stopped in the
middle does not block others. Rows of many logs are locked in the order of their session ids.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from wakelog.stores.database.tables import Addition, Row
from wakelog.stores.postgres.connections import Bigints, Byteas, Texts
from wakelog.stores.postgres.database import with_commit_mode

# If the id or the seq is taken, this fails with `UniqueViolation` and changes nothing; `APPEND_ROWS` handles both.
# These cases are rare: a repeated append fails on the size first. Checking here would make every append 10 % slower.
APPEND = with_commit_mode("""
WITH moved AS (
  UPDATE wakelog.logs SET rows = rows + 1, size = size + octet_length(%(raw)s::bytea)
  WHERE session = %(session)s AND size = %(size)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s)
  RETURNING rows, size, followed
), added AS (
  INSERT INTO wakelog.lines (session, number, size, seq, id, parent, type, time, bytes)
  SELECT %(session)s, rows, size, %(seq)s::bigint, %(id)s, %(parent)s, %(type)s, to_timestamp(%(time_s)s), %(raw)s
  FROM moved
)
SELECT followed > clock_timestamp(), <commit> FROM moved
""")
# LATERAL with a LIMIT makes the planner look each row up by its key, whatever its row estimates are.
APPEND_ROWS = with_commit_mode("""
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(%(sessions)s, %(sizes)s, %(grown)s, %(counts)s, %(fences)s, %(strict)s)
    AS a (session, size, grown, count, fence, strict)
), given AS MATERIALIZED (
  SELECT g.*, by_id.number AS id_at, by_seq.number AS seq_at
  FROM unnest(%(owners)s, %(numbers)s, %(ends)s, %(seqs)s, %(ids)s, %(parents)s, %(types)s, %(times_ms)s, %(raws)s)
    AS g (session, number, size, seq, id, parent, type, time_ms, bytes)
  LEFT JOIN LATERAL (
    SELECT number FROM wakelog.lines WHERE session = g.session AND id = g.id LIMIT 1) AS by_id ON true
  LEFT JOIN LATERAL (
    SELECT number FROM wakelog.lines WHERE session = g.session AND seq = g.seq LIMIT 1) AS by_seq ON true
), locked AS MATERIALIZED (
  SELECT a.* FROM asked AS a CROSS JOIN LATERAL (
    SELECT FROM wakelog.logs WHERE session = a.session LIMIT 1 FOR NO KEY UPDATE) AS log
), moved AS (
  UPDATE wakelog.logs AS l SET rows = l.rows + a.count, size = l.size + a.grown
  FROM locked AS a
  WHERE l.session = a.session AND l.size = a.size AND (a.fence IS NULL OR l.fence = a.fence)
    AND (a.strict = 0 OR a.session NOT IN (SELECT session FROM given WHERE number = 1 AND id_at IS NOT NULL))
  RETURNING l.session, l.rows - a.count AS rows, a.size, l.followed
), added AS (
  INSERT INTO wakelog.lines (session, number, size, seq, id, parent, type, time, bytes)
  SELECT g.session, m.rows + g.number, m.size + g.size, CASE WHEN g.seq_at IS NULL THEN g.seq END,
    CASE WHEN g.id_at IS NULL THEN g.id END, g.parent, g.type, to_timestamp(g.time_ms::float8 / 1000), g.bytes
  FROM moved AS m JOIN given AS g ON g.session = m.session
)
SELECT session, followed > clock_timestamp(), <commit> FROM moved
""")
# For groups: logs that another transaction has locked are left out, so that they do not delay the others.
APPEND_IF_UNLOCKED = APPEND_ROWS.replace("FOR NO KEY UPDATE", "FOR NO KEY UPDATE SKIP LOCKED")
CREATE_SESSION = with_commit_mode("""
WITH named AS (
  INSERT INTO wakelog.directory (session, name, stem, number)
  VALUES (%(session)s, %(name)s, %(stem)s, %(number)s)
  ON CONFLICT DO NOTHING RETURNING session
), log AS (
  INSERT INTO wakelog.logs (session, rows, size) SELECT session, %(count)s, %(grown)s FROM named
), added AS (
  INSERT INTO wakelog.lines (session, number, size, seq, id, parent, type, time, bytes)
  SELECT n.session, g.number, g.size, g.seq, g.id, g.parent, g.type, to_timestamp(g.time_ms::float8 / 1000), g.bytes
  FROM named AS n CROSS JOIN
    unnest(%(numbers)s, %(ends)s, %(seqs)s, %(ids)s, %(parents)s, %(types)s, %(times_ms)s, %(raws)s)
      AS g (number, size, seq, id, parent, type, time_ms, bytes)
)
SELECT <commit> FROM named
""")
TAKE_LEASE = with_commit_mode("""
WITH moved AS (
  UPDATE wakelog.logs SET rows = rows + 1, size = size + octet_length(%(raw)s::bytea),
    holder = %(holder)s, fence = %(seq)s, expires = clock_timestamp() + %(ttl_s)s * interval '1 second',
    boot = %(boot)s, pids = %(pids)s, pid = %(pid)s, born = %(born)s
  WHERE session = %(session)s AND size = %(size)s AND (%(fence)s::bigint IS NULL OR fence = %(fence)s)
    AND (expires IS NULL OR expires <= clock_timestamp() OR fence = %(void)s)
    AND NOT EXISTS (SELECT FROM wakelog.lines WHERE session = %(session)s AND id = %(id)s)
  RETURNING rows, size, followed
), added AS (
  INSERT INTO wakelog.lines (session, number, size, seq, id, parent, type, time, bytes)
  SELECT %(session)s, rows, size,
    CASE WHEN NOT EXISTS (SELECT FROM wakelog.lines WHERE session = %(session)s AND seq = %(seq)s) THEN %(seq)s END,
    %(id)s, %(parent)s, %(type)s, to_timestamp(%(time_s)s), %(raw)s
  FROM moved
)
SELECT followed > clock_timestamp(), <commit> FROM moved
""")
Parameters = dict[str, Any]


def append_parameters(addition: Addition) -> Parameters:
    """The parameters of `APPEND` for an addition of one row."""
    (row,) = addition.rows
    return {
        "session": addition.session,
        "size": addition.size,
        "fence": addition.fence,
        "seq": row.seq,
        "id": row.id,
        "parent": row.parent,
        "type": row.type,
        "time_s": None if row.time_ms is None else row.time_ms / 1000,
        "raw": row.raw,
    }


def append_many_parameters(additions: Iterable[Addition]) -> Parameters:
    """The parameters of `APPEND_ROWS` and `APPEND_IF_UNLOCKED` for additions to different logs."""
    chosen = sorted(additions, key=lambda addition: addition.session)
    return {
        "sessions": Texts(addition.session for addition in chosen),
        "sizes": Bigints(addition.size for addition in chosen),
        "grown": Bigints(sum(len(row.raw) for row in addition.rows) for addition in chosen),
        "counts": Bigints(len(addition.rows) for addition in chosen),
        "fences": Bigints(addition.fence for addition in chosen),
        "strict": Bigints(int(addition.refuse_known) for addition in chosen),
        "owners": Texts(addition.session for addition in chosen for _ in addition.rows),
    } | _columns([addition.rows for addition in chosen])


def create_parameters(rows: Sequence[Row]) -> Parameters:
    """The parameters of `CREATE_SESSION` for the first rows of a session."""
    return {"count": len(rows), "grown": sum(len(row.raw) for row in rows)} | _columns([rows])


def _columns(groups: Sequence[Sequence[Row]]) -> Parameters:
    """Rows of different logs as columns. Row numbers and sizes start again for each log."""
    rows = [row for group in groups for row in group]
    return {
        "numbers": Bigints(number for group in groups for number in range(1, len(group) + 1)),
        "ends": Bigints(end for group in groups for end in _row_ends(group)),
        "seqs": Bigints(row.seq for row in rows),
        "ids": Texts(entry for group in groups for entry in _unique_ids(group)),
        "parents": Texts(row.parent for row in rows),
        "types": Texts(row.type for row in rows),
        "times_ms": Bigints(row.time_ms for row in rows),
        "raws": Byteas(row.raw for row in rows),
    }


def _row_ends(rows: Iterable[Row]) -> Iterable[int]:
    end = 0
    for row in rows:
        end += len(row.raw)
        yield end


def _unique_ids(rows: Iterable[Row]) -> Iterable[str | None]:
    """The ids of rows; None where an earlier row has the same id."""
    seen: set[str | None] = set()
    for row in rows:
        yield None if row.id in seen else row.id
        seen.add(row.id)

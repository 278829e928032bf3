"""What a writer to PostgreSQL had committed and flushed when its append returned: the server is asked each time.

A second connection asks after every append. Transactions that write take a number, so the next free number counts
them, and none may be in progress. The log of the server must be flushed as far as it is written.
"""

import statistics
from collections.abc import Sequence

import msgspec
import psycopg

from bench.peers.peer import Peer
from bench.report import file_system

_LOOK = """
SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn())::bigint
"""


class Watch(msgspec.Struct, frozen=True):
    """Watched appends: the median of transactions each; how many were not all committed, or flushed, at their end."""

    acknowledged: int
    transactions: float
    uncommitted: int
    unflushed: int
    server: str

    @property
    def verdict(self) -> str:
        """Return what that means for an acknowledged message."""
        if self.uncommitted:
            return f"not committed when acknowledged: {self.uncommitted} of {self.acknowledged}"
        if self.unflushed:
            return f"committed, but {self.unflushed} of {self.acknowledged} not flushed when acknowledged"
        if "fsync=on" not in self.server or self.server.endswith(("tmpfs", "ramfs")):
            return f"committed at each append, but the server keeps nothing through a power cut: {self.server}"
        return "committed and synced by the server at each append: survives a power cut"


def watch(peer: Peer, place: str, texts: Sequence[str]) -> Watch:
    """Append messages and ask the server after each."""
    with psycopg.connect(place, autocommit=True) as db:
        peer.append(texts[0])
        before, *_ = _seen(db)
        counts, uncommitted, unflushed = [], 0, 0
        for text in texts[1:]:
            peer.append(text)
            number, oldest, behind = _seen(db)
            counts.append(number - before)
            uncommitted += oldest < number
            unflushed += behind > 0
            before = number
        return Watch(len(counts), statistics.median(counts), uncommitted, unflushed, _server(db))


def _seen(db: psycopg.Connection) -> tuple[int, int, int]:
    found = db.execute(_LOOK, prepare=True).fetchone()
    assert found is not None
    number, oldest, behind = found
    return number, oldest, behind


def _server(db: psycopg.Connection) -> str:
    names = ("fsync", "full_page_writes", "wal_sync_method")
    said = ", ".join(f"{name}={_setting(db, name)}" for name in names)
    return f"{said}, on {file_system(_setting(db, 'data_directory'))}"


def _setting(db: psycopg.Connection, name: str) -> str:
    found = db.execute("SELECT current_setting(%s)", (name,)).fetchone()
    assert found is not None
    return str(found[0])

"""Database tables: the operations that a database must implement to be used as a store.

`row_store.py` builds a `ports.Store` from them; `sqlite/tables.py` and `postgres/tables.py` implement them.
Rule 1: a row is a run of a log's bytes, usually one line with its LF. The rows of a session in order are the log, byte
for byte; all other columns are derived from them and may be NULL.
Rule 2: an append checks the end of the log and the fence and adds the row in one transaction. The row of a session in
`logs` contains its lease.
Rule 3: sessions are addressed by id here. No SQL is ever built from user input.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from wakelog.ports import Blobs, Stat
from wakelog.stores.holding import Holder


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row to add: its bytes, and the columns derived from them."""

    raw: bytes
    seq: int | None = None
    id: str | None = None
    parent: str | None = None
    type: str | None = None
    time_ms: int | None = None


class StoredRow(msgspec.Struct, frozen=True):
    """A stored row: its number, counted from 1, and the size of the log up to its end."""

    number: int
    size: int
    raw: bytes


class Known(msgspec.Struct, frozen=True):
    """The id and the name of a session."""

    id: str
    name: str


class Addition(msgspec.Struct, frozen=True):
    """Rows to add after the first `size` bytes of a log, if the log ends there and the fence is current.

    `refuse_known`: refuse the addition if the log has an entry with the id of the first row. Otherwise a row whose id
    is taken is added without its id.
    """

    session: str
    size: int
    rows: tuple[Row, ...]
    fence: int | None = None
    durable: bool = True
    refuse_known: bool = True


PIECES_MAX = 512
"""How many pieces of journals are read in one query."""


class LeaseRow(msgspec.Struct, frozen=True):
    """The last lease of a session. `stands`: it was not released and has not expired, by the store's clock."""

    holder: str
    fence: int
    stands: bool
    process: Holder


class FirstRow(msgspec.Struct, frozen=True):
    """The first row of a log, with the name and number of its session. `raw` is empty if the row was removed."""

    name: str
    number: int
    raw: bytes


class JournalRow(msgspec.Struct, frozen=True):
    """A piece of a journal. Keys grow; the key of a dropped piece may be used again."""

    key: int
    reply: str
    bytes: bytes


class Tables(Protocol):
    """A database with the tables of a store. Every method is one transaction and may be called from any thread."""

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def known(self, ref: str) -> Known | None:
        """The session with this id or, if there is none, with this name."""
        ...

    def sessions(self) -> Iterator[Stat]:
        """Every session; `changed` is its number of rows."""
        ...

    def last_number(self, stem: str) -> int:
        """The highest session number in use with `stem`, or 0."""
        ...

    def first_rows(self, stem: str, *, below: tuple[int, str] | None) -> Sequence[FirstRow]:
        """A page of first rows of sessions with this stem: those below `below`, the highest (number, name) first.

        An empty page means that there are no more. Only sessions with this stem are read.
        """
        ...

    def make(self, session: str, name: str, stem: str, number: int, rows: Sequence[Row]) -> bool:
        """Create a session with its first rows, durably. False, with nothing changed, if its id or name is taken."""
        ...

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def add(self, additions: Sequence[Addition]) -> list[bool]:
        """Add rows to many logs in one transaction; return whether each was accepted, in the order given.

        Durable on return if any of them is `durable`. A refused addition changes nothing.
        """
        ...

    def sync(self) -> None:
        """Make everything durable that was added until now without a sync, also by other writers."""
        ...

    def last(self, session: str) -> StoredRow | None:
        """The last row of a log; None if it has no rows."""
        ...

    def rows(self, session: str, *, after: int, budget: int) -> Sequence[StoredRow]:
        """A page of rows behind row number `after`, in order: about `budget` bytes, and at least one row if any.

        There may be fewer bytes; an empty page means that there are no more rows.
        """
        ...

    def rows_before(self, session: str, *, before: int, budget: int) -> Sequence[StoredRow]:
        """A page of rows before row number `before`, the last first; limited like `rows`."""
        ...

    def number_of(self, session: str, *, seq: int) -> int | None:
        """The number of the row with the entry of that seq."""
        ...

    def row_of(self, session: str, entry: str) -> StoredRow | None:
        """The row with the entry of that id."""
        ...

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def take(self, addition: Addition, holder: str, process: Holder, *, ttl_s: float, void: int | None) -> bool:
        """Add the row that takes the lease, and store the lease with the row's seq as its fence.

        False while another lease stands, unless its fence is `void`, which means that its holder is known to be dead.
        """
        ...

    def renew(self, session: str, fence: int, *, ttl_s: float) -> bool:
        """Set a new expiry. False if `fence` is not the current fence."""
        ...

    def release(self, session: str, fence: int) -> None:
        """End the lease now, if `fence` is its fence. The fence stays stored, as the highest so far."""
        ...

    def lease(self, session: str) -> LeaseRow | None:
        """The last lease, whether it stands or not."""
        ...

    # ── journals and news ────────────────────────────────────────────────────────────────────────

    def journal(self, session: str, reply: str, piece: bytes, *, fence: int | None) -> bool:
        """Add a piece to a journal without a sync. False if a fence is given and is not the current one."""
        ...

    def journals(self, session: str, *, since: int = 0) -> list[JournalRow]:
        """The pieces of all journals of a session from key `since` on, in order of insertion: at most `PIECES_MAX`."""
        ...

    def journal_replies(self, session: str) -> list[str]:
        """The replies of a session that have a journal, in the order of their first pieces."""
        ...

    def pieces(self, session: str, reply: str, *, since: int = 0) -> list[JournalRow]:
        """The pieces of one journal from key `since` on: at most `PIECES_MAX`."""
        ...

    def drop(self, session: str, reply: str) -> None:
        """Remove a journal."""
        ...

    def watching(self, session: str) -> AbstractContextManager[Callable[[float], None]]:
        """Subscribe to a session; yields a function that waits until there may be news, at most that many seconds.

        Everything added while the context is open ends a wait, at the latest after a short delay.
        """
        ...

    # ── blobs and closing ────────────────────────────────────────────────────────────────────────

    @property
    def blobs(self) -> Blobs:
        """The blobs in the same database."""
        ...

    def close(self) -> None:
        """Close connections; the next use opens them again."""
        ...

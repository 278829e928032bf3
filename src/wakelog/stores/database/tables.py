"""What a database must do to be a store: rows of bytes in, rows of bytes out, a few questions about their end.

`row_store.py` makes a `ports.Store` of it; `sqlite/tables.py` and `postgres/tables.py` are the two there are.
Rule 1: a row is a run of a log's bytes, mostly one line with its LF. All rows of a session in their order are the
log, byte for byte; every other column is derived from them and may be NULL where they say nothing.
Rule 2: where a log ends, whose turn it is and the line behind it are judged and written as one. One row of `logs` a
session holds its lease.
Rule 3: sessions are addressed by id here. No SQL is ever made from what somebody typed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from wakelog.ports import Blobs, Stat
from wakelog.stores.holding import Holder


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row to be added: its bytes, and what they say of themselves."""

    raw: bytes
    seq: int | None = None
    id: str | None = None
    parent: str | None = None
    type: str | None = None
    time_ms: int | None = None


class StoredRow(msgspec.Struct, frozen=True):
    """A row as it stands: its number from 1, and the size of the log up to its end."""

    number: int
    size: int
    raw: bytes


class Known(msgspec.Struct, frozen=True):
    """A session's two names."""

    id: str
    name: str


class Addition(msgspec.Struct, frozen=True):
    """Rows to go behind the first `size` bytes of a log, if that is where it ends and the fence is current.

    `refuse_known`: not if an entry with the id of the first row stands in the log already. Else a row whose id is
    taken is added without it.
    """

    session: str
    size: int
    rows: tuple[Row, ...]
    fence: int | None = None
    durable: bool = True
    refuse_known: bool = True


PIECES_MAX = 512
"""How many pieces of journals are read at once."""


class LeaseRow(msgspec.Struct, frozen=True):
    """The last lease of a session. `stands`: it was neither given up nor has it expired, by the store's clock."""

    holder: str
    fence: int
    stands: bool
    process: Holder


class FirstRow(msgspec.Struct, frozen=True):
    """The first row of a log, with the name and the number of its session. Empty if the row was removed."""

    name: str
    number: int
    raw: bytes


class JournalRow(msgspec.Struct, frozen=True):
    """A piece of a journal. Keys grow; that of a piece that was dropped may be given to another."""

    key: int
    reply: str
    bytes: bytes


class Tables(Protocol):
    """A database with our tables in it. Every method is one transaction, and may be called from any thread."""

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def known(self, ref: str) -> Known | None:
        """The session with this id or, if there is none, of this name."""
        ...

    def sessions(self) -> Iterator[Stat]:
        """Every session; `changed` is its number of rows."""
        ...

    def last_number(self, stem: str) -> int:
        """The highest number in use behind `stem`, or 0."""
        ...

    def first_rows(self, stem: str, *, below: tuple[int, str] | None) -> Sequence[FirstRow]:
        """Some first rows of sessions with this stem: the highest (number, name) first, below the one given.

        None means that there are no more. Only sessions with this stem are looked at.
        """
        ...

    def make(self, session: str, name: str, stem: str, number: int, rows: Sequence[Row]) -> bool:
        """Makes a session with its first rows, durable. False, and nothing done, if its id or its name is taken."""
        ...

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────

    def add(self, additions: Sequence[Addition]) -> list[bool]:
        """Adds rows to many logs in one transaction: whether each was let in, in the order given.

        Durable before it returns if any of them asks for that. One that is not let in changes nothing.
        """
        ...

    def sync(self) -> None:
        """Makes durable whatever was added until now, by whomever, without a sync."""
        ...

    def last(self, session: str) -> StoredRow | None:
        """The last row of a log."""
        ...

    def rows(self, session: str, *, after: int, budget: int) -> Sequence[StoredRow]:
        """Rows behind row number `after`, in order: one at least if there is one, and about so many bytes of them.

        There may be fewer; none means that there are no more.
        """
        ...

    def rows_before(self, session: str, *, before: int, budget: int) -> Sequence[StoredRow]:
        """Rows before row number `before`, the last first; bounded in the same way."""
        ...

    def number_of(self, session: str, *, seq: int) -> int | None:
        """The number of the row that holds the entry of that seq."""
        ...

    def row_of(self, session: str, entry: str) -> StoredRow | None:
        """The row that holds the entry of that id."""
        ...

    # ── leases ───────────────────────────────────────────────────────────────────────────────────

    def take(self, addition: Addition, holder: str, process: Holder, *, ttl_s: float, void: int | None) -> bool:
        """Adds the row that takes the lease, and with it the lease, whose fence is the row's seq.

        Not while one stands, unless its fence is `void`: its holder is known to be dead.
        """
        ...

    def renew(self, session: str, fence: int, *, ttl_s: float) -> bool:
        """Moves the expiry. False if that is not the current fence."""
        ...

    def release(self, session: str, fence: int) -> None:
        """Ends the lease now, if that is its fence. The fence stays, as the highest given out."""
        ...

    def lease(self, session: str) -> LeaseRow | None:
        """The last lease, whether it stands or not."""
        ...

    # ── journals and news ────────────────────────────────────────────────────────────────────────

    def journal(self, session: str, reply: str, piece: bytes, *, fence: int | None) -> bool:
        """Adds a piece to a journal without a sync. False if a fence is given that is not the current one."""
        ...

    def journals(self, session: str, *, since: int = 0) -> list[JournalRow]:
        """The pieces of all journals of a session, in the order they came, from that key on: at most `PIECES_MAX`."""
        ...

    def journal_replies(self, session: str) -> list[str]:
        """The replies of a session that have a journal, in the order in which these were begun."""
        ...

    def pieces(self, session: str, reply: str, *, since: int = 0) -> list[JournalRow]:
        """The pieces of one journal, from that key on: at most `PIECES_MAX`."""
        ...

    def drop(self, session: str, reply: str) -> None:
        """Removes a journal."""
        ...

    def watching(self, session: str) -> AbstractContextManager[Callable[[float], None]]:
        """Pays attention to a session. What it gives waits until something may be new, or the seconds are over.

        Nothing that is added while it is open goes unnoticed for long.
        """
        ...

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────

    @property
    def blobs(self) -> Blobs:
        """The blobs in the same database."""
        ...

    def close(self) -> None:
        """Lets go of connections; the next use opens them anew."""
        ...

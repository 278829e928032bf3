"""Database tables: the operations that a database must implement to be used as a store, and the rows they store.

`row_store.py` builds a `ports.Store` from them; `stores/sqlite/tables.py` and `stores/postgres/tables.py` implement
them.
Rule 1: a row is a run of a log's bytes, usually one line with its LF. The rows of a session in order are the log, byte
for byte; all other columns are derived from them and may be NULL. A row that is not an entry, or repeats an entry, is
stored too, without derived columns.
Rule 2: an append checks the end of the log and the fence and adds the row in one transaction. The row of a session in
`logs` contains its lease.
Rule 3: sessions are addressed by id here. No SQL is ever built from user input.
A `Draft` seals an append for its requested place before the database accepts it. Creating it advances the `LogEnd`
that it is created from, so that object must not be shared.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from wakelog.log.codec import envelope_of
from wakelog.log.ids import is_id
from wakelog.log.integrity import LogEnd
from wakelog.log.lines import EntryReader, Line, split_lines
from wakelog.log.seal import unseal
from wakelog.log.timestamps import parse_ms
from wakelog.ports.stores import Blobs, SealedLine, SessionStat
from wakelog.stores.followers import Follower
from wakelog.stores.group_commit import Group
from wakelog.stores.process_identity import ProcessIdentity


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


class StoredEnd(msgspec.Struct, frozen=True):
    """The end of a stored log: its last row, if it has rows, and the size that the next addition must name.

    The size counts all bytes ever added, also those of rows that are missing now.
    """

    size: int = 0
    last: StoredRow | None = None


class SessionRef(msgspec.Struct, frozen=True):
    """The id and the name of a session."""

    id: str
    name: str


class AppendRequest(msgspec.Struct, frozen=True, gc=False):
    """The arguments of `Store.append` as a value."""

    session: str
    body: bytes
    after: int
    behind: int = 0
    fence: int | None = None
    durable: bool = True


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
    """The last lease of a session. `is_in_force`: it was not released and has not expired, by the store's clock."""

    holder: str
    fence: int
    is_in_force: bool
    process: ProcessIdentity


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


class StoreTables(Protocol):
    """A database with the tables of a store. Every method is one transaction and may be called from any thread."""

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────

    def known(self, ref: str) -> SessionRef | None:
        """The session with this id or, if there is none, with this name."""
        ...

    def sessions(self) -> Iterator[SessionStat]:
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

    def add(self, addition: Addition) -> bool:
        """Add rows to a log in one transaction; return whether they were accepted. If refused, nothing is changed."""
        ...

    def add_group(self, group: Group[Addition, bool]) -> list[bool]:
        """Like `add`, in one transaction for the additions of several threads; return an answer for each.

        The group is taken when no lock is waited for any more. All that is accepted is durable on return. An addition
        may also be refused because another one of the group, or another transaction, has locked its log.
        """
        ...

    def sync(self) -> None:
        """Make everything durable that was added until now without a sync, also by other writers."""
        ...

    def end(self, session: str) -> StoredEnd:
        """The end of a log: the last row, and the size that `add` compares with `Addition.size`, read together."""
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

    def take(
        self, addition: Addition, holder: str, process: ProcessIdentity, *, ttl_s: float, void: int | None
    ) -> bool:
        """Add the row that takes the lease, and store the lease with the row's seq as its fence.

        False while another lease is in force, unless its fence is `void`: then its holder is known to be dead.
        """
        ...

    def renew(self, session: str, fence: int, *, ttl_s: float) -> bool:
        """Set a new expiry. False if `fence` is not the current fence."""
        ...

    def release(self, session: str, fence: int) -> None:
        """End the lease now, if `fence` is its fence. The fence stays stored, as the highest so far."""
        ...

    def lease(self, session: str) -> LeaseRow | None:
        """The last lease, in force or not."""
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

    def watching(self, session: str, follower: Follower) -> AbstractContextManager[Callable[[], None]]:
        """Subscribe to a session; yields a function that waits until there may be news, or the follower's call is over.

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


_TYPE_MAX_CHARS = 128
# The latest time that every database can store: the end of the year 9999.
_TIME_MS_MAX = 253_402_300_799_999


def make_row(raw: bytes, body: bytes, seq: int) -> Row:
    """The row of an encoded entry `body` with this seq; `raw` are its bytes as stored."""
    envelope = envelope_of(body)
    if envelope is None:
        return Row(raw, seq)
    return Row(
        raw,
        seq,
        envelope.id if is_id(envelope.id) else None,
        envelope.parent_id if envelope.parent_id is not None and is_id(envelope.parent_id) else None,
        envelope.type if 0 < len(envelope.type) <= _TYPE_MAX_CHARS and envelope.type.isprintable() else None,
        _storable_time_ms(envelope.timestamp),
    )


def split_rows(raw: bytes, *, last_seq: int) -> Iterator[Row]:
    """The rows of a part of a log that follows seq `last_seq`, one for each line."""
    reader = EntryReader(next_seq=last_seq + 1)
    for line in split_lines([raw]):
        entries = reader.feed(line)
        if len(entries) == 1 and entries[0].seq > last_seq:
            last_seq = entries[0].seq
            yield make_row(line.bytes, unseal(entries[0].raw), last_seq)
        else:
            yield Row(line.bytes)


def _storable_time_ms(timestamp: str) -> int | None:
    time_ms = parse_ms(timestamp)
    return time_ms if time_ms is not None and 0 <= time_ms <= _TIME_MS_MAX else None


class Draft:
    """An append that is not stored yet: its row, and the end of the log after that row."""

    def __init__(self, session: str, append: AppendRequest, end: LogEnd) -> None:
        size = end.size
        written = end.seal(append.body)
        seq = end.advance(written)
        self.end = end
        self.row = make_row(written, append.body, seq)
        self.addition = Addition(session, size, (self.row,), append.fence, append.durable)

    def sealed(self) -> SealedLine:
        """The result of the append, for when the row was added."""
        raw = self.row.raw.strip(b"\n")
        return SealedLine(self.row.seq or 0, Line(raw, self.end.size - len(raw) - 1))


def make_first_rows(bodies: Iterable[bytes]) -> tuple[Row, ...]:
    """The rows of a session's first lines, for encoded entries."""
    end, rows = LogEnd(), []
    for body in bodies:
        sealed = end.seal(body)
        rows.append(make_row(sealed, body, end.advance(sealed)))
    return tuple(rows)

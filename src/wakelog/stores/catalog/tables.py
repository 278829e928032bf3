"""What a database must do to hold a catalog: a row a session, the words of entries, and questions about both.

`indexing.py` fills it and `index.py` asks it; `index_tables.py` (the cache), `sqlite_catalog.py` and
`postgres_catalog.py` are those there are.
Rule 1: all of it is derived and may be lost at any time. `CATALOG_VERSION` says what is kept and how: it is raised
with every change of that, and what another version has left is built anew.
Rule 2: logs are read before anything is written, and a `write` is short: whoever appends to a log does not wait for
a list of them.
Rule 3: two may fill the same tables at once. The words of a log have places, counted from 0, and what stands at
one is a function of the log; a row is kept only when all its words stand there, and never in the place of a newer one.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import msgspec

from wakelog.ports import Hit, Stat, Store
from wakelog.projections.session_row import SessionRow
from wakelog.stores.catalog.cursors import HitPlace, RowPlace
from wakelog.stores.catalog.query import Query

CATALOG_VERSION = 5


class Unusable(Exception):
    """The tables of a catalog cannot be kept where they should be; the logs may be in the best of health."""


class Due(msgspec.Struct, frozen=True):
    """A log that is not as the catalog knows it. `before` is the (size, changed) that it knows, if any."""

    stat: Stat
    before: tuple[int, int] | None = None


class Seen(msgspec.Struct, frozen=True):
    """What the catalog knows of a log. `places` is how many its words take up."""

    key: int
    name: str
    size: int
    changed: int
    id: str
    places: int
    bookmark: bytes | None

    def is_ahead_of(self, due: Due) -> bool:
        """Whether somebody else has taken in what is due, or more, since it was found to be due."""
        return (self.size, self.changed) != due.before and self.changed >= due.stat.changed


class Worded(msgspec.Struct, frozen=True, gc=False):
    """An entry with words, at its place. `mark` changes with anything else here.

    `seq` is the number that means it: none where an entry before it has that number too.
    """

    place: int
    id: str
    type: str
    tools: str
    timestamp: str
    time_ms: int
    text: str
    mark: int
    seq: int | None


class Kept(msgspec.Struct, frozen=True):
    """What is to be known of a log from now on, if its words take up so many places by then."""

    due: Due
    row: SessionRow
    updated_ms: int
    places: int
    bookmark: bytes | None


class Change(msgspec.Struct):
    """What is to happen to the words and the row of one session, in this order.

    The words from place `cut` on are forgotten, these are added, the row is kept. Without `kept` the rest of the
    log is still being read.
    """

    name: str
    cut: int | None = None
    words: list[Worded] = []
    kept: Kept | None = None


class Batch(msgspec.Struct):
    """What is to be written at once: who is no more, whose row must be made anew, then the changes."""

    gone: list[str] = []
    outdated: list[str] = []
    changes: dict[str, Change] = {}


class Filters(msgspec.Struct, frozen=True):
    """Which rows are meant; None leaves all."""

    archived: bool | None = None
    agent: str | None = None
    sender: str | None = None
    cwd: str | None = None


class CatalogTables(Protocol):
    """A database with a catalog in it.

    `failures` are what its methods raise if the tables are damaged, missing or out of reach. `batch_bytes` of logs
    are read for one `writing`, and words of `stretch_bytes` at most are gathered for one `write`.
    """

    failures: tuple[type[Exception], ...]
    batch_bytes: int
    stretch_bytes: int

    # ── filling it ───────────────────────────────────────────────────────────────────────────────

    def refreshing(self) -> AbstractContextManager[None]:
        """Around one bringing up to date."""
        ...

    def changes(self, store: Store) -> tuple[dict[str, Due], list[str]]:
        """The logs that are not as they were, by name, the newest first, and the names of those that are no more."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Around reading some logs and writing what they say; where nobody minds, this is one transaction."""
        ...

    def seen(self, names: Sequence[str]) -> Mapping[str, Seen]:
        """What is known of these logs."""
        ...

    def marks(self, name: str, seen: Seen | None, start: int) -> Sequence[int]:
        """The marks of the words that stand there from place `start` on."""
        ...

    def forks(self, parents: Iterable[str], *, damage: int) -> Sequence[str]:
        """The sessions that name one of these as where they came from, and have at least so many damage reports."""
        ...

    def write(self, batch: Batch) -> None:
        """Writes it, all or nothing."""
        ...

    # ── asking it ────────────────────────────────────────────────────────────────────────────────

    def rows(self, filters: Filters, after: RowPlace | None, limit: int | None) -> Sequence[bytes]:
        """Encoded rows, the last changed first."""
        ...

    def count(self, filters: Filters, after: RowPlace | None) -> int:
        """How many rows there are."""
        ...

    def find(self, ref: str, limit: int) -> Sequence[bytes]:
        """The encoded row whose id or name this is; else those that begin with it."""
        ...

    def is_damaged(self, name: str) -> bool:
        """Whether the session of that name has damage reports."""
        ...

    def search(self, query: Query, now_ms: int, mark: int, after: HitPlace | None, limit: int) -> Sequence[Hit]:
        """The hits behind `after`, in their order. `mark` goes into their cursors."""
        ...

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────

    def rebuild(self) -> None:
        """Throws away all there is; the next refresh begins with nothing."""
        ...

    def close(self) -> None:
        """Lets go of what is open."""
        ...

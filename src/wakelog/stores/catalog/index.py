"""The derived index: one row per session and full text over all sessions, so that lists and searches read no logs.

It implements `ports.Catalog` over any `CatalogTables`: those of a file in the cache, or those of a database store.
Rule 1: the index can be deleted or damaged at any time; only the duration of the next command changes. If the tables
can be neither used nor rebuilt, the index is held in memory for this process.
Rule 2: logs are read, never written (law 9, reading never writes). A log with unchanged size and change mark is not
opened, and a log that grew is read from its bookmark on.
Rule 3: modules that read logs are imported only when a log must be read, so that listing unchanged logs is fast.
Rule 4: the order of rows and hits is a function of the logs, not of the history of the tables.
"""

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from wakelog.decoding import build_decoder
from wakelog.errors import StoreBusy, UsageError
from wakelog.folders import user_folder
from wakelog.ports.catalogs import SearchHit, SessionRow
from wakelog.ports.stores import SessionStat, Store
from wakelog.stores import load
from wakelog.stores.catalog.index_file import IN_MEMORY, IndexTables
from wakelog.stores.catalog.query import (
    HitPosition,
    RowPosition,
    decode_cursor,
    parse_query,
    query_checksum,
    storable_text,
)
from wakelog.stores.catalog.tables import CatalogTables, RowFilters
from wakelog.stores.locking import DEFAULT_WAIT, LockWait
from wakelog.stores.urls import parse_store_url

if TYPE_CHECKING:
    from wakelog.stores.catalog.indexing import Indexer

FIND_MAX = 20
# More than can be shown, and small enough to be multiplied (see `full_text.py`).
_LIMIT_MAX = 1 << 40
_row_decoder = build_decoder(SessionRow)
T = TypeVar("T")


def index_path(store_url: str) -> str:
    """Return the path of the index of a store without its own catalog: in the cache, named by a hash of its place.

    ":memory:" for a memory store.
    """
    parsed = parse_store_url(store_url)
    if not parsed.kind.has_place:
        return IN_MEMORY
    place = os.path.realpath(parsed.path) if parsed.kind.is_path else parsed.place
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    return os.path.join(user_folder("cache"), f"{digest}.sqlite")


def index_in_cache(store_url: str, store: Store, *, lock_wait: LockWait | None = None) -> "Index":
    """Return the index of a store without its own catalog."""
    return Index(store, IndexTables(index_path(store_url), lock_wait=lock_wait or DEFAULT_WAIT))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Index:
    """See `ports.Catalog`. `now_ms` is the current time for relative values such as `since:2d`."""

    def __init__(self, store: Store, tables: CatalogTables, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self._store = store
        self._tables = tables
        self._now_ms = now_ms
        self._inaccessible: list[str] = []
        self._unsummarised: dict[str, str] = {}
        self._left_out: list[SessionStat] = []

    def close(self) -> None:
        """See `ports.Catalog`."""
        self._tables.close()

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def rows(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
        state: str | None = None,
        empty: bool | None = None,
    ) -> list[SessionRow]:
        """See `ports.Catalog`."""
        filters, place = RowFilters(archived, agent, sender, cwd, state, empty), _row_position(after)
        rows_max = None if limit is None else max(0, min(limit, _LIMIT_MAX))
        return self._query(lambda tables: [_row_decoder.decode(row) for row in tables.rows(filters, place, rows_max)])

    def count(
        self,
        *,
        after: str | None = None,
        archived: bool | None = False,
        agent: str | None = None,
        sender: str | None = None,
        cwd: str | None = None,
        state: str | None = None,
        empty: bool | None = None,
    ) -> int:
        """See `ports.Catalog`."""
        filters, place = RowFilters(archived, agent, sender, cwd, state, empty), _row_position(after)
        return self._query(lambda tables: tables.count(filters, place))

    def find(self, ref: str) -> list[SessionRow]:
        """See `ports.Catalog`."""
        return self._query(
            lambda tables: [_row_decoder.decode(row) for row in tables.find(storable_text(ref), FIND_MAX)]
        )

    def is_damaged(self, name: str) -> bool:
        """See `ports.Catalog`."""
        return self._query(lambda tables: tables.is_damaged(storable_text(name)))

    def inaccessible(self) -> list[str]:
        """See `ports.Catalog`."""
        return list(self._inaccessible)

    def unsummarised(self) -> dict[str, str]:
        """See `ports.Catalog`."""
        return dict(self._unsummarised)

    def left_out(self) -> list[SessionRow]:
        """See `ports.Catalog`."""
        if not self._left_out:
            return []
        rows = load("wakelog.stores.catalog.rows")
        return [rows.bare_row(self._store, stat) for stat in self._left_out]

    def search(self, query: str, *, limit: int = 50, after: str | None = None) -> list[SearchHit]:
        """See `ports.Catalog`."""
        wanted, mark = parse_query(query), query_checksum(query)
        place = _hit_position(after, mark)
        rows_max, now_ms = min(limit, _LIMIT_MAX), self._now_ms()
        if rows_max <= 0:
            return []
        return list(self._query(lambda tables: tables.search(wanted, now_ms, mark, place, rows_max)))

    def _query(self, question: Callable[[CatalogTables], T]) -> T:
        """Run a query on the tables; if they are damaged, rebuild them and run it again."""
        try:
            return question(self._tables)
        except StoreBusy:
            raise
        except self._tables.failures:
            self._rebuild()
            self.refresh()
            return question(self._tables)

    # ── refresh ──────────────────────────────────────────────────────────────────────────────────

    def refresh(
        self,
        *,
        progress: Callable[[int, int], None] | None = None,
        limit_bytes: int | None = None,
        reread: Sequence[str] = (),
    ) -> None:
        """See `ports.Catalog`."""
        for way_out in (self._rebuild, self._switch_to_memory):
            try:
                return self._refresh(progress, limit_bytes, reread)
            except StoreBusy:
                # The tables are intact, but another process holds their lock. A list must not depend on that process.
                self._switch_to_memory()
            except self._tables.failures:
                way_out()
        return self._refresh(progress, limit_bytes, reread)

    def _refresh(
        self, progress: Callable[[int, int], None] | None, limit_bytes: int | None, reread: Sequence[str]
    ) -> None:
        with self._tables.refreshing():
            work, gone = self._tables.changes(self._store)
            self._left_out = []
            if limit_bytes is not None and work:
                wanted, work = (
                    work,
                    load("wakelog.stores.catalog.refresh_limit").logs_within_limit(self._store, work, limit_bytes),
                )
                self._left_out = [due.stat for name, due in wanted.items() if name not in work]
            self._inaccessible, self._unsummarised = [], {}
            if work or gone or reread:
                indexing: Indexer = load("wakelog.stores.catalog.indexing").Indexer(
                    self._store, self._tables, work, gone
                )
                indexing.reread(reread)
                while indexing.has_work:
                    with self._tables.writing():
                        indexing.run(self._tables.batch_bytes, progress)
                self._inaccessible = sorted(indexing.inaccessible)
                self._unsummarised = dict(sorted(indexing.unsummarised.items()))

    def _rebuild(self) -> None:
        try:
            self._tables.rebuild()
        except StoreBusy:
            self._switch_to_memory()
        except self._tables.failures:
            self._switch_to_memory()

    def _switch_to_memory(self) -> None:
        self._tables.close()
        self._tables = IndexTables(IN_MEMORY)


def _row_position(after: str | None) -> RowPosition | None:
    return None if after is None else decode_cursor(after, RowPosition)


def _hit_position(after: str | None, mark: int) -> HitPosition | None:
    if after is None:
        return None
    place = decode_cursor(after, HitPosition)
    if place.query != mark:
        raise UsageError("this cursor belongs to another query", hint="use the query that returned the cursor")
    return place

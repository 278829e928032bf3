"""Read changed logs into a catalog, through `CatalogTables` and independent of the database.

A log that only grew is read from its bookmark on, any other log from the start. A fork's row depends on its parent's
log too, so forks of a log that was rewritten, added or removed are indexed again with it. Only words that differ from
the stored ones are written: reading an unchanged log again costs no writes.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import msgspec

from wakelog.decoding import build_decoder
from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.entry import (
    Entry,
)
from wakelog.log.timestamps import parse_ms
from wakelog.ports.catalogs import SessionRow
from wakelog.ports.stores import SessionStat, Store
from wakelog.stores.catalog.rows import Bookmark, bare_row
from wakelog.stores.catalog.searchable import searchable_entries
from wakelog.stores.catalog.summary import LogSummarizer, NeedsFullRead, StreamSummarizer
from wakelog.stores.catalog.tables import (
    Batch,
    CatalogTables,
    ChangedLog,
    IndexedLog,
    RowUpdate,
    SearchableEntry,
    SessionChange,
)

# `_LOOKUP_FIRST`, `_LOOKUP_MAX`: sizes of the first and the largest group of logs looked up at once. The other two
# estimate the memory of a row and of an entry, without the text.
_LOOKUP_FIRST = 16
_LOOKUP_MAX = 256
_ROW_BYTES = 1_000
_ENTRY_BYTES = 500
_bookmark_decoder = build_decoder(Bookmark)


class Indexer:
    """One refresh: the logs to read, and the names of the sessions that no longer exist."""

    def __init__(self, store: Store, tables: CatalogTables, work: dict[str, ChangedLog], gone: list[str]) -> None:
        self._store = store
        self._tables = tables
        self._work = work
        self._gone = gone
        self._done: set[str] = set()
        self._outdated: set[str] = set()
        self._batch = Batch()
        self._batch_bytes = 0
        # Sessions whose forks must be indexed again: all forks, or (`_grown`) only forks with damage reports.
        self._changed: list[str] = []
        self._grown: list[str] = []
        self.inaccessible: list[str] = []
        self.unsummarised: dict[str, str] = {}
        """The reason why a log has no summary, by session name."""

    @property
    def has_work(self) -> bool:
        """Whether any work is left."""
        return bool(self._work or self._gone)

    def reread(self, names: Sequence[str]) -> None:
        """Add logs that are to be read from the start, whatever is known of them."""
        for seen in self._tables.seen(names).values() if names else ():
            self._outdated.add(seen.name)
            self._work.setdefault(
                seen.name, ChangedLog(SessionStat(seen.name, seen.size, seen.changed), (seen.size, seen.changed))
            )

    def run(self, budget: int, progress: Callable[[int, int], None] | None) -> None:
        """Index logs of about `budget` bytes. `progress` is called with the number of logs done and the total."""
        self._report_progress(progress)
        for seen in self._tables.seen(self._gone).values():
            self._drop(seen.name, seen)
        self._gone = []
        self._flush()
        while self._work and budget > 0:
            # Small groups first, so that the newest sessions can be shown early.
            names = list(islice(self._work, max(_LOOKUP_FIRST, min(_LOOKUP_MAX, len(self._done)))))
            known = self._tables.seen(names)
            for name in names:
                due = self._work.pop(name)
                self._done.add(name)
                self._index(due, known.get(name))
                budget -= due.stat.size
                self._report_progress(progress)
                if budget <= 0:
                    break
            self._flush()

    def _report_progress(self, progress: Callable[[int, int], None] | None) -> None:
        if progress is not None:
            progress(len(self._done), len(self._done) + len(self._work))

    # ── one log ──────────────────────────────────────────────────────────────────────────────────

    def _index(self, due: ChangedLog, seen: IndexedLog | None) -> None:
        name = due.stat.name
        if seen is not None and seen.is_ahead_of(due) and name not in self._outdated:
            return
        old_id = seen.id if seen else name
        if self._has_grown(due, seen) and self._index_growth(due, seen):
            # Inherited entries are unchanged; only a fork with missing history may now find it.
            self._grown += (old_id, name)
            return
        try:
            new_id = self._index_whole(due, seen)
        except NotFound:
            self._drop(name, seen)
        except NoSummary as error:
            self._keep_bare_row(due, error)
        else:
            self._changed += (old_id, new_id, name)

    def _has_grown(self, due: ChangedLog, seen: IndexedLog | None) -> bool:
        is_known = seen is not None and seen.bookmark is not None and due.stat.size > seen.size >= 0
        return is_known and due.stat.name not in self._outdated

    def _index_growth(self, due: ChangedLog, seen: IndexedLog | None) -> bool:
        """Read a log from its bookmark on; return False if it must be read from the start."""
        assert seen is not None
        assert seen.bookmark is not None
        bookmark = _bookmark_decoder.decode(seen.bookmark)
        reading = _LogReading(LogSummarizer(self._store, due.stat, bookmark), due.stat.name)
        try:
            places = self._take(reading, seen, seen.places)
            if reading.error is None:
                self._keep(due, reading, places)
                return True
        except (NotFound, NeedsFullRead, NoSummary):
            pass
        self._batch.changes.pop(due.stat.name, None)
        return False

    def _index_whole(self, due: ChangedLog, seen: IndexedLog | None) -> str:
        with contextlib.suppress(NeedsFullRead):
            return self._index_from_start(due, seen, LogSummarizer(self._store, due.stat))
        # The log cannot be read in segments: it is damaged, or an entry refers to one that is no longer in memory. The
        # memory of the first `LogSummarizer` has been released by now.
        return self._index_from_start(due, seen, StreamSummarizer(self._store, due.stat))

    def _index_from_start(
        self, due: ChangedLog, seen: IndexedLog | None, summarizer: LogSummarizer | StreamSummarizer
    ) -> str:
        reading = _LogReading(summarizer, due.stat.name)
        try:
            places = self._take(reading, seen, 0)
            return self._keep(due, reading, places)
        except (NotFound, NeedsFullRead, NoSummary):
            self._batch.changes.pop(due.stat.name, None)
            raise

    def _take(self, reading: "_LogReading", seen: IndexedLog | None, start: int) -> int:
        """Collect the words from place `start` on that differ from the stored ones; return the place after the last."""
        name, place, is_same = reading.name, start, True
        known = iter(self._tables.marks(name, seen, start))
        for worded in reading.searchable_entries(start):
            place += 1
            if is_same:
                mark = next(known, None)
                is_same = mark == worded.mark
                if not is_same and mark is not None:
                    self._change(name).cut = worded.place
            if not is_same:
                self._add(name, worded)
        if is_same and next(known, None) is not None:
            self._change(name).cut = place
        return place

    def _add(self, name: str, worded: SearchableEntry) -> None:
        self._change(name).words.append(worded)
        self._batch_bytes += _ENTRY_BYTES + len(worded.text)
        if self._batch_bytes > self._tables.write_bytes:
            self._flush()

    def _keep(self, due: ChangedLog, reading: "_LogReading", places: int) -> str:
        row, mark = reading.summary()
        if reading.error is not None:
            # Stored with size and time -1, so that every refresh reads it: the cause need not change its size or time.
            row, mark = self._unread(row, reading.error), None
            due = ChangedLog(SessionStat(row.name, -1, -1), due.before)
        bookmark = msgspec.json.encode(mark) if mark is not None else None
        self._change(row.name).kept = RowUpdate(due, row, parse_ms(row.updated) or 0, places, bookmark)
        self._batch_bytes += _ROW_BYTES + len(bookmark or b"")
        return row.id

    def _keep_bare_row(self, due: ChangedLog, error: "NoSummary") -> None:
        """Store a minimal row for a log that cannot be summarised, so that other rows are not affected."""
        stat = due.stat
        row = bare_row(self._store, stat)
        self.unsummarised[stat.name] = str(error)
        # Stored with size and time -1, so that every refresh reads it: the cause need not change its size or time.
        kept = RowUpdate(
            ChangedLog(SessionStat(stat.name, -1, -1), due.before), row, parse_ms(row.updated) or 0, 0, None
        )
        self._batch.changes[stat.name] = SessionChange(stat.name, cut=0, kept=kept)
        self._batch_bytes += _ROW_BYTES

    def _unread(self, row: SessionRow, error: WakelogError) -> SessionRow:
        """Return the row of a log that could not be read to its end. Without access it is not reported as damaged."""
        if isinstance(error, NoAccess):
            self.inaccessible.append(row.name)
            known = row if row.entries else bare_row(self._store, SessionStat(row.name, row.size, -1))
            return msgspec.structs.replace(known, state="inaccessible")
        return msgspec.structs.replace(row, damage=row.damage + 1, state="damaged")

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _change(self, name: str) -> SessionChange:
        change = self._batch.changes.get(name)
        if change is None:
            change = self._batch.changes[name] = SessionChange(name)
        return change

    def _drop(self, name: str, seen: IndexedLog | None) -> None:
        if seen is not None:
            self._batch.gone.append(name)
            self._changed += (seen.id, name)

    def _flush(self) -> None:
        """Write the collected batch, and mark the forks affected by it as outdated."""
        batch, self._batch, self._batch_bytes = self._batch, Batch(), 0
        if not batch.gone and not batch.changes:
            return
        forks = {*self._tables.forks(self._changed, damage=0), *self._tables.forks(self._grown, damage=1)}
        self._changed, self._grown = [], []
        batch.outdated = sorted(forks - self._done)
        self.reread(batch.outdated)
        self._tables.write(batch)


class NoSummary(Exception):
    """A log cannot be summarised for a reason other than its content or the catalog tables."""

    def __init__(self, error: Exception) -> None:
        what = "there is not enough memory" if isinstance(error, MemoryError) else str(error)
        super().__init__(what if isinstance(error, MemoryError | WakelogError) else f"{type(error).__name__}: {what}")


class _LogReading:
    """Feed one log to its summarizer, to the end or to the first error, which is kept in `error`."""

    def __init__(self, summarizer: LogSummarizer | StreamSummarizer, name: str) -> None:
        self.summarizer = summarizer
        self.name = name
        self.error: WakelogError | None = None

    def searchable_entries(self, start: int) -> Iterator[SearchableEntry]:
        """Yield the searchable entries that were not indexed before."""
        try:
            yield from searchable_entries(self._entries(), start)
        except (NotFound, NeedsFullRead):
            raise
        except Exception as error:
            raise NoSummary(error) from error

    def _entries(self) -> Iterator[Entry]:
        try:
            yield from self.summarizer.entries()
        except NotFound:
            raise
        except WakelogError as error:
            self.error = error

    def summary(self) -> tuple[SessionRow, Bookmark | None]:
        """See `LogSummarizer.summary` and `StreamSummarizer.summary`."""
        try:
            return self.summarizer.summary()
        except (NotFound, NeedsFullRead):
            raise
        except Exception as error:
            raise NoSummary(error) from error

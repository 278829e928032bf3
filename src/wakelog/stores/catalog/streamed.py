"""Build the row of a log that cannot be read in segments: it is damaged, or refers back to entries read long before.

The log is read twice and not held in memory, see `wakelog.overviews`. A bookmark is returned only if no work is in
progress at the head; otherwise the next refresh reads the whole log again.
"""

from collections.abc import Iterator

from wakelog.log.entry import Compaction, Entry, Session
from wakelog.overviews import OverviewReading, Read
from wakelog.ports import Stat, Store
from wakelog.projections.session_row import SessionRow
from wakelog.projections.state import carried_at
from wakelog.stores.catalog.bookmarks import Bookmark, bookmark_at, digest_of_line, key_of_id
from wakelog.stores.catalog.rows import prompt_of, row_of
from wakelog.stores.catalog.slim import slim_state


class StreamSummarizer:
    """Build the row of one log: consume `entries` to the end, then call `summary`."""

    def __init__(self, store: Store, stat: Stat) -> None:
        self._reading = OverviewReading(store, stat.name, verify=False)
        self._stat = stat
        self._prompt = self._inherited = ""
        self._session: Session | None = None
        self._last: Entry | None = None
        self._known = bytearray()
        self._is_orderly = True

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the log."""
        for entry in self._reading.entries():
            self._take(entry)
            yield entry

    def _take(self, entry: Entry) -> None:
        is_session, value = entry.type == "session", entry.value
        # A log written by wakelog begins with its only session header and has increasing seq numbers.
        is_next = entry.seq > self._last.seq and not is_session if self._last is not None else is_session
        self._is_orderly = self._is_orderly and is_next
        if self._session is None and isinstance(value, Session):
            self._session = value
        self._prompt = self._prompt or prompt_of(value)
        self._known += key_of_id(entry.id)
        self._last = entry

    def _take_inherited(self, node: Entry) -> None:
        self._inherited = self._inherited or prompt_of(node.value)
        self._known += key_of_id(node.id)

    def summary(self) -> tuple[SessionRow, Bookmark | None]:
        """Return the row and the next bookmark, None if the whole log must be read again. May be called only once."""
        damage = len(self._reading.scanning.result().damage)
        read = self._reading.read(damaged=damage > 0, visit_inherited=self._take_inherited)
        updated = self._last.value.timestamp if self._last is not None else ""
        prompt = self._prompt or self._inherited
        row = row_of(
            self._stat, self._session, read.overview, read.session, damage=damage, updated=updated, prompt=prompt
        )
        mark = self._bookmark(read, damage)
        # The bookmark of a long log is large, and so are the outlines, which are not needed any more.
        del self._reading, self._known
        return row, mark

    def _bookmark(self, read: Read, damage: int) -> Bookmark | None:
        last, session, head = self._last, self._session, read.overview.head
        if last is None or session is None or head is None or last.value.seq is None:
            return None
        if not self._is_orderly or not read.is_quiet or self._reading.scanning.is_torn:
            return None
        state = slim_state(carried_at(head, read.here, read.session, read.overview.queue))
        return bookmark_at(
            session,
            Compaction(id=head, seq=last.seq, summary="", state=state),
            (last.offset, digest_of_line(last.raw)),
            updated=last.value.timestamp,
            damage=damage,
            prompt=self._prompt,
            inherited=self._inherited,
            known=bytes(self._known),
        )

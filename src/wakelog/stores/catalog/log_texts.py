"""Texts of indexed entries, read from the log again, for catalogs that do not store them.

A catalog in the database of a store has the logs beside it. It keeps an index of the words and, for each entry, what
is needed to find the entry in its log: the session, the id, the seq, the place and a checksum. A text is needed only
for the excerpt of a hit that is shown, so that it is not stored a second time.
Rule 1: the checksum decides. A row that has another entry, or none, is not used.
Rule 2: rows of damaged logs may have neither id nor seq. Then the log is read from its start to the place.
Rule 3: where the log has no such entry any more, the catalog does not match its log, and must be rebuilt.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from wakelog.log.codec import Undecodable, decode
from wakelog.log.entry import Entry
from wakelog.log.lines import EntryReader, split_lines
from wakelog.stores.catalog.searchable import searchable_entries, searchable_text, text_mark
from wakelog.stores.catalog.tables import CatalogUnusable


class IndexedEntry(msgspec.Struct, frozen=True):
    """An entry as a catalog knows it. `session` is the session's key or name in the catalog."""

    session: int | str
    place: int
    id: str
    seq: int | None
    mark: int


def text_in(rows: Iterable[bytes], entry: IndexedEntry) -> str | None:
    """Return the text of an entry from the first of these rows that has it; None if none of them does."""
    for raw in rows:
        for found in _entries_in(raw):
            words = searchable_text(found.value)
            if words is not None and text_mark(found, words, entry.seq) == entry.mark:
                return words.text
    return None


def _entries_in(raw: bytes) -> list[Entry]:
    """Return the entries of a row: usually one, which is the whole row."""
    try:
        return [Entry(raw, decode(raw.removesuffix(b"\n")), 0)]
    except Undecodable:
        return EntryReader().feed_all(split_lines([raw]))


def text_at(log: Iterable[bytes], entry: IndexedEntry) -> str | None:
    """Return the text of an entry at its place in a log, which is read from its start; None if it is not there."""
    reader = EntryReader()
    entries = (found for line in split_lines(log) for found in reader.feed(line))
    for found in searchable_entries(entries, 0):
        if found.place == entry.place:
            return found.text if found.mark == entry.mark else None
    return None


def texts(
    entries: Iterable[IndexedEntry],
    rows: Callable[[IndexedEntry], Iterable[bytes]],
    log: Callable[[IndexedEntry], Iterable[bytes]],
) -> Iterator[str]:
    """Yield the texts of entries, one at a time. `CatalogUnusable` if the log does not have one of them.

    `rows` returns the rows that may have an entry, by its id or seq, and `log` all rows of its session.
    """
    for entry in entries:
        text = text_in(rows(entry), entry)
        if text is None:
            text = text_at(log(entry), entry)
        if text is None:
            raise CatalogUnusable(f"the catalog does not match the log of {entry.session!r}")
        yield text

"""Transcript rows of a branch of any length, computed stretch by stretch.

`projections.transcript` needs the whole branch in memory. Here the log is read along the branch, and only the entries
of one stretch are held at a time. Entries far behind the node they belong to (a label, the result of a long tool call)
are collected first, in a separate pass; such entries are few.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from wakelog.journals import NO_JOURNALS, JournalTexts
from wakelog.log.entry import Attention, AttentionResolved, Entry
from wakelog.log.id_table import NONE
from wakelog.log.tree import Branch
from wakelog.ports import Store
from wakelog.projections.transcript import Row, RowContext, answers, results_in, stretch_rows
from wakelog.scanning import Scan, path_entries

STRETCH_ENTRIES = 2_048


class _Stretch(msgspec.Struct):
    """Late entries of one stretch of the outline: annotations of its nodes, and the results of its tool calls."""

    annotations: list[Entry] = []
    results: dict[tuple[str, str], Entry] = {}


def branch_rows(
    store: Store,
    scan: Scan,
    path: bytearray,
    journals: JournalTexts = NO_JOURNALS,
    *,
    stretch: int = STRETCH_ENTRIES,
) -> Iterator[Row]:
    """Return the rows of the nodes marked in `path`, without queued messages."""
    stretches = _BranchStretches(scan, path, stretch)
    late = stretches.late(path_entries(store, scan, path)) if len(scan.outline) > stretch else {}
    known = RowContext({}, stretches.is_on_path, unsealed=journals.partials, running=journals.running)
    nodes: list[Entry] = []
    annotations: list[Entry] = []
    current = 0
    for entry in path_entries(store, scan, path):
        place = stretches.stretch_of(entry)
        if place != current:
            yield from stretches.rows(nodes, annotations, late.pop(current, _Stretch()), known)
            nodes, annotations, current = [], [], place
        if entry.is_node:
            nodes.append(entry)
        elif stretches.home_of(entry) == current:
            annotations.append(entry)
    yield from stretches.rows(nodes, annotations, late.pop(current, _Stretch()), known)


class _BranchStretches:
    """Assigns the entries of one branch to stretches of `size` consecutive outline entries."""

    def __init__(self, scan: Scan, path: bytearray, size: int) -> None:
        self._outline, self._path, self._size = scan.outline, path, size
        self._asked: dict[str, int] = {}

    def is_on_path(self, entry_id: str) -> bool:
        """Return whether an id is that of a node of the branch."""
        number = self._outline.number(entry_id)
        return number != NONE and self._outline.is_node(number) and bool(self._path[number])

    def stretch_of(self, entry: Entry) -> int:
        """Return the stretch that an entry is in."""
        return self._outline.number(entry.id) // self._size

    def home_of(self, annotation: Entry) -> int:
        """Return the stretch of the node that an annotation is shown with."""
        about = self._outline.node_of(self._outline.number(annotation.id)) // self._size
        match annotation.value:
            case Attention(reply_id=str() as reply_id) if self.is_on_path(reply_id):
                about = self._asked[annotation.id] = self._outline.number(reply_id) // self._size
            case AttentionResolved(attention_id=asked):
                about = self._asked.get(asked, about)
        return about

    def late(self, entries: Iterator[Entry]) -> dict[int, _Stretch]:
        """Return the entries that belong to a stretch but follow after it, by that stretch."""
        found: defaultdict[int, _Stretch] = defaultdict(_Stretch)
        for (reply_id, call_id), result in answers(self._nodes_of(entries, found)):
            if self.is_on_path(reply_id):
                home = self._outline.number(reply_id) // self._size
                if home < self.stretch_of(result):
                    found[home].results.setdefault((reply_id, call_id), result)
        return dict(found)

    def _nodes_of(self, entries: Iterator[Entry], found: dict[int, _Stretch]) -> Iterator[Entry]:
        """Yield the nodes, and collect the annotations that come late."""
        for entry in entries:
            if entry.is_node:
                yield entry
            elif (home := self.home_of(entry)) < self.stretch_of(entry):
                found[home].annotations.append(entry)

    def rows(
        self, nodes: Sequence[Entry], annotations: Sequence[Entry], late: _Stretch, known: RowContext
    ) -> Iterator[Row]:
        """Return the rows of one stretch."""
        said = (*annotations, *late.annotations)
        inherited = tuple(
            annotation for annotation in said if self._outline.number(annotation.id) < self._outline.inherited
        )
        own = tuple(annotation for annotation in said if self._outline.number(annotation.id) >= self._outline.inherited)
        known.results = late.results | results_in(nodes)
        return stretch_rows(Branch(tuple(nodes), annotations=own, inherited_annotations=inherited), known)

"""Overview of a session of any size: its log is read twice, and only an outline and open work are held in memory.

The first pass builds the outline and the session-wide state. The head is then known, and the second pass folds over the
branch that ends there. `projections.overview` computes the same from a tree (`tests/laws/test_overviews.py`).
"""

from array import array
from collections.abc import Iterator

import msgspec

from wakelog.log.entry import Entry, Session
from wakelog.log.id_table import NONE
from wakelog.log.outline import Outline
from wakelog.ports import Store
from wakelog.projections.overview import Overview, Work, overview_of
from wakelog.projections.overview_fold import BranchFold, FirstFold, SessionFold
from wakelog.projections.queue import with_requests
from wakelog.projections.state import BranchState, SessionState
from wakelog.scanning import Scan, Scanning, Visit, inherited_entries, own_entries
from wakelog.sorting import Key, in_order


def read_overview(store: Store, session: str) -> Overview:
    """Return the overview of the whole log, with every seal verified."""
    return scan_with_overview(store, session)[1]


def scan_with_overview(store: Store, session: str) -> tuple[Scan, Overview]:
    """Return the scan of a log and its overview, from the same two passes."""
    reading = OverviewReading(store, session)
    for _ in reading.entries():
        pass
    scan = reading.scanning.checked()
    return scan, reading.read(damaged=bool(scan.damage)).overview


class Read(msgspec.Struct, frozen=True):
    """Result of both passes. `is_quiet`: no work is open at the head, and the head is one of the session's own nodes.

    In `here` the queue holds requests only, and failed deliveries are left out.
    """

    overview: Overview
    session: SessionState
    here: BranchState
    is_quiet: bool


class OverviewReading:
    """Computes an overview: iterate over `entries()` to the end, then call `read()`."""

    def __init__(self, store: Store, session: str, *, verify: bool = True) -> None:
        self.scanning = Scanning(store, session, verify=verify, verify_inherited=verify)
        self._store = store
        self._first = FirstFold()

    def entries(self) -> Iterator[Entry]:
        """Yield every entry of the session itself, repetitions included: the first pass."""
        outline = self.scanning.found.outline
        for entry in self.scanning.entries():
            number = outline.number_of(entry)
            if number is not None and number >= outline.inherited:
                self._first.add(entry, is_placed=outline.node_of(number) != NONE)
            yield entry

    def read(self, *, damaged: bool, visit_inherited: Visit | None = None) -> Read:
        """Make the second pass; return the result of both. `visit_inherited` gets the nodes that a fork inherited."""
        scan = self.scanning.result()
        session = self._session_state(scan)
        branch = self._branch(scan, visit_inherited)
        here = branch.result()
        view = overview_of(
            self._first.card or Session(),
            scan.outline.last_seq + 1,
            branch.talk.head,
            session,
            here,
            Work(branch.talk.open_calls, branch.is_cut, with_requests(self._first.queue.waiting(), here.queue)),
            damaged=damaged,
        )
        return Read(view, session, here, branch.is_quiet)

    def _session_state(self, scan: Scan) -> SessionState:
        if self._first.is_ordered:
            return self._first.session.result()
        fold, first_annotations = SessionFold(), _first_annotations(scan.outline)
        for entry in in_order(self._by_seq(scan, first_annotations)):
            fold.add(entry)
        return fold.result()

    def _by_seq(self, scan: Scan, first_annotations: "array[int]") -> Iterator[tuple[Key, Entry]]:
        """Yield all entries that belong to a node, with keys that sort them as `Tree.own` does."""
        outline = scan.outline
        for number, entry in own_entries(self._store, scan):
            node = outline.node_of(number)
            if entry.is_node:
                yield (entry.seq, 0, 0, number), entry
            elif node != NONE:
                yield (entry.seq, 1, first_annotations[node], number), entry

    def _branch(self, scan: Scan, visit_inherited: Visit | None) -> BranchFold:
        outline, fold = scan.outline, BranchFold(scan.outline, scan.outline.head, is_ordered=self._first.is_ordered)
        for node in inherited_entries(self._store, scan):
            number = outline.number(node.id)
            if fold.path[number]:
                fold.add(number, node)
            if visit_inherited is not None:
                visit_inherited(node)
        for number, entry in own_entries(self._store, scan):
            if fold.is_on_path(number):
                fold.add(number, entry)
        if not self._first.is_ordered:
            for entry in in_order(self._open_work(scan, fold)):
                fold.add_open(entry)
        return fold

    def _open_work(self, scan: Scan, fold: BranchFold) -> Iterator[tuple[Key, Entry]]:
        """Yield the entries of the branch that may be open work, with keys that sort them as `branch_state` does."""
        outline = scan.outline
        for number, entry in own_entries(self._store, scan):
            if fold.is_on_path(number) and fold.is_open_work(number, entry):
                yield (entry.seq, int(not entry.is_node), outline.node_of(number), number), entry


def _first_annotations(outline: Outline) -> "array[int]":
    """Return for each node the number of its first annotation; a tree holds annotations by node in that order."""
    first = array("i", [NONE]) * len(outline)
    for number in range(len(outline)):
        node = outline.node_of(number)
        if node not in (number, NONE) and first[node] == NONE:
            first[node] = number
    return first

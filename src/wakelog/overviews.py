"""The overview of a session of any size: its log is read twice, and nothing is held but an outline and what is open.

The first reading makes the outline and finds what holds for the whole session. Then the head is known, and the second
reading folds the branch that ends there. `views.overview` gives the same from a tree (`tests/laws/test_overviews.py`).
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
    """What `overview` says of the whole log, with every seal verified."""
    return scan_with_overview(store, session)[1]


def scan_with_overview(store: Store, session: str) -> tuple[Scan, Overview]:
    """The scan of a log and its overview, from the same two readings."""
    reading = OverviewReading(store, session)
    for _ in reading.entries():
        pass
    scan = reading.scanning.checked()
    return scan, reading.read(damaged=bool(scan.damage)).overview


class Read(msgspec.Struct, frozen=True):
    """What came of both readings. `is_quiet`: nothing is under way at the head, which is a node of the session's own.

    In `here` the queue holds requests only, and failures to send are left out.
    """

    overview: Overview
    session: SessionState
    here: BranchState
    is_quiet: bool


class OverviewReading:
    """A log on its way to its overview: take the entries to the end, then ask."""

    def __init__(self, store: Store, session: str, *, verify: bool = True) -> None:
        self.scanning = Scanning(store, session, verify=verify, verify_inherited=verify)
        self._store = store
        self._first = FirstFold()

    def entries(self) -> Iterator[Entry]:
        """The first reading: every entry of the session itself, repetitions too."""
        outline = self.scanning.found.outline
        for entry in self.scanning.entries():
            number = outline.number_of(entry)
            if number is not None and number >= outline.inherited:
                self._first.add(entry, is_placed=outline.node_of(number) != NONE)
            yield entry

    def read(self, *, damaged: bool, visit_inherited: Visit | None = None) -> Read:
        """The second reading, and what came of both. `visit_inherited` gets the nodes that a fork inherited."""
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
        """All entries that hang on a node, with their places in `Tree.own`."""
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
        """The entries of the branch that can be open work, with their places in `branch_state`."""
        outline = scan.outline
        for number, entry in own_entries(self._store, scan):
            if fold.is_on_path(number) and fold.is_open_work(number, entry):
                yield (entry.seq, int(not entry.is_node), outline.node_of(number), number), entry


def _first_annotations(outline: Outline) -> "array[int]":
    """For each node the number of its first annotation: a tree holds the annotations of its nodes in that order."""
    first = array("i", [NONE]) * len(outline)
    for number in range(len(outline)):
        node = outline.node_of(number)
        if node not in (number, NONE) and first[node] == NONE:
            first[node] = number
    return first

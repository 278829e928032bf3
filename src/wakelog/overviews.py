"""Overview of a session of any size: the log is read twice, and only an outline and open work are held in memory.

The first pass builds the outline and the session-wide state. The head is then known, and the second pass folds over the
branch that ends there. `projections.overview` computes the same from a tree (`tests/laws/test_overviews.py`). Entries
that are not in the order of their numbers are sorted in runs in an unnamed temporary file.
"""

import heapq
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, TypeAlias

import msgspec

from wakelog.log.codec import Undecodable, decode
from wakelog.log.entry import Body, Entry
from wakelog.log.ids import NO_NUMBER
from wakelog.log.outline import Outline
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import BranchState
from wakelog.projections.overview import HeadWork, Overview, build_overview
from wakelog.projections.overview_stream import BranchStateBuilder, FirstPass, SessionStateBuilder
from wakelog.projections.queue import with_requests
from wakelog.projections.session_state import SessionState
from wakelog.scanning import Scan, Scanning, Visit, inherited_entries, own_entries


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


class OverviewResult(msgspec.Struct, frozen=True):
    """Result of both passes. `is_quiet`: no work is open at the head, and the head is one of the session's own nodes.

    In `here` the queue holds requests only.
    """

    overview: Overview
    session: SessionState
    here: BranchState
    is_quiet: bool


SortKey: TypeAlias = tuple[int, ...]


class OverviewReading:
    """Computes an overview: iterate over `entries()` to the end, then call `read()`."""

    def __init__(self, store: Store, session: str, *, verify: bool = True) -> None:
        self.scanning = Scanning(store, session, verify=verify, verify_inherited=verify)
        self._store = store
        self._first = FirstPass()

    def entries(self) -> Iterator[Entry]:
        """Yield every entry of the session itself, repetitions included: the first pass."""
        outline = self.scanning.found.outline
        for entry in self.scanning.entries():
            number = outline.number_of(entry)
            if number is not None and number >= outline.inherited:
                self._first.add(entry, is_placed=outline.node_of(number) != NO_NUMBER)
            yield entry

    def read(self, *, damaged: bool, visit_inherited: Visit | None = None) -> OverviewResult:
        """Make the second pass; return the result of both. `visit_inherited` gets the nodes that a fork inherited."""
        scan = self.scanning.result()
        session = self._session_state(scan)
        branch = self._branch(scan, visit_inherited)
        here = branch.result()
        view = build_overview(
            scan.header,
            scan.outline.last_seq + 1,
            branch.conversation.head,
            session,
            here,
            HeadWork(
                branch.conversation.open_tool_calls,
                branch.conversation.open_in_last_reply,
                branch.interrupted,
                with_requests(self._first.queue.waiting(), here.queue),
            ),
            damaged=damaged,
        )
        return OverviewResult(view, session, here, branch.is_idle)

    def _session_state(self, scan: Scan) -> SessionState:
        if self._first.is_ordered:
            return self._first.session.result()
        builder, first_annotations = SessionStateBuilder(), _first_annotations(scan.outline)
        for entry in sort_entries(self._by_seq(scan, first_annotations)):
            builder.add(entry)
        return builder.result()

    def _by_seq(self, scan: Scan, first_annotations: "array[int]") -> Iterator[tuple[SortKey, Entry]]:
        """Yield all entries that belong to a node, with keys that sort them as `Tree.own` does."""
        outline = scan.outline
        for number, entry in own_entries(self._store, scan):
            node = outline.node_of(number)
            if entry.is_node:
                yield (entry.seq, 0, 0, number), entry
            elif node != NO_NUMBER:
                yield (entry.seq, 1, first_annotations[node], number), entry

    def _branch(self, scan: Scan, visit_inherited: Visit | None) -> BranchStateBuilder:
        outline, builder = (
            scan.outline,
            BranchStateBuilder(scan.outline, scan.outline.head, is_ordered=self._first.is_ordered),
        )
        for node in inherited_entries(self._store, scan):
            number = outline.number(node.id)
            if builder.path[number]:
                builder.add(number, node)
            if visit_inherited is not None:
                visit_inherited(node)
        for number, entry in own_entries(self._store, scan):
            if builder.is_on_path(number):
                builder.add(number, entry)
        if not self._first.is_ordered:
            for entry in sort_entries(self._open_work(scan, builder)):
                builder.add_open(entry)
        return builder

    def _open_work(self, scan: Scan, builder: BranchStateBuilder) -> Iterator[tuple[SortKey, Entry]]:
        """Yield the entries of the branch that may be open work, with keys that sort them as `branch_state` does."""
        outline = scan.outline
        for number, entry in own_entries(self._store, scan):
            if builder.is_on_path(number) and builder.is_open_work(number, entry):
                yield (entry.seq, int(not entry.is_node), outline.node_of(number), number), entry


def _first_annotations(outline: Outline) -> "array[int]":
    """Return for each node the number of its first annotation; a tree holds annotations by node in that order."""
    first = array("i", [NO_NUMBER]) * len(outline)
    for number in range(len(outline)):
        node = outline.node_of(number)
        if node not in (number, NO_NUMBER) and first[node] == NO_NUMBER:
            first[node] = number
    return first


RUN_ENTRIES = 1_000
RUN_BYTES = 2 * 1024 * 1024
"""A run that is sorted in memory has at most `RUN_ENTRIES` entries and ends when its lines reach `RUN_BYTES`."""


class _StoredEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry in the file, without its value, which is decoded from the bytes again."""

    key: SortKey
    raw: bytes
    seq: int
    offset: int
    line: int


_encode_stored = msgspec.msgpack.Encoder().encode
_decode_stored = msgspec.msgpack.Decoder(_StoredEntry).decode


def sort_entries(entries: Iterable[tuple[SortKey, Entry]]) -> Iterator[Entry]:
    """Yield the entries in the order of their keys, which must be distinct. At most one run is in memory."""
    entries = iter(entries)
    with tempfile.TemporaryFile() as file:
        runs: list[tuple[int, int]] = []
        while run := _next_run(entries):
            runs.append(_write_run(file, run))
        for kept in heapq.merge(*(_read_run(file, start, end) for start, end in runs), key=lambda kept: kept.key):
            yield Entry(kept.raw, _decode_body(kept.raw), kept.seq, kept.offset, kept.line)


def _next_run(entries: Iterator[tuple[SortKey, Entry]]) -> list[tuple[SortKey, Entry]]:
    run, size = [], 0
    for keyed in islice(entries, RUN_ENTRIES):
        run.append(keyed)
        size += len(keyed[1].raw)
        if size >= RUN_BYTES:
            break
    return sorted(run, key=_sort_key)


def _sort_key(keyed: tuple[SortKey, Entry]) -> SortKey:
    return keyed[0]


def _write_run(file: IO[bytes], run: list[tuple[SortKey, Entry]]) -> tuple[int, int]:
    start = file.tell()
    for key, entry in run:
        kept = _encode_stored(_StoredEntry(key, entry.raw, entry.seq, entry.offset, entry.line))
        file.write(len(kept).to_bytes(8, "little") + kept)
    return start, file.tell()


def _read_run(file: IO[bytes], at: int, end: int) -> Iterator[_StoredEntry]:
    while at < end:
        file.seek(at)
        size = int.from_bytes(file.read(8), "little")
        yield _decode_stored(file.read(size))
        at += 8 + size


def _decode_body(raw: bytes) -> Body:
    try:
        return decode(raw)
    except Undecodable as error:
        # A line whose body cannot be decoded is still an entry if its envelope can.
        if error.envelope is None:
            raise
        return error.envelope

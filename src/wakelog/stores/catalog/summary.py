"""Summarise a log: build its row, and the bookmark from which the next refresh continues.

A bookmark holds a compaction of its own, made as if the log had been compacted there: a log that only grew is read from
that node on, whatever its length and whether or not it was ever compacted. Reading from a bookmark is used only where
it gives the same result as reading the whole log; any other case raises `NeedsFullRead`, and the log is read whole.
A long log is read in segments in the same way: after each segment a bookmark in memory replaces the entries read, so
that memory does not grow with the log. Where that is not possible (the log is damaged, or refers back to entries read
long before), `NeedsFullRead` is raised too, and `StreamSummarizer` builds the row: it reads the log twice and does not
hold it in memory, see `wakelog.overviews`. It returns a bookmark only if no work is in progress at the head; otherwise
the next refresh reads the whole log again.
"""

from collections.abc import Iterator
from itertools import pairwise

from wakelog.errors import NotFound, WakelogError
from wakelog.log.entry import Attention, Body, Compaction, DamageNote, Entry, Head, Origin, Queued, SessionHeader
from wakelog.log.ids import IdTable
from wakelog.log.lines import EntryReader, Line
from wakelog.log.recovered_header import HeaderRecovery
from wakelog.log.seal import find_seal
from wakelog.log.tree import Branch, Tree, subject_id
from wakelog.overviews import OverviewReading, OverviewResult
from wakelog.ports.catalogs import SessionRow
from wakelog.ports.stores import SessionStat, Store
from wakelog.projections.overview import overview
from wakelog.projections.session_state import carried_state_of, session_state
from wakelog.reading import ANCESTORS_MAX
from wakelog.stores.catalog.rows import (
    Bookmark,
    first_preview,
    hash_id,
    hash_ids,
    line_digest,
    lossless_compaction,
    make_bookmark,
    make_row,
    strip_state,
    strip_text,
    tree_from_bookmark,
)

SEGMENT_ENTRIES = 4_000
"""Number of entries held in memory before a bookmark in memory replaces them."""
_SEGMENTS_MAX = 4
"""Maximum number of segments held while no bookmark can replace them, because of damage or work in progress."""


class NeedsFullRead(Exception):
    """The log is not a plain continuation of what was indexed, or cannot be read in segments."""


class LogSummarizer:
    """Build the row of one log: feed it the lines, all or from a bookmark on, then call `summary`."""

    def __init__(
        self,
        store: Store,
        stat: SessionStat,
        bookmark: Bookmark | None = None,
        *,
        segment: int = SEGMENT_ENTRIES,
        children: tuple[str, ...] = (),
    ) -> None:
        self._store = store
        self._children = children
        self._parent: Branch | None = None
        self._stat = stat
        self._bookmark = bookmark
        # The bookmark that replaces the entries no longer held: the stored one, or a later one in memory.
        self._mark = bookmark
        self._segment = segment
        self._full = segment
        self._reader = EntryReader(next_seq=bookmark.after + 1 if bookmark else 0)
        self._entries: list[Entry] = []
        self._prompt = bookmark.prompt if bookmark else ""
        self._inherited = bookmark.inherited if bookmark else ""
        self._place = (bookmark.offset, bookmark.digest) if bookmark else (-1, b"")
        self._found_bookmark = bookmark is None
        self._passed = IdTable()
        self._fresh: set[str] = set()

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the log that were not indexed before."""
        after = self._bookmark.after if self._bookmark is not None else -1
        for line in self._store.load(self._stat.name, after=after):
            yield from self.feed(line)

    def feed(self, line: Line) -> list[Entry]:
        """Process a line; return its entries that were not indexed before."""
        entries = self._take(line)
        if len(self._entries) >= self._full:
            self._condense(self._full)
        return entries

    def feed_until(self, line: Line, last: str) -> list[Entry]:
        """Like `feed`, but keep the entries in memory once the entry `last` was read."""
        entries = self._take(line)
        is_last = any(entry.id == last for entry in entries)
        if not is_last and len(self._entries) >= self._full:
            self._condense(self._full)
        return entries

    @property
    def first_prompt(self) -> str:
        """The first prompt of the session, or of the session it was forked from."""
        return self._prompt or self._inherited

    def _take(self, line: Line) -> list[Entry]:
        entries = self._reader.feed(line)
        self._entries += map(strip_text, entries)
        if self._bookmark is not None and line.offset <= self._bookmark.offset:
            self._found_bookmark = self._found_bookmark or (line.offset, line_digest(line.raw)) == self._place
            return []
        if entries:
            self._place = (line.offset, line_digest(line.raw))
        for entry in entries:
            self._prompt = first_preview(self._prompt, entry.value)
        return entries

    def summary(self) -> tuple[SessionRow, Bookmark | None]:
        """Return the row and the next bookmark, None if the whole log must be read again."""
        tree, damage, compaction = self._build_tree()
        row = self._row(tree, damage)
        return row, self._next_bookmark(tree, compaction, damage)

    def _build_tree(self) -> tuple[Tree, int, Compaction | None]:
        """Return the tree of the entries read, the number of damage reports, and the latest lossless compaction."""
        mark = self._mark
        if mark is None:
            tree, damage = self._whole_tree()
            return tree, damage, lossless_compaction(tree, self._entries, self._new_tree)
        tree = self._tree_from(mark)
        return (
            tree,
            mark.damage,
            lossless_compaction(tree, self._entries[1:], lambda: tree_from_bookmark(mark)) or mark.fold,
        )

    # ── segments ─────────────────────────────────────────────────────────────────────────────────

    def _condense(self, full: int) -> None:
        """Replace the entries so far by a bookmark in memory; if none can be made, retry after the next segment.

        Raises `NeedsFullRead` after `_SEGMENTS_MAX` segments without a bookmark.
        """
        self._full = full + self._segment
        mark, tree = self._mark_in_memory()
        if mark is None:
            if full >= _SEGMENTS_MAX * self._segment:
                raise NeedsFullRead
            return
        known = (name for name in tree.nodes if tree.is_inherited(name)) if self._mark is None else ()
        self._passed.add_ids((*known, *(entry.id for entry in self._since_mark())))
        self._entries = [entry for entry in self._entries if entry.seq >= (mark.fold.seq or 0)]
        self._mark, self._full = mark, len(self._entries) + self._segment

    def _mark_in_memory(self) -> tuple[Bookmark | None, Tree]:
        """Return a bookmark later than the last one, None if there is none, and the tree it was made from."""
        if self._reader.damage:
            return None, Tree()
        tree, damage, fold = self._build_tree()
        mark = self._next_bookmark(tree, fold, damage) if not damage else None
        is_later = mark is not None and (self._mark is None or mark.fold.seq != self._mark.fold.seq)
        return mark if is_later else None, tree

    def _since_mark(self) -> list[Entry]:
        """Return the entries that no bookmark replaces yet."""
        offset = self._mark.offset if self._mark is not None else -1
        return [entry for entry in self._entries if entry.offset > offset]

    # ── the whole log ────────────────────────────────────────────────────────────────────────────

    def _whole_tree(self) -> tuple[Tree, int]:
        """Return the tree of the whole log and the number of damage reports."""
        tree = self._new_tree()
        for entry in self._entries:
            if tree.partial and not self._is_placed(tree, entry):
                raise NeedsFullRead
            tree.add(entry)
        tree.mark_unreadable(self._reader.damage)
        return tree, len(self._reader.damage) + len(tree.damage)

    def _new_tree(self) -> Tree:
        """Return a new tree: empty, or with the inherited branch if the session is a fork."""
        tree = Tree()
        first = self._entries[0].value if self._entries else None
        if isinstance(first, SessionHeader) and first.parent is not None and first.parent.kind == "fork":
            tree.inherit(self._condensed_parent(first.parent, (*self._children, first.id), self._segment))
            tree.partial = True
        return tree

    def _condensed_parent(self, origin: Origin, children: tuple[str, ...], segment: int) -> Branch:
        """Return the inherited branch of a fork, condensed by a compaction; raise `NeedsFullRead` if that fails."""
        if self._parent is None:
            try:
                self._parent, self._inherited = condensed_branch(self._store, origin, children, segment)
            except WakelogError as error:
                raise NeedsFullRead from error
        return self._parent

    @staticmethod
    def _is_placed(tree: Tree, entry: Entry) -> bool:
        """Whether the entries that a fork's entry refers to are in the part of the history that is held."""
        named = (entry.value.parent_id, *_referenced_ids(entry.value))
        is_held = all(name is not None and _is_in_tree(tree, name) for name in named)
        return entry.seq == 0 or (is_held and not _keeps_from_header(tree, entry.value))

    def branch_at(self, origin: Origin, rest: Iterator[Line]) -> Branch:
        """Return the branch that ends at the entry fed last, with later annotations of its nodes from `rest`."""
        tree, damage, _ = self._build_tree()
        path = {node.id for node in tree.branch(origin.entry).nodes}
        if damage or (self._mark is not None and self._mark.fold.id not in path):
            raise NeedsFullRead
        for line in rest:
            for entry in self._reader.feed(line):
                self._add_if_about(tree, path, entry)
        branch = tree.branch(origin.entry)
        if self._reader.damage or branch.holes:
            raise NeedsFullRead
        return branch

    def _add_if_about(self, tree: Tree, path: set[str], entry: Entry) -> None:
        """Add a later annotation of a node on the path; raise `NeedsFullRead` if its node is no longer held."""
        names = [name for name in (subject_id(entry.value), entry.value.parent_id) if name is not None]
        if entry.is_node or not names:
            return
        nodes = [tree.find(name) for name in names if _is_in_tree(tree, name)]
        if nodes and nodes[0] in path and nodes[0] != tree.root:
            is_folded = self._mark is not None and nodes[0] == self._mark.fold.id
            if is_folded:
                raise NeedsFullRead
            tree.add(strip_text(entry))
        elif not nodes and any(map(self._knows, names)):
            raise NeedsFullRead

    # ── from a bookmark ──────────────────────────────────────────────────────────────────────────

    def _tree_from(self, mark: Bookmark) -> Tree:
        """Return the tree of a log that plainly continues from its bookmark, or raise `NeedsFullRead`."""
        seqs = [entry.value.seq for entry in self._entries]
        if (
            not self._found_bookmark
            or self._reader.damage
            or seqs != list(range(mark.after + 1, mark.after + 1 + len(seqs)))
        ):
            raise NeedsFullRead
        tree = tree_from_bookmark(mark)
        self._fresh.clear()
        for entry in self._entries[1:]:
            self._check_plain(mark, tree, entry)
            tree.add(entry)
        if all(node.id != mark.fold.id for node in tree.branch().nodes):
            raise NeedsFullRead
        return tree

    def _check_plain(self, mark: Bookmark, tree: Tree, entry: Entry) -> None:
        """Raise `NeedsFullRead` for an entry that refers to an entry before the compaction, or would be damage."""
        parent = entry.value.parent_id
        is_plain = parent is not None and self._knows(parent)
        if entry.offset > mark.offset:
            is_plain = is_plain and not self._knows(entry.id)
            self._fresh.add(entry.id)
        if isinstance(entry.value, DamageNote):
            is_plain = is_plain and mark.damage == 0
        is_plain = is_plain and not _keeps_from_header(tree, entry.value)
        if not is_plain or not all(_is_in_tree(tree, name) for name in _referenced_ids(entry.value)):
            raise NeedsFullRead

    def _knows(self, name: str) -> bool:
        if name in self._fresh or name in self._passed:
            return True
        return self._bookmark is not None and self._bookmark.has_entry(name)

    # ── the result ───────────────────────────────────────────────────────────────────────────────

    def _row(self, tree: Tree, damage: int) -> SessionRow:
        view, whole = overview(tree, damaged=damage > 0), session_state(tree)
        # A fork without a prompt of its own shows the first prompt that it inherited.
        prompt = self._prompt or self._inherited
        header = self._session() or HeaderRecovery(self._entries).header(self._stat.name)
        return make_row(self._stat, header, view, whole, damage=damage, updated=self._updated(), prompt=prompt)

    def _session(self) -> SessionHeader | None:
        if self._mark is not None:
            return self._mark.session
        return next((entry.value for entry in self._entries if isinstance(entry.value, SessionHeader)), None)

    def _updated(self) -> str:
        if self._entries:
            return self._entries[-1].value.timestamp
        return self._mark.updated if self._mark else ""

    def _next_bookmark(self, tree: Tree, compaction: Compaction | None, damage: int) -> Bookmark | None:
        session = self._session()
        if compaction is None or session is None or self._reader.torn is not None or not self._is_orderly():
            return None
        known = self._mark.known if self._mark else hash_ids(node for node in tree.nodes if tree.is_inherited(node))
        return make_bookmark(
            session,
            compaction,
            self._place,
            updated=self._updated(),
            damage=damage,
            prompt=self._prompt,
            inherited=self._inherited,
            known=known + hash_ids(entry.id for entry in self._since_mark()),
        )

    def _is_orderly(self) -> bool:
        """Whether the log begins with its only session header and has increasing seq numbers."""
        if self._mark is not None:
            return True
        sessions = [at for at, entry in enumerate(self._entries) if entry.type == "session"]
        return sessions == [0] and all(before.seq < after.seq for before, after in pairwise(self._entries))


def condensed_branch(store: Store, origin: Origin, children: tuple[str, ...], segment: int) -> tuple[Branch, str]:
    """Return the branch of the parent session of a fork, read in segments, and the first prompt before it.

    Raises `NeedsFullRead` if the log must be read as a whole: it is damaged or changed, or refers back to old entries.
    """
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise NeedsFullRead
    name = store.name(origin.session)
    summarizer, lines = (
        LogSummarizer(store, SessionStat(name, 0, 0), segment=segment, children=children),
        iter(store.load(name)),
    )
    for line in lines:
        found = next((entry for entry in summarizer.feed_until(line, origin.entry) if entry.id == origin.entry), None)
        if found is None:
            continue
        if not found.is_node or (origin.h is not None and find_seal(found.raw) != origin.h):
            raise NeedsFullRead
        return summarizer.branch_at(origin, lines), summarizer.first_prompt
    raise NeedsFullRead


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────


def _keeps_from_header(tree: Tree, value: Body) -> bool:
    """Whether a compaction keeps all entries behind a session header. The header is always held, they may not be."""
    kept = value.first_kept_entry_id if isinstance(value, Compaction) else None
    return kept in tree.nodes and isinstance(tree.nodes[kept].value, SessionHeader)


def _referenced_ids(value: Body) -> list[str]:
    """Return the ids of the entries that must have been read to know this entry's effect on the head branch."""
    match value:
        case Head(target_id=target):
            return [target]
        case Compaction(state=state, first_kept_entry_id=kept):
            return [name for name in (kept, state.head if state else None) if name is not None]
        case Queued(parent_id=str() as node) | Attention(parent_id=str() as node):
            return [node]
    return []


def _is_in_tree(tree: Tree, name: str) -> bool:
    try:
        tree.find(name)
    except NotFound:
        return False
    return True


class StreamSummarizer:
    """Build the row of one log: consume `entries` to the end, then call `summary`."""

    def __init__(self, store: Store, stat: SessionStat) -> None:
        self._reading = OverviewReading(store, stat.name, verify=False)
        self._stat = stat
        self._prompt = self._inherited = ""
        self._session: SessionHeader | None = None
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
        if self._session is None and isinstance(value, SessionHeader):
            self._session = value
        self._prompt = first_preview(self._prompt, value)
        self._known += hash_id(entry.id)
        self._last = entry

    def _take_inherited(self, node: Entry) -> None:
        self._inherited = first_preview(self._inherited, node.value)
        self._known += hash_id(node.id)

    def summary(self) -> tuple[SessionRow, Bookmark | None]:
        """Return the row and the next bookmark, None if the whole log must be read again. May be called only once."""
        scan = self._reading.scanning.result()
        damage = len(scan.damage)
        read = self._reading.read(damaged=damage > 0, visit_inherited=self._take_inherited)
        updated = self._last.value.timestamp if self._last is not None else ""
        prompt = self._prompt or self._inherited
        row = make_row(
            self._stat, scan.header, read.overview, read.session, damage=damage, updated=updated, prompt=prompt
        )
        mark = self._bookmark(read, damage)
        # The bookmark of a long log is large, and so are the outlines, which are not needed any more.
        del self._reading, self._known
        return row, mark

    def _bookmark(self, read: OverviewResult, damage: int) -> Bookmark | None:
        last, session, head = self._last, self._session, read.overview.head
        if last is None or session is None or head is None or last.value.seq is None:
            return None
        if not self._is_orderly or not read.is_quiet or self._reading.scanning.is_torn:
            return None
        state = strip_state(carried_state_of(head, read.here, read.session, read.overview.queue))
        return make_bookmark(
            session,
            Compaction(id=head, seq=last.seq, summary="", state=state),
            (last.offset, line_digest(last.raw)),
            updated=last.value.timestamp,
            damage=damage,
            prompt=self._prompt,
            inherited=self._inherited,
            known=bytes(self._known),
        )

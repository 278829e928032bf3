"""Build the index row of a log from its lines, and the bookmark from which the next refresh continues.

A bookmark holds a compaction of its own, made as if the log had been compacted there: a log that only grew is read from
that node on, whatever its length and whether or not it was ever compacted. Reading from a bookmark is used only where
it gives the same result as reading the whole log; any other case raises `Rewritten`, and the log is read whole.

A long log is read in segments in the same way: after each segment a bookmark in memory replaces the entries read, so
that memory does not grow with the log. Where that is not possible, `Rewritten` is raised too, and `streamed.py` builds
the row.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise

from wakelog.errors import NotFound, WakelogError
from wakelog.log.entry import (
    Attention,
    Body,
    Call,
    Compaction,
    DamageNote,
    Entry,
    Head,
    Origin,
    Queued,
    Session,
)
from wakelog.log.id_table import IdTable
from wakelog.log.lines import Line, Reader
from wakelog.log.seal import seal_of
from wakelog.log.tree import Branch, Tree, subject
from wakelog.ports import Stat, Store
from wakelog.projections.overview import overview
from wakelog.projections.pending import open_calls
from wakelog.projections.session_row import SessionRow
from wakelog.projections.state import carried_state, session_state
from wakelog.reading import ANCESTORS_MAX
from wakelog.stores.catalog.bookmarks import Bookmark, bookmark_at, digest_of_line, keys_of
from wakelog.stores.catalog.rows import prompt_of, row_of
from wakelog.stores.catalog.slim import slim, slim_state

SEGMENT_ENTRIES = 4_000
"""Number of entries held in memory before a bookmark in memory replaces them."""
_SEGMENTS_MAX = 4
"""Maximum number of segments held while no bookmark can replace them, because of damage or work in progress."""


class Rewritten(Exception):
    """The log is not a plain continuation of what was indexed, or cannot be read in segments."""


class LogSummarizer:
    """Build the row of one log: feed it the lines, all or from a bookmark on, then call `summary`."""

    def __init__(
        self,
        store: Store,
        stat: Stat,
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
        self._reader = Reader(next_seq=bookmark.after + 1 if bookmark else 0)
        self._entries: list[Entry] = []
        self._prompt = bookmark.prompt if bookmark else ""
        self._inherited = bookmark.inherited if bookmark else ""
        self._place = (bookmark.offset, bookmark.digest) if bookmark else (-1, b"")
        self._met = bookmark is None
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
        self._entries += map(slim, entries)
        if self._bookmark is not None and line.offset <= self._bookmark.offset:
            self._met = self._met or (line.offset, digest_of_line(line.raw)) == self._place
            return []
        if entries:
            self._place = (line.offset, digest_of_line(line.raw))
        for entry in entries if not self._prompt else ():
            self._prompt = self._prompt or prompt_of(entry.value)
        return entries

    def summary(self) -> tuple[SessionRow, Bookmark | None]:
        """Return the row and the next bookmark, None if the whole log must be read again."""
        tree, damage, fold = self._folded()
        row = self._row(tree, damage)
        return row, self._next_bookmark(tree, fold, damage)

    def _folded(self) -> tuple[Tree, int, Compaction | None]:
        """Return the tree of the entries read, the number of damage reports, and the latest lossless compaction."""
        mark = self._mark
        if mark is None:
            tree, damage = self._whole()
            return tree, damage, _fold(tree, self._entries, self._begun)
        tree = self._from(mark)
        return tree, mark.damage, _fold(tree, self._entries[1:], lambda: _begun_from(mark)) or mark.fold

    # ── segments ─────────────────────────────────────────────────────────────────────────────────

    def _condense(self, full: int) -> None:
        """Replace the entries so far by a bookmark in memory; if none can be made, retry after the next segment.

        Raises `Rewritten` after `_SEGMENTS_MAX` segments without a bookmark.
        """
        self._full = full + self._segment
        mark, tree = self._mark_in_memory()
        if mark is None:
            if full >= _SEGMENTS_MAX * self._segment:
                raise Rewritten
            return
        known = (name for name in tree.nodes if tree.is_inherited(name)) if self._mark is None else ()
        self._passed.add_names((*known, *(entry.id for entry in self._since_mark())))
        self._entries = [entry for entry in self._entries if entry.seq >= (mark.fold.seq or 0)]
        self._mark, self._full = mark, len(self._entries) + self._segment

    def _mark_in_memory(self) -> tuple[Bookmark | None, Tree]:
        """Return a bookmark later than the last one, None if there is none, and the tree it was made from."""
        if self._reader.damage:
            return None, Tree()
        tree, damage, fold = self._folded()
        mark = self._next_bookmark(tree, fold, damage) if not damage else None
        is_later = mark is not None and (self._mark is None or mark.fold.seq != self._mark.fold.seq)
        return mark if is_later else None, tree

    def _since_mark(self) -> list[Entry]:
        """Return the entries that no bookmark replaces yet."""
        offset = self._mark.offset if self._mark is not None else -1
        return [entry for entry in self._entries if entry.offset > offset]

    # ── the whole log ────────────────────────────────────────────────────────────────────────────

    def _whole(self) -> tuple[Tree, int]:
        """Return the tree of the whole log and the number of damage reports."""
        tree = self._begun()
        for entry in self._entries:
            if tree.partial and not self._is_placed(tree, entry):
                raise Rewritten
            tree.add(entry)
        tree.mark_unreadable(self._reader.damage)
        return tree, len(self._reader.damage) + len(tree.damage)

    def _begun(self) -> Tree:
        """Return a new tree: empty, or with the inherited branch if the session is a fork."""
        tree = Tree()
        first = self._entries[0].value if self._entries else None
        if isinstance(first, Session) and first.parent is not None and first.parent.kind == "fork":
            tree.inherit(self._condensed_parent(first.parent, (*self._children, first.id), self._segment))
            tree.partial = True
        return tree

    def _condensed_parent(self, origin: Origin, children: tuple[str, ...], segment: int) -> Branch:
        """Return the inherited branch of a fork, condensed by a compaction; raise `Rewritten` if that fails."""
        if self._parent is None:
            try:
                self._parent, self._inherited = condensed_branch(self._store, origin, children, segment)
            except WakelogError as error:
                raise Rewritten from error
        return self._parent

    @staticmethod
    def _is_placed(tree: Tree, entry: Entry) -> bool:
        """Whether the entries that a fork's entry refers to are in the part of the history that is held."""
        named = (entry.value.parent_id, *_needed(entry.value))
        return entry.seq == 0 or all(name is not None and _stands(tree, name) for name in named)

    def branch_at(self, origin: Origin, rest: Iterator[Line]) -> Branch:
        """Return the branch that ends at the entry fed last, with later annotations of its nodes from `rest`."""
        tree, damage, _ = self._folded()
        path = {node.id for node in tree.branch(origin.entry).nodes}
        if damage or (self._mark is not None and self._mark.fold.id not in path):
            raise Rewritten
        for line in rest:
            for entry in self._reader.feed(line):
                self._add_if_about(tree, path, entry)
        branch = tree.branch(origin.entry)
        if self._reader.damage or branch.holes:
            raise Rewritten
        return branch

    def _add_if_about(self, tree: Tree, path: set[str], entry: Entry) -> None:
        """Add a later annotation of a node on the path; raise `Rewritten` if its node is no longer held."""
        names = [name for name in (subject(entry.value), entry.value.parent_id) if name is not None]
        if entry.is_node or not names:
            return
        standing = [tree.find(name) for name in names if _stands(tree, name)]
        if standing and standing[0] in path and standing[0] != tree.root:
            is_folded = self._mark is not None and standing[0] == self._mark.fold.id
            if is_folded:
                raise Rewritten
            tree.add(slim(entry))
        elif not standing and any(map(self._knows, names)):
            raise Rewritten

    # ── from a bookmark ──────────────────────────────────────────────────────────────────────────

    def _from(self, mark: Bookmark) -> Tree:
        """Return the tree of a log that plainly continues from its bookmark, or raise `Rewritten`."""
        seqs = [entry.value.seq for entry in self._entries]
        if not self._met or self._reader.damage or seqs != list(range(mark.after + 1, mark.after + 1 + len(seqs))):
            raise Rewritten
        tree = _begun_from(mark)
        self._fresh.clear()
        for entry in self._entries[1:]:
            self._check_plain(mark, tree, entry)
            tree.add(entry)
        if all(node.id != mark.fold.id for node in tree.branch().nodes):
            raise Rewritten
        return tree

    def _check_plain(self, mark: Bookmark, tree: Tree, entry: Entry) -> None:
        """Raise `Rewritten` for an entry that refers to something before the compaction, or that would be damage."""
        parent = entry.value.parent_id
        is_plain = parent is not None and self._knows(parent)
        if entry.offset > mark.offset:
            is_plain = is_plain and not self._knows(entry.id)
            self._fresh.add(entry.id)
        if isinstance(entry.value, DamageNote):
            is_plain = is_plain and mark.damage == 0
        if not is_plain or not all(_stands(tree, name) for name in _needed(entry.value)):
            raise Rewritten

    def _knows(self, name: str) -> bool:
        if name in self._fresh or name in self._passed:
            return True
        return self._bookmark is not None and self._bookmark.knows(name)

    # ── the result ───────────────────────────────────────────────────────────────────────────────

    def _row(self, tree: Tree, damage: int) -> SessionRow:
        view, whole = overview(tree, damaged=damage > 0), session_state(tree)
        # A fork without a prompt of its own shows the first prompt that it inherited.
        prompt = self._prompt or self._inherited
        return row_of(self._stat, self._session(), view, whole, damage=damage, updated=self._updated(), prompt=prompt)

    def _session(self) -> Session | None:
        if self._mark is not None:
            return self._mark.session
        return next((entry.value for entry in self._entries if isinstance(entry.value, Session)), None)

    def _updated(self) -> str:
        if self._entries:
            return self._entries[-1].value.timestamp
        return self._mark.updated if self._mark else ""

    def _next_bookmark(self, tree: Tree, fold: Compaction | None, damage: int) -> Bookmark | None:
        session = self._session()
        if fold is None or session is None or self._reader.torn is not None or not self._is_orderly():
            return None
        known = self._mark.known if self._mark else keys_of(node for node in tree.nodes if tree.is_inherited(node))
        return bookmark_at(
            session,
            fold,
            self._place,
            updated=self._updated(),
            damage=damage,
            prompt=self._prompt,
            inherited=self._inherited,
            known=known + keys_of(entry.id for entry in self._since_mark()),
        )

    def _is_orderly(self) -> bool:
        """Whether the log begins with its only session header and has increasing seq numbers."""
        if self._mark is not None:
            return True
        sessions = [at for at, entry in enumerate(self._entries) if entry.type == "session"]
        return sessions == [0] and all(before.seq < after.seq for before, after in pairwise(self._entries))


def condensed_branch(store: Store, origin: Origin, children: tuple[str, ...], segment: int) -> tuple[Branch, str]:
    """Return the branch of the parent session of a fork, read in segments, and the first prompt before it.

    Raises `Rewritten` if the log must be read as a whole: it is damaged or changed, or refers back to old entries.
    """
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise Rewritten
    name = store.name(origin.session)
    fold, lines = LogSummarizer(store, Stat(name, 0, 0), segment=segment, children=children), iter(store.load(name))
    for line in lines:
        found = next((entry for entry in fold.feed_until(line, origin.entry) if entry.id == origin.entry), None)
        if found is None:
            continue
        if not found.is_node or (origin.h is not None and seal_of(found.raw) != origin.h):
            raise Rewritten
        return fold.branch_at(origin, lines), fold.first_prompt
    raise Rewritten


# ── the compaction of a bookmark ─────────────────────────────────────────────────────────────────


def _begun_from(mark: Bookmark) -> Tree:
    """Return the tree that a bookmark stands for: the session header and one compaction."""
    tree = Tree(partial=True)
    tree.add(Entry(b"", mark.session, 0))
    tree.add(Entry(b"", mark.fold, mark.after + 1))
    return tree


def _fold(tree: Tree, entries: list[Entry], begun: Callable[[], Tree]) -> Compaction | None:
    """Return the latest lossless compaction: at the end of the log, or just before the work in progress."""
    if entries and _is_quiet(tree):
        return _fold_at(tree, entries[-1])
    at = _work_begins(tree, entries)
    if at is None:
        return None
    before = begun().add_all(entries[: at + 1])
    return _fold_at(before, entries[at]) if _is_quiet(before) else None


def _is_quiet(tree: Tree) -> bool:
    """Whether no work is in progress at the head: neither a tool call nor a model call."""
    if tree.head is None or isinstance(tree.nodes[tree.head].value, Session):
        return False
    return not any(isinstance(annotation.value, Call) for annotation in tree.annotations(tree.head)) and not open_calls(
        tree.branch()
    )


def _work_begins(tree: Tree, entries: list[Entry]) -> int | None:
    """Return the index in `entries` of the node that the work in progress follows; None if it is not there."""
    if tree.head is None:
        return None
    waiting = open_calls(tree.branch())
    node = tree.parent(waiting[0].reply_id) if waiting else tree.head
    return next((at for at, entry in enumerate(entries) if entry.id == node), None)


def _fold_at(tree: Tree, last: Entry) -> Compaction | None:
    """Return the compaction that could replace all entries up to `last`, the last one of the tree."""
    if tree.head is None or last.value.seq is None:
        return None
    return Compaction(id=tree.head, seq=last.seq, summary="", state=slim_state(carried_state(tree, tree.head)))


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────


def _needed(value: Body) -> list[str]:
    """Return the ids of the entries that must have been read to know this entry's effect on the head branch."""
    match value:
        case Head(target_id=target):
            return [target]
        case Compaction(state=state, first_kept_entry_id=kept):
            return [name for name in (kept, state.head if state else None) if name is not None]
        case Queued(parent_id=str() as node) | Attention(parent_id=str() as node):
            return [node]
    return []


def _stands(tree: Tree, name: str) -> bool:
    try:
        tree.find(name)
    except NotFound:
        return False
    return True

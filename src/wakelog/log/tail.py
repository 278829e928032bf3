"""Reading a log from its end in one backward pass, so that the time does not grow with the log.

The pass finds the head, follows parents to the first compaction on that path, and goes on to its first kept entry. The
result is used only if every line read is a valid entry, its seal matches and seq descends by one. On anything else
(damage without a note, foreign lines, repeated lines, a compaction without state, an open request or question about an
older node) the whole log must be read instead. So for every log, each projection of the tail equals the projection of
the whole.

Queued messages belong to the whole session. A compaction written before rules 2 carries those of its own branch only.
If the queue is requested, the pass continues past it and keeps only waiting messages, until an entry records the whole
queue (`recorded_queue`) or the log begins.
"""

from collections.abc import Iterable, Iterator

import msgspec

from wakelog.log.codec import Undecodable, decode
from wakelog.log.content import Prompt
from wakelog.log.entry import (
    Activity,
    Attention,
    Body,
    CarriedState,
    Compaction,
    DamageNote,
    Entry,
    Head,
    Message,
    Queued,
)
from wakelog.log.lines import Line
from wakelog.log.seal import find_seal, has_valid_seal, sealed_hash
from wakelog.log.tree import Tree

MESSAGE_MODES = ("steer", "followUp")
_TYPES_RECORDING_QUEUE = frozenset((Compaction, Activity))


class Tail(msgspec.Struct, frozen=True):
    """The end of a log, oldest entry first. If `compaction_id` is None, it is the whole log.

    `queued` are the messages that waited before it, oldest first; None if they were not searched for.
    """

    entries: tuple[Entry, ...]
    compaction_id: str | None = None
    head: str | None = None
    queued: tuple[Queued, ...] | None = None


def recorded_queue(value: Body) -> tuple[Queued, ...] | None:
    """Return the queue of the whole session if this entry records it, else None."""
    match value:
        case Compaction(state=CarriedState(rules=rules, queue=queue)) if rules >= 2:
            return queue
        case Activity(queue=queue):
            return queue
    return None


def read_tail(backwards: Iterable[Line], *, at: str | None = None, queue: bool = False) -> Tail | None:
    """Return the part of a log that its projections need; None if the whole log must be read.

    `at` selects the branch of that entry instead of the head's. With `queue`, older waiting messages are collected too.
    """
    search = _Search(at)
    for entry in _verified_entries(backwards):
        if entry is None:
            return None
        if search.is_complete:
            search.add_before_tail(entry)
        else:
            search.add(entry)
        if search.is_stateless:
            return None
        if search.is_complete and not (queue and search.lacks_queue):
            return search.result(queue=queue)
    return search.result(queue=queue) if search.is_complete else Tail(search.entries(), queued=())


def build_tree(tail: Tail, session: Entry) -> Tree:
    """Return the tree of a tail. `session` is the first entry of the log, which starts every branch."""
    if tail.compaction_id is None:
        return Tree().add_all(tail.entries)
    tree = Tree(partial=True).add_all((session, *(entry for entry in tail.entries if entry.seq > 0)))
    tree.queued_before = tail.queued
    tree.ignore_missing_before(tree.nodes[tail.compaction_id].seq)
    if tail.head is not None:
        tree.set_head(tree.find(tail.head), tree.last_seq)
    return tree


def may_refer_to_unread(tree: Tree, entry: Entry) -> bool:
    """Return whether an entry added to a partial tree may refer to unread entries; the log must then be read again."""
    value = entry.value
    beyond = isinstance(value, Queued | Attention) and value.parent_id not in tree.nodes
    return tree.partial and (beyond or isinstance(value, Head | Compaction))


class _Search:
    """State of the backward pass: the entries read, and the next entry to find."""

    def __init__(self, at: str | None) -> None:
        self.is_complete = False
        self.is_stateless = False
        self._entries_read: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._head = at
        self._wanted_id: str | None = at
        self._compaction: Compaction | None = None
        self._kept: str | None = None
        self.lacks_queue = True
        self._queued: dict[str, Queued] = {}
        self._taken: set[str] = set()

    def add(self, entry: Entry) -> None:
        self._entries_read.append(entry)
        self._by_id[entry.id] = entry
        self._note_queue(entry.value)
        if self._head is None:
            self._find_head(entry)
        while self._wanted_id is not None and self._wanted_id in self._by_id:
            self._follow_parent(self._by_id[self._wanted_id])

    def add_before_tail(self, entry: Entry) -> None:
        """Process an entry before the tail; only waiting messages matter there."""
        value = entry.value
        self._note_queue(value)
        if isinstance(value, Queued):
            self._queued[value.id] = value
        elif not self.lacks_queue:
            # The pass goes backwards, so recorded messages are older than all found so far.
            self._queued = {**self._queued, **{queued.id: queued for queued in reversed(recorded_queue(value) or ())}}

    def _note_queue(self, value: Body) -> None:
        if type(value) is Message:
            if isinstance(value.message, Prompt) and value.message.queued_id is not None:
                self._taken.add(value.message.queued_id)
        elif type(value) in _TYPES_RECORDING_QUEUE and recorded_queue(value) is not None:
            self.lacks_queue = False

    def _find_head(self, entry: Entry) -> None:
        """Set the head from the newest entry that records it, moved on by the nodes after that entry."""
        value = entry.value
        if isinstance(value, Head):
            head = value.target_id
        elif isinstance(value, Compaction) and value.state is not None:
            head = value.id if value.parent_id == value.state.head else value.state.head
        else:
            return
        for later in reversed(self._entries_read[:-1]):
            if later.is_node and self._node(later.value.parent_id) == self._node(head):
                head = later.id
        self._head = self._wanted_id = head

    def _node(self, name: str | None) -> str | None:
        """Return the node that an id refers to; for an annotation, the node it describes."""
        while name in self._by_id and not self._by_id[name].is_node:
            name = self._by_id[name].value.parent_id
        return name

    def _follow_parent(self, entry: Entry) -> None:
        """Go one step up the path, from an entry that has been read."""
        value = entry.value
        self._wanted_id = value.parent_id
        if self._compaction is None and isinstance(value, Compaction):
            self._compaction = value
            self._kept = value.first_kept_entry_id or value.id
            self.is_stateless = value.state is None
            self.is_complete = self._kept == value.id
        elif self._compaction is not None and self._kept is None:
            self.is_complete = True
        if entry.id == self._kept:
            # The parent is read too: the model call of the first kept reply is an annotation of it.
            self._kept = None
        if self.is_complete:
            self._wanted_id = None

    def entries(self) -> tuple[Entry, ...]:
        return tuple(reversed(self._entries_read))

    def result(self, *, queue: bool) -> Tail | None:
        assert self._compaction is not None
        if any(map(self._refers_to_unread, self._entries_read)):
            return None
        return Tail(self.entries(), self._compaction.id, self._head, self._waiting() if queue else None)

    def _waiting(self) -> tuple[Queued, ...]:
        oldest_first = reversed(self._queued.values())
        return tuple(one for one in oldest_first if one.mode in MESSAGE_MODES and one.id not in self._taken)

    def _refers_to_unread(self, entry: Entry) -> bool:
        """Return whether a request or question is about a node that was not read: its branches are then unknown."""
        value = entry.value
        return isinstance(value, Queued | Attention) and self._node(value.parent_id) not in self._by_id


def _verified_entries(backwards: Iterable[Line]) -> Iterator[Entry | None]:
    """Yield entries from the last to the first; at the first line that cannot be trusted, yield None and stop."""
    behind: Entry | None = None
    torn = b""
    for line in backwards:
        if behind is not None and _is_noted_fragment(line, behind.value):
            torn = line.bytes
            continue
        entry = _entry(line)
        rootless = entry is not None and entry.is_node and entry.seq > 0 and entry.value.parent_id is None
        if entry is None or rootless:
            yield None
            return
        if behind is not None:
            # An entry is verified when the preceding line is known, because its seal covers both.
            yield behind if behind.seq == entry.seq + 1 and _seal_matches(behind.raw, entry.raw, torn) else None
        behind, torn = entry, b""
    if behind is not None:
        yield behind if behind.seq == 0 and _seal_matches(behind.raw, b"", b"") else None


def _is_noted_fragment(line: Line, value: Body) -> bool:
    """Return whether a line is the torn fragment described by the note that follows it."""
    if not isinstance(value, DamageNote) or value.reason != "torn":
        return False
    return (line.offset, len(line.raw)) == (value.offset, value.bytes)


def _seal_matches(raw: bytes, before: bytes, between: bytes) -> bool:
    """Return whether the seal of a line matches; true if neither it nor the line before has a seal."""
    return has_valid_seal(raw, sealed_hash(before), between) or (find_seal(raw) is None and find_seal(before) is None)


def _entry(line: Line) -> Entry | None:
    if not line.whole:
        return None
    try:
        value = decode(line.raw)
    except Undecodable:
        return None
    return Entry(line.raw, value, value.seq, line.offset) if value.seq is not None else None

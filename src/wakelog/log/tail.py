"""Reading a log from its end: one pass backwards, so that time does not grow with the log.

The pass finds the head, follows parents to the first compaction on that path which carries state,
then on to its first kept entry. What it read is trusted only where every line is a sound entry, its seal
matches and seq descends by one; anything else (damage that is not noted, foreign lines, repeated lines, an
open matter about a node further back) and the whole log is read instead. So for every log, each view of
the tail equals the view of the whole.

Messages that wait in the queue belong to the whole session. A compaction written before rules 2 carries those of its
own branch only. Where the queue is asked for, the pass goes on past it and keeps nothing but the messages that wait,
until an entry records the whole queue (`recorded_queue`) or the log begins.
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
from wakelog.log.seal import h_of, is_sealed_behind, seal_of
from wakelog.log.tree import Tree

MESSAGE_MODES = ("steer", "followUp")
_RECORDING_QUEUE = frozenset((Compaction, Activity))


class Tail(msgspec.Struct, frozen=True):
    """The end of a log, oldest first. Without a `fold` it is the whole log.

    `queued` are the messages that waited before it, oldest first; None where they were not looked for.
    """

    entries: tuple[Entry, ...]
    fold: str | None = None
    head: str | None = None
    queued: tuple[Queued, ...] | None = None


def recorded_queue(value: Body) -> tuple[Queued, ...] | None:
    """The queue of the whole session, if this entry records it."""
    match value:
        case Compaction(state=CarriedState(rules=rules, queue=queue)) if rules >= 2:
            return queue
        case Activity(queue=queue):
            return queue
    return None


def read_tail(backwards: Iterable[Line], *, at: str | None = None, queue: bool = False) -> Tail | None:
    """The part of a log that its views need, read from the end; None where only the whole will do.

    `at` asks for the branch of that entry instead of the head's; `queue` also for the messages that wait before it.
    """
    search = _Search(at)
    for entry in _sound(backwards):
        if entry is None:
            return None
        if search.is_over:
            search.pass_by(entry)
        else:
            search.meet(entry)
        if search.is_stateless:
            return None
        if search.is_over and not (queue and search.misses_queue):
            return search.found(queue=queue)
    return search.found(queue=queue) if search.is_over else Tail(search.entries(), queued=())


def tree_of(tail: Tail, session: Entry) -> Tree:
    """The tree of a tail. `session` is the log's first entry, which every branch begins with."""
    if tail.fold is None:
        return Tree().add_all(tail.entries)
    tree = Tree(partial=True).add_all((session, *(entry for entry in tail.entries if entry.seq > 0)))
    tree.queued_before = tail.queued
    tree.trust_before(tree.nodes[tail.fold].seq)
    if tail.head is not None:
        tree.set_head(tree.find(tail.head), tree.last_seq)
    return tree


def outgrows(tree: Tree, entry: Entry) -> bool:
    """Whether an entry that joins a tail may speak of what was not read, so that the log must be read anew."""
    value = entry.value
    beyond = isinstance(value, Queued | Attention) and value.parent_id not in tree.nodes
    return tree.partial and (beyond or isinstance(value, Head | Compaction))


class _Search:
    """What the backward pass has met, and what it still looks for."""

    def __init__(self, at: str | None) -> None:
        self.is_over = False
        self.is_stateless = False
        self._met: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._head = at
        self._want: str | None = at
        self._fold: Compaction | None = None
        self._kept: str | None = None
        self.misses_queue = True
        self._queued: dict[str, Queued] = {}
        self._taken: set[str] = set()

    def meet(self, entry: Entry) -> None:
        self._met.append(entry)
        self._by_id[entry.id] = entry
        self._note_queue(entry.value)
        if self._head is None:
            self._find_head(entry)
        while self._want is not None and self._want in self._by_id:
            self._step(self._by_id[self._want])

    def pass_by(self, entry: Entry) -> None:
        """An entry before the tail: only whether it is a message that waits matters."""
        value = entry.value
        self._note_queue(value)
        if isinstance(value, Queued):
            self._queued[value.id] = value
        elif not self.misses_queue:
            # Going backwards, what it carries stands before everything met so far.
            self._queued = {**self._queued, **{queued.id: queued for queued in reversed(recorded_queue(value) or ())}}

    def _note_queue(self, value: Body) -> None:
        if type(value) is Message:
            if isinstance(value.message, Prompt) and value.message.queued_id is not None:
                self._taken.add(value.message.queued_id)
        elif type(value) in _RECORDING_QUEUE and recorded_queue(value) is not None:
            self.misses_queue = False

    def _find_head(self, entry: Entry) -> None:
        """The head is known from the newest entry that says where it was; later nodes move it on."""
        value = entry.value
        if isinstance(value, Head):
            head = value.target_id
        elif isinstance(value, Compaction) and value.state is not None:
            head = value.id if value.parent_id == value.state.head else value.state.head
        else:
            return
        for later in reversed(self._met[:-1]):
            if later.is_node and self._node(later.value.parent_id) == self._node(head):
                head = later.id
        self._head = self._want = head

    def _node(self, name: str | None) -> str | None:
        """The node that an id names; an annotation names the node it speaks about."""
        while name in self._by_id and not self._by_id[name].is_node:
            name = self._by_id[name].value.parent_id
        return name

    def _step(self, entry: Entry) -> None:
        """One step up the path: the wanted entry has been met."""
        value = entry.value
        self._want = value.parent_id
        if self._fold is None and isinstance(value, Compaction):
            self._fold = value
            self._kept = value.first_kept_entry_id or value.id
            self.is_stateless = value.state is None
            self.is_over = self._kept == value.id
        elif self._fold is not None and self._kept is None:
            self.is_over = True
        if entry.id == self._kept:
            # Its parent is read too: the call that made the first kept reply hangs there.
            self._kept = None
        if self.is_over:
            self._want = None

    def entries(self) -> tuple[Entry, ...]:
        return tuple(reversed(self._met))

    def found(self, *, queue: bool) -> Tail | None:
        assert self._fold is not None
        if any(map(self._reaches_back, self._met)):
            return None
        return Tail(self.entries(), self._fold.id, self._head, self._waiting() if queue else None)

    def _waiting(self) -> tuple[Queued, ...]:
        oldest_first = reversed(self._queued.values())
        return tuple(one for one in oldest_first if one.mode in MESSAGE_MODES and one.id not in self._taken)

    def _reaches_back(self, entry: Entry) -> bool:
        """Whether an open matter hangs on a node that was not read: nobody here can tell on which branches."""
        value = entry.value
        return isinstance(value, Queued | Attention) and self._node(value.parent_id) not in self._by_id


def _sound(backwards: Iterable[Line]) -> Iterator[Entry | None]:
    """Entries from the last to the first; None, and no more, at the first line that cannot be trusted."""
    behind: Entry | None = None
    torn = b""
    for line in backwards:
        if behind is not None and _is_noted(line, behind.value):
            torn = line.bytes
            continue
        entry = _entry(line)
        rootless = entry is not None and entry.is_node and entry.seq > 0 and entry.value.parent_id is None
        if entry is None or rootless:
            yield None
            return
        if behind is not None:
            # An entry is trusted once the line before it is known: its seal covers both.
            yield behind if behind.seq == entry.seq + 1 and _matches(behind.raw, entry.raw, torn) else None
        behind, torn = entry, b""
    if behind is not None:
        yield behind if behind.seq == 0 and _matches(behind.raw, b"", b"") else None


def _is_noted(line: Line, value: Body) -> bool:
    """Whether a line is the torn fragment that the entry behind it has noted."""
    if not isinstance(value, DamageNote) or value.reason != "torn":
        return False
    return (line.offset, len(line.raw)) == (value.offset, value.bytes)


def _matches(raw: bytes, before: bytes, between: bytes) -> bool:
    """Whether the seal of a line matches; a log without any seal has nothing to verify."""
    return is_sealed_behind(raw, h_of(before), between) or (seal_of(raw) is None and seal_of(before) is None)


def _entry(line: Line) -> Entry | None:
    if not line.whole:
        return None
    try:
        value = decode(line.raw)
    except Undecodable:
        return None
    return Entry(line.raw, value, value.seq, line.offset) if value.seq is not None else None

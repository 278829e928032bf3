"""The tree of a session: nodes by parent, annotations joined to their nodes, and the head. It only grows.

Rule 1: entries are added in the order of the log, and a parent stands before its children, so the
tree has no cycle by construction and every prefix of a log is a tree.
Rule 2: the head is a fold. A node whose parent is the head becomes the head; a `head` entry sets it;
a compaction says where it was; a node elsewhere leaves it. In lines without seq, the last node is it.
Rule 3: nothing readable is lost. A node whose parent cannot be read hangs on the nearest readable
node before it, and takes the head along if the head's own trace is lost; that bridge is reported.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from wakelog.errors import NotFound
from wakelog.log.content import ToolResult
from wakelog.log.digest import digest_of
from wakelog.log.entry import (
    Activity,
    AttentionResolved,
    Body,
    Compaction,
    DamageNote,
    Entry,
    Head,
    Message,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    Session,
    Spawned,
    Terminated,
    ToolStarted,
)
from wakelog.log.lines import Damage, DamageKind

# The field in which an annotation names what it speaks about, for those that do so besides their parent.
_SUBJECTS = {
    **dict.fromkeys((ToolStarted, Spawned, Sent, SendFailed, Partial, Resumed), "reply_id"),
    AttentionResolved: "attention_id",
}
# Types that views of the whole session look for at every step; there are few of them beside the rest.
_INDEXED = frozenset((Activity, Compaction, Queued, Terminated))
# Annotations that are written about a reply which stands before them.
_NAMING_A_REPLY = frozenset((Sent, Spawned, ToolStarted))


class Branch(msgspec.Struct, frozen=True):
    """The path from the root to one node, and the annotations of its nodes. What every view is a function of.

    The first `inherited` nodes belong to the session this one was forked from, and `inherited_facts`
    are what that session says about them. `holes` are the places since the last compaction where entries of
    the log are lost: they may have been on this branch. `scar` is the offset of the last hole in the log: what
    stands before it may have gone on in a way that cannot be read any more. Where only the tail of a log
    was read, the session entry is followed at once by what the last compaction kept.
    """

    nodes: tuple[Entry, ...]
    annotations: tuple[Entry, ...] = ()
    inherited: int = 0
    inherited_annotations: tuple[Entry, ...] = ()
    scar: int = -1
    holes: tuple[Damage, ...] = ()

    @property
    def tip(self) -> Entry | None:
        """The last node."""
        return self.nodes[-1] if self.nodes else None


class Tree:
    """Every node by id. Made from a whole log, or (`partial`) from its tail."""

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self.nodes: dict[str, Entry] = {}
        self.root: str | None = None
        self.head: str | None = None
        self.last_seq = -1
        self.damage: list[Damage] = []
        self._holes: dict[int, Damage] = {}
        self._inherited_holes: tuple[Damage, ...] = ()
        self._naming_lost: list[Entry] = []
        # Replies that a compaction carries as not delivered yet: whether they can be read does not matter behind it.
        self._carried: set[str] = set()
        self._head_seq = -1
        self._gap_seq = -1
        self._parents: dict[str, str | None] = {}
        # Ten thousand lists of one child each would cost more than the rest of the tree.
        self._first_child: dict[str, str] = {}
        self._other_children: dict[str, list[str]] = {}
        self._annotations: dict[str, list[Entry]] = {}
        self._speaks_of: dict[str, str] = {}
        self._last_node: str | None = None
        self._inherited: frozenset[str] = frozenset()
        self._by_type: dict[type[Body], list[Entry]] = {}
        self.queued_before: tuple[Queued, ...] | None = ()
        """The messages that waited before a tail, on whatever branch; None where they have not been looked for."""

    # ── growing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, entry: Entry) -> None:
        """Takes in the next entry of the log."""
        value, seq = entry.value, entry.seq
        if seq > self.last_seq:
            if seq > self.last_seq + 1:
                self._gap_seq = seq - 1
            self.last_seq = seq
        if value.id in self.nodes or value.id in self._speaks_of:
            self._report(entry, "repeated", f"the id {value.id} stands here a second time")
        elif type(value) is Message and value.parent_id == self.head is not None:
            # Nearly every entry there is: said at the head, and from then on the head itself.
            self._place(entry, self.head)
            self.set_head(value.id, seq)
        elif entry.is_node:
            self._add_node(entry)
        else:
            self._add_annotation(entry)

    def add_all(self, entries: Iterable[Entry]) -> "Tree":
        """Takes in many entries; gives back itself."""
        for entry in entries:
            self.add(entry)
        return self

    def inherit(self, branch: Branch) -> None:
        """Begins with another session's branch: this session's first line then hangs on its tip."""
        for node in branch.nodes:
            self._place(node, self._last_node)
        for annotation in (*branch.inherited_annotations, *branch.annotations):
            self._join(
                annotation,
                self._resolve(subject(annotation.value)) or self._resolve(annotation.value.parent_id) or self.root,
            )
        self._inherited = frozenset((*self.nodes, *self._speaks_of))
        self._inherited_holes = branch.holes

    def mark_unreadable(self, damage: Iterable[Damage]) -> None:
        """Remembers where entries are lost."""
        self._holes.update((hurt.offset, hurt) for hurt in damage if hurt.hides)

    @property
    def scar(self) -> int:
        """The offset of the last place where entries are lost; -1 where none are."""
        return max(self._holes, default=-1)

    def set_head(self, node: str, seq: int) -> None:
        """The next node goes under this one, as the entry with that seq says."""
        self.head, self._head_seq = node, seq

    def _add_node(self, entry: Entry) -> None:
        if self._names_a_lost_reply(entry.value):
            self._naming_lost.append(entry)
        parent = self._parent_of(entry)
        head = self._head_after(entry, parent)
        self._place(entry, parent)
        if type(entry.value) in _INDEXED:
            self._index(entry)
        if isinstance(entry.value, Compaction) and entry.value.state is not None:
            self._carried.update(debt.reply_id for debt in entry.value.state.owed)
        if head is not None:
            self.set_head(head, entry.seq)

    def _head_after(self, entry: Entry, parent: str | None) -> str | None:
        """Where a node leaves the head, if it moves it."""
        value = entry.value
        if isinstance(value, Compaction) and value.state is not None:
            return entry.id if value.parent_id == value.state.head else self._resolve(value.state.head)
        if self.head is None or value.seq is None:
            return entry.id
        is_bridged = value.parent_id is not None and self._resolve(value.parent_id) is None
        moves = self._gap_seq > self._head_seq if is_bridged else parent == self.head
        return entry.id if moves else None

    def _place(self, entry: Entry, parent: str | None) -> None:
        node = entry.id
        if self.root is None:
            self.root = node
        self.nodes[node] = entry
        self._parents[node] = parent
        if parent is not None and self._first_child.setdefault(parent, node) != node:
            self._other_children.setdefault(parent, []).append(node)
        self._last_node = node

    def _parent_of(self, entry: Entry) -> str | None:
        named = entry.value.parent_id
        if named is None:
            return self._last_node
        found = self._resolve(named)
        if found is None and self.partial:
            return self.root
        if found is None:
            self._report(entry, "bridged", f"its parent {named} cannot be read")
            return self._last_node
        return found

    def _add_annotation(self, entry: Entry) -> None:
        named = entry.value.parent_id
        node = self._resolve(subject(entry.value)) or self._resolve(named) or self.root
        if named is not None and not self.partial and self._resolve(named) is None:
            self._report(entry, "orphan", f"it speaks of {named}, which does not stand before it")
        self._join(entry, node)
        if type(entry.value) in _INDEXED:
            self._index(entry)
        if type(entry.value) is Head:
            self._move_head(entry, entry.value.target_id)
        elif type(entry.value) is DamageNote and entry.value.reason == "lost":
            self.mark_unreadable([lost_lines(entry, entry.value)])
        elif type(entry.value) in _NAMING_A_REPLY and self._names_a_lost_reply(entry.value):
            self._naming_lost.append(entry)

    def _names_a_lost_reply(self, value: Body) -> bool:
        """Whether an entry shows that there was a reply which is not here. It is lost, or stands before this tail."""
        reply_id = reply_named_by(value)
        return reply_id is not None and reply_id not in self.nodes and reply_id not in self._carried

    @property
    def is_too_short(self) -> bool:
        """Whether something may be lost: only the whole log tells what is lost and what stands before this tail."""
        return self.partial and bool(self._naming_lost or self._holes) and bool(self.branch().holes)

    def trust_before(self, seq: int) -> None:
        """Entries before the compaction at `seq` may name replies before this tail: what it stands for is settled."""
        self._naming_lost = [entry for entry in self._naming_lost if entry.seq > seq]

    def _index(self, entry: Entry) -> None:
        self._by_type.setdefault(type(entry.value), []).append(entry)

    def _join(self, annotation: Entry, node: str | None) -> None:
        """An annotation about nothing that can be read is kept with the session itself."""
        self._speaks_of[annotation.id] = node or ""
        if node is not None:
            self._annotations.setdefault(node, []).append(annotation)

    def _move_head(self, entry: Entry, target: str) -> None:
        found = self._resolve(target)
        if found is not None:
            self.set_head(found, entry.seq)
        elif not self.partial:
            self._report(entry, "orphan", f"it moves the head to {target}, which does not stand before it")

    def _resolve(self, name: str | None) -> str | None:
        """The node that an id names: itself, or the node that an annotation speaks about."""
        if name is None:
            return None
        return name if name in self.nodes else self._speaks_of.get(name) or None

    def _report(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        digest = digest_of(entry.raw)
        self.damage.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason, digest))

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def find(self, entry_id: str) -> str:
        """The node that an id names, or `NotFound`."""
        found = self._resolve(entry_id)
        if found is None:
            raise NotFound(f"no entry {entry_id} in this session")
        return found

    def entry(self, entry_id: str) -> Entry | None:
        """A node or annotation by its id."""
        if entry_id not in self._speaks_of:
            return self.nodes.get(entry_id)
        annotations = self._annotations.get(self._speaks_of[entry_id], ())
        return next((annotation for annotation in annotations if annotation.id == entry_id), None)

    def branch(self, at: str | None = None) -> Branch:
        """The branch that ends at a node (default: the head)."""
        path = [*self._walk(self.find(at) if at is not None else self.head)][::-1]
        inherited = sum(node in self._inherited for node in path) if self._inherited else 0
        annotations = [annotation for node in path for annotation in self._annotations.get(node, ())]
        return Branch(
            nodes=tuple([self.nodes[node] for node in path]),
            annotations=tuple(sorted(self._own(annotations), key=_seq)),
            inherited=inherited,
            inherited_annotations=tuple(annotation for annotation in annotations if annotation.id in self._inherited)
            if inherited
            else (),
            scar=self.scar,
            holes=self._holes_on(path) if self._holes or self._inherited_holes or self._naming_lost else (),
        )

    def _holes_on(self, path: list[str]) -> tuple[Damage, ...]:
        """The places where entries of a branch may be lost: those since its last compaction."""
        folds = [self.nodes[node] for node in path if node not in self._inherited]
        last = next((node for node in reversed(folds) if isinstance(node.value, Compaction)), None)
        start = last.offset if last is not None else -1
        own = [*self._holes.values(), *(lost_reply(entry) for entry in self._naming_lost)]
        since = sorted((hole for hole in own if hole.offset > start), key=lambda hole: hole.offset)
        return (*(self._inherited_holes if last is None else ()), *since)

    def _own(self, entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if entry.id not in self._inherited] if self._inherited else entries

    def parent(self, node: str) -> str | None:
        """The node before this one on its branch."""
        return self._parents[node]

    def children(self, node: str) -> tuple[str, ...]:
        """The nodes under this one, oldest first."""
        first = self._first_child.get(node)
        return () if first is None else (first, *self._other_children.get(node, ()))

    def leaves(self) -> tuple[str, ...]:
        """Nodes without children, oldest first."""
        return tuple(node for node in self.nodes if node not in self._first_child)

    def annotations(self, node: str) -> tuple[Entry, ...]:
        """What is said about a node, oldest first."""
        return tuple(self._annotations.get(node, ()))

    def is_inherited(self, node: str) -> bool:
        """Whether a node belongs to the session this one was forked from."""
        return node in self._inherited

    def own_nodes(self) -> Iterator[Entry]:
        """The nodes of this session itself, in the order of the log; the first is its session entry."""
        return (node for node in self.nodes.values() if node.id not in self._inherited)

    def own_of(self, kind: type[Body]) -> Sequence[Entry]:
        """The entries of one of the indexed types that this session itself holds, in the order of the log."""
        return self._by_type.get(kind, ())

    @property
    def card(self) -> Session:
        """What the session's first line says of it; says nothing where that line cannot be read."""
        return next((node.value for node in self.own_nodes() if isinstance(node.value, Session)), Session())

    def own(self) -> list[Entry]:
        """Every entry of this session itself that the tree holds, in the order of the log."""
        annotations = (annotation for annotations in self._annotations.values() for annotation in annotations)
        return sorted(self._own([*self.nodes.values(), *annotations]), key=_seq)

    def _walk(self, at: str | None) -> Iterator[str]:
        while at is not None:
            yield at
            at = self._parents[at]


def reply_named_by(value: Body) -> str | None:
    """The reply that an entry proves to have been there by naming it."""
    match value:
        case ToolStarted(reply_id=reply_id) | Spawned(reply_id=reply_id) | Sent(reply_id=reply_id):
            return reply_id
        case Message(message=ToolResult(reply_id=str() as reply_id)):
            return reply_id
    return None


def lost_lines(entry: Entry, note: DamageNote) -> Damage:
    """What a copy says went missing before it was made: it hides as much as an unreadable line."""
    reason = "lines were lost before this copy was made"
    return Damage("missing", entry.line, entry.offset, note.bytes, reason, note.digest)


def lost_reply(entry: Entry) -> Damage:
    """The hole that an entry proves by naming a reply which cannot be read."""
    reason = f"this {entry.type} names a reply that cannot be read"
    return Damage("orphan", entry.line, entry.offset, len(entry.raw), reason, digest_of(entry.raw))


def subject(value: Body) -> str | None:
    """The entry that an annotation names besides its parent: it belongs to that one, wherever it was appended."""
    field = _SUBJECTS.get(type(value))
    named: str | None = getattr(value, field) if field is not None else None
    return named


def _seq(entry: Entry) -> int:
    return entry.seq

"""The tree of a session: nodes by parent, annotations by node, and the head. Entries are only ever added.

Rule 1: entries are added in log order and a parent precedes its children, so the tree has no cycles and every prefix of
a log is a tree.
Rule 2: the head is a fold over the entries. A node whose parent is the head becomes the head; a `head` entry sets it; a
compaction with state records where it was; any other node leaves it. In lines without seq the last node is the head.
Rule 3: no readable entry is dropped. A node whose parent cannot be read is attached to the last readable node before it
and reported as `bridged`. It becomes the head if entries are missing since the head was last set.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import msgspec

from wakelog.errors import NotFound
from wakelog.log.content import ToolResult
from wakelog.log.entry import (
    Activity,
    AttentionResolved,
    Body,
    Cancelled,
    Compaction,
    Custom,
    DamageNote,
    Entry,
    Failed,
    Head,
    Message,
    ModelCall,
    Partial,
    Queued,
    Resumed,
    SendFailed,
    Sent,
    SessionHeader,
    Spawned,
    Terminated,
    ToolStarted,
)
from wakelog.log.ids import digest_of
from wakelog.log.lines import Damage, DamageKind

# Annotation types that refer to an entry besides their parent, and the field that holds its id.
_SUBJECT_FIELDS = {
    **dict.fromkeys((ToolStarted, Spawned, Sent, SendFailed, Partial, Resumed), "reply_id"),
    AttentionResolved: "attention_id",
}
# Types that session-wide projections look up at every step.
_INDEXED_TYPES = frozenset(
    (
        Activity,
        AttentionResolved,
        Cancelled,
        Compaction,
        Failed,
        ModelCall,
        Partial,
        Queued,
        SendFailed,
        Sent,
        Terminated,
    )
)
_seq = attrgetter("seq")
# Annotations whose reply always precedes them in the log.
_TYPES_NAMING_A_REPLY = frozenset((Sent, Spawned, ToolStarted))


class Branch(msgspec.Struct, frozen=True):
    """The path from the root to one node, and the annotations of its nodes. The input of every projection.

    The first `inherited` nodes belong to the session that this one was forked from; `inherited_annotations` are that
    session's annotations of them. `holes` are the places since the last compaction where log entries are lost; these
    may have been on this branch. `last_loss_offset` is the offset of the last such place in the log: continuations of
    anything before it may be unreadable. If only the tail of a log was read, the first entry that the last compaction
    kept follows directly after the session header.
    """

    nodes: tuple[Entry, ...]
    annotations: tuple[Entry, ...] = ()
    inherited: int = 0
    inherited_annotations: tuple[Entry, ...] = ()
    last_loss_offset: int = -1
    holes: tuple[Damage, ...] = ()

    @property
    def tip(self) -> Entry | None:
        """The last node."""
        return self.nodes[-1] if self.nodes else None


class Tree:
    """Nodes by id, with their annotations. Built from a whole log, or (`partial`) from its tail."""

    def __init__(self, *, partial: bool = False) -> None:
        self.partial = partial
        self.nodes: dict[str, Entry] = {}
        self.root: str | None = None
        self.recovered_header: SessionHeader | None = None
        """The header made from the rest of the log and its name, if the session's own cannot be read."""
        self.head: str | None = None
        self.last_seq = -1
        self.damage: list[Damage] = []
        self._holes: dict[int, Damage] = {}
        self._inherited_holes: tuple[Damage, ...] = ()
        self._references_to_lost: list[Entry] = []
        # Replies that a compaction lists as undelivered: later entries may refer to them even if they are unreadable.
        self._carried_replies: set[str] = set()
        self._head_seq = -1
        self._gap_seq = -1
        self._parents: dict[str, str | None] = {}
        # Most nodes have one child: a list for each would take more memory than the rest of the tree.
        self._first_child: dict[str, str] = {}
        self._other_children: dict[str, list[str]] = {}
        self._annotations: dict[str, list[Entry]] = {}
        self._node_of_annotation: dict[str, str] = {}
        self._last_node: str | None = None
        self._inherited: frozenset[str] = frozenset()
        self._by_type: dict[type[Body], list[Entry]] = {}
        self.queued_before: tuple[Queued, ...] | None = ()
        """Messages that waited before the tail, on any branch; None if they were not searched for."""
        self.folds: dict[type, object] = {}
        """Folds of projections over the entries so far, by type; a projection continues from its own."""

    # ── adding entries ───────────────────────────────────────────────────────────────────────────

    def add(self, entry: Entry) -> None:
        """Add the next entry of the log."""
        value, seq = entry.value, entry.seq
        if seq > self.last_seq:
            if seq > self.last_seq + 1:
                self._gap_seq = seq - 1
            self.last_seq = seq
        if value.id in self.nodes or value.id in self._node_of_annotation:
            self._report(entry, "repeated", f"the id {value.id} is used a second time")
        elif type(value) is Message and value.parent_id == self.head is not None:
            # Fast path for the common case: a message under the head, which becomes the head.
            self._place(entry, self.head)
            self.set_head(value.id, seq)
        elif entry.is_node:
            self._add_node(entry)
        else:
            self._add_annotation(entry)

    def add_all(self, entries: Iterable[Entry]) -> "Tree":
        """Add many entries; return the tree itself."""
        for entry in entries:
            self.add(entry)
        return self

    def inherit(self, branch: Branch) -> None:
        """Start with the branch of another session; the first line of this session then follows its tip."""
        for node in branch.nodes:
            self._place(node, self._last_node)
        for annotation in (*branch.inherited_annotations, *branch.annotations):
            self._attach(
                annotation,
                self._resolve(subject_id(annotation.value)) or self._resolve(annotation.value.parent_id) or self.root,
            )
        self._inherited = frozenset((*self.nodes, *self._node_of_annotation))
        self._inherited_holes = branch.holes

    def mark_unreadable(self, damage: Iterable[Damage]) -> None:
        """Record the places where entries are lost."""
        self._holes.update((defect.offset, defect) for defect in damage if defect.may_hide_entries)

    @property
    def last_loss_offset(self) -> int:
        """The offset of the last place where entries are lost; -1 if there is none."""
        return max(self._holes, default=-1)

    def set_head(self, node: str, seq: int) -> None:
        """Set the head to `node`, on behalf of the entry with seq `seq`."""
        self.head, self._head_seq = node, seq

    def _add_node(self, entry: Entry) -> None:
        if self._refers_to_lost_reply(entry.value):
            self._references_to_lost.append(entry)
        parent = self._parent_of(entry)
        head = self._head_after(entry, parent)
        self._place(entry, parent)
        if type(entry.value) in _INDEXED_TYPES:
            self._index(entry)
        if isinstance(entry.value, Compaction) and entry.value.state is not None:
            self._carried_replies.update(reply.reply_id for reply in entry.value.state.owed)
        if head is not None:
            self.set_head(head, entry.seq)

    def _head_after(self, entry: Entry, parent: str | None) -> str | None:
        """Return the head after this node is added; None if it does not move the head."""
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
        named, subject = entry.value.parent_id, subject_id(entry.value)
        # A reply before this tail that a compaction carries as undelivered is on every branch from the root on.
        parent = None if subject in self._carried_replies else self._resolve(named)
        node = self._resolve(subject) or parent or self.root
        if named is not None and not self.partial and self._resolve(named) is None:
            self._report(entry, "orphan", f"it refers to {named}, which does not precede it")
        self._attach(entry, node)
        if type(entry.value) in _INDEXED_TYPES:
            self._index(entry)
        if type(entry.value) is Head:
            self._move_head(entry, entry.value.target_id)
        elif type(entry.value) is DamageNote and entry.value.reason == "lost":
            self.mark_unreadable([damage_of_note(entry, entry.value)])
        elif type(entry.value) in _TYPES_NAMING_A_REPLY and self._refers_to_lost_reply(entry.value):
            self._references_to_lost.append(entry)

    def _refers_to_lost_reply(self, value: Body) -> bool:
        """Return whether an entry refers to a reply that is not in the tree: it is lost, or precedes this tail."""
        reply_id = referenced_reply(value)
        return reply_id is not None and reply_id not in self.nodes and reply_id not in self._carried_replies

    @property
    def may_lack_entries(self) -> bool:
        """Whether entries may be lost: only the whole log shows which are lost and which precede this tail."""
        return self.partial and bool(self._references_to_lost or self._holes) and bool(self.branch().holes)

    def ignore_missing_before(self, seq: int) -> None:
        """Ignore missing replies named up to the compaction at `seq`; they may precede this tail."""
        self._references_to_lost = [entry for entry in self._references_to_lost if entry.seq > seq]

    def _index(self, entry: Entry) -> None:
        self._by_type.setdefault(type(entry.value), []).append(entry)

    def _attach(self, annotation: Entry, node: str | None) -> None:
        """Attach an annotation to its node. Without one, only its id is recorded."""
        self._node_of_annotation[annotation.id] = node or ""
        if node is not None:
            self._annotations.setdefault(node, []).append(annotation)

    def _move_head(self, entry: Entry, target: str) -> None:
        found = self._resolve(target)
        if found is not None:
            self.set_head(found, entry.seq)
        elif not self.partial:
            self._report(entry, "orphan", f"it moves the head to {target}, which does not precede it")

    def _resolve(self, name: str | None) -> str | None:
        """Return the node that an id refers to: the node itself, or the node of an annotation."""
        if name is None:
            return None
        return name if name in self.nodes else self._node_of_annotation.get(name) or None

    def _report(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        digest = digest_of(entry.raw)
        self.damage.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason, digest))

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def find(self, entry_id: str) -> str:
        """Return the node that an id refers to; `NotFound` if there is none."""
        found = self._resolve(entry_id)
        if found is None:
            raise NotFound(f"no entry {entry_id} in this session")
        return found

    def entry(self, entry_id: str) -> Entry | None:
        """Return the node or annotation with this id; None if there is none."""
        if entry_id not in self._node_of_annotation:
            return self.nodes.get(entry_id)
        annotations = self._annotations.get(self._node_of_annotation[entry_id], ())
        return next((annotation for annotation in annotations if annotation.id == entry_id), None)

    def branch(self, at: str | None = None) -> Branch:
        """Return the branch that ends at an entry's node (default: the head)."""
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
            last_loss_offset=self.last_loss_offset,
            holes=self._holes_on(path) if self._holes or self._inherited_holes or self._references_to_lost else (),
        )

    def _holes_on(self, path: list[str]) -> tuple[Damage, ...]:
        """Return the places where entries of a branch may be lost: those since its last compaction."""
        own_nodes = [self.nodes[node] for node in path if node not in self._inherited]
        last = next((node for node in reversed(own_nodes) if isinstance(node.value, Compaction)), None)
        start = last.offset if last is not None else -1
        own = [*self._holes.values(), *(damage_of_reference(entry) for entry in self._references_to_lost)]
        since = sorted((hole for hole in own if hole.offset > start), key=lambda hole: hole.offset)
        return (*(self._inherited_holes if last is None else ()), *since)

    def _own(self, entries: list[Entry]) -> list[Entry]:
        return [entry for entry in entries if entry.id not in self._inherited] if self._inherited else entries

    def parent(self, node: str) -> str | None:
        """Return the previous node of the branch; None for the root."""
        return self._parents[node]

    def children(self, node: str) -> tuple[str, ...]:
        """Return the child nodes, oldest first."""
        first = self._first_child.get(node)
        return () if first is None else (first, *self._other_children.get(node, ()))

    def leaves(self) -> tuple[str, ...]:
        """Return the nodes without children, oldest first."""
        return tuple(node for node in self.nodes if node not in self._first_child)

    def branch_ends(self) -> tuple[str, ...]:
        """Return the leaves without data: `custom` entries that the model does not see, added beside another node."""
        return tuple(node for node in self.leaves() if node == self.head or not self._is_data_beside(node))

    def _is_data_beside(self, node: str) -> bool:
        value = self.nodes[node].value
        parent = self._parents.get(node)
        is_data = isinstance(value, Custom) and not value.in_context
        return is_data and parent is not None and self._first_child[parent] != node

    def annotations(self, node: str) -> tuple[Entry, ...]:
        """Return the annotations of a node, oldest first."""
        return tuple(self._annotations.get(node, ()))

    def is_inherited(self, node: str) -> bool:
        """Return whether an entry belongs to the session that this one was forked from."""
        return node in self._inherited

    def own_nodes(self) -> Iterator[Entry]:
        """Return the nodes of this session itself, in log order; the first is the session header."""
        return (node for node in self.nodes.values() if node.id not in self._inherited)

    def own_entries_of(self, kind: type[Body]) -> Sequence[Entry]:
        """Return the session's own entries of one of the indexed types (`_INDEXED_TYPES`), in log order."""
        return self._by_type.get(kind, ())

    @property
    def header(self) -> SessionHeader:
        """The session header; the recovered one if the first line cannot be read."""
        if self.recovered_header is not None:
            return self.recovered_header
        return next((node.value for node in self.own_nodes() if isinstance(node.value, SessionHeader)), SessionHeader())

    def own_entries(self) -> list[Entry]:
        """Return every entry of this session itself that is in the tree, in log order."""
        annotations = (annotation for annotations in self._annotations.values() for annotation in annotations)
        return sorted(self._own([*self.nodes.values(), *annotations]), key=_seq)

    def _walk(self, at: str | None) -> Iterator[str]:
        while at is not None:
            yield at
            at = self._parents[at]


def referenced_reply(value: Body) -> str | None:
    """Return the id of the reply whose existence this entry proves by referring to it; None if it proves none."""
    match value:
        case ToolStarted(reply_id=reply_id) | Spawned(reply_id=reply_id) | Sent(reply_id=reply_id, interrupted=None):
            return reply_id
        case Message(message=ToolResult(reply_id=str() as reply_id)):
            return reply_id
    return None


def damage_of_note(entry: Entry, note: DamageNote) -> Damage:
    """Return the damage that a `lost` note stands for; like an unreadable line, it may hide acknowledged entries."""
    reason = "lines were lost before this copy was made"
    return Damage("missing", entry.line, entry.offset, note.bytes, reason, note.digest)


def damage_of_reference(entry: Entry) -> Damage:
    """Return the damage proven by an entry that refers to an unreadable reply."""
    reason = f"this {entry.type} names a reply that cannot be read"
    return Damage("orphan", entry.line, entry.offset, len(entry.raw), reason, digest_of(entry.raw))


def subject_id(value: Body) -> str | None:
    """Return the id that an annotation refers to besides its parent; its node is the one the annotation belongs to."""
    field = _SUBJECT_FIELDS.get(type(value))
    named: str | None = getattr(value, field) if field is not None else None
    return named

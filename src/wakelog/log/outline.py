"""Outline of a log: its entry ids and their tree, in about 40 bytes per entry.

A `Tree` holds every entry and takes about three times the size of its log. An outline holds no entries: it knows the
ids, the node each id refers to, the path to each node and the head, and it reports the same damage as a tree
(`tests/laws/test_outline.py`). So a log of any size can be checked and copied line by line.
"""

from array import array
from itertools import compress

from wakelog.log.entry import Compaction, Entry, Head, Message
from wakelog.log.ids import NO_NUMBER, IdTable, digest_of, id_hash
from wakelog.log.lines import Damage, DamageKind
from wakelog.log.seal import find_seal
from wakelog.log.tree import subject_id

# The kind of an entry, in one byte; 0 is an annotation.
_ANNOTATION, _NODE, _MESSAGE = range(3)


class Outline:
    """Entries by number, in log order; the outline of a fork starts with the path it inherited."""

    def __init__(self) -> None:
        self.damage: list[Damage] = []
        self.inherited = 0
        """How many of the first entries belong to the session that this one was forked from."""
        self.root = NO_NUMBER
        self.last_node = NO_NUMBER
        self.head = NO_NUMBER
        """The node that the next entry goes under; `Tree` defines the rules."""
        self.last_seq = -1
        self.repeated: set[int] = set()
        """Hashes of the ids that occur more than once in the log."""
        self._ids = IdTable()
        # For a node its parent node; for an annotation the node it describes.
        self._nodes = array("i")
        self._offsets = array("Q")
        self._seals = array("Q")
        self._kinds = bytearray()
        self._gap_seq = self._head_seq = -1

    # ── adding entries ───────────────────────────────────────────────────────────────────────────

    def add(self, entry: Entry) -> None:
        """Add the next entry of the log; report it if its id, parent or target is wrong."""
        key = id_hash(entry.id)
        self._note_seq(entry.seq)
        if self._ids.number(key) != NO_NUMBER:
            self.repeated.add(key)
            self._report(entry, "repeated", f"the id {entry.id} is used a second time")
        elif entry.is_node:
            self._add_node(key, entry)
        else:
            self._append(key, self._subject_node(entry), entry, _ANNOTATION)

    def _note_seq(self, seq: int) -> None:
        if seq > self.last_seq:
            if seq > self.last_seq + 1:
                self._gap_seq = seq - 1
            self.last_seq = seq

    def _add_node(self, key: int, entry: Entry) -> None:
        parent = self._parent(entry)
        head = self._head_after(entry, parent)
        self._append(key, parent, entry, _MESSAGE if type(entry.value) is Message else _NODE)
        if head != NO_NUMBER:
            self._set_head(head, entry.seq)

    def _head_after(self, entry: Entry, parent: int) -> int:
        """Return the head after adding a node, whose number is the next one; `NO_NUMBER` if the head does not move."""
        value, number = entry.value, len(self)
        if isinstance(value, Compaction) and value.state is not None:
            return number if value.parent_id == value.state.head else self._resolve(value.state.head)
        if self.head == NO_NUMBER or value.seq is None:
            return number
        is_bridged = value.parent_id is not None and self._resolve(value.parent_id) == NO_NUMBER
        moves = self._gap_seq > self._head_seq if is_bridged else parent == self.head
        return number if moves else NO_NUMBER

    def _set_head(self, node: int, seq: int) -> None:
        self.head, self._head_seq = node, seq

    def inherit(self, parent: "Outline", path: bytearray) -> None:
        """Start with the entries of another outline that are marked in `path`, and their annotations."""
        numbers = array("i", [NO_NUMBER]) * len(parent)
        for number in range(len(parent)):
            key, node, offset, seal, kind = parent.record(number)
            if not (path[number] if kind else node != NO_NUMBER and path[node]):
                continue
            before = self.last_node if kind else numbers[node]
            numbers[number] = len(self)
            self._store(key, before, offset, seal, kind)
        self.inherited = len(self)

    def _parent(self, entry: Entry) -> int:
        named = entry.value.parent_id
        if named is None:
            return self.last_node
        found = self._resolve(named)
        if found == NO_NUMBER:
            self._report(entry, "bridged", f"its parent {named} cannot be read")
            return self.last_node
        return found

    def _subject_node(self, entry: Entry) -> int:
        value, named = entry.value, entry.value.parent_id
        hung = self._resolve(named)
        if named is not None and hung == NO_NUMBER:
            self._report(entry, "orphan", f"it refers to {named}, which does not precede it")
        node = self._first_known(self._resolve(subject_id(value)), hung)
        if isinstance(value, Head):
            self._move_head(entry, value.target_id, node if value.target_id == value.id else NO_NUMBER)
        return node

    def _move_head(self, entry: Entry, named: str, itself: int) -> None:
        """Move the head to the target of a `head` entry; one that targets itself means the node it describes."""
        target = itself if itself != NO_NUMBER else self._resolve(named)
        if target == NO_NUMBER:
            self._report(entry, "orphan", f"it moves the head to {named}, which does not precede it")
        else:
            self._set_head(target, entry.seq)

    def _first_known(self, *nodes: int) -> int:
        return next((node for node in nodes if node != NO_NUMBER), self.root)

    def _append(self, key: int, node: int, entry: Entry, kind: int) -> None:
        self._store(key, node, entry.offset, _seal_key(find_seal(entry.raw)), kind)

    def _store(self, key: int, node: int, offset: int, seal: int, kind: int) -> None:
        number = self._ids.add(key)
        self._nodes.append(node)
        self._offsets.append(offset)
        self._seals.append(seal)
        self._kinds.append(kind)
        if kind:
            self.last_node = number
            if self.root == NO_NUMBER:
                self.root = number

    def record(self, number: int) -> tuple[int, int, int, int, int]:
        """Return the stored fields of an entry: hash of its id, number of its node, offset, seal, kind."""
        kept = self._nodes[number], self._offsets[number], self._seals[number], self._kinds[number]
        return self._ids.hashes[number], *kept

    def _report(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        self.damage.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason, digest_of(entry.raw)))

    # ── queries ──────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self._ids)

    def find(self, entry_id: str) -> int | None:
        """Return the number of the node that an id refers to (itself, or an annotation's node); None if unknown."""
        found = self._resolve(entry_id)
        return None if found == NO_NUMBER else found

    def number(self, entry_id: str) -> int:
        """Return the number of the entry with this id, or `NO_NUMBER`."""
        return self._ids.number(id_hash(entry_id))

    def number_in(self, other: "Outline", number: int) -> int:
        """Return the number in this outline of an entry of another outline, or `NO_NUMBER`."""
        return self._ids.number(other.key(number))

    def parent(self, node: int) -> int:
        """Return the previous node of the branch; `NO_NUMBER` for the root."""
        return self._nodes[node]

    def node_of(self, number: int) -> int:
        """Return the number of a node itself, or of the node that an annotation describes; `NO_NUMBER` without one."""
        return number if self._kinds[number] else self._nodes[number]

    def key(self, number: int) -> int:
        """Return the hash of an entry's id, see `id_hash`."""
        return self._ids.hashes[number]

    def is_node(self, number: int) -> bool:
        """Return whether an entry is a node."""
        return bool(self._kinds[number])

    def count_messages(self, path: bytearray) -> int:
        """Return the number of messages among the nodes marked in `path`."""
        return sum(kind == _MESSAGE for kind in compress(self._kinds, path))

    def path(self, node: int) -> bytearray:
        """Return one byte per entry: 1 for the nodes from the root to this one."""
        marks = bytearray(len(self))
        while node != NO_NUMBER:
            marks[node] = 1
            node = self._nodes[node]
        return marks

    def number_of(self, entry: Entry) -> int | None:
        """Return the number of an entry of this log; None for a repetition, which has none."""
        number = self._ids.number(id_hash(entry.id))
        return number if number != NO_NUMBER and self._offsets[number] == entry.offset else None

    def offset(self, number: int) -> int:
        """Return the byte offset of an entry in the log it belongs to."""
        return self._offsets[number]

    def is_sealed_with(self, number: int, h: str) -> bool:
        """Return whether an entry has this seal."""
        return self._seals[number] == _seal_key(h)

    def _resolve(self, name: str | None) -> int:
        number = self._ids.number(id_hash(name)) if name is not None else NO_NUMBER
        return number if number == NO_NUMBER or self._kinds[number] else self._nodes[number]


def _seal_key(h: str | None) -> int:
    """Return a hash of a whole seal: any changed digit of it must be noticed."""
    return id_hash(h) if h is not None else 0

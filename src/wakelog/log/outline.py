"""The outline of a log: which entries it holds and what hangs on what, in about 40 bytes an entry.

A `Tree` holds every entry and takes about three times the size of its log. An outline takes no entry in: it answers
which ids are known, which link an id names, and which path leads to a link, and it reports the same damage as a tree
(`tests/laws/test_outline.py`). So a log of any size can be checked and copied line by line.
"""

from array import array

from wakelog.log.digest import digest_of
from wakelog.log.entry import Compaction, Entry, Head
from wakelog.log.id_table import NONE, IdTable, key_of
from wakelog.log.lines import Damage, DamageKind
from wakelog.log.seal import seal_of
from wakelog.log.tree import subject


class Outline:
    """Entries by number, in the order of the log; a fork's outline begins with the path it inherited."""

    def __init__(self) -> None:
        self.damage: list[Damage] = []
        self.inherited = 0
        """How many of the first entries belong to the session that this one was forked from."""
        self.sources = array("i")
        """For each inherited entry, its number in the parent's outline."""
        self.head = NONE
        """The number of the link that the next one goes under, by the rules of `Tree`."""
        self.last_seq = -1
        self._head_seq = self._gap_seq = -1
        self._ids = IdTable()
        # Of a link the link before it on its branch; of a fact the link that it is about.
        self._links = array("i")
        self._offsets = array("Q")
        self._seals = array("Q")
        self._is_link = bytearray()
        self._root = self._last_link = NONE

    # ── growing ──────────────────────────────────────────────────────────────────────────────────

    def add(self, entry: Entry) -> None:
        """Takes in the next entry of the log, and reports what does not fit."""
        key = key_of(entry.id)
        if entry.seq > self.last_seq:
            if entry.seq > self.last_seq + 1:
                self._gap_seq = entry.seq - 1
            self.last_seq = entry.seq
        if self._ids.number(key) != NONE:
            self._report(entry, "repeated", f"the id {entry.id} stands here a second time")
        elif entry.is_link:
            parent = self._parent(entry)
            head = self._head_after(entry, parent)
            self._append(key, parent, entry, is_link=True)
            self._set_head(head, entry.seq)
        else:
            self._append(key, self._about(entry), entry, is_link=False)
            if isinstance(entry.value, Head):
                self._set_head(self._resolved(entry.value.target_id), entry.seq)

    def inherit(self, parent: "Outline", path: bytearray) -> None:
        """Begins with the entries of another outline that are marked in `path`, and with what is said about them."""
        numbers = array("i", [NONE]) * len(parent)
        for number in range(len(parent)):
            key, link, offset, seal, is_link = parent.record(number)
            if not (path[number] if is_link else link != NONE and path[link]):
                continue
            before = self._last_link if is_link else numbers[link]
            numbers[number] = len(self)
            self.sources.append(number)
            self._take(key, before, offset, seal, is_link=is_link)
        self.inherited = len(self)

    def _parent(self, entry: Entry) -> int:
        named = entry.value.parent_id
        if named is None:
            return self._last_link
        found = self._resolved(named)
        if found == NONE:
            self._report(entry, "bridged", f"its parent {named} cannot be read")
            return self._last_link
        return found

    def _head_after(self, entry: Entry, parent: int) -> int:
        """Where a link that gets the next number leaves the head; `NONE` where it does not move it."""
        value, own = entry.value, len(self)
        if isinstance(value, Compaction) and value.state is not None:
            return own if value.parent_id == value.state.head else self._resolved(value.state.head)
        if self.head == NONE or value.seq is None:
            return own
        is_bridged = value.parent_id is not None and self._resolved(value.parent_id) == NONE
        moves = self._gap_seq > self._head_seq if is_bridged else parent == self.head
        return own if moves else NONE

    def _set_head(self, link: int, seq: int) -> None:
        if link != NONE:
            self.head, self._head_seq = link, seq

    def _about(self, entry: Entry) -> int:
        value, named = entry.value, entry.value.parent_id
        hung = self._resolved(named)
        if named is not None and hung == NONE:
            self._report(entry, "orphan", f"it speaks of {named}, which does not stand before it")
        link = self._first(self._resolved(subject(value)), hung)
        if isinstance(value, Head):
            self._check_target(entry, link if value.target_id == value.id else self._resolved(value.target_id))
        return link

    def _check_target(self, entry: Entry, target: int) -> None:
        if target == NONE and isinstance(entry.value, Head):
            reason = f"it moves the head to {entry.value.target_id}, which does not stand before it"
            self._report(entry, "orphan", reason)

    def _first(self, *links: int) -> int:
        return next((link for link in links if link != NONE), self._root)

    def _append(self, key: int, link: int, entry: Entry, *, is_link: bool) -> None:
        seal = seal_of(entry.raw)
        self._take(key, link, entry.offset, _seal_key(seal), is_link=is_link)

    def _take(self, key: int, link: int, offset: int, seal: int, *, is_link: bool) -> None:
        number = self._ids.add(key)
        self._links.append(link)
        self._offsets.append(offset)
        self._seals.append(seal)
        self._is_link.append(is_link)
        if is_link:
            self._last_link = number
            if self._root == NONE:
                self._root = number

    def _report(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        self.damage.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason, digest_of(entry.raw)))

    # ── asking ───────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        return len(self._ids)

    def link_of(self, number: int) -> int:
        """The number of the link that an entry is, or that a fact is about; `NONE` for a fact about nothing."""
        return number if self._is_link[number] else self._links[number]

    def is_link(self, number: int) -> bool:
        """Whether an entry is a link."""
        return bool(self._is_link[number])

    def key(self, number: int) -> int:
        """The hash of an entry's id, see `key_of`."""
        return self._ids.keys[number]

    def number_of_id(self, entry_id: str) -> int:
        """The number of an entry, or `NONE`."""
        return self._ids.number(key_of(entry_id))

    def record(self, number: int) -> tuple[int, int, int, int, bool]:
        """What is kept of an entry: the hash of its id, the number of its link, its offset, its seal, what it is."""
        is_link = bool(self._is_link[number])
        return self._ids.keys[number], self._links[number], self._offsets[number], self._seals[number], is_link

    def find(self, entry_id: str) -> int | None:
        """The number of the link that an id names: itself, or the one that a fact is about."""
        found = self._resolved(entry_id)
        return None if found == NONE else found

    def path(self, link: int) -> bytearray:
        """A mark for every entry: 1 on the links from the root to this one."""
        marks = bytearray(len(self))
        while link != NONE:
            marks[link] = 1
            link = self._links[link]
        return marks

    def number_of(self, entry: Entry) -> int | None:
        """The number of an entry of this log; None for a repetition, which has none."""
        number = self._ids.number(key_of(entry.id))
        return number if number != NONE and self._offsets[number] == entry.offset else None

    def offset(self, number: int) -> int:
        """Where an entry stands in the log that it belongs to."""
        return self._offsets[number]

    def is_sealed_with(self, number: int, h: str) -> bool:
        """Whether an entry carries this seal."""
        return self._seals[number] == _seal_key(h)

    def _resolved(self, name: str | None) -> int:
        number = self._ids.number(key_of(name)) if name is not None else NONE
        return number if number == NONE or self._is_link[number] else self._links[number]


def _seal_key(h: str | None) -> int:
    return int(h[:16], 16) if h is not None else 0

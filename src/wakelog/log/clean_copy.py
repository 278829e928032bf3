"""A clean, self-contained copy of a log: every readable entry in order, with new seals.

Rule 1: bodies keep their bytes. Only keys that would be wrong in the copy change: a node whose parent is unreadable
gets the parent it was bridged to.
Rule 2: where acknowledged lines may be lost, the copy contains a `damage` entry with reason `lost`, so that tool calls
before that place still count as started.
Rule 3: a fork is written out in full: its parent's branch first, then its own entries. Annotations by the parent's
workers (model calls, deliveries, leases) are not copied.
Rule 4: the same log gives the same copy: new ids are derived from bytes, and new timestamps are taken from other
entries.
Rule 5: a log of any size is copied line by line. Only the outlines of the log and of its copy are held in memory.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from wakelog.log.codec import decode, edit_line, encode, to_plain
from wakelog.log.content import JsonObject
from wakelog.log.entry import (
    ANNOTATION_TYPES,
    FORMAT_VERSION,
    NODE_TYPES,
    Activity,
    Compaction,
    DamageNote,
    Entry,
    Head,
    Label,
    SessionHeader,
    UnknownBody,
)
from wakelog.log.ids import NO_NUMBER, RANDOM_BYTES, digest_of, id_hash, is_id, new_id
from wakelog.log.lines import Damage, DamageKind, EntryReader, Line
from wakelog.log.outline import Outline
from wakelog.log.seal import SealChain, SealVerifier, unseal
from wakelog.log.timestamps import parse_ms

_BOM = b"\xef\xbb\xbf"
_ROOT = 0
_RECENT_NODES = 5_000


class SourceLog(msgspec.Struct, frozen=True):
    """A log to be copied: its outline, a way to read it again, and the history it inherited if it is a fork."""

    outline: Outline
    first: Entry
    session: Entry | None
    """The session header, at any position in the log."""
    lines: Callable[[], Iterable[Line]]
    id_of: Callable[[int], str]
    """Returns the id of an entry by its number in the outline. Slow: reads the log."""
    verify: bool = False
    """Whether lines whose seal does not match are left out; the copy would otherwise give them a valid seal."""
    inherited: Callable[[], Iterator[Entry]] = lambda: iter(())
    """Returns the nodes of the branch that a fork continues, and their annotations."""
    inherited_sessions: Sequence[SessionHeader] = ()
    inherited_damage: Sequence[Damage] = ()


class CleanCopy:
    """The copy in progress. Iterate over `lines()` to the end; the counts are valid after that."""

    def __init__(self, original: SourceLog) -> None:
        self._original = original
        self._old, self._new = original.outline, Outline()
        self._chain = SealChain()
        self._written: list[bytes] = []
        self._seq = self._size = 0
        self._time = ""
        # The node that gets the children of an old node, if not that node itself: old number → new number.
        self._replacements: dict[int, int] = {}
        self._recent: dict[int, str] = {}
        self._root_id = ""
        # Digests of copied bodies whose ids occur more than once in the log, by the hash of the id.
        self._repeated: dict[int, str] = {}
        # The seq of the last `attached` entry in the log and in the copy: an entry `left` names it as its fence.
        self._fence = self._new_fence = 0
        self.kept = 0
        self.changed = 0
        """Number of kept entries with any key changed."""
        self.lost = 0
        """Number of `lost` notes in the copy."""
        self.omitted: list[Damage] = []

    def lines(self) -> Iterator[bytes]:
        """Yield the sealed lines, without LF. Can be iterated once."""
        self._write_header()
        yield from self._drain()
        for inherited in self._original.inherited():
            self._keep_inherited(inherited)
            yield from self._drain()
        if self._original.inherited_damage:
            self._note_lost(self._original.inherited_damage, b"")
        reading = _SecondPass(self._original)
        for entry, hidden in reading.in_order():
            self._keep_any(entry) if entry is not None else self._note_lost(hidden, reading.bytes_of(hidden))
            yield from self._drain()
        self._write_head()
        yield from self._drain()
        damage = [defect for defect in reading.damage if defect.may_hide_entries or defect.kind == "torn"]
        self.omitted = sorted((*self.omitted, *damage), key=lambda defect: defect.offset)

    def _drain(self) -> list[bytes]:
        taken, self._written = self._written, []
        return taken

    # ── the session header ───────────────────────────────────────────────────────────────────────

    def _write_header(self) -> None:
        """Write the session header first, wherever it is in the log; make one if it cannot be read."""
        first, session = self._original.first, self._original.session
        self._time = (session or first).value.timestamp
        if session is None or not isinstance(session.value, SessionHeader):
            self._root_id = self._missing_session_id()
            self._write(encode(SessionHeader(id=self._root_id, timestamp=self._time, version=FORMAT_VERSION)))
            return
        self._root_id = session.id
        self._keep(session, _standalone_header(session.value, self._original.inherited_sessions))

    def _missing_session_id(self) -> str:
        """Return the id of a session whose header cannot be read: a parent id that no readable entry has."""
        first = self._original.first
        if first.type == "session":
            return first.id
        entries = (entry for entry, _ in _SecondPass(self._original).in_order() if entry is not None)
        parents = (entry.value.parent_id for entry in entries)
        named = next((name for name in parents if name is None or self._old.number(name) == NO_NUMBER), None)
        return named if named is not None and is_id(named) else self._derived_id(first.raw)

    def _keep_inherited(self, entry: Entry) -> None:
        if isinstance(entry.value, SessionHeader):
            self._replacements[self._old.number(entry.id)] = self._parent_in_copy(entry)
        elif entry.is_node:
            self._keep_node(entry)
        elif isinstance(entry.value, Label | UnknownBody):
            self._keep_any(entry)

    # ── copying entries ──────────────────────────────────────────────────────────────────────────

    def _keep_any(self, entry: Entry) -> None:
        """Copy an entry if the copy can hold it."""
        if _is_unreadable(entry):
            self._skip_unreadable(entry)
        elif (known := self._new.number(entry.id)) != NO_NUMBER:
            self._handle_repeated(entry, known)
        elif entry.is_node:
            self._keep_node(entry)
        else:
            self._keep_annotation(entry)

    def _handle_repeated(self, entry: Entry, there: int) -> None:
        """Handle a repeated id. For the header, which is written already, children go to the place where it was."""
        number = self._old.number_of(entry)
        if there == _ROOT and number is not None:
            self._replacements[number] = self._parent_in_copy(entry)
        elif self._repeated.get(id_hash(entry.id)) != digest_of(_body_to_seal(entry.raw)):
            self._report_omitted(entry, "repeated", f"the id {entry.id} is used a second time")

    def _keep_node(self, entry: Entry) -> None:
        if _is_unreadable(entry):
            self._skip_unreadable(entry)
            return
        parent = self._parent_in_copy(entry)
        changes: JsonObject = {}
        if not self._leads_to(entry.value.parent_id, parent):
            changes["parentId"] = self._id_of(parent)
        if isinstance(entry.value, Compaction):
            changes |= self._first_kept_changes(entry, entry.value.first_kept_entry_id)
            changes |= self._state_changes(entry, entry.value, parent)
        self._keep(entry, changes)

    def _first_kept_changes(self, entry: Entry, kept: str | None) -> JsonObject:
        """Return the change for a compaction whose first kept node is not in the copy: keep from the next one."""
        if kept is None:
            return {}
        number, spot = self._old.number(kept), self._new.number(kept)
        if self._is_new_node(spot) and self._replacements.get(number, spot) == spot:
            return {}
        path = self._old.path(self._old.number(entry.id))
        if number == NO_NUMBER or not path[number]:
            return {}
        spots = (self._new.number_in(self._old, node) for node in range(number, len(path)) if path[node])
        kept_spot = next((spot for spot in spots if self._is_new_node(spot) and spot != _ROOT), None)
        return {"firstKeptEntryId": self._id_of(kept_spot) if kept_spot is not None else entry.id}

    def _state_changes(self, entry: Entry, compaction: Compaction, parent: int) -> JsonObject:
        """Return the changes to a compaction's state: another head, or no state if it is another session's."""
        if compaction.state is None:
            return {}
        if self._old.number(entry.id) < self._old.inherited:
            return {"state": None}
        was = self._old.find(compaction.state.head)
        if was is None and compaction.parent_id != compaction.state.head:
            return {}
        head = parent if was is None or compaction.parent_id == compaction.state.head else self._place_in_copy(was)
        if head == self._new.number(compaction.state.head):
            return {}
        return {"state": to_plain(msgspec.structs.replace(compaction.state, head=self._id_of(head)))}

    def _keep_annotation(self, entry: Entry) -> None:
        value = entry.value
        changes: JsonObject = {}
        if isinstance(value, Head):
            target = self._old.find(value.target_id)
            if target is None:
                self._report_omitted(entry, "orphan", f"it moves the head to {value.target_id}, which cannot be read")
                return
            if not self._leads_to(value.target_id, self._place_in_copy(target)):
                changes["targetId"] = self._id_of(self._place_in_copy(target))
        if value.parent_id is not None and self._new.find(value.parent_id) is None:
            about = self._old.find(entry.id)
            changes["parentId"] = self._id_of(self._place_in_copy(about) if about is not None else _ROOT)
        if isinstance(value, Activity):
            changes |= self._fence_changes(entry, value)
        self._keep(entry, changes)

    def _fence_changes(self, entry: Entry, activity: Activity) -> JsonObject:
        """Return the change to the fence of a worker that left: the seq, in the copy, of the entry that attached it."""
        if activity.event == "attached":
            self._fence, self._new_fence = entry.seq, self._seq
        if activity.fence is None or activity.fence != self._fence or self._fence == self._new_fence:
            return {}
        return {"fence": self._new_fence}

    def _skip_unreadable(self, entry: Entry) -> None:
        """Skip an unreadable entry; its children go to the place it would have had."""
        if entry.is_node:
            self._replacements[self._old.number(entry.id)] = self._parent_in_copy(entry)

    def _report_omitted(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        self.omitted.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason))

    # ── positions in the copy ────────────────────────────────────────────────────────────────────

    def _parent_in_copy(self, entry: Entry) -> int:
        parent = self._old.parent(self._old.number(entry.id))
        return _ROOT if parent == NO_NUMBER else self._place_in_copy(parent)

    def _place_in_copy(self, node: int) -> int:
        """Return the number, in the copy, of the node that gets the children of an old node."""
        spot = self._replacements[node] if node in self._replacements else self._new.number_in(self._old, node)
        return spot if self._is_new_node(spot) else _ROOT

    def _is_new_node(self, number: int) -> bool:
        return number != NO_NUMBER and self._new.is_node(number)

    def _leads_to(self, named: str | None, node: int) -> bool:
        """Return whether the id `named`, used as a parent or target, refers to this node in the copy."""
        return (self._new.last_node if named is None else self._new.find(named)) == node

    def _id_of(self, node: int) -> str:
        """Return the id of a node of the copy."""
        if node == _ROOT:
            return self._root_id
        return self._recent.get(node) or self._original.id_of(self._old.number_in(self._new, node))

    # ── writing lines ────────────────────────────────────────────────────────────────────────────

    def _note_lost(self, hidden: Sequence[Damage], content: bytes) -> None:
        """Write a note that acknowledged lines may be lost here."""
        note = DamageNote(
            id=self._derived_id(b"%d:%b" % (hidden[0].offset, content)),
            parent_id=self._root_id,
            timestamp=self._time,
            offset=hidden[0].offset,
            bytes=sum(defect.size for defect in hidden),
            digest=digest_of(content),
            reason="lost",
        )
        self._write(encode(note))
        self.lost += 1

    def _write_head(self) -> None:
        """Write a `head` entry if the head of the copy would differ from that of the log."""
        if self._old.head == NO_NUMBER or self._place_in_copy(self._old.head) == self._new.head:
            return
        head = self._id_of(self._place_in_copy(self._old.head))
        fresh = self._derived_id(b"head:" + head.encode())
        self._write(encode(Head(id=fresh, parent_id=head, timestamp=self._time, target_id=head)))

    def _keep(self, entry: Entry, changes: JsonObject) -> None:
        body = _body_to_seal(entry.raw)
        if (key := id_hash(entry.id)) in self._old.repeated:
            self._repeated[key] = digest_of(body)
        self._write(edit_line(body, changes) if changes else body)
        self._time = entry.value.timestamp or self._time
        self.kept += 1
        self.changed += bool(changes)

    def _write(self, body: bytes) -> None:
        line = self._chain.seal(body, self._seq)
        self._written.append(line)
        entry = Entry(line, decode(line), self._seq, self._size, self._seq + 1)
        self._new.add(entry)
        if entry.is_node:
            self._remember(self._new.last_node, entry.id)
        self._seq += 1
        self._size += len(line) + 1

    def _remember(self, node: int, name: str) -> None:
        self._recent[node] = name
        if len(self._recent) > _RECENT_NODES:
            del self._recent[next(iter(self._recent))]

    def _derived_id(self, content: bytes) -> str:
        chance = hashlib.sha256(self._chain.h.encode() + content).digest()[:RANDOM_BYTES]
        return new_id(max(0, parse_ms(self._time) or 0), chance)


class _SecondPass:
    """The second pass over a log: its entries, and the damage between them that may hide entries."""

    def __init__(self, original: SourceLog) -> None:
        self._lines = original.lines()
        self._reader = EntryReader(seals=SealVerifier() if original.verify else None)
        # Raw bytes of damaged lines, kept until the entry after them is read.
        self._raw: dict[int, bytes] = {}

    @property
    def damage(self) -> list[Damage]:
        """The damage found so far."""
        return self._reader.damage

    def in_order(self) -> Iterator[tuple[Entry | None, list[Damage]]]:
        """Yield (entry, []) and, between entries, (None, damage) for each place where entries may be lost."""
        hidden: list[Damage] = []
        for line in self._lines:
            before = len(self.damage)
            entries = self._reader.feed(line)
            if len(self.damage) > before:
                self._raw[line.offset] = line.raw
                hidden += [defect for defect in self.damage[before:] if defect.may_hide_entries]
            for entry in entries:
                stretch = [defect for defect in hidden if defect.offset <= entry.offset]
                if stretch:
                    yield None, stretch
                    hidden = hidden[len(stretch) :]
                yield entry, []
            if not hidden:
                self._raw.clear()
        if hidden:
            yield None, hidden

    def bytes_of(self, hidden: list[Damage]) -> bytes:
        """Return the damaged bytes; of a line over the size limit, only the last slice."""
        return b"".join(self._raw.get(defect.offset, b"")[: defect.size] for defect in hidden)


def _body_to_seal(raw: bytes) -> bytes:
    """Return a line as a body to be sealed again: without v, seq and h."""
    body = unseal(raw).removeprefix(_BOM).strip()
    value = decode(body)
    return edit_line(body, {}, without=("v", "seq", "h")) if value.seq is not None else body


def _is_unreadable(entry: Entry) -> bool:
    """Return whether an entry is of a known type and only its envelope could be read."""
    return isinstance(entry.value, UnknownBody) and entry.type in NODE_TYPES | ANNOTATION_TYPES


def _standalone_header(session: SessionHeader, inherited: Sequence[SessionHeader]) -> JsonObject:
    """Return the changes to a fork's header: its parent is only an origin, and inherited settings become its own."""
    if session.parent is None or session.parent.kind != "fork":
        return {}
    changes: JsonObject = {"parent": to_plain(msgspec.structs.replace(session.parent, kind="import"))}
    sessions = [*inherited, session]
    for key in ("model", "provider"):
        said = [getattr(one, key) for one in sessions if getattr(one, key)]
        changes |= {key: said[-1]} if said else {}
    settings = {name: value for one in sessions for name, value in one.settings.items()}
    return changes | ({"settings": settings} if settings else {})

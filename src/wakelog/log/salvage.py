"""A clean copy of a log: everything that can be read, in order, sealed anew, standing on its own.

Rule 1: bodies keep their bytes. Only what would not stand in the copy is changed, key by key: a node
that hung on something unreadable names the node it was bridged to.
Rule 2: where acknowledged lines may have been lost the copy says so (`damage`, reason `lost`), so that
tool calls before that place still count as begun.
Rule 3: a fork is written out whole: its parent's branch first, then its own entries. What the parent's
workers did there (calls, deliveries, leases) is the parent's, and stays behind.
Rule 4: the same log gives the same copy: ids of what is added are made from bytes, times are borrowed.
Rule 5: a log of any size is copied line by line. The outlines of the log and of its copy are all that is held.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from wakelog.log.codec import amended, decode, encode, plain
from wakelog.log.content import JsonObject
from wakelog.log.digest import digest_of
from wakelog.log.entry import (
    ANNOTATION_TYPES,
    FORMAT_VERSION,
    NODE_TYPES,
    Compaction,
    DamageNote,
    Entry,
    Head,
    Label,
    Session,
    Unknown,
)
from wakelog.log.id_table import NONE, key_of
from wakelog.log.ids import RANDOM_BYTES, is_id, new_id
from wakelog.log.lines import Damage, DamageKind, Line, Reader
from wakelog.log.outline import Outline
from wakelog.log.seal import Chain, SealCheck, unsealed
from wakelog.log.times import parse_ms

_BOM = b"\xef\xbb\xbf"
_ROOT = 0
_RECENT_NODES = 5_000


class Original(msgspec.Struct, frozen=True):
    """A log to be copied: its outline, how to read it once more, and what it inherited if it is a fork."""

    outline: Outline
    first: Entry
    session: Entry | None
    """The session entry, wherever it stands."""
    lines: Callable[[], Iterable[Line]]
    id_of: Callable[[int], str]
    """The id of an entry by its number in the outline. Slow: the log is read for it."""
    verify: bool = False
    """Whether a line whose seal does not match is left out: the copy is sealed anew, and must not vouch for it."""
    inherited: Callable[[], Iterator[Entry]] = lambda: iter(())
    """The nodes of the branch that a fork goes on from, and what is said about them."""
    inherited_sessions: Sequence[Session] = ()
    inherited_holes: Sequence[Damage] = ()


class CleanCopy:
    """The copy as it is made: `lines` gives it, and when they are at their end the counts say what it took."""

    def __init__(self, original: Original) -> None:
        self._original = original
        self._old, self._new = original.outline, Outline()
        self._chain = Chain()
        self._written: list[bytes] = []
        self._seq = self._size = 0
        self._time = ""
        # Where the children of an old node go in the copy, if not under that node itself: old number → new number.
        self._instead: dict[int, int] = {}
        self._recent: dict[int, str] = {}
        self._root_id = ""
        # The digests of the bodies whose ids stand in the log more than once, by the hash of the id.
        self._repeated: dict[int, str] = {}
        self.kept = 0
        self.mended = 0
        """How many of the kept entries got another parent or target."""
        self.lost = 0
        """In how many places the copy says that something may have been lost there."""
        self.left_out: list[Damage] = []

    def lines(self) -> Iterator[bytes]:
        """The sealed lines, without LF. They can be taken once."""
        self._begin()
        yield from self._taken()
        for inherited in self._original.inherited():
            self._keep_inherited(inherited)
            yield from self._taken()
        if self._original.inherited_holes:
            self._note_lost(self._original.inherited_holes, b"")
        reading = _Reading(self._original)
        for entry, hidden in reading.in_order():
            self._keep_any(entry) if entry is not None else self._note_lost(hidden, reading.bytes_of(hidden))
            yield from self._taken()
        self._set_head()
        yield from self._taken()
        damage = [hurt for hurt in reading.damage if hurt.hides or hurt.kind == "torn"]
        self.left_out = sorted((*self.left_out, *damage), key=lambda hurt: hurt.offset)

    def _taken(self) -> list[bytes]:
        taken, self._written = self._written, []
        return taken

    # ── beginning ────────────────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """Puts the session entry in front, wherever it stands."""
        first, session = self._original.first, self._original.session
        self._time = (session or first).value.timestamp
        if session is None or not isinstance(session.value, Session):
            self._root_id = self._lost_id()
            self._write(encode(Session(id=self._root_id, timestamp=self._time, version=FORMAT_VERSION)))
            return
        self._root_id = session.id
        self._keep(session, _standalone(session.value, self._original.inherited_sessions))

    def _lost_id(self) -> str:
        """The id of a session whose first line cannot be read: what entries call their parent, though none is it."""
        first = self._original.first
        if first.type == "session":
            return first.id
        entries = (entry for entry, _ in _Reading(self._original).in_order() if entry is not None)
        parents = (entry.value.parent_id for entry in entries)
        named = next((name for name in parents if name is None or self._old.number(name) == NONE), None)
        return named if named is not None and is_id(named) else self._fresh_id(first.raw)

    def _keep_inherited(self, entry: Entry) -> None:
        if isinstance(entry.value, Session):
            self._instead[self._old.number(entry.id)] = self._parent_spot(entry)
        elif entry.is_node:
            self._keep_node(entry)
        elif isinstance(entry.value, Label | Unknown):
            self._keep_any(entry)

    # ── keeping ──────────────────────────────────────────────────────────────────────────────────

    def _keep_any(self, entry: Entry) -> None:
        """Takes an entry over, if the copy can hold it."""
        if _is_unreadable(entry):
            self._give_up(entry)
        elif (there := self._new.number(entry.id)) != NONE:
            self._meet_again(entry, there)
        elif entry.is_node:
            self._keep_node(entry)
        else:
            self._keep_annotation(entry)

    def _meet_again(self, entry: Entry, there: int) -> None:
        """The session entry stands in front already: what hung on it goes where it stood. Others are repetitions."""
        number = self._old.number_of(entry)
        if there == _ROOT and number is not None:
            self._instead[number] = self._parent_spot(entry)
        elif self._repeated.get(key_of(entry.id)) != digest_of(_body(entry.raw)):
            self._leave_out(entry, "repeated", f"the id {entry.id} stands there a second time")

    def _keep_node(self, entry: Entry) -> None:
        if _is_unreadable(entry):
            self._give_up(entry)
            return
        parent = self._parent_spot(entry)
        changes: JsonObject = {}
        if not self._leads_to(entry.value.parent_id, parent):
            changes["parentId"] = self._id_of(parent)
        if isinstance(entry.value, Compaction):
            changes |= self._first_kept(entry, entry.value.first_kept_entry_id)
            changes |= self._carried(entry, entry.value, parent)
        self._keep(entry, changes)

    def _first_kept(self, entry: Entry, kept: str | None) -> JsonObject:
        """A fold that keeps from a node which is not in the copy, or not in its place, keeps from the next one."""
        if kept is None:
            return {}
        number, spot = self._old.number(kept), self._new.number(kept)
        if self._is_new_node(spot) and self._instead.get(number, spot) == spot:
            return {}
        path = self._old.path(self._old.number(entry.id))
        if number == NONE or not path[number]:
            return {}
        spots = (self._new.number_in(self._old, node) for node in range(number, len(path)) if path[node])
        standing = next((spot for spot in spots if self._is_new_node(spot) and spot != _ROOT), None)
        return {"firstKeptEntryId": self._id_of(standing) if standing is not None else entry.id}

    def _carried(self, entry: Entry, fold: Compaction, parent: int) -> JsonObject:
        """What has to change in the state a fold carries: where the head was, or that it is another session's."""
        if fold.state is None:
            return {}
        if self._old.number(entry.id) < self._old.inherited:
            return {"state": None}
        was = self._old.find(fold.state.head)
        if was is None and fold.parent_id != fold.state.head:
            return {}
        head = parent if was is None or fold.parent_id == fold.state.head else self._spot(was)
        if head == self._new.number(fold.state.head):
            return {}
        return {"state": plain(msgspec.structs.replace(fold.state, head=self._id_of(head)))}

    def _keep_annotation(self, entry: Entry) -> None:
        value = entry.value
        changes: JsonObject = {}
        if isinstance(value, Head):
            target = self._old.find(value.target_id)
            if target is None:
                self._leave_out(entry, "orphan", f"it moves the head to {value.target_id}, which cannot be read")
                return
            if not self._leads_to(value.target_id, self._spot(target)):
                changes["targetId"] = self._id_of(self._spot(target))
        if value.parent_id is not None and self._new.find(value.parent_id) is None:
            about = self._old.find(entry.id)
            changes["parentId"] = self._id_of(self._spot(about) if about is not None else _ROOT)
        self._keep(entry, changes)

    def _give_up(self, entry: Entry) -> None:
        """What hung on an entry that cannot be read goes where that entry would have gone."""
        if entry.is_node:
            self._instead[self._old.number(entry.id)] = self._parent_spot(entry)

    def _leave_out(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        self.left_out.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason))

    # ── places ───────────────────────────────────────────────────────────────────────────────────

    def _parent_spot(self, entry: Entry) -> int:
        parent = self._old.parent(self._old.number(entry.id))
        return _ROOT if parent == NONE else self._spot(parent)

    def _spot(self, node: int) -> int:
        """Where the children of an old node go in the copy."""
        spot = self._instead[node] if node in self._instead else self._new.number_in(self._old, node)
        return spot if self._is_new_node(spot) else _ROOT

    def _is_new_node(self, number: int) -> bool:
        return number != NONE and self._new.is_node(number)

    def _leads_to(self, named: str | None, node: int) -> bool:
        """Whether what names this entry would mean that node in the copy."""
        return (self._new.last_node if named is None else self._new.find(named)) == node

    def _id_of(self, node: int) -> str:
        """The id of a node of the copy."""
        if node == _ROOT:
            return self._root_id
        return self._recent.get(node) or self._original.id_of(self._old.number_in(self._new, node))

    # ── adding ───────────────────────────────────────────────────────────────────────────────────

    def _note_lost(self, hidden: Sequence[Damage], content: bytes) -> None:
        """Says that acknowledged lines may have stood here."""
        note = DamageNote(
            id=self._fresh_id(b"%d:%b" % (hidden[0].offset, content)),
            parent_id=self._root_id,
            timestamp=self._time,
            offset=hidden[0].offset,
            bytes=sum(hurt.size for hurt in hidden),
            digest=digest_of(content),
            reason="lost",
        )
        self._write(encode(note))
        self.lost += 1

    def _set_head(self) -> None:
        """Where the copy's head would be another than the log's, it is put where it was."""
        if self._old.head == NONE or self._spot(self._old.head) == self._new.head:
            return
        head = self._id_of(self._spot(self._old.head))
        fresh = self._fresh_id(b"head:" + head.encode())
        self._write(encode(Head(id=fresh, parent_id=head, timestamp=self._time, target_id=head)))

    def _keep(self, entry: Entry, changes: JsonObject) -> None:
        body = _body(entry.raw)
        if (key := key_of(entry.id)) in self._old.repeated:
            self._repeated[key] = digest_of(body)
        self._write(amended(body, changes) if changes else body)
        self._time = entry.value.timestamp or self._time
        self.kept += 1
        self.mended += bool(changes)

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

    def _fresh_id(self, content: bytes) -> str:
        chance = hashlib.sha256(self._chain.h.encode() + content).digest()[:RANDOM_BYTES]
        return new_id(max(0, parse_ms(self._time) or 0), chance)


class _Reading:
    """The second reading of a log: its entries, and the stretches between them that hide something."""

    def __init__(self, original: Original) -> None:
        self._lines = original.lines()
        self._reader = Reader(seals=SealCheck() if original.verify else None)
        # The bytes of the lines that are damaged, until the entry behind them comes.
        self._raw: dict[int, bytes] = {}

    @property
    def damage(self) -> list[Damage]:
        """What could not be read so far."""
        return self._reader.damage

    def in_order(self) -> Iterator[tuple[Entry | None, list[Damage]]]:
        """Entries, and between them (as None) the hidden stretches that stand there."""
        hidden: list[Damage] = []
        for line in self._lines:
            before = len(self.damage)
            entries = self._reader.feed(line)
            if len(self.damage) > before:
                self._raw[line.offset] = line.raw
                hidden += [hurt for hurt in self.damage[before:] if hurt.hides]
            for entry in entries:
                stretch = [hurt for hurt in hidden if hurt.offset <= entry.offset]
                if stretch:
                    yield None, stretch
                    hidden = hidden[len(stretch) :]
                yield entry, []
            if not hidden:
                self._raw.clear()
        if hidden:
            yield None, hidden

    def bytes_of(self, hidden: list[Damage]) -> bytes:
        """The unreadable bytes themselves; of a line over the limit only its last slice was held."""
        return b"".join(self._raw.get(hurt.offset, b"")[: hurt.size] for hurt in hidden)


def _body(raw: bytes) -> bytes:
    """A line as the body to be sealed anew: without its place, whoever gave it one."""
    body = unsealed(raw).removeprefix(_BOM).strip()
    value = decode(body)
    return amended(body, {}, without=("v", "seq", "h")) if value.seq is not None else body


def _is_unreadable(entry: Entry) -> bool:
    """Whether only the envelope of a type we know could be read."""
    return isinstance(entry.value, Unknown) and entry.type in NODE_TYPES | ANNOTATION_TYPES


def _standalone(session: Session, inherited: Sequence[Session]) -> JsonObject:
    """What changes in a fork's first line: it no longer reads through, and has what was in force where it left."""
    if session.parent is None or session.parent.kind != "fork":
        return {}
    changes: JsonObject = {"parent": plain(msgspec.structs.replace(session.parent, kind="import"))}
    sessions = [*inherited, session]
    for key in ("model", "provider"):
        said = [getattr(one, key) for one in sessions if getattr(one, key)]
        changes |= {key: said[-1]} if said else {}
    settings = {name: value for one in sessions for name, value in one.settings.items()}
    return changes | ({"settings": settings} if settings else {})

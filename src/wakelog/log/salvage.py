"""A clean copy of a log: everything that can be read, in order, sealed anew, standing on its own.

Rule 1: bodies keep their bytes. Only what would not stand in the copy is changed, key by key: a link
that hung on something unreadable names the link it was bridged to.
Rule 2: where acknowledged lines may have been lost the copy says so (`damage`, reason `lost`), so that
tool calls before that place still count as begun.
Rule 3: a fork is written out whole: its parent's branch first, then its own entries. What the parent's
workers did there (calls, deliveries, leases) is the parent's, and stays behind.
Rule 4: the same log gives the same copy: ids of what is added are made from bytes, times are borrowed.
"""

import hashlib
from collections.abc import Iterable, Iterator

import msgspec

from wakelog.errors import NewerFormat, NotFound
from wakelog.log.codec import amended, decode, encode, plain
from wakelog.log.content import JsonObject
from wakelog.log.digest import digest_of
from wakelog.log.entry import (
    FACT_TYPES,
    FORMAT_VERSION,
    LINK_TYPES,
    Compaction,
    DamageNote,
    Entry,
    Head,
    Label,
    Session,
    Unknown,
)
from wakelog.log.ids import RANDOM_BYTES, is_id, new_id
from wakelog.log.lines import Damage, DamageKind, Line, Reader
from wakelog.log.seal import Chain, SealCheck, unsealed
from wakelog.log.times import parse_ms
from wakelog.log.tree import Branch, Tree

_BOM = b"\xef\xbb\xbf"


class Salvaged(msgspec.Struct, frozen=True):
    """A clean copy, as sealed lines without LF, and what it took to make it."""

    lines: tuple[bytes, ...] = ()
    kept: int = 0
    mended: int = 0
    """How many of the kept entries got another parent or target."""
    lost: int = 0
    """In how many places the copy says that something may have been lost there."""
    left_out: tuple[Damage, ...] = ()

    @property
    def content(self) -> bytes:
        """The bytes of the copy."""
        return b"".join(line + b"\n" for line in self.lines)


def salvage(lines: Iterable[Line], inherited: Branch | None = None, *, verify: bool = False) -> Salvaged:
    """The clean copy of a log. `inherited` is the branch that a fork goes on from.

    With `verify` a line whose seal does not match is left out like an unreadable one: the copy is sealed anew, and must
    not vouch for what was changed.
    """
    found = _Found(lines, verify=verify)
    if not found.entries:
        return Salvaged(left_out=tuple(found.damage))
    old = Tree()
    if inherited is not None:
        old.inherit(inherited)
    copy = _Copy(old.add_all(found.entries))
    copy.begin(found.entries, inherited.links if inherited is not None else ())
    if inherited is not None and inherited.holes:
        copy.note_lost(list(inherited.holes), b"")
    for entry, hidden in found.in_order():
        copy.keep(entry) if entry is not None else copy.note_lost(hidden, found.bytes_of(hidden))
    copy.set_head()
    return copy.result([hurt for hurt in found.damage if hurt.hides or hurt.kind == "torn"])


class _Found:
    """What reading a log gave: its entries, and the stretches between them that hide something."""

    def __init__(self, lines: Iterable[Line], *, verify: bool) -> None:
        reader = Reader(seals=SealCheck() if verify else None)
        self.entries: list[Entry] = []
        self._raw: dict[int, bytes] = {}
        for line in lines:
            before = len(reader.damage)
            self.entries += reader.feed(line)
            if len(reader.damage) > before:
                self._raw[line.offset] = line.raw
        self.damage = reader.damage
        newer = next((hurt for hurt in self.damage if hurt.kind == "newer"), None)
        if newer is not None:
            raise NewerFormat(f"line {newer.line}: {newer.reason}", hint="upgrade wakelog and try again")

    def in_order(self) -> Iterator[tuple[Entry | None, list[Damage]]]:
        """Entries, and between them (as None) the hidden stretches that stand there."""
        hidden = [hurt for hurt in self.damage if hurt.hides]
        start = 0
        for entry in self.entries:
            end = start
            while end < len(hidden) and hidden[end].offset <= entry.offset:
                end += 1
            if end > start:
                yield None, hidden[start:end]
            yield entry, []
            start = end
        if hidden[start:]:
            yield None, hidden[start:]

    def bytes_of(self, hidden: list[Damage]) -> bytes:
        """The unreadable bytes themselves; of a line over the limit only its last slice was held."""
        return b"".join(self._raw.get(hurt.offset, b"")[: hurt.size] for hurt in hidden)


class _Copy:
    """The new log as it grows: its lines, their chain, their tree, and where each old link stands in it."""

    def __init__(self, old: Tree) -> None:
        self._old = old
        self._tree = Tree()
        self._chain = Chain()
        self._lines: list[bytes] = []
        self._size = 0
        self._time = ""
        # Where the children of an old link go, if not under that link itself.
        self._instead: dict[str, str] = {}
        self._kept = self._mended = self._lost = 0
        self._left_out: list[Damage] = []

    def result(self, damage: list[Damage]) -> Salvaged:
        left_out = sorted((*self._left_out, *damage), key=lambda hurt: hurt.offset)
        return Salvaged(tuple(self._lines), self._kept, self._mended, self._lost, tuple(left_out))

    # ── beginning ────────────────────────────────────────────────────────────────────────────────

    def begin(self, entries: list[Entry], inherited: tuple[Entry, ...]) -> None:
        """Puts the session entry in front, wherever it stands, and behind it what a fork inherited."""
        first = next((entry for entry in entries if isinstance(entry.value, Session)), None)
        self._time = (first or entries[0]).value.timestamp
        if first is None or not isinstance(first.value, Session):
            session_id = self._lost_id(entries)
            self._write(encode(Session(id=session_id, timestamp=self._time, version=FORMAT_VERSION)))
            return
        self._keep(first, _standalone(first.value, inherited))
        for link in inherited:
            if isinstance(link.value, Session):
                self._instead[link.id] = self._parent_spot(link)
            else:
                self._keep_inherited(link)

    def _lost_id(self, entries: list[Entry]) -> str:
        """The id of a session whose first line cannot be read: what entries call their parent, though none is it."""
        first = entries[0]
        if first.type == "session":
            return first.id
        there = {entry.id for entry in entries}
        named = next((name for entry in entries if (name := entry.value.parent_id) not in there), None)
        return named if named is not None and is_id(named) else self._fresh_id(first.raw)

    def _keep_inherited(self, link: Entry) -> None:
        self._keep_link(link)
        for fact in self._old.facts(link.id):
            if self._old.is_inherited(fact.id) and isinstance(fact.value, Label | Unknown):
                self.keep(fact)

    # ── keeping ──────────────────────────────────────────────────────────────────────────────────

    def keep(self, entry: Entry) -> None:
        """Takes an entry over, if the copy can hold it."""
        if _is_unreadable(entry):
            self._give_up(entry)
        elif (there := self._tree.entry(entry.id)) is not None:
            self._meet_again(entry, there)
        elif entry.is_link:
            self._keep_link(entry)
        else:
            self._keep_fact(entry)

    def _meet_again(self, entry: Entry, there: Entry) -> None:
        """The session entry stands in front already: what hung on it goes where it stood. Others are repetitions."""
        if there.seq == 0 and entry is self._old.links.get(entry.id):
            self._instead[entry.id] = self._parent_spot(entry)
        elif _body(there.raw) != _body(entry.raw):
            self._leave_out(entry, "repeated", f"the id {entry.id} stands there a second time")

    def _keep_link(self, entry: Entry) -> None:
        if _is_unreadable(entry):
            self._give_up(entry)
            return
        parent = self._parent_spot(entry)
        changes: JsonObject = {}
        if not self._leads_to(entry.value.parent_id, parent):
            changes["parentId"] = parent
        if isinstance(entry.value, Compaction):
            changes |= self._first_kept(entry, entry.value.first_kept_entry_id)
            changes |= self._carried(entry, entry.value, parent)
        self._keep(entry, changes)

    def _first_kept(self, entry: Entry, kept: str | None) -> JsonObject:
        """A fold that keeps from a link which is not in the copy, or not in its place, keeps from the next one."""
        if kept is None or (kept in self._tree.links and self._instead.get(kept, kept) == kept):
            return {}
        path = [link.id for link in self._old.branch(entry.id).links]
        if kept not in path:
            return {}
        standing = (link for link in path[path.index(kept) :] if link in self._tree.links and link != self._root)
        return {"firstKeptEntryId": next(standing, entry.id)}

    def _carried(self, entry: Entry, fold: Compaction, parent: str) -> JsonObject:
        """What has to change in the state a fold carries: where the head was, or that it is another session's."""
        if fold.state is None:
            return {}
        if self._old.is_inherited(entry.id):
            return {"state": None}
        was = _found(self._old, fold.state.head)
        head = parent if fold.parent_id == fold.state.head else self._spot(was) if was else fold.state.head
        if head == fold.state.head:
            return {}
        return {"state": plain(msgspec.structs.replace(fold.state, head=head))}

    def _keep_fact(self, entry: Entry) -> None:
        value = entry.value
        changes: JsonObject = {}
        if isinstance(value, Head):
            target = _found(self._old, value.target_id)
            if target is None:
                self._leave_out(entry, "orphan", f"it moves the head to {value.target_id}, which cannot be read")
                return
            if not self._leads_to(value.target_id, self._spot(target)):
                changes["targetId"] = self._spot(target)
        if value.parent_id is not None and _found(self._tree, value.parent_id) is None:
            changes["parentId"] = self._spot(_found(self._old, entry.id) or self._root)
        self._keep(entry, changes)

    def _give_up(self, entry: Entry) -> None:
        """What hung on an entry that cannot be read goes where that entry would have gone."""
        if entry.is_link:
            self._instead[entry.id] = self._parent_spot(entry)

    def _leave_out(self, entry: Entry, kind: DamageKind, reason: str) -> None:
        self._left_out.append(Damage(kind, entry.line, entry.offset, len(entry.raw), reason))

    # ── places ───────────────────────────────────────────────────────────────────────────────────

    def _parent_spot(self, entry: Entry) -> str:
        parent = self._old.parent(entry.id)
        return self._root if parent is None else self._spot(parent)

    def _spot(self, link: str) -> str:
        """Where the children of an old link go in the copy."""
        spot = self._instead.get(link, link)
        return spot if spot in self._tree.links else self._root

    @property
    def _root(self) -> str:
        assert self._tree.root is not None
        return self._tree.root

    def _leads_to(self, named: str | None, link: str) -> bool:
        """Whether what names this entry would mean that link in the copy."""
        last = next(reversed(self._tree.links))
        return (last if named is None else _found(self._tree, named)) == link

    # ── adding ───────────────────────────────────────────────────────────────────────────────────

    def note_lost(self, hidden: list[Damage], content: bytes) -> None:
        """Says that acknowledged lines may have stood here."""
        note = DamageNote(
            id=self._fresh_id(b"%d:%b" % (hidden[0].offset, content)),
            parent_id=self._root,
            timestamp=self._time,
            offset=hidden[0].offset,
            bytes=sum(hurt.size for hurt in hidden),
            digest=digest_of(content),
            reason="lost",
        )
        self._write(encode(note))
        self._lost += 1

    def set_head(self) -> None:
        """Where the copy's head would be another than the log's, it is put where it was."""
        if self._old.head is None or self._spot(self._old.head) == self._tree.head:
            return
        head = self._spot(self._old.head)
        fresh = self._fresh_id(b"head:" + head.encode())
        self._write(encode(Head(id=fresh, parent_id=head, timestamp=self._time, target_id=head)))

    def _keep(self, entry: Entry, changes: JsonObject) -> None:
        body = _body(entry.raw)
        self._write(amended(body, changes) if changes else body)
        self._time = entry.value.timestamp or self._time
        self._kept += 1
        self._mended += bool(changes)

    def _write(self, body: bytes) -> None:
        seq = len(self._lines)
        line = self._chain.seal(body, seq)
        self._lines.append(line)
        self._tree.add(Entry(line, decode(line), seq, self._size, seq + 1))
        self._size += len(line) + 1

    def _fresh_id(self, content: bytes) -> str:
        chance = hashlib.sha256(self._chain.h.encode() + content).digest()[:RANDOM_BYTES]
        return new_id(max(0, parse_ms(self._time) or 0), chance)


def _body(raw: bytes) -> bytes:
    """A line as the body to be sealed anew: without its place, whoever gave it one."""
    body = unsealed(raw).removeprefix(_BOM).strip()
    value = decode(body)
    return amended(body, {}, without=("v", "seq", "h")) if value.seq is not None else body


def _is_unreadable(entry: Entry) -> bool:
    """Whether only the envelope of a type we know could be read."""
    return isinstance(entry.value, Unknown) and entry.type in LINK_TYPES | FACT_TYPES


def _found(tree: Tree, name: str) -> str | None:
    try:
        return tree.find(name)
    except NotFound:
        return None


def _standalone(session: Session, inherited: tuple[Entry, ...]) -> JsonObject:
    """What changes in a fork's first line: it no longer reads through, and has what was in force where it left."""
    if session.parent is None or session.parent.kind != "fork":
        return {}
    changes: JsonObject = {"parent": plain(msgspec.structs.replace(session.parent, kind="import"))}
    sessions = [link.value for link in inherited if isinstance(link.value, Session)] + [session]
    for key in ("model", "provider"):
        said = [getattr(one, key) for one in sessions if getattr(one, key)]
        changes |= {key: said[-1]} if said else {}
    settings = {name: value for one in sessions for name, value in one.settings.items()}
    return changes | ({"settings": settings} if settings else {})

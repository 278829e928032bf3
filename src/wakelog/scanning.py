"""Scanning a session: every line read and verified once, nothing kept but an outline. For logs of any size.

`read_log` gives a tree to ask; it takes about three times the size of the log in memory. A scan finds the same damage,
inherited history included, and hands each entry to a function as it goes by. `path_entries` then reads one branch of
what was scanned, entry by entry. Nothing is written.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

import msgspec

from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.entry import Compaction, DamageNote, Entry, Message, Origin, Session
from wakelog.log.id_table import NONE
from wakelog.log.lines import Damage, Line, Reader
from wakelog.log.outline import Outline
from wakelog.log.seal import SealCheck
from wakelog.log.tree import lost_lines, lost_reply, reply_named_by
from wakelog.ports import Store
from wakelog.reading import ANCESTORS_MAX, check_version, named_in, origin_damage

Visit = Callable[[Entry], None]
_BATCH = 256


class Scan(msgspec.Struct):
    """What a scan of a session found. `entries` counts its own ones; `lost` are those that say what a copy lacks."""

    name: str
    outline: Outline
    entries: int = 0
    size: int = 0
    """Where the last line that was read ends."""
    first: Entry | None = None
    session: Entry | None = None
    """The session entry: the first line, unless that is unreadable or out of its place."""
    damage: tuple[Damage, ...] = ()
    noted: tuple[Damage, ...] = ()
    lost: tuple[Entry, ...] = ()
    ancestors: tuple["Ancestor", ...] = ()
    """The sessions that a fork inherited its history from, the oldest first."""
    inherited_holes: tuple[Damage, ...] = ()
    """The places in the inherited history where entries are lost; the newest compaction there ends the search."""
    holes: tuple[Damage, ...] = ()
    """The same in the session's own log, whatever branch they may have been on."""
    compactions: list[int] = []
    """The numbers of the session's own compactions."""

    @property
    def id(self) -> str:
        """The session's id; its name where its session entry cannot be read."""
        return self.session.id if self.session is not None else self.name

    @property
    def origin(self) -> Origin | None:
        """The place that a fork goes on from; None for a session that is not a fork."""
        return _origin(self.first)


class Ancestor(msgspec.Struct, frozen=True):
    """A session that a fork inherited history from: its name, and its session entry."""

    name: str
    session: Entry | None


def scan_log(store: Store, session: str, visit: Visit | None = None, *, verify: bool = True) -> Scan:
    """Scans a session. `visit` gets the links that a fork inherited, then every entry of the session itself.

    Without `verify` the lines of the session itself are taken whatever their seals say; inherited ones never are.
    """
    return _scan(store, session, (), visit, verify=verify)


def _scan(store: Store, session: str, children: tuple[str, ...], visit: Visit | None, *, verify: bool = True) -> Scan:
    found = Scan(store.name(session), Outline())
    reader = Reader(seals=SealCheck() if verify else None)
    searching = _HoleSearch(found)
    inherited: list[Damage] = []
    for entry in _entries(reader, _measured(store.load(session), found)):
        if found.first is None:
            found.first = entry
            inherited = _begin(store, found, children, visit)
        if found.session is None and isinstance(entry.value, Session):
            found.session = entry
        searching.look_at(entry)
        found.outline.add(entry)
        found.entries += 1
        if isinstance(entry.value, DamageNote) and entry.value.reason == "lost":
            found.lost += (entry,)
        if visit is not None:
            visit(entry)
    check_version(reader, found.first)
    own = sorted((*reader.damage, *found.outline.damage), key=lambda hurt: hurt.offset)
    found.damage, found.noted = (*inherited, *own), tuple(reader.noted)
    found.holes = searching.holes(reader.damage)
    return found


def _measured(lines: Iterable[Line], found: Scan) -> Iterator[Line]:
    for line in lines:
        found.size = line.offset + len(line.bytes)
        yield line


def _entries(reader: Reader, lines: Iterable[Line]) -> Iterator[Entry]:
    lines = iter(lines)
    while batch := list(islice(lines, _BATCH)):
        yield from reader.feed_all(batch)


def _origin(first: Entry | None) -> Origin | None:
    origin = first.value.parent if first is not None and isinstance(first.value, Session) else None
    return origin if origin is not None and origin.kind == "fork" else None


# ── places where entries are lost ────────────────────────────────────────────────────────────────


class _HoleSearch:
    """Finds the places where entries are lost, by the same rules as `Tree`, and the session's own compactions."""

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._noted: list[Damage] = []
        self._naming_lost: list[Damage] = []
        self._carried: set[str] = set()

    def look_at(self, entry: Entry) -> None:
        """Looks at an entry that the outline does not hold yet."""
        outline, value = self._found.outline, entry.value
        if outline.number(entry.id) != NONE:
            return
        if isinstance(value, Compaction):
            self._found.compactions.append(len(outline))
            self._carried.update(debt.reply_id for debt in (value.state.owed if value.state is not None else ()))
        elif isinstance(value, DamageNote) and value.reason == "lost":
            self._noted.append(lost_lines(entry, value))
        elif self._names_a_lost_reply(entry):
            self._naming_lost.append(lost_reply(entry))

    def _names_a_lost_reply(self, entry: Entry) -> bool:
        reply_id = reply_named_by(entry.value)
        if reply_id is None or reply_id in self._carried or self._goes_on(entry):
            return False
        number = self._found.outline.number(reply_id)
        return number == NONE or not self._found.outline.is_link(number)

    def _goes_on(self, entry: Entry) -> bool:
        """Whether an entry is a message under the head: what it answers is there."""
        outline, parent = self._found.outline, entry.value.parent_id
        if not isinstance(entry.value, Message) or parent is None or outline.head == NONE:
            return False
        return outline.number(parent) == outline.head

    def holes(self, damage: Iterable[Damage]) -> tuple[Damage, ...]:
        """The places found, given the damage that the reader found."""
        by_offset = {hurt.offset: hurt for hurt in (*self._noted, *damage) if hurt.hides}
        return tuple(sorted((*by_offset.values(), *self._naming_lost), key=lambda hole: hole.offset))


def holes_before(scan: Scan, path: bytearray) -> tuple[Damage, ...]:
    """The places where entries of a branch may be lost: those since its last compaction."""
    last = next((number for number in reversed(scan.compactions) if path[number]), NONE)
    start = scan.outline.offset(last) if last != NONE else -1
    since = [hole for hole in scan.holes if hole.offset > start]
    return (*(scan.inherited_holes if last == NONE else ()), *since)


# ── the history that a fork inherits ─────────────────────────────────────────────────────────────


def _begin(store: Store, found: Scan, children: tuple[str, ...], visit: Visit | None) -> list[Damage]:
    """Begins the outline of a fork with its parent's path. Returns the damage in that history, and of the reference."""
    origin = found.origin
    if origin is None or found.first is None:
        return []
    try:
        parent, link = _parent(store, origin, (*children, found.first.id))
    except NoAccess:
        raise
    except WakelogError as error:
        return [origin_damage(f"its parent session {origin.session} cannot be read: {error}")]
    path = parent.outline.path(link)
    found.outline.inherit(parent.outline, path)
    found.ancestors = (*parent.ancestors, Ancestor(parent.name, parent.session))
    if visit is not None:
        for entry in inherited_entries(store, found):
            visit(entry)
    end = parent.outline.offset(link) if link >= parent.outline.inherited else -1
    damage = _up_to(end, parent.damage, parent.name)
    found.inherited_holes = tuple(_up_to(end, holes_before(parent, path), parent.name))
    if origin.h is not None and not parent.outline.is_sealed_with(link, origin.h):
        damage.append(origin_damage(f"its parent session {origin.session} has changed since the fork"))
    return damage


def _up_to(end: int, damage: Iterable[Damage], parent: str) -> list[Damage]:
    """The damage of a parent and of its own ancestors that concerns a fork: in the parent's log, up to an offset."""
    return named_in([hurt for hurt in damage if hurt.session or hurt.offset <= end], parent)


def _parent(store: Store, origin: Origin, children: tuple[str, ...]) -> tuple[Scan, int]:
    """The scan of a fork's parent, and the number of the link that the fork goes on from."""
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise WakelogError("it is its own ancestor, or has too many")
    parent = _scan(store, origin.session, children, None)
    link = parent.outline.find(origin.entry)
    if link is None:
        raise NotFound(f"no entry {origin.entry} in this session")
    return parent, link


# ── reading again what was scanned ───────────────────────────────────────────────────────────────


def inherited_entries(store: Store, scan: Scan, *, facts: bool = False) -> Iterator[Entry]:
    """The links that a fork inherited, from the root on. With `facts` also what their sessions say about them."""
    outline = scan.outline
    for ancestor in scan.ancestors:
        for entry in _entries(Reader(), store.load(ancestor.name)):
            number = outline.number_of(entry)
            if number is not None and number < outline.inherited and (facts or outline.is_link(number)):
                yield entry


def own_entries(store: Store, scan: Scan, *, repeated: bool = False) -> Iterator[Entry]:
    """The entries of the session itself as they were scanned, in the order of its log.

    An entry whose id stands in the log a second time is among them only with `repeated`.
    """
    for entry in _entries(Reader(seals=SealCheck() if repeated else None), store.load(scan.name)):
        if entry.offset >= scan.size:
            return
        if repeated or scan.outline.number_of(entry) is not None:
            yield entry


def path_entries(store: Store, scan: Scan, path: bytearray, *, facts: bool = True) -> Iterator[Entry]:
    """The links marked in `path`, from the root on, and what the logs say about them, each in the order of its log."""
    outline = scan.outline
    inherited = inherited_entries(store, scan, facts=facts) if outline.inherited else ()
    for entry in chain(inherited, own_entries(store, scan)):
        number = outline.number(entry.id)
        if outline.is_link(number):
            if path[number]:
                yield entry
        elif facts and outline.link(number) != NONE and path[outline.link(number)]:
            yield entry

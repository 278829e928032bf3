"""Scan a session of any size: read and verify every line once, and keep only an outline in memory.

`read_log` builds a tree, which takes about three times the size of the log in memory. A scan finds the same damage,
inherited history included, and passes each entry to a callback. `path_entries` then reads one branch of a scanned
session, entry by entry. Nothing is written.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.entry import Compaction, DamageNote, Entry, Message, Origin, SessionHeader
from wakelog.log.ids import NO_NUMBER
from wakelog.log.lines import Damage, EntryReader, Line
from wakelog.log.outline import Outline
from wakelog.log.recovered_header import HeaderRecovery
from wakelog.log.seal import SealVerifier
from wakelog.log.tree import damage_of_note, damage_of_reference, referenced_reply
from wakelog.ports.stores import Store
from wakelog.reading import ANCESTORS_MAX, check_version, origin_damage, with_session_name

Visit = Callable[[Entry], None]
_BATCH_LINES = 256
_BATCH_BYTES = 1024 * 1024


class Scan(msgspec.Struct):
    """Result of a scan. `entries` counts the session's own entries; `lost` are its `damage` entries marked `lost`."""

    name: str
    outline: Outline
    entries: int = 0
    size: int = 0
    """The offset at which the last line read ends."""
    first: Entry | None = None
    session: Entry | None = None
    """The session header: the first line, unless that is unreadable or the header is elsewhere."""
    recovery: HeaderRecovery = msgspec.field(default_factory=HeaderRecovery)
    """What the entries tell of an unreadable header."""
    damage: tuple[Damage, ...] = ()
    noted: tuple[Damage, ...] = ()
    lost: tuple[Entry, ...] = ()
    ancestors: tuple["Ancestor", ...] = ()
    """The sessions that a fork inherited its history from, oldest first."""
    inherited_holes: tuple[Damage, ...] = ()
    """Places in the inherited history, since its last compaction, where entries are lost."""
    holes: tuple[Damage, ...] = ()
    """Places in the session's own log where entries are lost, on any branch."""
    compactions: list[int] = []
    """Outline numbers of the session's own compactions."""

    @property
    def id(self) -> str:
        """The id of the session; its name if neither the header nor another entry has it."""
        return self.header.id

    @property
    def header(self) -> SessionHeader:
        """The session header; one made from the other entries and the name if it cannot be read."""
        found = self.session.value if self.session is not None else None
        return found if isinstance(found, SessionHeader) else self.recovery.header(self.name)

    @property
    def origin(self) -> Origin | None:
        """The parent entry of a fork; None for a session that is not a fork."""
        return _origin(self.first)


class Ancestor(msgspec.Struct, frozen=True):
    """A session that a fork inherited history from: its name and its header entry."""

    name: str
    session: Entry | None


def scan_log(store: Store, session: str, visit: Visit | None = None, *, verify: bool = True) -> Scan:
    """Scan a session. `visit` gets the nodes that a fork inherited, then every entry of the session itself.

    Without `verify`, the session's own lines are accepted whatever their seals; inherited lines are always verified.
    """
    scanning = Scanning(store, session, verify=verify)
    for entry in scanning.entries():
        if visit is not None:
            for node in inherited_entries(store, scanning.found) if scanning.found.entries == 1 else ():
                visit(node)
            visit(entry)
    return scanning.checked()


class Scanning:
    """A scan in progress: iterate over `entries()` to the end, then call `result()` or `checked()`."""

    def __init__(
        self,
        store: Store,
        session: str,
        *,
        verify: bool = True,
        verify_inherited: bool = True,
        children: tuple[str, ...] = (),
    ) -> None:
        self.found = Scan(store.name(session), Outline())
        self._store = store
        self._session = session
        self._verify_inherited = verify_inherited
        self._children = children
        self._reader = EntryReader(seals=SealVerifier() if verify else None)
        self._searching = _HoleSearch(self.found)
        self._inherited: list[Damage] = []

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of the session itself, each after it was added to the outline."""
        found = self.found
        for entry in _entries(self._reader, self._measured()):
            if found.first is None:
                found.first = entry
                self._inherited = _begin(self._store, found, self._children, verify=self._verify_inherited)
            if found.session is None and isinstance(entry.value, SessionHeader):
                found.session = entry
            elif found.session is None:
                found.recovery.add(entry)
            self._searching.look_at(entry)
            found.outline.add(entry)
            found.entries += 1
            if isinstance(entry.value, DamageNote) and entry.value.reason == "lost":
                found.lost += (entry,)
            yield entry

    def _measured(self) -> Iterator[Line]:
        for line in self._store.load(self._session):
            self.found.size = line.offset + len(line.bytes)
            yield line

    def result(self) -> Scan:
        """Return the scan so far."""
        found, reader = self.found, self._reader
        own = sorted((*reader.damage, *found.outline.damage), key=lambda defect: defect.offset)
        found.damage, found.noted = (*self._inherited, *own), tuple(reader.noted)
        found.holes = self._searching.holes(reader.damage)
        return found

    def checked(self) -> Scan:
        """Return the scan so far; `NewerFormat` if the header is in a newer format."""
        check_version(self._reader, self.found.first)
        return self.result()

    @property
    def is_torn(self) -> bool:
        """Whether the log ends in bytes that are not a line."""
        return self._reader.torn is not None


def _entries(reader: EntryReader, lines: Iterable[Line]) -> Iterator[Entry]:
    for batch in _batches(lines):
        yield from reader.feed_all(batch)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield lines in batches; if the store fails, the lines read before the failure are yielded first."""
    batch: list[Line] = []
    size = 0
    try:
        for line in lines:
            batch.append(line)
            size += len(line.raw)
            if len(batch) == _BATCH_LINES or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
    except WakelogError:
        yield batch
        raise
    yield batch


def _origin(first: Entry | None) -> Origin | None:
    origin = first.value.parent if first is not None and isinstance(first.value, SessionHeader) else None
    return origin if origin is not None and origin.kind == "fork" else None


# ── lost entries ─────────────────────────────────────────────────────────────────────────────────


class _HoleSearch:
    """Finds places where entries are lost, by the same rules as `Tree`, and the session's own compactions."""

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._noted: list[Damage] = []
        self._naming_lost: list[Damage] = []
        self._carried: set[str] = set()

    def look_at(self, entry: Entry) -> None:
        """Process an entry that is not in the outline yet."""
        outline, value = self._found.outline, entry.value
        if outline.number(entry.id) != NO_NUMBER:
            return
        if isinstance(value, Compaction):
            self._found.compactions.append(len(outline))
            self._carried.update(reply.reply_id for reply in (value.state.owed if value.state is not None else ()))
        elif isinstance(value, DamageNote) and value.reason == "lost":
            self._noted.append(damage_of_note(entry, value))
        elif self._names_a_lost_reply(entry):
            self._naming_lost.append(damage_of_reference(entry))

    def _names_a_lost_reply(self, entry: Entry) -> bool:
        reply_id = referenced_reply(entry.value)
        if reply_id is None or reply_id in self._carried or self._goes_on(entry):
            return False
        number = self._found.outline.number(reply_id)
        return number == NO_NUMBER or not self._found.outline.is_node(number)

    def _goes_on(self, entry: Entry) -> bool:
        """Return whether an entry is a message whose parent is the head: the entry it answers is then there."""
        outline, parent = self._found.outline, entry.value.parent_id
        if not isinstance(entry.value, Message) or parent is None or outline.head == NO_NUMBER:
            return False
        return outline.number(parent) == outline.head

    def holes(self, damage: Iterable[Damage]) -> tuple[Damage, ...]:
        """Return the places found, together with the damage found by the reader."""
        by_offset = {defect.offset: defect for defect in (*self._noted, *damage) if defect.may_hide_entries}
        return tuple(sorted((*by_offset.values(), *self._naming_lost), key=lambda hole: hole.offset))


def holes_before(scan: Scan, path: bytearray) -> tuple[Damage, ...]:
    """Return the places where entries of a branch may be lost: those since its last compaction."""
    last = next((number for number in reversed(scan.compactions) if path[number]), NO_NUMBER)
    start = scan.outline.offset(last) if last != NO_NUMBER else -1
    since = [hole for hole in scan.holes if hole.offset > start]
    return (*(scan.inherited_holes if last == NO_NUMBER else ()), *since)


# ── inherited history ────────────────────────────────────────────────────────────────────────────


def _begin(store: Store, found: Scan, children: tuple[str, ...], *, verify: bool) -> list[Damage]:
    """Start a fork's outline with its parent's path; return the damage there and of the reference itself."""
    origin = found.origin
    if origin is None or found.first is None:
        return []
    try:
        parent, node = _parent(store, origin, (*children, found.first.id), verify=verify)
    except NoAccess:
        raise
    except WakelogError as error:
        return [origin_damage(f"its parent session {origin.session} cannot be read: {error}")]
    path = parent.outline.path(node)
    found.outline.inherit(parent.outline, path)
    found.ancestors = (*parent.ancestors, Ancestor(parent.name, parent.session))
    end = parent.outline.offset(node) if node >= parent.outline.inherited else -1
    damage = _up_to(end, parent.damage, parent.name)
    found.inherited_holes = tuple(_up_to(end, holes_before(parent, path), parent.name))
    if origin.h is not None and not parent.outline.is_sealed_with(node, origin.h):
        damage.append(origin_damage(f"its parent session {origin.session} has changed since the fork"))
    return damage


def _up_to(end: int, damage: Iterable[Damage], parent: str) -> list[Damage]:
    """Return the damage that concerns a fork: the parent's up to offset `end`, and that of the parent's ancestors."""
    return with_session_name([defect for defect in damage if defect.session or defect.offset <= end], parent)


def _parent(store: Store, origin: Origin, children: tuple[str, ...], *, verify: bool) -> tuple[Scan, int]:
    """Return the scan of a fork's parent, and the number of the node that the fork continues."""
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise WakelogError("the session is its own ancestor or has too many ancestors")
    scanning = Scanning(store, origin.session, verify=verify, verify_inherited=verify, children=children)
    for _ in scanning.entries():
        pass
    parent = scanning.checked()
    node = parent.outline.find(origin.entry)
    if node is None:
        raise NotFound(f"no entry {origin.entry} in this session")
    return parent, node


# ── reading scanned sessions again ───────────────────────────────────────────────────────────────


def inherited_entries(store: Store, scan: Scan, *, annotations: bool = False) -> Iterator[Entry]:
    """Yield the nodes that a fork inherited, from the root on; with `annotations` also their annotations."""
    outline = scan.outline
    for ancestor in scan.ancestors:
        for entry in _entries(EntryReader(), store.load(ancestor.name)):
            number = outline.number_of(entry)
            if number is not None and number < outline.inherited and (annotations or outline.is_node(number)):
                yield entry


def own_entries(store: Store, scan: Scan) -> Iterator[tuple[int, Entry]]:
    """Yield the session's own entries in the outline with their numbers, in log order."""
    outline = scan.outline
    for entry in _entries(EntryReader(), lines_scanned(store, scan)):
        number = outline.number_of(entry)
        if number is not None and number >= outline.inherited:
            yield number, entry


def readable_entries(store: Store, scan: Scan) -> Iterator[Entry]:
    """Return the session's own entries, including those with a repeated id."""
    return _entries(EntryReader(seals=SealVerifier()), lines_scanned(store, scan))


def lines_scanned(store: Store, scan: Scan) -> Iterator[Line]:
    """Yield the lines up to the end of the scan; the log may have grown since."""
    for line in store.load(scan.name):
        if line.offset >= scan.size:
            return
        yield line


def scanned_entries(store: Store, scan: Scan) -> Iterator[tuple[int, Entry]]:
    """Yield every entry of the outline with its number: inherited ones with annotations, then the session's own."""
    for entry in inherited_entries(store, scan, annotations=True):
        yield scan.outline.number(entry.id), entry
    yield from own_entries(store, scan)


def path_entries(store: Store, scan: Scan, path: bytearray, *, annotations: bool = True) -> Iterator[Entry]:
    """Yield the nodes marked in `path`, from the root on, and their annotations, each in the order of its log."""
    for number, entry in scanned_entries(store, scan):
        node = scan.outline.node_of(number)
        if node != NO_NUMBER and path[node] and (annotations or node == number):
            yield entry

"""Scanning a session: every line read and verified once, nothing kept but an outline. For logs of any size.

`read_log` gives a tree to ask; it takes about three times the size of the log in memory. A scan finds the same damage,
inherited history included, and hands each entry to a function as it goes by. Nothing is written.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.entry import DamageNote, Entry, Origin, Session
from wakelog.log.lines import Damage, Line, Reader
from wakelog.log.outline import Outline
from wakelog.log.seal import SealCheck
from wakelog.ports import Store
from wakelog.reading import ANCESTORS_MAX, check_version, named_in, origin_damage

Visit = Callable[[Entry], None]
_BATCH_LINES = 256
_BATCH_BYTES = 1024 * 1024


class Scan(msgspec.Struct):
    """What a scan of a session found. `entries` counts its own ones; `lost` are those that say what a copy lacks."""

    name: str
    outline: Outline
    entries: int = 0
    size: int = 0
    """Where the last line that was read ends."""
    first: Entry | None = None
    session_id: str = ""
    damage: tuple[Damage, ...] = ()
    noted: tuple[Damage, ...] = ()
    lost: tuple[Entry, ...] = ()
    parent: "Scan | None" = None
    verify: bool = True
    """Whether a line whose seal does not match counted as unreadable."""

    @property
    def id(self) -> str:
        """The session's id; its name where its first line cannot be read."""
        return self.session_id or self.name

    @property
    def origin(self) -> Origin | None:
        """The place that a fork goes on from; None for a session that is not a fork."""
        return _origin(self.first)


def scan_log(store: Store, session: str, visit: Visit) -> Scan:
    """Scans a session. `visit` gets the links that a fork inherited, then every entry of the session itself."""
    scanning = Scanning(store, session)
    for entry in scanning.entries():
        if scanning.found.entries == 1:
            for link in inherited_links(store, scanning.found):
                visit(link)
        visit(entry)
    return scanning.checked()


class Scanning:
    """A scan on its way: take the entries to the end, then ask for what was found."""

    def __init__(self, store: Store, session: str, *, verify: bool = True, children: tuple[str, ...] = ()) -> None:
        self.found = Scan(store.name(session), Outline(), verify=verify)
        self._store = store
        self._session = session
        self._children = children
        self._reader = _reader(verify=verify)
        self._inherited: list[Damage] = []

    def entries(self) -> Iterator[Entry]:
        """The entries of the session itself, each after the outline has taken it in."""
        found = self.found
        for entry in _entries(self._reader, self._measured()):
            if found.first is None:
                found.first = entry
                self._inherited = _begin(self._store, found, self._children)
            if not found.session_id and isinstance(entry.value, Session):
                found.session_id = entry.id
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
        """What was found so far."""
        found, reader = self.found, self._reader
        own = sorted((*reader.damage, *found.outline.damage), key=lambda hurt: hurt.offset)
        found.damage, found.noted = (*self._inherited, *own), tuple(reader.noted)
        return found

    def checked(self) -> Scan:
        """The same; refuses a log that was begun in a newer format."""
        check_version(self._reader, self.found.first)
        return self.result()

    @property
    def is_torn(self) -> bool:
        """Whether the log ends in bytes that are no line."""
        return self._reader.torn is not None


def _reader(*, verify: bool) -> Reader:
    return Reader(seals=SealCheck() if verify else None)


def _entries(reader: Reader, lines: Iterable[Line]) -> Iterator[Entry]:
    for batch in _batches(lines):
        yield from reader.feed_all(batch)


def _batches(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Many lines at a time; those before a failure of the store too."""
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
    origin = first.value.parent if first is not None and isinstance(first.value, Session) else None
    return origin if origin is not None and origin.kind == "fork" else None


# ── the history that a fork inherits ─────────────────────────────────────────────────────────────


def _begin(store: Store, found: Scan, children: tuple[str, ...]) -> list[Damage]:
    """Begins the outline of a fork with its parent's path. Returns the damage in that history, and of the reference."""
    origin = found.origin
    if origin is None or found.first is None:
        return []
    try:
        parent, link = _parent(store, origin, (*children, found.first.id), verify=found.verify)
    except NoAccess:
        raise
    except WakelogError as error:
        return [origin_damage(f"its parent session {origin.session} cannot be read: {error}")]
    found.parent = parent
    found.outline.inherit(parent.outline, parent.outline.path(link))
    end = parent.outline.offset(link) if link >= parent.outline.inherited else -1
    damage = named_in([hurt for hurt in parent.damage if hurt.session or hurt.offset <= end], parent.name)
    if origin.h is not None and not parent.outline.is_sealed_with(link, origin.h):
        damage.append(origin_damage(f"its parent session {origin.session} has changed since the fork"))
    return damage


def _parent(store: Store, origin: Origin, children: tuple[str, ...], *, verify: bool) -> tuple[Scan, int]:
    """The scan of a fork's parent, and the number of the link that the fork goes on from."""
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise WakelogError("it is its own ancestor, or has too many")
    scanning = Scanning(store, origin.session, verify=verify, children=children)
    for _ in scanning.entries():
        pass
    parent = scanning.checked()
    link = parent.outline.find(origin.entry)
    if link is None:
        raise NotFound(f"no entry {origin.entry} in this session")
    return parent, link


# ── reading a path once more ─────────────────────────────────────────────────────────────────────


def inherited_links(store: Store, scan: Scan) -> Iterator[Entry]:
    """The links that a fork inherited, from the root on. The lines of their logs are read once more for that."""
    if scan.parent is not None:
        marks = bytearray(map(scan.outline.is_link, range(scan.outline.inherited)))
        yield from _marked_links(store, scan.parent, _in_parent(scan, marks))


def _marked_links(store: Store, scan: Scan, marks: bytearray) -> Iterator[Entry]:
    if scan.parent is not None:
        yield from _marked_links(store, scan.parent, _in_parent(scan, marks))
    for number, entry in own_entries(store, scan):
        if marks[number]:
            yield entry


def _in_parent(scan: Scan, marks: bytearray) -> bytearray:
    """The marks of inherited entries, by their numbers in the parent's outline."""
    assert scan.parent is not None
    above = bytearray(len(scan.parent.outline))
    for number, source in enumerate(scan.outline.sources):
        above[source] = marks[number]
    return above


def own_entries(store: Store, scan: Scan) -> Iterator[tuple[int, Entry]]:
    """The entries of a session itself that its outline holds, with their numbers, read once more."""
    outline = scan.outline
    for entry in _entries(_reader(verify=scan.verify), _as_before(store.load(scan.name), scan.size)):
        number = outline.number_of(entry)
        if number is not None and number >= outline.inherited:
            yield number, entry


def _as_before(lines: Iterable[Line], size: int) -> Iterator[Line]:
    """The lines up to where a scan ended: the log may have grown since."""
    for line in lines:
        if line.offset >= size:
            return
        yield line
        if line.offset + len(line.bytes) >= size:
            return

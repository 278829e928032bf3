"""Scanning a session: every line read and verified once, nothing kept but an outline. For logs of any size.

`read_log` gives a tree to ask; it takes about three times the size of the log in memory. A scan finds the same damage,
inherited history included, and hands each entry to a function as it goes by. Nothing is written.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from wakelog.errors import NoAccess, NotFound, WakelogError
from wakelog.log.entry import DamageNote, Entry, Origin, Session
from wakelog.log.lines import Damage, Line, Reader
from wakelog.log.outline import Outline
from wakelog.log.seal import SealCheck
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
    session_id: str = ""
    damage: tuple[Damage, ...] = ()
    noted: tuple[Damage, ...] = ()
    lost: tuple[Entry, ...] = ()
    parent: "Scan | None" = None

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
    return _scan(store, session, (), visit)


def _scan(store: Store, session: str, children: tuple[str, ...], visit: Visit | None) -> Scan:
    found = Scan(store.name(session), Outline())
    reader = Reader(seals=SealCheck())
    inherited: list[Damage] = []
    for entry in _entries(reader, _measured(store.load(session), found)):
        if found.first is None:
            found.first = entry
            inherited = _begin(store, found, children, visit)
        if not found.session_id and isinstance(entry.value, Session):
            found.session_id = entry.id
        found.outline.add(entry)
        found.entries += 1
        if isinstance(entry.value, DamageNote) and entry.value.reason == "lost":
            found.lost += (entry,)
        if visit is not None:
            visit(entry)
    check_version(reader, found.first)
    own = sorted((*reader.damage, *found.outline.damage), key=lambda hurt: hurt.offset)
    found.damage, found.noted = (*inherited, *own), tuple(reader.noted)
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
    found.parent = parent
    found.outline.inherit(parent.outline, path)
    if visit is not None:
        _visit_path(store, parent, path, visit)
    end = parent.outline.offset(link) if link >= parent.outline.inherited else -1
    damage = named_in([hurt for hurt in parent.damage if hurt.session or hurt.offset <= end], parent.name)
    if origin.h is not None and not parent.outline.is_sealed_with(link, origin.h):
        damage.append(origin_damage(f"its parent session {origin.session} has changed since the fork"))
    return damage


def _parent(store: Store, origin: Origin, children: tuple[str, ...]) -> tuple[Scan, int]:
    """The scan of a fork's parent, and the number of the link that the fork goes on from."""
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise WakelogError("it is its own ancestor, or has too many")
    parent = _scan(store, origin.session, children, None)
    link = parent.outline.find(origin.entry)
    if link is None:
        raise NotFound(f"no entry {origin.entry} in this session")
    return parent, link


def _visit_path(store: Store, scan: Scan, path: bytearray, visit: Visit) -> None:
    """Hands over the links of a path, from the root on. The lines of their logs are read once more for that."""
    outline = scan.outline
    if outline.inherited and scan.parent is not None:
        above = bytearray(len(scan.parent.outline))
        for number, source in enumerate(outline.sources):
            above[source] = path[number]
        _visit_path(store, scan.parent, above, visit)
    for entry in _entries(Reader(seals=SealCheck()), store.load(scan.name)):
        own = outline.number_of(entry)
        if own is not None and own >= outline.inherited and path[own]:
            visit(entry)

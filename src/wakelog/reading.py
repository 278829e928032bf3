"""From a store to a log: lines become entries, entries a tree, and damage a report. Nothing is written.

`read_log` reads everything that ever happened; `read_active` only what the views of the head need,
from the end, and verifies the seals of what it reads. A session forked from another begins with that one's
branch, read through by reference: damage in that history is damage of the fork too, and named with its session.
"""

from collections.abc import Iterable

import msgspec

from wakelog.errors import NewerFormat, NoAccess, WakelogError
from wakelog.log.codec import Header, Undecodable, decode, header_of
from wakelog.log.entry import FORMAT_VERSION, Compaction, Entry, Head, Origin, Session
from wakelog.log.lines import Damage, Reader, Torn
from wakelog.log.seal import SealCheck, is_sealed_behind, seal_of
from wakelog.log.tail import read_tail, tree_of
from wakelog.log.tree import Branch, Tree
from wakelog.ports import Store

ANCESTORS_MAX = 64
_UPGRADE = f"upgrade wakelog: this one reads format {FORMAT_VERSION}"


class Log(msgspec.Struct):
    """A session as read: its own entries, the tree they make, and what could not be read."""

    name: str
    entries: tuple[Entry, ...]
    tree: Tree
    damage: tuple[Damage, ...] = ()
    noted: tuple[Damage, ...] = ()
    next_seq: int = 0
    torn: Torn | None = None
    last: bytes = b""
    """The line of the last entry."""

    @property
    def session(self) -> Entry | None:
        """The session's own first entry."""
        return next((entry for entry in self.entries if type(entry.value) is Session), None)

    @property
    def history(self) -> tuple[Entry, ...]:
        """The entries of this session, behind those it inherited from the session it was forked from."""
        nodes = [node for node in self.tree.nodes.values() if self.tree.is_inherited(node.id)]
        return (*nodes, *self.entries)

    @property
    def h(self) -> str | None:
        """The seal of the last entry; None where that has none."""
        return seal_of(self.last)

    @property
    def id(self) -> str:
        """The session's id; its name where the first line cannot be read."""
        return self.session.id if self.session else self.name


def read_log(store: Store, session: str, *, verify: bool = False) -> Log:
    """The whole of a session. With `verify` a line whose seal does not match counts as unreadable."""
    return _read_whole(store, session, (), verify=verify)


def read_active(store: Store, session: str, *, queue: bool = True) -> Log:
    """As much of a session as the views of its head need; the whole where its end cannot be trusted.

    Without `queue`, messages that wait before its last compaction are not looked for where that is from before rules 2:
    see `wakelog.projections.queue.knows_queue`.
    """
    first = read_first(store, session)
    tail = read_tail(store.tail(session), queue=queue) if first is not None else None
    if tail is None or first is None or not _is_as_written(first):
        return read_log(store, session, verify=True)
    name, last = store.name(session), tail.entries[-1]
    if tail.fold is None:
        log = _log(store, name, tail.entries, Reader(next_seq=last.seq + 1), (), whole=False, verify=True)
    else:
        log = Log(name, (first, *tail.entries), tree_of(tail, first), next_seq=last.seq + 1, last=last.raw)
    return read_log(store, session, verify=True) if log.tree.is_too_short else log


def _is_as_written(first: Entry) -> bool:
    """Whether the seal of a log's first line matches; one without a seal has nothing to verify."""
    return is_sealed_behind(first.raw, b"") or seal_of(first.raw) is None


def read_first(store: Store, session: str) -> Entry | None:
    """The session entry; None if the first line is none we can read, `NewerFormat` if it is of a newer format."""
    first = next(iter(store.load(session)), None)
    if first is None or not first.whole:
        return None
    try:
        value = decode(first.raw)
    except Undecodable as error:
        if error.newer and error.envelope and error.envelope.type == "session":
            raise NewerFormat(error.reason, hint=_UPGRADE) from None
        return None
    return Entry(first.raw, value, 0, 0, 1) if type(value) is Session else None


def read_header(store: Store, name: str) -> Header | None:
    """What the first line of a session says of its identity and origin; None if it cannot be read."""
    first = next(iter(store.load(name)), None)
    return header_of(first.raw) if first is not None and first.whole else None


def _read_whole(store: Store, session: str, children: tuple[str, ...], *, verify: bool) -> Log:
    reader = Reader(seals=SealCheck() if verify else None)
    entries = reader.feed_all(store.load(session))
    check_version(reader, entries[0] if entries else None)
    return _log(store, store.name(session), entries, reader, children, verify=verify)


def _log(
    store: Store,
    name: str,
    entries: Iterable[Entry],
    reader: Reader,
    children: tuple[str, ...],
    *,
    whole: bool = True,
    verify: bool = False,
) -> Log:
    entries = tuple(entries)
    tree = Tree()
    inherited: list[Damage] = []
    first = entries[0].value if entries else None
    if isinstance(first, Session) and first.parent is not None and first.parent.kind == "fork":
        # A head or a fold of the fork's own may reach further back than the parent's last fold.
        whole = whole or any(isinstance(entry.value, Head | Compaction) for entry in entries)
        inherited = inherit(store, tree, first.parent, (*children, first.id), whole=whole, verify=verify)
    tree.add_all(entries)
    tree.mark_unreadable(reader.damage)
    own = sorted((*reader.damage, *tree.damage), key=lambda hurt: hurt.offset)
    last = entries[-1].raw if entries else b""
    return Log(name, entries, tree, (*inherited, *own), tuple(reader.noted), reader.next_seq, reader.torn, last)


def inherit(
    store: Store,
    tree: Tree,
    origin: Origin,
    children: tuple[str, ...],
    *,
    whole: bool = True,
    verify: bool = False,
) -> list[Damage]:
    """Begins a fork with its parent's branch, or its tail. Returns the damage in that history, and of the reference."""
    try:
        tail = None if whole else _tail_of_parent(store, origin)
        branch, damage = (tail, []) if tail is not None else _branch_of_parent(store, origin, children, verify=verify)
    except NoAccess:
        raise
    except WakelogError as error:
        return [origin_damage(f"its parent session {origin.session} cannot be read: {error}")]
    tree.inherit(branch)
    tree.partial = tail is not None
    tip = branch.tip
    if origin.h is not None and (tip is None or seal_of(tip.raw) != origin.h):
        damage.append(origin_damage(f"its parent session {origin.session} has changed since the fork"))
    return damage


def origin_damage(reason: str) -> Damage:
    """Damage of the reference to the session that a fork goes on from."""
    return Damage("origin", 1, 0, 0, reason)


def _tail_of_parent(store: Store, origin: Origin) -> Branch | None:
    """As much of the parent's branch as the views of the fork need; None where that is all of it."""
    first = read_first(store, origin.session)
    tail = read_tail(store.tail(origin.session), at=origin.entry) if first is not None else None
    if first is None or tail is None or tail.fold is None:
        return None
    branch = tree_of(tail, first).branch(origin.entry)
    return None if branch.holes else branch


def _branch_of_parent(
    store: Store, origin: Origin, children: tuple[str, ...], *, verify: bool
) -> tuple[Branch, list[Damage]]:
    """The parent's whole branch as the fork inherited it, and the damage in that part of the parent's history."""
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise WakelogError("it is its own ancestor, or has too many")
    parent = _read_whole(store, origin.session, children, verify=verify)
    branch = parent.tree.branch(origin.entry)
    assert branch.tip is not None
    end = branch.tip.offset if parent.tree.find(origin.entry) in {node.id for node in parent.tree.own_nodes()} else -1
    holes = named_in([hole for hole in branch.holes if hole.session or hole.offset <= end], parent.name)
    damage = named_in([hurt for hurt in parent.damage if hurt.session or hurt.offset <= end], parent.name)
    return msgspec.structs.replace(branch, holes=tuple(holes)), damage


def named_in(damage: Iterable[Damage], session: str) -> list[Damage]:
    """Damage in another session's log, with the name of that session."""
    return [hurt if hurt.session else msgspec.structs.replace(hurt, session=session) for hurt in damage]


def check_version(reader: Reader, first: Entry | None) -> None:
    """Refuses a log that was begun in a newer format; one newer line behind its first is reported like damage."""
    begun = next((hurt for hurt in reader.damage if hurt.kind == "newer" and hurt.line == 1), None)
    if begun is not None and first is not None and first.type == "session":
        raise NewerFormat(begun.reason, hint=_UPGRADE)

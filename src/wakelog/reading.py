"""Reading a session from a store: lines become entries, entries a tree, damage a report. Nothing is written.

`read_log` reads the whole log. `read_active` reads only what projections of the head need, from the end, and verifies
the seals of what it reads. A fork starts with its parent's branch, which is read from the parent's log: damage there is
reported for the fork too, with the name of the damaged session.
"""

from collections.abc import Iterable

import msgspec

from wakelog.arguments import check_store, session_ref
from wakelog.errors import NewerFormat, NoAccess, WakelogError
from wakelog.log.codec import SessionIdentity, Undecodable, decode, decode_identity
from wakelog.log.entry import FORMAT_VERSION, Compaction, Entry, Head, Origin, SessionHeader
from wakelog.log.lines import Damage, EntryReader, TornTail
from wakelog.log.recovered_header import HeaderRecovery
from wakelog.log.seal import SealVerifier, find_seal, is_changed_header
from wakelog.log.session_names import identity_in_name
from wakelog.log.tail import build_tree, read_tail
from wakelog.log.tree import Branch, Tree
from wakelog.ports.stores import Store

ANCESTORS_MAX = 64
_UPGRADE_HINT = f"upgrade wakelog: this one reads format {FORMAT_VERSION}"


class Log(msgspec.Struct):
    """A session as read: its own entries, their tree, and the damage found."""

    name: str
    entries: tuple[Entry, ...]
    tree: Tree
    damage: tuple[Damage, ...] = ()
    noted: tuple[Damage, ...] = ()
    next_seq: int = 0
    torn: TornTail | None = None
    last_line: bytes = b""
    """The line of the last entry."""

    @property
    def header(self) -> Entry | None:
        """The session's own header entry; None if it cannot be read."""
        return next((entry for entry in self.entries if type(entry.value) is SessionHeader), None)

    @property
    def history(self) -> tuple[Entry, ...]:
        """The inherited nodes of a fork, followed by the entries of this session."""
        nodes = [node for node in self.tree.nodes.values() if self.tree.is_inherited(node.id)]
        return (*nodes, *self.entries)

    @property
    def last_seal(self) -> str | None:
        """The seal of the last entry; None if it has none."""
        return find_seal(self.last_line)

    @property
    def id(self) -> str:
        """The id of the session; its name if neither the header nor another entry has it."""
        return self.header.id if self.header else self.tree.header.id or self.name


def read_log(store: Store, session: object, *, verify: bool = False) -> Log:
    """Read a whole session, given as an object, id or name. With `verify`, a line whose seal differs is unreadable."""
    check_store(store)
    return _read_whole(store, session_ref(session), (), verify=verify)


def read_active(store: Store, session: str, *, queue: bool = True) -> Log:
    """Read the end of the log back to the last compaction, or the whole session if its tail cannot be trusted.

    That is what projections of the head need, such as `branch_state` and `session_state`.

    Without `queue`, messages that wait before the last compaction are not searched for if that compaction is from
    before rules 2: see `wakelog.projections.queue.has_whole_queue`.
    """
    first = read_session_header(store, session)
    tail = read_tail(store.tail(session), queue=queue) if first is not None else None
    if tail is None or first is None:
        return read_log(store, session, verify=True)
    name, last = store.name(session), tail.entries[-1]
    if tail.compaction_id is None:
        log = _log(store, name, tail.entries, EntryReader(next_seq=last.seq + 1), (), whole=False, verify=True)
    else:
        log = Log(name, (first, *tail.entries), build_tree(tail, first), next_seq=last.seq + 1, last_line=last.raw)
    return read_log(store, session, verify=True) if log.tree.may_lack_entries else log


def read_session_header(store: Store, session: str) -> Entry | None:
    """Return the session header; None if the first line is none or was changed, `NewerFormat` for a newer format."""
    first = next(iter(store.load(session)), None)
    if first is None or not first.whole or is_changed_header(first.raw):
        return None
    try:
        value = decode(first.raw)
    except Undecodable as error:
        if error.newer and error.envelope and error.envelope.type == "session":
            raise NewerFormat(error.reason, hint=_UPGRADE_HINT) from None
        return None
    return Entry(first.raw, value, 0, 0, 1) if type(value) is SessionHeader else None


def read_identity(store: Store, name: str) -> SessionIdentity:
    """Return the identity and origin in the first line of a session; the identity in its name if that is damaged."""
    first = next(iter(store.load(name)), None)
    is_intact = first is not None and first.whole and not is_changed_header(first.raw)
    found = decode_identity(first.raw) if first is not None and is_intact else None
    return found or SessionIdentity("session", *identity_in_name(name)[:2])


def _read_whole(store: Store, session: str, children: tuple[str, ...], *, verify: bool) -> Log:
    reader = EntryReader(seals=SealVerifier() if verify else None)
    entries = reader.feed_all(store.load(session))
    check_version(reader, entries[0] if entries else None)
    return _log(store, store.name(session), entries, reader, children, verify=verify)


def _log(
    store: Store,
    name: str,
    entries: Iterable[Entry],
    reader: EntryReader,
    children: tuple[str, ...],
    *,
    whole: bool = True,
    verify: bool = False,
) -> Log:
    entries = tuple(entries)
    tree = Tree()
    inherited: list[Damage] = []
    first = entries[0].value if entries else None
    if isinstance(first, SessionHeader) and first.parent is not None and first.parent.kind == "fork":
        # A `head` entry or compaction of the fork may refer to nodes before the parent's last compaction.
        whole = whole or any(isinstance(entry.value, Head | Compaction) for entry in entries)
        inherited = inherit_parent_branch(store, tree, first.parent, (*children, first.id), whole=whole, verify=verify)
    tree.add_all(entries)
    if not any(type(entry.value) is SessionHeader for entry in entries):
        tree.recovered_header = HeaderRecovery(entries).header(name)
    tree.mark_unreadable(reader.damage)
    own = sorted((*reader.damage, *tree.damage), key=lambda defect: defect.offset)
    last = entries[-1].raw if entries else b""
    return Log(name, entries, tree, (*inherited, *own), tuple(reader.noted), reader.next_seq, reader.torn, last)


def inherit_parent_branch(
    store: Store,
    tree: Tree,
    origin: Origin,
    children: tuple[str, ...],
    *,
    whole: bool = True,
    verify: bool = False,
) -> list[Damage]:
    """Start a fork's tree with its parent's branch or tail; return the damage there and of the reference itself."""
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
    if origin.h is not None and (tip is None or find_seal(tip.raw) != origin.h):
        damage.append(origin_damage(f"its parent session {origin.session} has changed since the fork"))
    return damage


def origin_damage(reason: str) -> Damage:
    """Return damage of a fork's reference to its parent session."""
    return Damage("origin", 1, 0, 0, reason)


def _tail_of_parent(store: Store, origin: Origin) -> Branch | None:
    """Return the part of the parent's branch that the fork's projections need; None if all of it is needed."""
    first = read_session_header(store, origin.session)
    tail = read_tail(store.tail(origin.session), at=origin.entry) if first is not None else None
    if first is None or tail is None or tail.compaction_id is None:
        return None
    branch = build_tree(tail, first).branch(origin.entry)
    return None if branch.holes else branch


def _branch_of_parent(
    store: Store, origin: Origin, children: tuple[str, ...], *, verify: bool
) -> tuple[Branch, list[Damage]]:
    """Return the parent's whole branch up to the fork, and the damage in that part of the parent's history."""
    if origin.session in children or len(children) > ANCESTORS_MAX:
        raise WakelogError("the session is its own ancestor or has too many ancestors")
    parent = _read_whole(store, origin.session, children, verify=verify)
    branch = parent.tree.branch(origin.entry)
    assert branch.tip is not None
    end = branch.tip.offset if parent.tree.find(origin.entry) in {node.id for node in parent.tree.own_nodes()} else -1
    holes = with_session_name([hole for hole in branch.holes if hole.session or hole.offset <= end], parent.name)
    damage = with_session_name(
        [defect for defect in parent.damage if defect.session or defect.offset <= end], parent.name
    )
    return msgspec.structs.replace(branch, holes=tuple(holes)), damage


def with_session_name(damage: Iterable[Damage], session: str) -> list[Damage]:
    """Return the damage of another session's log, with the name of that session."""
    return [defect if defect.session else msgspec.structs.replace(defect, session=session) for defect in damage]


def check_version(reader: EntryReader, first: Entry | None) -> None:
    """Raise `NewerFormat` if the header is in a newer format; newer lines after it are reported as damage."""
    begun = next((defect for defect in reader.damage if defect.kind == "newer" and defect.line == 1), None)
    if begun is not None and first is not None and first.type == "session":
        raise NewerFormat(begun.reason, hint=_UPGRADE_HINT)

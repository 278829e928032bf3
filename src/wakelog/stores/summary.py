"""From the lines of a log to its row in the index, and to a bookmark from which the next reading goes on.

A bookmark holds a fold of its own, made as if the log had been compacted there: so a log that only grew
is read from that link on, however long it is and whether or not it was ever compacted. The short way is
taken only where it must give what the long one would; anything unusual is `Rewritten`, and read whole.
"""

import hashlib
from collections.abc import Iterable
from itertools import pairwise

import msgspec

from wakelog.errors import NotFound
from wakelog.log.content import Prompt, Reply, ToolCall, Usage
from wakelog.log.entry import (
    Attention,
    Body,
    Compaction,
    ContextRecord,
    Custom,
    DamageNote,
    Entry,
    FoldState,
    Head,
    Message,
    Partial,
    Queued,
    Session,
    Setting,
)
from wakelog.log.lines import Damage, Line, Reader
from wakelog.log.tree import Tree
from wakelog.ports import Stat, Store
from wakelog.reading import inherit
from wakelog.views.overview import overview
from wakelog.views.pending import open_calls
from wakelog.views.state import fold_state, session_state

PROMPT_MAX_CHARS = 200
_KNOWN_BYTES = 8
# How many of the last links may become the bookmark's fold: a few, since a call may just be open.
_CANDIDATES = 8


class SessionRow(msgspec.Struct, frozen=True):
    """A session as a list shows it. `state` is never `running`: who holds a lease is not in the log."""

    name: str
    id: str
    agent: str
    sender: str
    number: int | None
    cwd: str
    title: str | None
    created: str
    updated: str
    entries: int
    messages: int
    size: int
    model: str | None
    archived: bool
    attached: bool
    state: str
    damage: int
    prompt: str
    origin: str | None


class Bookmark(msgspec.Struct, frozen=True):
    """How far a log is indexed, and all that reading on from there needs."""

    session: Session
    fold: Compaction
    offset: int
    digest: bytes
    updated: str
    damage: int
    prompt: str
    known: bytes

    @property
    def after(self) -> int:
        """The seq to load behind: the first line is then the one the fold stands on."""
        return (self.fold.seq or 0) - 1


class Rewritten(Exception):
    """What stands in the log is not plainly what was indexed and then more."""


class LogFold:
    """A log on its way to its row: feed it the lines, whole or from a bookmark on, then ask for the summary."""

    def __init__(self, stat: Stat, bookmark: Bookmark | None = None) -> None:
        self._stat = stat
        self._bookmark = bookmark
        self._reader = Reader(next_seq=bookmark.after + 1 if bookmark else 0)
        self._entries: list[Entry] = []
        self._prompt = bookmark.prompt if bookmark else ""
        self._place = (bookmark.offset, bookmark.digest) if bookmark else (-1, b"")
        self._met = bookmark is None
        self._fresh: set[bytes] = set()

    def feed(self, line: Line) -> list[Entry]:
        """Takes in a line; gives the entries that were not indexed before."""
        entries = self._reader.feed(line)
        self._entries += map(_slim, entries)
        if self._bookmark is not None and line.offset <= self._bookmark.offset:
            self._met = self._met or (line.offset, _digest(line.raw)) == self._place
            return []
        if entries:
            self._place = (line.offset, _digest(line.raw))
        for entry in entries if not self._prompt else ():
            self._prompt = self._prompt or _prompt(entry.value)
        return entries

    def summary(self, store: Store) -> tuple[SessionRow, Bookmark | None]:
        """The row, and the bookmark to go on from: none where the whole must be read again."""
        if self._bookmark is None:
            tree, damage = self._whole_tree(store)
            fold = self._grow(tree, self._entries)
            tree.mark_unreadable(self._reader.damage)
            count = len(damage) + len(self._reader.damage) + len(tree.damage)
        else:
            tree, fold = self._tree_from(self._bookmark)
            count = self._bookmark.damage
        row = self._row(tree, count)
        return row, self._next_bookmark(tree, fold, row)

    # ── the long way ─────────────────────────────────────────────────────────────────────────────

    def _whole_tree(self, store: Store) -> tuple[Tree, list[Damage]]:
        """A tree to grow: empty, or begun with the branch that a fork goes on from."""
        tree = Tree()
        first = self._entries[0].value if self._entries else None
        if isinstance(first, Session) and first.parent is not None and first.parent.kind == "fork":
            return tree, inherit(store, tree, first.parent, (first.id,))
        return tree, []

    def _grow(self, tree: Tree, entries: list[Entry]) -> Compaction | None:
        """Adds entries to a tree. Gives the last place where it could have been folded without losing anything."""
        fold = None
        links = [at for at, entry in enumerate(entries) if entry.is_link and entry.value.seq]
        candidates = frozenset(links[-_CANDIDATES:])
        for at, entry in enumerate(entries):
            if self._bookmark is not None:
                self._check_plain(self._bookmark, tree, entry)
            tree.add(entry)
            if at in candidates and tree.head == entry.id and not open_calls(tree.branch()):
                fold = _fold_on(tree, entry)
        return fold

    # ── the short way ────────────────────────────────────────────────────────────────────────────

    def _tree_from(self, mark: Bookmark) -> tuple[Tree, Compaction]:
        """The tree of a log that went on plainly from its bookmark, or `Rewritten`."""
        seqs = [entry.value.seq for entry in self._entries]
        if not self._met or self._reader.damage or seqs != list(range(mark.after + 1, mark.after + 1 + len(seqs))):
            raise Rewritten
        if self._entries[0].id != mark.fold.id:
            raise Rewritten
        tree = Tree(partial=True)
        tree.add(Entry(b"", mark.session, 0))
        tree.add(Entry(b"", mark.fold, mark.after + 1))
        fold = self._grow(tree, self._entries[1:]) or mark.fold
        if all(link.id != mark.fold.id for link in tree.branch().links):
            raise Rewritten
        return tree, fold

    def _check_plain(self, mark: Bookmark, tree: Tree, entry: Entry) -> None:
        """An entry that speaks of something before the fold, or that would be damage, needs the whole log."""
        value, key = entry.value, _key(entry.id)
        is_plain = value.parent_id is not None and self._knows(mark, _key(value.parent_id))
        if entry.offset > mark.offset:
            is_plain = is_plain and not self._knows(mark, key)
            self._fresh.add(key)
        match value:
            case Head(target_id=target) | Compaction(state=FoldState(head=target)):
                is_plain = is_plain and _stands(tree, target)
            case Queued(parent_id=str() as link) | Attention(parent_id=str() as link):
                is_plain = is_plain and _stands(tree, link)
            case DamageNote():
                is_plain = is_plain and mark.damage == 0
            case Session():
                is_plain = False
        if not is_plain:
            raise Rewritten

    def _knows(self, mark: Bookmark, key: bytes) -> bool:
        return key in self._fresh or _holds(mark.known, key)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────

    def _row(self, tree: Tree, damage: int) -> SessionRow:
        view, name = overview(tree, damaged=damage > 0), self._stat.name
        # A head on an inherited link makes the parent's card the branch's; the row is this session's own.
        own = self._session() or Session(id=name)
        return SessionRow(
            name=name,
            id=own.id,
            agent=own.agent,
            sender=own.sender,
            number=own.number,
            cwd=own.cwd,
            title=view.title,
            created=own.timestamp,
            updated=self._updated(),
            entries=view.entries,
            messages=view.messages,
            size=self._stat.size,
            model=view.model,
            archived=view.archived,
            attached=session_state(tree).attached_at is not None,
            state=view.state,
            damage=damage,
            prompt=self._prompt,
            origin=own.parent.session if own.parent else None,
        )

    def _session(self) -> Session | None:
        if self._bookmark is not None:
            return self._bookmark.session
        return next((entry.value for entry in self._entries if isinstance(entry.value, Session)), None)

    def _updated(self) -> str:
        if self._entries:
            return self._entries[-1].value.timestamp
        return self._bookmark.updated if self._bookmark else ""

    def _next_bookmark(self, tree: Tree, fold: Compaction | None, row: SessionRow) -> Bookmark | None:
        session = self._session()
        if fold is None or session is None or self._reader.torn is not None or not self._is_orderly():
            return None
        known = (
            self._bookmark.known if self._bookmark else _keys(link for link in tree.links if tree.is_inherited(link))
        )
        fresh = self._entries if self._bookmark is None else self._entries[self._behind() :]
        offset, digest = self._place
        return Bookmark(
            session=session,
            fold=msgspec.structs.replace(
                fold,
                parent_id=session.id,
                state=msgspec.structs.replace(fold.state, head=session.id) if fold.state else None,
            ),
            offset=offset,
            digest=digest,
            updated=row.updated,
            damage=row.damage,
            prompt=self._prompt,
            known=known + _keys(entry.id for entry in fresh),
        )

    def _behind(self) -> int:
        """How many of the entries fed were indexed before."""
        offset = self._bookmark.offset if self._bookmark else -1
        return sum(entry.offset <= offset for entry in self._entries)

    def _is_orderly(self) -> bool:
        """Whether the log begins with its one session entry and counts upwards, as every log we write does."""
        if self._bookmark is not None:
            return True
        sessions = [at for at, entry in enumerate(self._entries) if entry.type == "session"]
        return sessions == [0] and all(before.seq < after.seq for before, after in pairwise(self._entries))


def _fold_on(tree: Tree, link: Entry) -> Compaction:
    """What a compaction would carry if it stood in the place of this link."""
    return Compaction(id=link.id, seq=link.seq, summary="", state=_slim_state(fold_state(tree, link.id)))


def _slim(entry: Entry) -> Entry:
    """An entry without its bytes and texts: all that trees and overviews look at."""
    return Entry(b"", _slim_value(entry.value), entry.seq, entry.offset, entry.line)


def _slim_value(value: Body) -> Body:
    match value:
        case Message(message=Reply() as reply):
            calls = tuple(ToolCall(id=call.id, name=call.name) for call in reply.calls)
            return msgspec.structs.replace(value, message=msgspec.structs.replace(reply, content=calls, usage=None))
        case Message(message=said):
            return msgspec.structs.replace(value, message=msgspec.structs.replace(said, content=()))
        case Compaction(state=state):
            slim = _slim_state(state) if state is not None else None
            return msgspec.structs.replace(value, summary="", usage=None, state=slim)
        case Session():
            return msgspec.structs.replace(value, settings={})
        case Custom():
            return msgspec.structs.replace(value, data=None, content=())
        case Queued():
            return msgspec.structs.replace(value, message=None)
        case Partial():
            return msgspec.structs.replace(value, content=())
        case Setting():
            return msgspec.structs.replace(value, value=None)
        case ContextRecord():
            return msgspec.structs.replace(value, sources=(), environment={}, params={}, policy={})
    return value


def _slim_state(state: FoldState) -> FoldState:
    queue = tuple(msgspec.structs.replace(queued, message=None) for queued in state.queue)
    return msgspec.structs.replace(state, settings={}, context=None, usage=Usage(), queue=queue)


def _prompt(value: Body) -> str:
    """The start of a prompt on one line; empty for anything else."""
    if not isinstance(value, Message) or not isinstance(value.message, Prompt):
        return ""
    return " ".join(value.message.text[: 8 * PROMPT_MAX_CHARS].split())[:PROMPT_MAX_CHARS]


def _stands(tree: Tree, name: str) -> bool:
    try:
        tree.find(name)
    except NotFound:
        return False
    return True


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


def _key(entry_id: str) -> bytes:
    return hashlib.blake2b(entry_id.encode(), digest_size=_KNOWN_BYTES).digest()


def _keys(ids: Iterable[str]) -> bytes:
    return b"".join(map(_key, ids))


def _holds(known: bytes, key: bytes) -> bool:
    """Whether a key stands in a row of keys, at a place where one begins."""
    at = known.find(key)
    while at >= 0 and at % _KNOWN_BYTES:
        at = known.find(key, at + 1)
    return at >= 0

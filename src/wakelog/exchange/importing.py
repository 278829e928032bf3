"""Import sessions of other agents into a store, and bring sessions that were imported before up to date.

Rule 1: ids derive from the origin (`sessions.py`), so an import adds the entries that the store does not have, whatever
was interrupted, repeated or moved. Nothing is ever changed or written twice.
Rule 2: an imported log is untrusted. Its entries pass through redaction like every other entry; the header says where
the session comes from, so that automatic wakers leave it alone; nothing that the log names is started.
Rule 3: what a person did with the session here is kept. The head follows the import as long as it is where the last
import left it, which the import's own entry says (`head`); else new entries are added to their own branch, and the head
stays. A title that was given here stays as well.
Rule 4: memory does not grow with the session: entries are appended in groups, each with one sync.
Rule 5: a reply whose usage became known only after it was imported gets it in a `partial` entry, which is counted.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from wakelog.errors import Conflict, NotFound
from wakelog.exchange.account import Account, ImportedSession
from wakelog.exchange.imported_titles import ImportedTitles
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    ImportedItem,
    SkippedRecords,
    entry_id,
    session_id,
)
from wakelog.known_secrets import known_values
from wakelog.large_content import may_be_large, with_long_texts_in_blobs, with_media_in_blobs
from wakelog.log.codec import encode, fits_line, id_of
from wakelog.log.content import Prompt, Reply, Text, Usage
from wakelog.log.entry import (
    Compaction,
    Custom,
    Entry,
    Head,
    KnownBody,
    Message,
    Node,
    Origin,
    Partial,
    SessionHeader,
    SessionRenamed,
    Terminated,
)
from wakelog.log.ids import IdTable, is_id
from wakelog.log.integrity import LogEnd
from wakelog.log.lines import EntryReader
from wakelog.log.redaction_marks import count_marks
from wakelog.log.session_names import project_of, title_part
from wakelog.log.timestamps import iso_timestamp
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import IMPORTED_SETTING
from wakelog.projections.session_state import (
    IMPORT_TYPE,
    build_carried_state,
    can_build_carried_state,
)
from wakelog.redaction.entries import redact_entry
from wakelog.session import Session
from wakelog.session_header import new_header

SENDER = "user"
_GROUP_MAX, _GROUP_BYTES = 256, 4 << 20
_HELD_ITEMS_MAX, _HELD_BYTES_MAX = 5_000, 16 << 20
_TURNS_KEPT = 10_000
# How many nodes may be read again to find the state that compactions carry, beside twice the entries of the log.
_NODES_REREAD = 20_000
# A record that is kept verbatim and is larger than this goes into a blob.
_INLINE_BYTES_MAX = 1 << 20


def import_session(store: Store, foreign: ForeignSession, *, dry_run: bool = False) -> ImportedSession:
    """Add what a session of another agent has and the store lacks. `Conflict` while a worker runs the session here."""
    return _SessionImport(store, foreign).run(dry_run=dry_run)


class _SessionImport:
    """The import of one session: what the store has, where the head is, and the group to append next."""

    def __init__(self, store: Store, foreign: ForeignSession) -> None:
        self._store = store
        self._foreign = foreign
        self._tool = foreign.origin.tool
        self._started = iso_timestamp(foreign.started_ms)
        self.id = session_id(self._tool, foreign.origin.id)
        self._import_id = entry_id(self._tool, f"{foreign.origin.id}:import")
        self._parent = self._origin()
        self._known_secrets = known_values(store, self.id, self._parent)
        self._name: str | None = None
        self._is_new = False
        self._known = IdTable()
        self._without_usage = IdTable()
        self._account = Account(skipped={}, bad=[])
        self._added = 0
        self._redacted = Counter[str]()
        self._has_figures = False
        self._titles = ImportedTitles()
        self._head: str | None = None
        self._left_at: str | None = None
        # The last node that was read, and whether the head follows: None until that has to be known.
        self._position: str | None = None
        self._follows: bool | None = None
        self._turns: dict[str, str | None] = {}
        self._nodes_reread = 0
        self._end = LogEnd()
        # The header while the session is not created yet: it is created with its first group of entries.
        self._header: SessionHeader | None = None
        self._group: list[bytes] = []
        self._group_bytes = 0

    def run(self, *, dry_run: bool) -> ImportedSession:
        """Read all items, append those that are missing, and return what was done."""
        with contextlib.suppress(NotFound):
            self._name = self._store.name(self.id)
        self._is_new = self._name is None
        items = iter(self._foreign.items)
        if dry_run:
            self._count(items)
        elif self._is_new:
            held, is_all = _held(items)
            self._create(held, is_all=is_all)
            self._append_missing(itertools.chain(held, items))
        else:
            self._open()
            self._append_missing(items)
        return ImportedSession(
            origin=self._foreign.origin,
            session=self.id,
            name=self._name,
            is_new=self._is_new,
            added=self._added,
            account=self._account,
            redacted=self._redacted,
        )

    def _count(self, items: Iterable[ImportedItem]) -> None:
        """Count what an import would add, without writing."""
        if self._name is not None:
            self._load_known(self._name)
        for item in items:
            self._account.add(item)
            if not isinstance(item, ImportedEntry):
                continue
            added = self._late_usage(item.body) if item.body.id in self._known else item.body
            if added is not None:
                self._known.add_ids([added.id])
                self._added += 1

    # ── the session in the store ─────────────────────────────────────────────────────────────────

    def _create(self, held: Sequence[ImportedItem], *, is_all: bool) -> None:
        """Prepare the header, and the entry that says where the session comes from, with its figures if `is_all`."""
        foreign = self._foreign
        header = new_header(
            id=self.id,
            now_ms=foreign.started_ms,
            agent=foreign.agent,
            sender=SENDER,
            cwd=foreign.cwd,
            title=foreign.title,
            model=foreign.model,
            provider=foreign.provider,
            settings={IMPORTED_SETTING: self._tool},
            parent=self._parent,
            known=self._known_secrets,
        )
        self._header = header
        self._known.add_ids([self.id])
        self._titles.add(self.id, header.title)
        self._head = self._position = self.id
        account, head = Account(skipped={}, bad=[]), self._import_id
        for item in held:
            account.add(item)
            head = _position_of(item, head)
        # A larger session is counted while it is written, and its figures follow at the end.
        self._has_figures = is_all
        self._append(self._import_entry(self._import_id, account if is_all else None, head))

    def _origin(self) -> Origin:
        """Return what the header of the session says of its parent, or of its origin."""
        origin = self._foreign.origin
        if origin.is_subagent and origin.parent:
            return Origin(session=session_id(self._tool, origin.parent), entry="", kind="subagent")
        return Origin(session=origin.id if is_id(origin.id) else self.id, entry="", kind="import")

    def _create_with_group(self, header: SessionHeader) -> None:
        """Create the session with its first group of entries. `Conflict` if another process was faster."""

        def first_line(number: int) -> bytes:
            return encode(msgspec.structs.replace(header, number=number))

        # The name says more with the project than with the sender, which is the same for all imported sessions.
        project = project_of(header.cwd)
        stem = title_part(project) if project else header.sender
        self._name = self._store.create(header.id, header.agent, stem, first_line, self._group)
        last = next(self._store.tail(self._name))
        self._end.add(last)
        if self._end.seq != len(self._group) or id_of(last.raw) != id_of(self._group[-1]):
            raise Conflict(f"{self._name} was created by another process", hint="import it again")
        if header.title:
            self._store.set_title(header.id, header.title)

    def _open(self) -> None:
        """Read which entries the session has, and where its head is."""
        self._name = self._store.name(self.id)
        held = self._store.held(self._name)
        if held is not None:
            raise Conflict(f"{self._name} is being run by {held.holder}", hint="import it again when the run has ended")
        self._head = Session(self._store, self._name).tree.head
        self._load_known(self._name)
        self._titles.imported_before(self._title_ids())
        self._position = self._first_parent()

    def _load_known(self, name: str) -> None:
        """Read what the session has: the ids of its entries, its title, its turns, the end of its log."""
        reader = EntryReader()
        for line in self._store.load(name):
            self._end.add(line)
            for entry in reader.feed(line):
                self._known.add_ids([entry.id])
                self._note(entry)

    def _note(self, entry: Entry) -> None:
        """Remember what an entry of the stored session says that the import depends on."""
        match entry.value:
            case SessionHeader(title=title) | SessionRenamed(title=title):
                self._titles.add(entry.id, title)
            case Custom(custom_type=kind, data={"tool": _} as data) if kind == IMPORT_TYPE:
                self._has_figures, self._left_at = "read" in data, data.get("head")
            case Message(message=Reply(usage=None)):
                self._without_usage.add_ids([entry.id])
            case Terminated():
                raise Conflict(f"{self._name} is terminated", hint="import it into another store")
        if isinstance(entry.value, Node):
            self._set_turn(entry.id, entry.value.turn_id)

    def _first_parent(self) -> str:
        """Return where the first entry of the session is attached."""
        return self._import_id if self._import_id in self._known else self.id

    def _import_entry(self, entry: str, account: Account | None, head: str | None) -> Custom:
        """Return the entry that says where the session comes from; with its figures, also where its head is left."""
        origin = self._foreign.origin
        path = origin.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        places = {"tool": origin.tool, "version": origin.version, "session": origin.id, "path": path}
        parent = {"parent": origin.parent, "parentCall": origin.parent_call}
        given = {key: value for key, value in parent.items() if value}
        figures = {} if account is None else {**account.to_plain(), "head": head}
        return Custom(
            id=entry,
            parent_id=self.id,
            timestamp=self._started,
            custom_type=IMPORT_TYPE,
            data={**places, **given, **figures},
        )

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def _append_missing(self, items: Iterable[ImportedItem]) -> None:
        for item in items:
            if isinstance(item, ImportedEntry) and self._is_left_out(item.body):
                reason = "the session was continued here"
                self._account.add(SkippedRecords("move of the head", item.records, reason))
                continue
            self._account.add(item)
            if isinstance(item, ImportedEntry):
                self._append_entry(item.body)
        self._append_title()
        self._move_head_forward()
        if not self._has_figures or (self._added and not self._is_new):
            self._append_figures()
        self._flush()

    def _append_figures(self) -> None:
        """Append the figures of a session that has grown, or was too large to count before it was written."""
        self._flush()
        key = f"{self._foreign.origin.id}:import:{self._end.seq}"
        head = self._head if self._follows_head() else self._left_at
        self._add_to_group(self._import_entry(entry_id(self._tool, key), self._account, head))

    def _append_entry(self, body: KnownBody) -> None:
        if isinstance(body, SessionRenamed):
            self._titles.imported(body.id, body.title)
        if body.id in self._known:
            if (usage := self._late_usage(body)) is not None:
                self._added += 1
                self._append(usage)
            self._position = _position_after(body, self._position)
            return
        placed = {"parent_id": body.parent_id or self._first_parent(), "timestamp": body.timestamp or self._started}
        self._added += 1
        self._append(msgspec.structs.replace(body, **placed))
        if isinstance(body, SessionRenamed):
            self._append_title_given_here()

    def _late_usage(self, body: KnownBody) -> Partial | None:
        """Return the entry with the usage of a reply that was stored without it; None if there is nothing to add."""
        match body:
            case Message(message=Reply(usage=Usage() as usage)) if body.id in self._without_usage:
                identity = entry_id(self._tool, f"usage:{body.id}")
                timestamp = body.timestamp or self._started
                found = Partial(id=identity, parent_id=body.id, timestamp=timestamp, reply_id=body.id, usage=usage)
                return found if identity not in self._known else None
        return None

    def _append_title(self) -> None:
        """Append the title that the tool shows now, if it has changed there."""
        title = self._foreign.title
        if not title or title == self._titles.last_imported:
            return
        named = SessionRenamed(parent_id=self.id, timestamp=self._started, title=title)
        renamed = redact_entry(named, known=self._known_secrets)
        identity, last = self.id, self.id
        for identity in self._title_ids():
            if identity not in self._titles:
                break
            last = identity
        if renamed.title == self._titles.of(last):
            return
        self._flush()
        self._added += 1
        self._titles.imported(identity, renamed.title)
        self._add_to_group(msgspec.structs.replace(renamed, id=identity))
        self._append_title_given_here()
        self._flush()
        self._store.set_title(self.id, self._titles.given_here or renamed.title)

    def _title_ids(self) -> Iterator[str]:
        """Yield the ids of titles that an import appends because they are in no record, without end."""
        numbers = itertools.count()
        return (entry_id(self._tool, f"{self._foreign.origin.id}:title:{number}") for number in numbers)

    def _append_title_given_here(self) -> None:
        """Append a title that a person gave here once more, so that the title of the tool before it has no effect."""
        if (title := self._titles.given_here) is not None:
            key = f"{self._foreign.origin.id}:kept-title:{self._end.seq + len(self._group)}"
            body = SessionRenamed(parent_id=self.id, timestamp=self._started, title=title)
            self._add_to_group(msgspec.structs.replace(body, id=entry_id(self._tool, key)))

    # ── the head ─────────────────────────────────────────────────────────────────────────────────

    def _follows_head(self) -> bool:
        """Return whether the head follows: it is where the last import left it, or at what was read last."""
        if self._follows is None:
            self._follows = self._head in (self._left_at, self._position)
        return self._follows

    def _is_left_out(self, body: KnownBody) -> bool:
        """Return whether an entry moves the head, which does not follow."""
        return isinstance(body, Head) and body.id not in self._known and not self._follows_head()

    def _append(self, body: KnownBody) -> None:
        """Append an entry. A node whose parent is not the head becomes a branch that the head follows."""
        if isinstance(body, Node):
            # An import that was interrupted behind this entry has moved the head already.
            is_moved = entry_id(self._tool, f"head:{body.id}") in self._known and self._head == body.parent_id
            self._follows = self._follows_head() or is_moved
            if self._follows and body.parent_id != self._head:
                self._append_head(body)
            if body.parent_id == self._head:
                self._head = body.id
        elif isinstance(body, Head):
            self._head = body.target_id
        self._position = _position_after(body, self._position)
        if isinstance(body, Compaction):
            body = self._with_state(body)
        self._add_to_group(body)

    def _append_head(self, body: KnownBody) -> None:
        """Append the entry that moves the head to the parent of the next node."""
        self._move_head(body.parent_id or self.id, f"head:{body.id}", body.timestamp)

    def _move_head(self, target: str, key: str, timestamp: str) -> None:
        head = Head(id=entry_id(self._tool, key), parent_id=target, timestamp=timestamp, target_id=target)
        if head.id not in self._known:
            self._add_to_group(head)
        self._head = target

    def _move_head_forward(self) -> None:
        """Move the head to the last node that was read, if that is below it: the tool has redone what it had undone."""
        position = self._position
        if self._header is not None or position in (None, self._head) or not self._follows_head():
            return
        self._flush()
        assert self._name is not None
        above = Session(self._store, self._name).branch(position).nodes
        if any(node.id == self._head for node in above):
            self._added += 1
            self._move_head(str(position), f"head:{position}:{self._end.seq}", self._started)

    def _with_state(self, body: Compaction) -> Compaction:
        """Return a compaction with the state that it carries, which is that of the log before it.

        Without it, readers of the session read on to an older compaction. That happens only if a source has so many
        compactions that the log would be read again and again.
        """
        self._flush()
        assert self._name is not None
        kept = body.first_kept_entry_id
        body = msgspec.structs.replace(body, first_kept_entry_id=kept if kept and kept in self._known else None)
        if self._nodes_reread > _NODES_REREAD + 2 * self._end.seq:
            return body
        session = Session(self._store, self._name)
        tree = session.tree
        if body.parent_id not in tree.nodes or not can_build_carried_state(tree):
            tree = session.read().tree
        self._nodes_reread += len(tree.nodes)
        place = body.parent_id if body.parent_id in tree.nodes else self.id
        assert place is not None
        state = build_carried_state(tree, place)
        return msgspec.structs.replace(body, parent_id=place, state=state)

    # ── lines ────────────────────────────────────────────────────────────────────────────────────

    def _add_to_group(self, body: KnownBody) -> None:
        line = self._encoded(body)
        self._redacted.update(count_marks((line,)))
        if self._header is None:
            line = self._end.seal(line)
            self._end.advance(line)
        self._known.add_ids([body.id])
        self._group.append(line)
        self._group_bytes += len(line)
        if len(self._group) >= _GROUP_MAX or self._group_bytes >= _GROUP_BYTES:
            self._flush()

    def _encoded(self, body: KnownBody) -> bytes:
        """Return the line of an entry: its turn added, secrets redacted, large content in blobs."""
        put = self._store.blobs.put
        body = redact_entry(with_media_in_blobs(_with_large_data_as_text(body), put), known=self._known_secrets)
        if isinstance(body, Node):
            body = msgspec.structs.replace(body, turn_id=self._turn_of(body))
        if may_be_large(body):
            body = with_long_texts_in_blobs(body, put, fits_line)
        return encode(body)

    def _turn_of(self, body: KnownBody) -> str | None:
        """Return the turn of a node: a prompt begins one, other nodes belong to that of their parent."""
        is_prompt = isinstance(body, Message) and isinstance(body.message, Prompt)
        turn = body.id if is_prompt else self._turns.get(body.parent_id or "")
        self._set_turn(body.id, turn)
        return turn

    def _set_turn(self, node: str, turn: str | None) -> None:
        if len(self._turns) >= _TURNS_KEPT:
            del self._turns[next(iter(self._turns))]
        self._turns[node] = turn

    def _flush(self) -> None:
        """Append the group with one sync. `Conflict` if another process has appended to the log meanwhile."""
        if self._header is not None:
            header, self._header = self._header, None
            self._create_with_group(header)
            self._group, self._group_bytes = [], 0
        elif self._group:
            assert self._name is not None
            size = self._end.size - self._group_bytes
            self._store.adopt(self.id, self._name, b"".join(self._group), size=size)
            self._group, self._group_bytes = [], 0


def _held(items: Iterator[ImportedItem]) -> tuple[list[ImportedItem], bool]:
    """Take the first items of a session, and say whether they are all of them."""
    held: list[ImportedItem] = []
    size = 0
    for item in items:
        held.append(item)
        if len(held) > _HELD_ITEMS_MAX or size > _HELD_BYTES_MAX:
            return held, False
        size += _size_of(item.body) if isinstance(item, ImportedEntry) else 0
    return held, True


def _size_of(body: KnownBody) -> int:
    """Return about how large an entry is; 0 for one that cannot be written, which is an error later."""
    try:
        return len(msgspec.json.encode(body))
    except (ValueError, OverflowError, RecursionError):
        return 0


def _position_of(item: ImportedItem, before: str) -> str:
    return _position_after(item.body, before) or before if isinstance(item, ImportedEntry) else before


def _position_after(body: KnownBody, before: str | None) -> str | None:
    """Return the last node of the source behind an entry."""
    if isinstance(body, Head):
        return body.target_id
    return body.id if isinstance(body, Node) else before


def _with_large_data_as_text(body: KnownBody) -> KnownBody:
    """Return a `custom` entry with large data as text, which becomes a blob; other entries as they are."""
    if not isinstance(body, Custom) or body.data is None:
        return body
    text = msgspec.json.encode(body.data)
    if len(text) <= _INLINE_BYTES_MAX:
        return body
    return msgspec.structs.replace(body, data=None, content=(Text(text=text.decode()),))

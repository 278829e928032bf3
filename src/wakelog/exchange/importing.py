"""Import sessions of other agents into a store, and bring sessions that were imported before up to date.

Rule 1: ids derive from the origin (`sessions.py`), so an import adds the entries that the store does not have, whatever
was interrupted, repeated or moved. Nothing is ever changed or written twice.
Rule 2: an imported log is untrusted. Its entries pass through redaction like every other entry; the header says where
the session comes from, so that automatic wakers leave it alone; nothing that the log names is started.
Rule 3: what a person did with the session here is kept. If the head is no longer at an imported entry, new entries are
added to their own branch, and the head stays where it is.
Rule 4: memory does not grow with the session: entries are appended in groups, each with one sync.
"""

import contextlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from wakelog.errors import Conflict, NotFound, WakelogError
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    ImportedItem,
    SessionOrigin,
    SkippedRecords,
    entry_id,
    session_id,
)
from wakelog.large_content import may_be_large, with_long_texts_in_blobs, with_media_in_blobs
from wakelog.log.codec import encode, fits_line, id_of
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import (
    RULES_VERSION,
    Compaction,
    Custom,
    Head,
    KnownBody,
    Message,
    Node,
    Origin,
    SessionHeader,
    SessionRenamed,
    Terminated,
)
from wakelog.log.ids import IdTable, is_id
from wakelog.log.integrity import LogEnd
from wakelog.log.lines import EntryReader
from wakelog.log.timestamps import iso_timestamp
from wakelog.ports.stores import Store
from wakelog.projections.session_state import (
    IMPORT_TYPE,
    IMPORTED_SETTING,
    build_carried_state,
    can_build_carried_state,
)
from wakelog.redaction.entries import redact_entry
from wakelog.session import Session
from wakelog.session_header import new_header

SENDER = "user"
_GROUP_MAX, _GROUP_BYTES = 256, 4 << 20
_HELD_ITEMS_MAX = 5_000
_TURNS_KEPT = 10_000
# A record that is kept verbatim and is larger than this goes into a blob.
_INLINE_BYTES_MAX = 1 << 20


class Account(msgspec.Struct):
    """How many records of a session were read, and what became of them."""

    mapped: int = 0
    verbatim: int = 0
    skipped: dict[tuple[str, str], int] = {}
    """The number of records by kind and reason."""
    bad: list[BadRecord] = []

    def add(self, item: ImportedItem) -> None:
        """Count the records of an item."""
        match item:
            case ImportedEntry(is_verbatim=True):
                self.verbatim += item.records
            case ImportedEntry():
                self.mapped += item.records
            case SkippedRecords():
                key = item.kind, item.reason
                self.skipped[key] = self.skipped.get(key, 0) + item.count
            case BadRecord():
                self.bad.append(item)

    @property
    def read(self) -> int:
        """All records that were read."""
        return self.mapped + self.verbatim + sum(self.skipped.values()) + len(self.bad)

    @property
    def fidelity(self) -> float:
        """The share of the records that became entries of wakelog's own types."""
        return self.mapped / self.read if self.read else 1.0

    def to_plain(self) -> dict[str, Any]:
        """Return the account as JSON values."""
        return {
            "read": self.read,
            "mapped": self.mapped,
            "verbatim": self.verbatim,
            "fidelity": round(self.fidelity, 4),
            "skipped": [
                {"kind": kind, "reason": reason, "count": count} for (kind, reason), count in self.skipped.items()
            ],
            "bad": [
                {"line": bad.line, "offset": bad.offset, "bytes": bad.size, "reason": bad.reason} for bad in self.bad
            ],
        }


class ImportedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one session. `added` counts the entries that were not in the store before."""

    origin: SessionOrigin
    session: str
    name: str | None
    """The name in the store; None for a new session of a dry run."""
    is_new: bool
    added: int
    account: Account
    error: WakelogError | None = None


def import_session(store: Store, foreign: ForeignSession, *, dry_run: bool = False) -> ImportedSession:
    """Add what a session of another agent has and the store lacks. `Conflict` while a worker runs the session here."""
    return _SessionImport(store, foreign).run(dry_run=dry_run)


class _SessionImport:
    """The import of one session: what the store has, where the head is, and the group to append next."""

    def __init__(self, store: Store, foreign: ForeignSession) -> None:
        self._store = store
        self._foreign = foreign
        self._tool = foreign.origin.tool
        self.id = session_id(self._tool, foreign.origin.id)
        self._import_id = entry_id(self._tool, f"{foreign.origin.id}:import")
        self._name: str | None = None
        self._known = IdTable()
        self._account = Account(skipped={}, bad=[])
        self._added = 0
        self._has_figures = False
        self._titles: dict[str, str | None] = {}
        self._last_title: str | None = None
        self._head: str | None = None
        self._imported_head: str | None = None
        self._follows: bool | None = None
        self._turns: dict[str, str | None] = {}
        self._end = LogEnd()
        # The header while the session is not created yet: it is created with its first group of entries.
        self._header: SessionHeader | None = None
        self._group: list[bytes] = []
        self._group_bytes = 0

    def run(self, *, dry_run: bool) -> ImportedSession:
        """Read all items, append those that are missing, and return what was done."""
        with contextlib.suppress(NotFound):
            self._name = self._store.name(self.id)
        is_new = self._name is None
        items = iter(self._foreign.items)
        if dry_run:
            self._count(items)
        elif is_new:
            held = list(itertools.islice(items, _HELD_ITEMS_MAX))
            self._create(held)
            self._append_missing(itertools.chain(held, items))
        else:
            self._open()
            self._append_missing(items)
        return ImportedSession(
            origin=self._foreign.origin,
            session=self.id,
            name=self._name,
            is_new=is_new,
            added=self._added,
            account=self._account,
        )

    def _count(self, items: Iterable[ImportedItem]) -> None:
        """Count what an import would add, without writing."""
        if self._name is not None:
            self._load_known(self._name)
        for item in items:
            self._account.add(item)
            if isinstance(item, ImportedEntry) and item.body.id not in self._known:
                self._known.add_ids([item.body.id])
                self._added += 1

    # ── the session in the store ─────────────────────────────────────────────────────────────────

    def _create(self, held: Sequence[ImportedItem]) -> None:
        """Create the session with its header and the entry that says where it comes from."""
        origin, foreign = self._foreign.origin, self._foreign
        if origin.is_subagent and origin.parent:
            parent = Origin(session=session_id(self._tool, origin.parent), entry="", kind="subagent")
        else:
            parent = Origin(session=origin.id if is_id(origin.id) else self.id, entry="", kind="import")
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
            parent=parent,
        )
        self._header = header
        self._known.add_ids([self.id])
        self._titles[self.id] = header.title
        self._head = self._imported_head = self.id
        account = Account(skipped={}, bad=[])
        for item in held:
            account.add(item)
        # A larger session is counted while it is written, and its figures follow at the end.
        self._has_figures = len(held) < _HELD_ITEMS_MAX
        self._append(self._import_entry(self._import_id, account if self._has_figures else None))

    def _create_with_group(self, header: SessionHeader) -> None:
        """Create the session with its first group of entries. `Conflict` if another process was faster."""

        def first_line(number: int) -> bytes:
            return encode(msgspec.structs.replace(header, number=number))

        self._name = self._store.create(header.id, header.agent, header.sender, first_line, self._group)
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
        self._imported_head = self._first_parent()

    def _load_known(self, name: str) -> None:
        """Read the ids of the session's entries, its title, and the end of its log."""
        reader = EntryReader()
        for line in self._store.load(name):
            self._end.add(line)
            for entry in reader.feed(line):
                self._known.add_ids([entry.id])
                if isinstance(entry.value, SessionHeader | SessionRenamed):
                    self._titles[entry.id] = entry.value.title
                elif isinstance(entry.value, Terminated):
                    raise Conflict(f"{name} is terminated", hint="import it into another store")

    def _first_parent(self) -> str:
        """Return where the first entry of the session is attached."""
        return self._import_id if self._import_id in self._known else self.id

    def _import_entry(self, entry: str, account: Account | None) -> Custom:
        origin = self._foreign.origin
        places = {"tool": origin.tool, "version": origin.version, "session": origin.id, "path": origin.path}
        return Custom(
            id=entry,
            parent_id=self.id,
            timestamp=iso_timestamp(self._foreign.started_ms),
            custom_type=IMPORT_TYPE,
            data={**places, **({} if account is None else account.to_plain())},
        )

    # ── appending ────────────────────────────────────────────────────────────────────────────────

    def _append_missing(self, items: Iterable[ImportedItem]) -> None:
        for item in items:
            self._account.add(item)
            if isinstance(item, ImportedEntry):
                self._append_entry(item.body)
        self._append_title()
        if self._added and not self._has_figures:
            self._flush()
            key = f"{self._foreign.origin.id}:import:{self._end.seq}"
            self._add_to_group(self._import_entry(entry_id(self._tool, key), self._account))
        self._flush()

    def _append_entry(self, body: KnownBody) -> None:
        if isinstance(body, SessionRenamed):
            self._last_title = body.title
        if body.id in self._known:
            if isinstance(body, Node | Head):
                self._imported_head = body.target_id if isinstance(body, Head) else body.id
            return
        self._added += 1
        started = iso_timestamp(self._foreign.started_ms)
        placed = {"parent_id": body.parent_id or self._first_parent(), "timestamp": body.timestamp or started}
        self._append(msgspec.structs.replace(body, **placed))

    def _append_title(self) -> None:
        """Append the title that the tool shows now, if it has changed there. A title that a person gave here stays."""
        title = self._foreign.title
        if not title or title == self._last_title:
            return
        timestamp = iso_timestamp(self._foreign.started_ms)
        renamed = redact_entry(SessionRenamed(parent_id=self.id, timestamp=timestamp, title=title))
        imported, number = self._titles.get(self.id), 0
        while (identity := entry_id(self._tool, f"{self._foreign.origin.id}:title:{number}")) in self._titles:
            imported, number = self._titles[identity], number + 1
        if renamed.title == imported:
            return
        self._flush()
        self._added += 1
        self._add_to_group(msgspec.structs.replace(renamed, id=identity))
        self._flush()
        self._store.set_title(self.id, renamed.title)

    def _append(self, body: KnownBody) -> None:
        """Append an entry. A node whose parent is not the head becomes a branch that the head follows."""
        if self._follows is None:
            self._follows = self._head == self._imported_head
        if isinstance(body, Node):
            if self._follows and body.parent_id != self._head:
                self._append_head(body)
            if body.parent_id == self._head:
                self._head = body.id
        elif isinstance(body, Head):
            if not self._follows:
                return
            self._head = body.target_id
        if isinstance(body, Compaction):
            body = self._with_state(body)
        self._add_to_group(body)

    def _append_head(self, body: KnownBody) -> None:
        """Append the entry that moves the head to the parent of the next node."""
        head = Head(
            id=entry_id(self._tool, f"head:{body.id}"),
            parent_id=body.parent_id,
            timestamp=body.timestamp,
            target_id=body.parent_id or self.id,
        )
        if head.id not in self._known:
            self._add_to_group(head)
        self._head = body.parent_id

    def _with_state(self, body: Compaction) -> Compaction:
        """Return a compaction with the state that it carries, which is that of the log before it."""
        self._flush()
        assert self._name is not None
        session = Session(self._store, self._name)
        tree = session.tree if can_build_carried_state(session.tree) else session.read().tree
        place = body.parent_id if body.parent_id in tree.nodes else tree.head
        assert place is not None
        kept = body.first_kept_entry_id
        kept = kept if kept is not None and kept in self._known else None
        state = build_carried_state(tree, place, RULES_VERSION)
        return msgspec.structs.replace(body, parent_id=place, first_kept_entry_id=kept, state=state)

    def _add_to_group(self, body: KnownBody) -> None:
        line = self._encoded(body)
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
        body = redact_entry(with_media_in_blobs(_with_large_data_as_text(body), put))
        if isinstance(body, Node):
            body = msgspec.structs.replace(body, turn_id=self._turn_of(body))
        if may_be_large(body):
            body = with_long_texts_in_blobs(body, put, lambda made: fits_line(made, rules_version=RULES_VERSION))
        return encode(body, rules_version=RULES_VERSION)

    def _turn_of(self, body: KnownBody) -> str | None:
        """Return the turn of a node: a prompt begins one, other nodes belong to that of their parent."""
        is_prompt = isinstance(body, Message) and isinstance(body.message, Prompt)
        turn = body.id if is_prompt else self._turns.get(body.parent_id or "")
        if len(self._turns) >= _TURNS_KEPT:
            del self._turns[next(iter(self._turns))]
        self._turns[body.id] = turn
        return turn

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


def _with_large_data_as_text(body: KnownBody) -> KnownBody:
    """Return a `custom` entry with large data as text, which becomes a blob; other entries as they are."""
    if not isinstance(body, Custom) or body.data is None:
        return body
    text = msgspec.json.encode(body.data)
    if len(text) <= _INLINE_BYTES_MAX:
        return body
    return msgspec.structs.replace(body, data=None, content=(Text(text=text.decode()),))

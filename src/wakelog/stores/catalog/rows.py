"""What a catalog stores for each log: its row and its bookmark.

A row is the summary of a session that lists show. A bookmark says how far the log is indexed and has the state needed
to continue reading from there: a lossless compaction that exists only in the catalog.
Entries are stripped of their text while a log is summarised, so that a log of a gigabyte is not held in memory. No
field that `strip_text` removes may influence a field of a `SessionRow`; a test compares the rows with projections of
the whole log.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec

from wakelog.errors import WakelogError
from wakelog.log.codec import Undecodable, decode
from wakelog.log.content import JsonObject, Note, Prompt, Reply, ToolCall, Usage
from wakelog.log.entry import (
    Body,
    CarriedState,
    Compaction,
    ContextEntry,
    Custom,
    Entry,
    Message,
    ModelCall,
    Partial,
    Queued,
    SessionArchived,
    SessionHeader,
    Setting,
    Terminated,
)
from wakelog.log.recovered_header import HeaderRecovery
from wakelog.log.timestamps import parse_ms
from wakelog.log.tree import Tree
from wakelog.ports.catalogs import SessionRow
from wakelog.ports.stores import SessionStat, Store
from wakelog.projections.branch_state import IMPORTED_SETTING
from wakelog.projections.overview import Overview
from wakelog.projections.pending import open_tool_calls
from wakelog.projections.session_state import SessionState, build_carried_state
from wakelog.reading import read_session_header
from wakelog.stores.catalog.query import RowPosition, encode_cursor


def strip_text(entry: Entry) -> Entry:
    """Return an entry without raw bytes and text, with every field that trees and overviews read."""
    return Entry(b"", _strip_value(entry.value), entry.seq, entry.offset, entry.line)


def _strip_value(value: Body) -> Body:
    match value:
        case Message(message=Reply() as reply):
            calls = tuple(ToolCall(id=call.id, name=call.name) for call in reply.tool_calls)
            return msgspec.structs.replace(value, message=msgspec.structs.replace(reply, content=calls, usage=None))
        case Message(message=said):
            return msgspec.structs.replace(value, message=msgspec.structs.replace(said, content=()))
        case Compaction(state=state):
            light = strip_state(state) if state is not None else None
            return msgspec.structs.replace(value, summary="", usage=None, state=light)
        case SessionHeader():
            return msgspec.structs.replace(value, settings=_kept_settings(value.settings))
        case Custom():
            return msgspec.structs.replace(value, data=None, content=())
        case Queued():
            return msgspec.structs.replace(value, message=None)
        case Partial():
            return msgspec.structs.replace(value, content=())
        case Setting():
            return msgspec.structs.replace(value, value=None)
        case ContextEntry():
            folder = {key: value.environment[key] for key in ("cwd",) if key in value.environment}
            return msgspec.structs.replace(value, sources=(), environment=folder, params={}, policy={})
    return value


def strip_state(state: CarriedState) -> CarriedState:
    """Return the carried state of a compaction without the fields that no index row shows."""
    queue = tuple(msgspec.structs.replace(queued, message=None) for queued in state.queue)
    open_outcomes = tuple(outcome for outcome in state.unknown_outcomes if outcome.answer_id is None)
    settings = _kept_settings(state.settings)
    return msgspec.structs.replace(
        state, settings=settings, context=None, usage=Usage(), queue=queue, unknown_outcomes=open_outcomes
    )


def _kept_settings(settings: JsonObject) -> JsonObject:
    """Return the settings that a row depends on: which tool a session was imported from."""
    return {key: settings[key] for key in settings if key == IMPORTED_SETTING}


_HASH_BYTES = 8


class Bookmark(msgspec.Struct, frozen=True):
    """How far a log is indexed, and the state needed to continue reading from there.

    `fold` is a compaction that exists only here; it stands for all entries up to the bookmark. `known` holds the hashed
    ids of those entries.
    """

    session: SessionHeader
    fold: Compaction
    offset: int
    digest: bytes
    updated: str
    damage: int
    prompt: str
    inherited: str
    known: bytes

    @property
    def after(self) -> int:
        """The seq to load after: the first line is then the last one that `fold` stands for."""
        return (self.fold.seq or 0) - 1

    def has_entry(self, entry_id: str) -> bool:
        """Whether an entry is before the bookmark, or inherited. Compares short hashes."""
        return _contains_hash(self.known, hash_id(entry_id))


def make_bookmark(
    session: SessionHeader,
    fold: Compaction,
    position: tuple[int, bytes],
    *,
    updated: str,
    damage: int,
    prompt: str,
    inherited: str,
    known: bytes,
) -> Bookmark:
    """Return a bookmark whose compaction follows the session header. `position`: offset and digest of the last line."""
    state = msgspec.structs.replace(fold.state, head=session.id) if fold.state else None
    return Bookmark(
        session=session,
        fold=msgspec.structs.replace(fold, parent_id=session.id, state=state),
        offset=position[0],
        digest=position[1],
        updated=updated,
        damage=damage,
        prompt=prompt,
        inherited=inherited,
        known=known,
    )


def line_digest(raw: bytes) -> bytes:
    """Return the digest that identifies a line."""
    return hashlib.blake2b(raw, digest_size=16).digest()


def hash_id(entry_id: str) -> bytes:
    """Return a short hash of an id, the same in every process."""
    return hashlib.blake2b(entry_id.encode(), digest_size=_HASH_BYTES).digest()


def hash_ids(ids: Iterable[str]) -> bytes:
    """Return the hashes of ids, concatenated."""
    return b"".join(map(hash_id, ids))


def _contains_hash(known: bytes, key: bytes) -> bool:
    """Whether concatenated hashes contain a hash, at a multiple of its length."""
    at = known.find(key)
    while at >= 0 and at % _HASH_BYTES:
        at = known.find(key, at + 1)
    return at >= 0


PROMPT_MAX_CHARS = 200
# The name of a command and its arguments, in the text of a note.
_COMMAND_PARTS = re.compile(r"<command-(?:name|args)>([^<]*)")
# How much of the end of a log is read for a row without a summary.
_END_LINES = 256
_END_BYTES = 1024 * 1024


def make_row(
    stat: SessionStat,
    session: SessionHeader,
    view: Overview,
    whole: SessionState,
    *,
    damage: int,
    updated: str,
    prompt: str,
) -> SessionRow:
    """Return the row of a log that was read, with its session header or what is known of an unreadable one."""
    return SessionRow(
        name=stat.name,
        id=session.id,
        agent=session.agent,
        sender=session.sender,
        number=session.number,
        cwd=session.cwd,
        title=view.title,
        created=session.timestamp,
        updated=updated,
        entries=view.entries,
        messages=view.messages,
        size=stat.size,
        model=view.model,
        archived=view.archived,
        attached=whole.attached,
        uptime=(whole.uptime_ms or 0) / 1_000,
        state=view.state,
        unknown_outcomes=view.unknown_outcomes,
        damage=damage,
        prompt=prompt,
        origin=session.parent.session if session.parent else None,
        cursor=encode_cursor(RowPosition(parse_ms(updated) or 0, stat.name)),
    )


def bare_row(store: Store, stat: SessionStat) -> SessionRow:
    """Return the row of a log that could not be summarised: only what its first and last lines show, if readable."""
    session, end = _read_header(store, stat.name), _read_end(store, stat.name)
    updated = end.updated or session.timestamp
    return SessionRow(
        name=stat.name,
        id=session.id,
        agent=session.agent,
        sender=session.sender,
        number=session.number,
        cwd=session.cwd,
        title=session.title,
        created=session.timestamp,
        updated=updated,
        entries=0,
        messages=0,
        size=stat.size,
        model=session.model,
        archived=end.archived or False,
        attached=False,
        uptime=0.0,
        state="terminated" if end.terminated else "unknown",
        unknown_outcomes=0,
        damage=0,
        prompt="",
        origin=session.parent.session if session.parent else None,
        cursor=encode_cursor(RowPosition(parse_ms(updated) or 0, stat.name)),
    )


def _read_header(store: Store, name: str) -> SessionHeader:
    try:
        first = read_session_header(store, name)
    except (WakelogError, MemoryError):
        # The caller reports that the session cannot be read.
        first = None
    header = first.value if first is not None else None
    return header if isinstance(header, SessionHeader) else HeaderRecovery().header(name)


class _LogEnd:
    """State of the whole session according to the last lines of its log, read backwards."""

    def __init__(self) -> None:
        self.updated = ""
        self.archived: bool | None = None
        self.terminated = False

    def add(self, value: Body) -> bool:
        """Process the previous line; return False if the lines before it add nothing."""
        self.updated = self.updated or value.timestamp
        match value:
            case SessionArchived(archived=archived) if self.archived is None:
                self.archived = archived
            case Terminated():
                self.terminated = True
            case Compaction(state=CarriedState() as state):
                self.archived = state.archived if self.archived is None else self.archived
                self.terminated = self.terminated or state.terminated
                return False
        return True


def _read_end(store: Store, name: str) -> _LogEnd:
    end, size = _LogEnd(), 0
    try:
        for line in islice(store.tail(name), _END_LINES):
            size += len(line.raw)
            if size > _END_BYTES or not line.whole:
                break
            if line.raw and not _add_line(end, line.raw):
                break
    except (WakelogError, MemoryError):
        # Keep what was read so far.
        pass
    return end


def _add_line(end: _LogEnd, raw: bytes) -> bool:
    try:
        return end.add(decode(raw))
    except Undecodable:
        return True


def prompt_preview(value: Body) -> str:
    """Return the start of a prompt on one line, at most `PROMPT_MAX_CHARS` characters; empty for any other entry.

    A command that an imported session records as a note, such as `/review 12`, counts as a prompt.
    """
    match value:
        case Message(message=Prompt(text=text)):
            return _preview(text)
        case Message(message=Note(custom_type=kind, text=text)) if kind.endswith(":command"):
            return _preview(" ".join(_COMMAND_PARTS.findall(text[: 8 * PROMPT_MAX_CHARS])))
    return ""


def first_preview(known: str, value: Body) -> str:
    """Return the preview of the first prompt: `known`, unless it is empty or a command without arguments.

    `/clear` says less than the prompt after it, `/review 12` says more.
    """
    is_bare_command = known.startswith("/") and " " not in known
    return (prompt_preview(value) or known) if is_bare_command or not known else known


def _preview(text: str) -> str:
    return " ".join(text[: 8 * PROMPT_MAX_CHARS].split())[:PROMPT_MAX_CHARS]


# ── the compaction of a bookmark ─────────────────────────────────────────────────────────────────


def tree_from_bookmark(mark: Bookmark) -> Tree:
    """Return the tree that a bookmark stands for: the session header and one compaction."""
    tree = Tree(partial=True)
    tree.add(Entry(b"", mark.session, 0))
    tree.add(Entry(b"", mark.fold, mark.after + 1))
    return tree


def lossless_compaction(tree: Tree, entries: list[Entry], begun: Callable[[], Tree]) -> Compaction | None:
    """Return the latest lossless compaction: at the end of the log, or just before the work in progress."""
    if entries and _is_idle(tree):
        return _compaction_at(tree, entries[-1])
    at = _work_start(tree, entries)
    if at is None:
        return None
    before = begun().add_all(entries[: at + 1])
    return _compaction_at(before, entries[at]) if _is_idle(before) else None


def _is_idle(tree: Tree) -> bool:
    """Whether no work is in progress at the head: neither a tool call nor a model call."""
    if tree.head is None or isinstance(tree.nodes[tree.head].value, SessionHeader):
        return False
    return not any(
        isinstance(annotation.value, ModelCall) for annotation in tree.annotations(tree.head)
    ) and not open_tool_calls(tree.branch())


def _work_start(tree: Tree, entries: list[Entry]) -> int | None:
    """Return the index in `entries` of the node that the work in progress follows; None if it is not there."""
    if tree.head is None:
        return None
    waiting = open_tool_calls(tree.branch())
    node = tree.parent(waiting[0].reply_id) if waiting else tree.head
    return next((at for at, entry in enumerate(entries) if entry.id == node), None)


def _compaction_at(tree: Tree, last: Entry) -> Compaction | None:
    """Return the compaction that could replace all entries up to `last`, the last one of the tree."""
    if tree.head is None or last.value.seq is None:
        return None
    return Compaction(id=tree.head, seq=last.seq, summary="", state=strip_state(build_carried_state(tree, tree.head)))

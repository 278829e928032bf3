"""Export a session as JSON lines or as one JSON document, and compute its transcript rows, at any size.

An export is a function from a log to bytes or rows: no clock, no file, no colours. JSONL is the log itself: a session
that is not a fork is exported as its stored bytes, damage included; a fork is written out in full, as its parent's
branch and its own entries with new seals, because it has no beginning outside its store. The JSON document embeds the
stored bytes of the entries and adds derived data. `branch_rows` computes transcript rows stretch by stretch, so that a
branch of any length fits in memory; `journals_of_scan` reads the texts that are in journals and not in the log yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

import msgspec

from wakelog.decide.assembly import JournalPieces, unrecorded_partials
from wakelog.decide.policy import policy_in_force
from wakelog.errors import NewerFormat
from wakelog.journals import NO_JOURNALS, JournalTexts, clipped_as_entry
from wakelog.log.clean_copy import CleanCopy, SourceLog
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import (
    FORMAT_VERSION,
    Attention,
    AttentionResolved,
    ContextEntry,
    Entry,
    Message,
    ModelCall,
    Partial,
    Resumed,
    SessionHeader,
    ToolStarted,
)
from wakelog.log.ids import NO_NUMBER
from wakelog.log.lines import Damage, Line
from wakelog.log.tree import Branch, Tree
from wakelog.ports.stores import Store
from wakelog.projections.transcript import (
    TranscriptContext,
    TranscriptRow,
    results_in,
    results_with_calls,
    rows_of_part,
)
from wakelog.scanning import Scan, inherited_entries, lines_scanned, own_entries, path_entries, readable_entries

_PIECE_BYTES = 1024 * 1024


def stored_bytes(lines: Iterable[Line], size: int) -> Iterator[bytes]:
    """Yield the first `size` stored bytes of a log, in pieces of many lines."""
    before = takewhile(lambda line: line.offset < size, lines)
    return in_pieces(line.bytes[: size - line.offset] for line in before)


def standalone_copy(store: Store, scan: Scan, *, verify: bool = False) -> CleanCopy | None:
    """Return a clean, self-contained copy of a log's readable entries; for a fork with its parent's branch.

    `scan` must be a scan of the log with the same `verify`. None if nothing can be read.
    """
    _refuse_newer_format(scan.damage)
    if scan.first is None:
        return None
    ancestors = [ancestor.session.value for ancestor in scan.ancestors if ancestor.session is not None]
    original = SourceLog(
        outline=scan.outline,
        first=scan.first,
        session=scan.session,
        lines=lambda: lines_scanned(store, scan),
        id_of=lambda number: _id_of(store, scan, number),
        verify=verify,
        inherited=lambda: inherited_entries(store, scan, annotations=True),
        inherited_sessions=[session for session in ancestors if isinstance(session, SessionHeader)],
        inherited_damage=scan.inherited_holes,
    )
    return CleanCopy(original)


def copy_bytes(copy: CleanCopy) -> Iterator[bytes]:
    """Yield the bytes of a copy, in pieces of many lines."""
    return in_pieces(line + b"\n" for line in copy.lines())


def in_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of about a megabyte, so that few of them are written one by one."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) > _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _refuse_newer_format(damage: Iterable[Damage]) -> None:
    """Raise `NewerFormat` if an entry is in a newer format: it is not damage, and a copy would lose it."""
    newer = next((defect for defect in damage if defect.kind == "newer" and not defect.session), None)
    if newer is not None:
        raise NewerFormat(f"line {newer.line}: {newer.reason}", hint="upgrade wakelog and try again")


def _id_of(store: Store, scan: Scan, number: int) -> str:
    """Return the id of an entry by its number; reads the log."""
    if number >= scan.outline.inherited:
        return next(entry.id for own, entry in own_entries(store, scan) if own == number)
    return next(entry.id for entry in inherited_entries(store, scan) if scan.outline.number(entry.id) == number)


_BOM = b"\xef\xbb\xbf"


def json_document(
    store: Store, scan: Scan, title: str | None, state: str, journals: JournalTexts = NO_JOURNALS
) -> Iterator[bytes]:
    """Yield the document, LF included; `journals` are the texts that the session's journals hold beyond its log."""
    head, active = _active_branch(store, scan)
    about = {
        "format": f"wakelog/{FORMAT_VERSION}",
        "id": scan.id,
        "name": scan.name,
        "title": title,
        "state": state,
        "head": head,
    }
    yield b"{%b," % _object_members(about)
    yield b'"active":[%b],' % active
    yield _object_members(
        {"damage": [_damage_values(defect) for defect in scan.damage], "journals": journals.to_json(scan.name)}
    )
    yield b',"entries":['
    yield from in_pieces(_array_items(_document_entries(store, scan)))
    yield b"]}\n"


def _damage_values(defect: Damage) -> dict[str, object]:
    """Return a damage report; `session` is there if the damage is in the log of a session it was forked from."""
    place: dict[str, object] = {
        "line": defect.line,
        "offset": defect.offset,
        "kind": defect.kind,
        "reason": defect.reason,
    }
    return place | ({"session": defect.session} if defect.session else {})


def _active_branch(store: Store, scan: Scan) -> tuple[str | None, bytes]:
    """Return the id of the head, and the ids of its branch as the items of a JSON array."""
    head, ids = None, bytearray()
    if scan.outline.head != NO_NUMBER:
        for node in path_entries(store, scan, scan.outline.path(scan.outline.head), annotations=False):
            head = node.id
            ids += (b"," if ids else b"") + msgspec.json.encode(head)
    return head, bytes(ids)


def _document_entries(store: Store, scan: Scan) -> Iterator[Entry]:
    """Yield the inherited nodes of a fork, then the session's own entries in log order."""
    yield from inherited_entries(store, scan)
    yield from readable_entries(store, scan)


def _array_items(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield entries as the items of a JSON array."""
    comma = b""
    for entry in entries:
        yield comma + entry.raw.removeprefix(_BOM).strip()
        comma = b","


def _object_members(values: Mapping[str, object]) -> bytes:
    """Return values as the members of a JSON object, without its braces."""
    return msgspec.json.encode(values)[1:-1]


STRETCH_ENTRIES = 2_048


class _LateEntries(msgspec.Struct):
    """Late entries of one stretch of the outline: annotations of its nodes, and the results of its tool calls."""

    annotations: list[Entry] = []
    results: dict[tuple[str, str], Entry] = {}


def branch_rows(
    store: Store,
    scan: Scan,
    path: bytearray,
    journals: JournalTexts = NO_JOURNALS,
    *,
    stretch: int = STRETCH_ENTRIES,
) -> Iterator[TranscriptRow]:
    """Return the rows of the nodes marked in `path`, without queued messages."""
    stretches = _BranchStretches(scan, path, stretch)
    late = stretches.late(path_entries(store, scan, path)) if len(scan.outline) > stretch else {}
    known = TranscriptContext({}, stretches.is_on_path, journal_partials=journals.partials, running=journals.running)
    nodes: list[Entry] = []
    annotations: list[Entry] = []
    current = 0
    for entry in path_entries(store, scan, path):
        place = stretches.stretch_of(entry)
        if place != current:
            yield from stretches.rows(nodes, annotations, late.pop(current, _LateEntries()), known)
            nodes, annotations, current = [], [], place
        if entry.is_node:
            nodes.append(entry)
        elif stretches.home_of(entry) == current:
            annotations.append(entry)
    yield from stretches.rows(nodes, annotations, late.pop(current, _LateEntries()), known)


class _BranchStretches:
    """Assigns the entries of one branch to stretches of `size` consecutive outline entries."""

    def __init__(self, scan: Scan, path: bytearray, size: int) -> None:
        self._outline, self._path, self._size = scan.outline, path, size
        self._asked: dict[str, int] = {}
        self._last_partials: dict[str, str] = {}
        """By reply, the id of its last `partial` entry in the branch: only that one is shown."""

    def is_on_path(self, entry_id: str) -> bool:
        """Return whether an id is that of a node of the branch."""
        number = self._outline.number(entry_id)
        return number != NO_NUMBER and self._outline.is_node(number) and bool(self._path[number])

    def stretch_of(self, entry: Entry) -> int:
        """Return the stretch that an entry is in."""
        return self._outline.number(entry.id) // self._size

    def home_of(self, annotation: Entry) -> int:
        """Return the stretch of the node that an annotation is shown with."""
        about = self._outline.node_of(self._outline.number(annotation.id)) // self._size
        match annotation.value:
            case Attention(reply_id=str() as reply_id) if self.is_on_path(reply_id):
                about = self._asked[annotation.id] = self._outline.number(reply_id) // self._size
            case AttentionResolved(attention_id=attention_id):
                about = self._asked.get(attention_id, about)
        return about

    def late(self, entries: Iterator[Entry]) -> dict[int, _LateEntries]:
        """Return the entries that belong to a stretch but follow after it, by that stretch."""
        found: defaultdict[int, _LateEntries] = defaultdict(_LateEntries)
        for (reply_id, call_id), result in results_with_calls(self._nodes_of(entries, found)):
            if self.is_on_path(reply_id):
                home = self._outline.number(reply_id) // self._size
                if home < self.stretch_of(result):
                    found[home].results.setdefault((reply_id, call_id), result)
        return dict(found)

    def _nodes_of(self, entries: Iterator[Entry], found: dict[int, _LateEntries]) -> Iterator[Entry]:
        """Yield the nodes, and collect the annotations that come late."""
        for entry in entries:
            if entry.is_node:
                yield entry
                continue
            if (reply_id := self._interrupted_reply(entry)) is not None:
                self._last_partials[reply_id] = entry.id
            if (home := self.home_of(entry)) < self.stretch_of(entry):
                found[home].annotations.append(entry)

    def _interrupted_reply(self, annotation: Entry) -> str | None:
        """Return the reply whose text this session's own annotation holds; None for any other annotation."""
        match annotation.value:
            case Partial(reply_id=reply_id, tool_call_id=None, error=None):
                return reply_id if self._outline.number(annotation.id) >= self._outline.inherited else None
        return None

    def _is_replaced(self, annotation: Entry) -> bool:
        """Return whether a later `partial` entry, in any stretch, holds the text of the same reply."""
        reply_id = self._interrupted_reply(annotation)
        return reply_id is not None and self._last_partials.get(reply_id, annotation.id) != annotation.id

    def rows(
        self, nodes: Sequence[Entry], annotations: Sequence[Entry], late: _LateEntries, known: TranscriptContext
    ) -> Iterator[TranscriptRow]:
        """Return the rows of one stretch."""
        every = [entry for entry in (*annotations, *late.annotations) if not self._is_replaced(entry)]
        inherited = tuple(
            annotation for annotation in every if self._outline.number(annotation.id) < self._outline.inherited
        )
        own = tuple(
            annotation for annotation in every if self._outline.number(annotation.id) >= self._outline.inherited
        )
        known.results = late.results | results_in(nodes)
        return rows_of_part(Branch(tuple(nodes), annotations=own, inherited_annotations=inherited), known)


def journals_of_scan(store: Store, scan: Scan) -> JournalTexts:
    """Return the texts in the journals of a scanned session beyond its log: `read_journals` for logs of any size."""
    journals = store.journals(scan.name)
    if not journals:
        return NO_JOURNALS
    head = scan.outline.head
    tree = _tree_about(journals, (entry for _, entry in own_entries(store, scan)))
    context = None
    for node in path_entries(store, scan, scan.outline.path(head), annotations=False) if head != NO_NUMBER else ():
        context = node.value if isinstance(node.value, ContextEntry) else context
        tree.set_head(node.id, node.seq)
    clip_bytes = policy_in_force(context).clip
    partials = tuple(clipped_as_entry(partial, clip_bytes) for partial in unrecorded_partials(tree, journals))
    return JournalTexts(partials, store.held(scan.name) is not None) if partials else NO_JOURNALS


def _tree_about(journals: JournalPieces, entries: Iterable[Entry]) -> Tree:
    """Return a tree of only those entries that determine the state of these journals."""
    replies, tree = set(journals), Tree(partial=True)
    for entry in entries:
        match entry.value:
            case ToolStarted(reply_id=reply_id) if entry.id in journals:
                replies.add(reply_id)
                tree.add(entry)
            case (
                ModelCall(reply_id=reply_id)
                | Partial(reply_id=reply_id)
                | Resumed(reply_id=reply_id)
                | Message(message=ToolResult(reply_id=str() as reply_id))
            ) if reply_id in replies:
                tree.add(entry)
            case SessionHeader() | Message(message=Reply()) if entry.id in journals or tree.root is None:
                tree.add(entry)
    return tree

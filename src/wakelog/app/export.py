"""Export one session as JSONL, JSON or Markdown: choose the branch, build the content, write a new file.

The formats are in `export_formats` and `export_markdown`. Sessions of any size are scanned, never loaded as a tree,
so entries are looked up in a scan (`find_scanned_node`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from wakelog.app import export_formats, export_markdown
from wakelog.app.addresses import Address
from wakelog.app.entry_names import LONG_ID
from wakelog.app.export_formats import branch_rows, journals_of_scan
from wakelog.errors import NotFound, StoreError, UsageError
from wakelog.log.entry import Label, Queued
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.ids import NO_NUMBER
from wakelog.log.lines import Damage
from wakelog.log.tail import MESSAGE_MODES
from wakelog.overviews import scan_with_overview
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import queue_of_branch
from wakelog.projections.overview import Overview
from wakelog.projections.transcript import queue_rows
from wakelog.scanning import Scan, path_entries, scan_log, scanned_entries
from wakelog.verification import ReferencedBlobs

_PIECE_LINES = 1_000


class ExportContent(NamedTuple):
    """What an export writes, the damage found, and what it leaves out that `verify` and `replay` need."""

    pieces: Iterable[bytes]
    damage: Sequence[Damage]
    left_out: Sequence[str] = ()


def jsonl_content(address: Address) -> ExportContent:
    """Return the log itself. A log without a parent is checked and written line by line, at any size."""
    blobs = ReferencedBlobs()
    scan = scan_log(address.store, address.name, blobs.take)
    left_out = [f"{len(blobs)} blob" + "s" * (len(blobs) > 1)] if blobs else []
    if scan.origin is None:
        pieces = export_formats.stored_bytes(address.store.load(address.name), scan.size)
        return ExportContent(pieces, scan.damage, left_out)
    copy = export_formats.standalone_copy(address.store, scan, verify=True)
    left_out.append("the log of the parent session (its branch is copied into the file, with new seals)")
    return ExportContent(export_formats.copy_bytes(copy) if copy is not None else [], scan.damage, left_out)


def document_content(address: Address, shape: str, visible: Callable[[str], str]) -> ExportContent:
    """Return a JSON or Markdown document of a session.

    `visible` makes control characters harmless in Markdown.
    """
    store = address.store
    scan, overview = scan_with_overview(store, address.name)
    journals = journals_of_scan(store, scan)
    if shape == "json":
        document = export_formats.json_document(store, scan, overview.title, overview.state, journals)
        return ExportContent(document, scan.damage)
    path, waiting = _requested_branch(address, scan, overview)
    about = export_markdown.DocumentHeader(
        name=scan.name,
        id=scan.id,
        title=overview.title,
        created=overview.created,
        cwd=overview.cwd,
        model=overview.model,
        messages=scan.outline.count_messages(path),
        damage=len(scan.damage),
    )
    rows = chain(branch_rows(store, scan, path, journals), queue_rows(waiting))
    return ExportContent(_encode_pieces(export_markdown.markdown_document(about, rows, visible)), scan.damage)


def _requested_branch(address: Address, scan: Scan, overview: Overview) -> tuple[bytearray, tuple[Queued, ...]]:
    """Return the requested branch, as marks in the outline, and the messages queued at its end."""
    outline = scan.outline
    head = outline.head
    if address.entry is not None:
        head = find_scanned_node(address.store, scan, address.entry)
    if head == NO_NUMBER:
        return bytearray(len(outline)), ()
    path = outline.path(head)
    if head == outline.head:
        return path, tuple(queued for queued in overview.queue if queued.mode in MESSAGE_MODES)
    own = (entry for entry in path_entries(address.store, scan, path) if outline.number(entry.id) >= outline.inherited)
    return path, queue_of_branch(own)


def _encode_pieces(pieces: Iterable[str]) -> Iterator[bytes]:
    """Encode text, in pieces of many lines."""
    texts = iter(pieces)
    while piece := "".join(islice(texts, _PIECE_LINES)):
        yield piece.encode()


def write_new_file(path: str, content: Iterable[bytes]) -> None:
    """Write and sync a new file; an incomplete one is removed. `UsageError` if it exists; nothing is overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} already exists", hint="name a new file, or remove that one first") from None
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise StoreError(f"cannot write {path}: {reason}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise


_CANDIDATES_SHOWN = 5


def find_scanned_node(store: Store, scan: Scan, typed: str) -> int:
    """Like `find_node`, for a log of any size: return the node's number in the outline of its scan."""
    found = [typed] if scan.outline.number(typed) != NO_NUMBER else _matching_ids(store, scan, typed)
    if len(found) > 1:
        listed = ", ".join(one[:LONG_ID] for one in found[:_CANDIDATES_SHOWN]) + (
            ", …" if len(found) > _CANDIDATES_SHOWN else ""
        )
        raise UsageError(f"{typed} matches {len(found)} entries: {listed}", hint="name one of them")
    node = scan.outline.find(found[0]) if found else None
    if node is None:
        raise NotFound(f"no entry {typed[:60]} in {scan.name}", hint="`wakelog tree` shows them")
    return node


def _matching_ids(store: Store, scan: Scan, typed: str) -> list[str]:
    """Return the ids that match by number, else by name of an inherited node, else by label, else by prefix."""
    numbered, beginning = [], []
    inherited: list[tuple[int, str]] = []
    labelled: dict[int, str] = {}
    sessions = 0
    carets = len(typed) - len(typed.lstrip("^"))
    for number, entry in scanned_entries(store, scan):
        is_node, is_own = scan.outline.is_node(number), number >= scan.outline.inherited
        if is_node and not is_own:
            sessions += isinstance(entry.value, SessionEntry)
            if carets and str(entry.seq) == typed[carets:]:
                inherited.append((sessions, entry.id))
        if is_own and str(entry.seq) == typed:
            numbered.append(entry.id)
        if isinstance(entry.value, Label):
            labelled[scan.outline.node_of(number)] = entry.value.label
        if entry.id.startswith(typed):
            beginning.append(entry.id)
    named = [entry_id for seen, entry_id in inherited if sessions + 1 - seen == carets]
    nodes = {number for number, label in labelled.items() if label == typed}
    with_label = [entry.id for number, entry in scanned_entries(store, scan) if number in nodes] if nodes else []
    return numbered[:1] or named[:1] or with_label or beginning

"""JSONL export: the log itself. A session that is not a fork is exported as its stored bytes, damage included.

A fork refers to its parent and has no beginning outside its store. So it is written out in full: the parent's branch,
then its own entries, with new seals, as one self-contained log.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile

from wakelog.errors import NewerFormat
from wakelog.log.entry import Session
from wakelog.log.lines import Damage, Line
from wakelog.log.salvage import CleanCopy, Original
from wakelog.ports import Store
from wakelog.scanning import Scan, inherited_entries, lines_scanned, own_entries

_PIECE_BYTES = 1024 * 1024


def exact(lines: Iterable[Line], size: int) -> Iterator[bytes]:
    """Yield the first `size` stored bytes of a log, in pieces of many lines."""
    before = takewhile(lambda line: line.offset < size, lines)
    return in_pieces(line.bytes[: size - line.offset] for line in before)


def standalone(store: Store, scan: Scan, *, verify: bool = False) -> CleanCopy | None:
    """Return a clean, self-contained copy of a log's readable entries; for a fork with its parent's branch.

    `scan` must be a scan of the log with the same `verify`. None if nothing can be read.
    """
    _refuse_newer(scan.damage)
    if scan.first is None:
        return None
    ancestors = [ancestor.session.value for ancestor in scan.ancestors if ancestor.session is not None]
    original = Original(
        outline=scan.outline,
        first=scan.first,
        session=scan.session,
        lines=lambda: lines_scanned(store, scan),
        id_of=lambda number: _id_of(store, scan, number),
        verify=verify,
        inherited=lambda: inherited_entries(store, scan, annotations=True),
        inherited_sessions=[session for session in ancestors if isinstance(session, Session)],
        inherited_holes=scan.inherited_holes,
    )
    return CleanCopy(original)


def content_of(copy: CleanCopy) -> Iterator[bytes]:
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


def _refuse_newer(damage: Iterable[Damage]) -> None:
    """Raise `NewerFormat` if an entry is in a newer format: it is not damage, and a copy would lose it."""
    newer = next((hurt for hurt in damage if hurt.kind == "newer" and not hurt.session), None)
    if newer is not None:
        raise NewerFormat(f"line {newer.line}: {newer.reason}", hint="upgrade wakelog and try again")


def _id_of(store: Store, scan: Scan, number: int) -> str:
    """Return the id of an entry by its number; reads the log."""
    if number >= scan.outline.inherited:
        return next(entry.id for own, entry in own_entries(store, scan) if own == number)
    return next(entry.id for entry in inherited_entries(store, scan) if scan.outline.number(entry.id) == number)

"""JSON export: a session as one document, for programs that do not read JSON lines.

Entries are embedded as their stored bytes. The document adds derived data: the head, the ids on the active branch, and
the damage found. It is written piece by piece; of the entries only the ids on the active branch are held in memory.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from wakelog.exchange.jsonl import in_pieces
from wakelog.journals import NO_JOURNALS, JournalTexts
from wakelog.log.entry import FORMAT_VERSION, Entry
from wakelog.log.id_table import NONE
from wakelog.log.lines import Damage
from wakelog.ports import Store
from wakelog.scanning import Scan, inherited_entries, path_entries, readable_entries

_BOM = b"\xef\xbb\xbf"


def document(
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
    yield b"{%b," % _members(about)
    yield b'"active":[%b],' % active
    yield _members({"damage": [_damage(hurt) for hurt in scan.damage], "journals": journals.values(scan.name)})
    yield b',"entries":['
    yield from in_pieces(_joined(_entries(store, scan)))
    yield b"]}\n"


def _damage(hurt: Damage) -> dict[str, object]:
    """Return a damage report; `session` is there if the damage is in the log of a session it was forked from."""
    place: dict[str, object] = {"line": hurt.line, "offset": hurt.offset, "kind": hurt.kind, "reason": hurt.reason}
    return place | ({"session": hurt.session} if hurt.session else {})


def _active_branch(store: Store, scan: Scan) -> tuple[str | None, bytes]:
    """Return the id of the head, and the ids of its branch as the items of a JSON array."""
    head, ids = None, bytearray()
    if scan.outline.head != NONE:
        for node in path_entries(store, scan, scan.outline.path(scan.outline.head), annotations=False):
            head = node.id
            ids += (b"," if ids else b"") + msgspec.json.encode(head)
    return head, bytes(ids)


def _entries(store: Store, scan: Scan) -> Iterator[Entry]:
    """Yield the inherited nodes of a fork, then the session's own entries in log order."""
    yield from inherited_entries(store, scan)
    yield from readable_entries(store, scan)


def _joined(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield entries as the items of a JSON array."""
    comma = b""
    for entry in entries:
        yield comma + entry.raw.removeprefix(_BOM).strip()
        comma = b","


def _members(values: Mapping[str, object]) -> bytes:
    """Return values as the members of a JSON object, without its braces."""
    return msgspec.json.encode(values)[1:-1]

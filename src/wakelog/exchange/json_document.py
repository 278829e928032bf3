"""JSON: a session as one document, for programs that would rather not read lines.

Entries are embedded as the bytes they are stored as; around them stands what a reader would otherwise
have to work out: where the head is, which entries are on the active branch, what could not be read.
"""

import msgspec

from wakelog.journals import NO_JOURNALS, JournalTexts
from wakelog.log.entry import FORMAT_VERSION, Entry
from wakelog.reading import Log
from wakelog.views.overview import overview

_BOM = b"\xef\xbb\xbf"


def document(log: Log, journals: JournalTexts = NO_JOURNALS) -> bytes:
    """The document, LF included; `journals` is what the session's journals hold beyond its log."""
    card = overview(log.tree, damaged=bool(log.damage))
    content = {
        "format": f"wakelog/{FORMAT_VERSION}",
        "id": log.id,
        "name": log.name,
        "title": card.title,
        "state": card.state,
        "head": log.tree.head,
        "active": [link.id for link in log.tree.branch().links],
        "damage": [
            {"line": hurt.line, "offset": hurt.offset, "kind": hurt.kind, "reason": hurt.reason} for hurt in log.damage
        ],
        "journals": journals.values(log.name),
        "entries": [_raw(entry) for entry in _entries(log)],
    }
    return msgspec.json.encode(content) + b"\n"


def _entries(log: Log) -> list[Entry]:
    """What a fork inherited, then everything of its own in the order of the log."""
    inherited = [link for link in log.tree.links.values() if log.tree.is_inherited(link.id)]
    return [*inherited, *log.entries]


def _raw(entry: Entry) -> msgspec.Raw:
    return msgspec.Raw(entry.raw.removeprefix(_BOM).strip())

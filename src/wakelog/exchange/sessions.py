"""What a reader of another format returns: sessions, their entries with final ids, and an account of every record.

Rule 1: every record is accounted for. It becomes an entry (`ImportedEntry.records`), is kept verbatim in a `custom`
entry (`is_verbatim`), or is counted with a reason (`SkippedRecords`, `BadRecord`). The numbers add up to the records
that were read.
Rule 2: ids derive from the origin. The same record gets the same entry id whenever and from wherever it is imported, so
importing again adds only what is new, and a record that a fork copied has the same id in both sessions.
Rule 3: nothing is invented. A tool call without a result stays open; a result without a call is kept verbatim.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from wakelog.exchange.records import BadRecord
from wakelog.log.entry import Custom, KnownBody
from wakelog.log.ids import RANDOM_BYTES, new_id
from wakelog.log.timestamps import iso_timestamp, parse_ms


class SessionOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session comes from. `id` is the tool's own id of the session, `path` the file or database it was in."""

    tool: str
    id: str
    path: str = ""
    version: str = ""
    parent: str = ""
    """The tool's id of the session that started this one as a sub-agent, or that it was forked from."""
    parent_call: str = ""
    """The id of the tool call in the parent that started this sub-agent."""
    is_subagent: bool = False


class ImportedEntry(msgspec.Struct, frozen=True):
    """An entry with its final id, parent and timestamp, and the number of records that it accounts for.

    The first entry of a session has an empty parent: the importer attaches it to the header. A record that becomes
    several entries is counted by the first of them; the others have `records` 0.
    """

    body: KnownBody
    records: int = 1
    is_verbatim: bool = False


class SkippedRecords(msgspec.Struct, frozen=True):
    """Records that are not in the imported session: their kind, how many, and why."""

    kind: str
    count: int
    reason: str


ImportedItem: TypeAlias = ImportedEntry | SkippedRecords | BadRecord


class ForeignSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of another agent. `items` is read once, in the order in which entries are appended."""

    origin: SessionOrigin
    items: Iterable[ImportedItem]
    started_ms: int
    """When the session began; 0 if it is unknown."""
    agent: str
    """The name of the agent: that of the tool, or of the sub-agent."""
    cwd: str = ""
    title: str | None = None
    provider: str | None = None
    model: str | None = None
    part_of: str = ""
    """The tool's id of a session that has all of this and more. If the store has it, this one is not imported."""


def session_id(tool: str, foreign_id: str) -> str:
    """Return the id of an imported session, the same for every import."""
    return _derived_id(tool, "session", foreign_id)


def entry_id(tool: str, key: str) -> str:
    """Return the id of the entry that a record becomes.

    `key` identifies the record for this tool: its own globally unique id, else the session's id and the record's place.
    """
    return _derived_id(tool, "entry", key)


def _derived_id(*parts: str) -> str:
    """Return an id of the usual form, all of it derived from the parts."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return new_id(int.from_bytes(digest[:6], "big"), digest[6 : 6 + RANDOM_BYTES])


def timestamp_of(value: object, default: str = "") -> str:
    """Return a time of another format as a timestamp: ISO text, or milliseconds or seconds since 1970."""
    if isinstance(value, str) and parse_ms(value) is not None:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1 << 48:
        return iso_timestamp(int(value if value > 100_000_000_000 else value * 1000))
    return default


def verbatim(
    tool: str, kind: str, record: Any, *, key: str, parent_id: str | None, timestamp: str, records: int = 1
) -> ImportedEntry:
    """Return a record that has no counterpart as a `custom` entry that holds it unchanged."""
    body = Custom(
        id=entry_id(tool, key),
        parent_id=parent_id,
        timestamp=timestamp,
        custom_type=f"{tool}:{kind}",
        data=record,
    )
    return ImportedEntry(body, records=records, is_verbatim=True)

"""Sessions of pi (`~/.pi/agent/sessions/*/*.jsonl`), versions 1 to 3 of its format.

A file is one session. `entries.py` has the tree, `messages.py` the messages. The header is kept verbatim as the first
entry; everything that pi puts at the root goes under it.
A file without a header is read as well, although pi ignores it: its session is identified by its first record.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wakelog.exchange.pi.entries import EntryReader
from wakelog.exchange.pi.messages import text_field
from wakelog.exchange.records import BadRecord, JsonRecord, Record, SourceFile, SourceLine, json_records
from wakelog.exchange.sessions import ForeignSession, ImportedItem, SessionOrigin
from wakelog.log.content import JsonObject
from wakelog.log.timestamps import parse_ms

TOOL = "pi"
TITLE_MARK = b"session_info"
_OWN_FIELDS = ("v", "seq", "h")


def is_pi(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file are those of a pi session.

    OpenClaw writes the same records: ask `is_openclaw` first. The header of a wakelog log has other fields.
    """
    header = head[0] if head else None
    match header:
        case {"type": "session", "id": str(), **rest}:
            version = rest.get("version")
            is_known = version is None or (isinstance(version, int) and version >= 2)
            return is_known and not any(field in rest for field in _OWN_FIELDS)
    return False


def read_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the session of a file; nothing if no record in it can be read."""
    header = first_record(source)
    if header is None:
        return
    session = session_name(header)
    yield ForeignSession(
        origin=SessionOrigin(
            tool=TOOL,
            id=session,
            path=source.path,
            version=format_version(header),
            parent=parent_session(header),
        ),
        items=read_items(EntryReader(TOOL, session), ((record, None) for record in json_records(source.lines()))),
        started_ms=started_ms(header),
        agent=TOOL,
        cwd=text_field(header, "cwd") or "",
        title=last_title(json_records(lines_with(source, TITLE_MARK))),
        provider=text_field(header, "provider") if is_header(header) else None,
        model=text_field(header, "modelId") if is_header(header) else None,
    )


def read_items(reader: EntryReader, records: Iterable[tuple[JsonRecord, object]]) -> Iterator[ImportedItem]:
    """Yield the entries of records and the bad ones, in their order; each comes with the time when it was stored."""
    for record, time in records:
        if isinstance(record, BadRecord):
            yield record
        else:
            yield from reader.read(record.value, time)


# ── the header ───────────────────────────────────────────────────────────────────────────────────


def first_record(source: SourceFile) -> JsonObject | None:
    """Return the first record of a file."""
    records = json_records(source.lines())
    return next((record.value for record in records if isinstance(record, Record)), None)


def is_header(record: Mapping[str, Any]) -> bool:
    """Return whether a record is the header of a session."""
    return record.get("type") == "session" and bool(text_field(record, "id"))


def session_name(header: Mapping[str, Any]) -> str:
    """Return the id of a session; one made of the first record if that is not a header."""
    own_id = text_field(header, "id") if is_header(header) else None
    if own_id is not None:
        return own_id
    return f"unnamed-{hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:16]}"


def started_ms(header: Mapping[str, Any]) -> int:
    """Return when a session began; 0 if the header does not say so."""
    began = parse_ms(text_field(header, "timestamp") or "") if is_header(header) else None
    return began if began is not None and 0 <= began < 1 << 48 else 0


def format_version(header: Mapping[str, Any]) -> str:
    """Return the version of the format. pi does not record its own version."""
    version = header.get("version")
    return str(version) if isinstance(version, int) else "1"


def parent_session(header: Mapping[str, Any]) -> str:
    """Return the id of the session that this one was forked from. The header has the path of its file."""
    path = text_field(header, "parentSession") or text_field(header, "branchedFrom")
    if path is None or not is_header(header):
        return ""
    name = path.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
    # A file is named by the time, without underscores, and the id.
    return name.partition("_")[2] or name


def lines_with(source: SourceFile, mark: bytes) -> Iterator[SourceLine]:
    """Yield the lines that contain a mark: few need to be decoded to find what is rare."""
    return (line for line in source.lines() if line.raw is not None and mark in line.raw)


def last_title(records: Iterable[JsonRecord]) -> str | None:
    """Return the last title in records."""
    title = None
    for record in records:
        match record:
            case Record(value={"type": "session_info", **rest}):
                name = rest.get("name")
                title = (name.strip() or None) if isinstance(name, str) else None if name is None else title
    return title

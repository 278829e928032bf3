"""The lines of Codex rollouts, in one form for every version: a kind, a payload, a place.

- Since 2025-09 a line is an envelope `{timestamp, type, payload}`, in paginated files with an `ordinal`.
- Files of 2025-07 and 2025-08 begin with a bare header `{id, timestamp, instructions}`; response items follow, bare.
- Files of the TypeScript version (2025-04) are one document `{session, items}`.
- A fork in paginated mode holds only its own lines and names the file with those before it (`history_base`). These are
  read from that file: it is in the same folder, in that of the day on which its thread began, or among the archived
  ones. Otherwise this is reported.
"""

import re
from collections.abc import Iterator
from itertools import islice
from posixpath import basename
from typing import Any

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.codex.items import ITEM_TYPES, text_of
from wakelog.exchange.records import BadRecord, SourceFile, decode_document, json_records
from wakelog.exchange.sessions import SkippedRecords
from wakelog.log.content import JsonObject
from wakelog.log.ids import digest_of
from wakelog.log.timestamps import iso_timestamp, parse_ms

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_UUID_WITH_TIME = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NAMED_THREAD = re.compile(rf"({_UUID})(?:_{_UUID})?\.jsonl?(?:\.zst)?\Z", re.IGNORECASE)
_NAME_WITH_TIME = re.compile(r"rollout-(\d{4}-\d\d-\d\d)T(\d\d-\d\d-\d\d)-")
_NAME_CHARS = 80
_BASE_KEYS = ("thread_id", "end_ordinal_exclusive", "end_byte_offset")
# How many files one after the other a history may be spread over, and in how many records a header is looked for.
_BASES_MAX = 100
_DAY_MS = 24 * 60 * 60 * 1000
_HEADER_RECORDS = 200


class Line(msgspec.Struct, frozen=True):
    """One record of a session. `value` is the record as it stands in the file."""

    kind: str
    payload: JsonObject
    value: Any
    place: str
    timestamp: Any = None
    offset: int = 0
    ordinal: int | None = None
    origin: str = ""
    """The session that a header is about, and where its history is: a part of the ids of the lines behind it."""

    @property
    def name(self) -> str:
        """The kind with the type of the payload, for people."""
        inner = self.payload.get("type") if self.kind in ("response_item", "event_msg") else None
        return (f"{self.kind}/{inner}" if isinstance(inner, str) else self.kind)[:_NAME_CHARS]

    @property
    def identity(self) -> str | None:
        """What identifies the record in every file that it is copied to; None if nothing does."""
        payload = self.payload
        match self.kind, payload.get("type"):
            case "response_item", str(kind):
                return f"{kind}:{payload['id']}" if text_of(payload.get("id")) else None
            case "session_meta" | "session", _:
                named = payload.get("id")
            case "token_usage_record", _:
                named = payload.get("response_id")
            case "event_msg", "item_completed":
                item = payload.get("item")
                named = item.get("id") if isinstance(item, dict) else None
            case "event_msg", "task_started" | "turn_started" | "task_complete" | "turn_complete" | "turn_aborted":
                named = payload.get("turn_id")
            case _:
                named = None
        return f"{self.name}:{named}" if isinstance(named, str) and named else None


class Header(msgspec.Struct, frozen=True):
    """What the first line of a session says. `owner` names the file in the ids of its lines."""

    id: str
    owner: str
    meta: JsonObject
    started_ms: int


LineItem = Line | BadRecord | SkippedRecords


def started_ms_of(thread_id: str) -> int | None:
    """Return when a thread began, from its id; None if the id does not hold a time (before 2025-09)."""
    found = _UUID_WITH_TIME.fullmatch(thread_id)
    return int(found[1] + found[2], 16) if found else None


def find_header(source: SourceFile, document: JsonObject | None) -> Header:
    """Return the header of a file. The first one counts: a fork holds those of its ancestors as well.

    Without a readable header, the id in the name of the file identifies the session, or else its first record. Without
    a time in the header, the session began with the first record that has one, or when the name of the file says.
    """
    header = _first_header(source, document)
    return header if header.started_ms else msgspec.structs.replace(header, started_ms=_first_ms(source))


def _first_header(source: SourceFile, document: JsonObject | None) -> Header:
    if document is not None and text_of(document["session"].get("id")):
        return _header(document["session"], None)
    first = None if document is None else _bytes_of(document["session"])
    for number, record in enumerate(json_records(source.lines())):
        if number >= _HEADER_RECORDS:
            break
        if isinstance(record, BadRecord):
            continue
        value = record.value
        first = first if first is not None else _bytes_of(value)
        if value.get("type") == "session_meta" and text_of(_object(value.get("payload")).get("id")):
            return _header(value["payload"], value.get("timestamp"))
        if _is_bare_header(value):
            return _header(value, None)
    named = _NAMED_THREAD.search(_name_of(source))
    thread_id = named[1].lower() if named else digest_of(first or b"").partition(":")[2][:32]
    return Header(thread_id, thread_id, {}, started_ms_of(thread_id) or 0)


def _first_ms(source: SourceFile) -> int:
    for record in islice(json_records(source.lines()), _HEADER_RECORDS):
        ms = None if isinstance(record, BadRecord) else parse_ms(text_of(record.value.get("timestamp")))
        if ms is not None and ms > 0:
            return ms
    named = _NAME_WITH_TIME.match(_name_of(source))
    return (parse_ms(f"{named[1]}T{named[2].replace('-', ':')}Z") or 0) if named else 0


def _bytes_of(value: JsonObject) -> bytes:
    return repr(value).encode("utf-8", "backslashreplace")


def _header(meta: JsonObject, written: Any) -> Header:
    thread_id = text_of(meta.get("id"))
    # A reverted thread has two files with the same id; the time of writing tells them apart.
    owner = f"{thread_id}@{written}" if isinstance(written, str) else thread_id
    return Header(thread_id, owner, meta, _started_ms(meta))


def _started_ms(meta: JsonObject) -> int:
    return started_ms_of(text_of(meta.get("id"))) or max(0, parse_ms(text_of(meta.get("timestamp"))) or 0)


def _origin_of(meta: JsonObject) -> str:
    """Return what a header has in every copy, and no other header has, also not that of a reverted thread."""
    base = _object(meta.get("history_base"))
    known = (meta.get("id"), meta.get("timestamp"), *(base.get(key) for key in _BASE_KEYS))
    return repr([each if isinstance(each, str | int) else None for each in known])


def _is_bare_header(value: JsonObject) -> bool:
    return "type" not in value and bool(text_of(value.get("id"))) and isinstance(value.get("timestamp"), str)


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _name_of(source: SourceFile) -> str:
    return basename(source.path.replace("\\", "/"))


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


def session_lines(source: SourceFile, header: Header) -> Iterator[LineItem]:
    """Yield the records of a session: those of the files that it continues, then its own."""
    yield from _with_base(source, header, frozenset())


def _with_base(source: SourceFile, header: Header, read: frozenset[str]) -> Iterator[LineItem]:
    base = header.meta.get("history_base")
    if isinstance(base, dict):
        yield from _base_lines(source, base, read)
    for record in json_records(source.lines()):
        yield record if isinstance(record, BadRecord) else _line(record.value, header, record.offset)


def _base_lines(source: SourceFile, base: JsonObject, read: frozenset[str]) -> Iterator[LineItem]:
    """Yield the records before a fork."""
    thread_id, end, end_offset = text_of(base.get("thread_id")), *_ends(base)
    found = _find_rollout(source, thread_id)
    if found is None or thread_id in read or len(read) >= _BASES_MAX or (end is None and end_offset is None):
        reason = f"the history before this file is in the rollout {thread_id[:_NAME_CHARS]}, which was not found"
        yield SkippedRecords("history_base", 0, reason)
        return
    for line in _with_base(found, find_header(found, None), read | {thread_id}):
        if isinstance(line, Line) and _is_behind(line, end, end_offset):
            return
        yield line


def _ends(base: JsonObject) -> tuple[int | None, int | None]:
    end, end_offset = base.get("end_ordinal_exclusive"), base.get("end_byte_offset")
    return end if isinstance(end, int) else None, end_offset if isinstance(end_offset, int) else None


def _is_behind(line: Line, end: int | None, end_offset: int | None) -> bool:
    """Return whether a line is not part of the history before a fork; its ordinal decides, or else its offset."""
    if line.ordinal is not None and end is not None:
        return line.ordinal >= end
    return end_offset is not None and line.offset >= end_offset


def _find_rollout(source: SourceFile, rollout_id: str) -> SourceFile | None:
    """Return the rollout with an id, which its name ends in; None if it is in none of the folders for it."""
    if not rollout_id:
        return None
    endings = tuple(f"{mark}{rollout_id}.jsonl{packed}" for mark in "-_" for packed in ("", ".zst"))
    for folder in _folders_of(source, rollout_id):
        found = next((other for other in source.list_beside(folder) if _name_of(other).endswith(endings)), None)
        if found is not None:
            return found
    return None


def _folders_of(source: SourceFile, rollout_id: str) -> Iterator[str]:
    """Yield the folders in which a rollout may be, from that of another one."""
    folders = source.path.replace("\\", "/").split("/")[:-1]
    yield "."
    if folders[-4:-3] == ["sessions"]:
        days, archive = "../../..", "../../../../archived_sessions"
    elif folders[-1:] == ["archived_sessions"]:
        days, archive = "../sessions", "."
    else:
        return
    started_ms = started_ms_of(rollout_id)
    # Folders are named by the local date, whose zone is not known.
    for day in (0, -1, 1) if started_ms is not None else ():
        date = iso_timestamp(max(0, (started_ms or 0) + day * _DAY_MS))
        yield f"{days}/{date[:4]}/{date[5:7]}/{date[8:10]}"
    if archive != ".":
        yield archive


def _line(value: JsonObject, header: Header, offset: int) -> Line:
    place, kind, payload = f"{header.owner}:{offset}", value.get("type"), value.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        ordinal = value.get("ordinal")
        return Line(
            kind,
            payload,
            value,
            place,
            value.get("timestamp"),
            offset,
            ordinal if isinstance(ordinal, int) else None,
            _origin_of(payload) if kind == "session_meta" else "",
        )
    return _bare_line(value, place, offset)


def _bare_line(value: JsonObject, place: str, offset: int) -> Line:
    """Return a record without an envelope: a header, a response item, or anything else under its own type."""
    kind = value.get("type")
    if _is_bare_header(value):
        return Line("session", value, value, place, value["timestamp"], offset, origin=_origin_of(value))
    if isinstance(kind, str) and kind in ITEM_TYPES and "payload" not in value:
        return Line("response_item", value, value, place, value.get("timestamp"), offset)
    named = kind if isinstance(kind, str) else value.get("record_type")
    # A damaged line of a known kind is not taken for one of that kind.
    name = f"bare/{named}" if isinstance(named, str) else "record"
    return Line(name, {}, value, place, value.get("timestamp"), offset)


# ── the TypeScript version ───────────────────────────────────────────────────────────────────────


def read_document(source: SourceFile) -> JsonObject | None:
    """Return the document of the TypeScript version; None if the file is not one."""
    first = next((line.raw for line in source.lines() if line.raw is None or line.raw.strip()), None)
    if first is None or not (first.strip() == b"{" or first.lstrip().startswith((b'{"session":', b'{"items":'))):
        return None
    try:
        value = decode_document(source.content())
    except UsageError:
        return None
    return value if is_document(value) else None


def is_document(value: Any) -> bool:
    """Return whether a value is a session of the TypeScript version."""
    return isinstance(value, dict) and isinstance(value.get("session"), dict) and isinstance(value.get("items"), list)


def document_lines(document: JsonObject, header: Header) -> Iterator[LineItem]:
    """Yield the session and the items of a document as lines; all of them have the time of the session."""
    session: JsonObject = document["session"]
    place = f"{header.owner}:session"
    yield Line("session", session, session, place, session.get("timestamp"), origin=_origin_of(session))
    for number, item in enumerate(document["items"]):
        if isinstance(item, dict):
            yield _bare_line(item, f"{header.owner}:{number}", 0)
        else:
            yield BadRecord(0, 0, 0, f"item {number} is not a JSON object")

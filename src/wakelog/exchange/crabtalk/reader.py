"""Sessions of crabtalk, in the four forms that it has stored them in.

- Files of lines (`sessions/AGENT_SENDER_N[_TITLE].jsonl`, to April 2026; RFC 0064): metadata, then messages, events and
  markers of compactions. The metadata is rewritten in place with a new time, and the file is renamed with its title. So
  the session is identified by the first part of the name and the first line behind the metadata. A file without such a
  line has no session yet.
- A folder for each session (`sessions/NAME/meta`, `step-000000`, to August 2026), one file for each line.
- A SQLite database with the tables `sessions`, `session_messages` and `session_events`.
- A store of keys and values (`store.crmem`, since August 2026). Records that are deleted or overwritten, which remain
  in the file until crabtalk rewrites it, are not read.

The metadata becomes the first entry, verbatim. A compaction has no first kept entry: crabtalk goes on with the summary
alone. The last two forms delete the messages before it; their events remain, and come before the compaction. The
summary is in the memory of crabtalk: in the same store, in `memory.db` two folders above the metadata, or in the
metadata.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, cast

from wakelog.errors import UsageError
from wakelog.exchange.chains import EntryChain, json_cell, object_of, text_of
from wakelog.exchange.crabtalk.entries import TOOL, LineReader, is_compaction, is_event
from wakelog.exchange.crabtalk.runs import Line, StoredRecords, in_order, message_of
from wakelog.exchange.crabtalk.store import (
    FILE_BYTES_MAX,
    MAGIC,
    SESSIONS,
    CrabStore,
    is_memory,
    is_store,
    memory_archive,
    stored_archive,
)
from wakelog.exchange.records import BadRecord, Record, SourceDatabase, SourceFile, json_records
from wakelog.exchange.sessions import ForeignSession, ImportedItem, SessionOrigin, SkippedRecords, timestamp_of
from wakelog.log.content import JsonObject
from wakelog.log.timestamps import parse_ms

__all__ = [
    "MAGIC",
    "TAKES_KNOWN_ENTRIES",
    "TOOL",
    "is_crabtalk",
    "is_crabtalk_database",
    "is_crabtalk_store",
    "read_sessions",
    "why_refused",
]

TAKES_KNOWN_ENTRIES = True
IsKnown: TypeAlias = Callable[[str], bool]
_META_FIELDS = ("agent", "created_by", "created_at")
_EVENTS = ("tool_start", "tool_result", "done")
_ROLES = ("user", "assistant", "tool", "system")
_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_NUMBERED = re.compile(r"(.+?_[0-9]+)(?:_.*)?\.jsonl")
_NOT_SLUG = re.compile(r"[^\w-]+|_")
_SESSION_KEY = re.compile(r"([^/]+)/session/([^/]+)/(.+)")
_INDEX_KEY = re.compile(r"([^/]+)/idx/sess/.*/([^/]+)")


def is_crabtalk(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file are those of a session: its metadata comes first.

    A crash while the metadata is written again can lose it. Then there is an event or a compaction among messages.
    """
    if head and _is_meta(head[0]):
        return True
    marks = [_is_known_event(record) or is_compaction(record) for record in head]
    return (
        any(marks) and not all(marks) and all(map(_is_message, (head[at] for at, mark in enumerate(marks) if not mark)))
    )


def _is_meta(record: Any) -> bool:
    found = object_of(record)
    is_named = all(isinstance(found.get(field), str) for field in _META_FIELDS)
    return is_named and not any(field in found for field in ("type", "role", "message"))


def _is_known_event(record: Any) -> bool:
    return is_event(record) and record["event"] in _EVENTS


def _is_message(record: Any) -> bool:
    message = message_of(record)
    is_entry = set(object_of(record)) <= {"agent", "message"} or message is record
    return is_entry and "type" not in message and message.get("role") in _ROLES


def is_crabtalk_database(source: SourceDatabase) -> bool:
    """Return whether a database is of crabtalk, by the columns of its tables."""
    return {"handle", *_META_FIELDS} <= set(source.columns("sessions")) and {
        "session_handle",
        "idx",
        "entry_json",
    } <= set(source.columns("session_messages"))


def is_crabtalk_store(head: bytes, size: int) -> bool:
    """Return whether the first bytes (at least 32) of a file of a size are those of a store of keys and values."""
    return is_store(head, size)


def why_refused(head: bytes, size: int) -> str | None:
    """Return why a file that begins like a store is not one; None if it does not begin like one."""
    if not head.startswith(MAGIC) or is_store(head, size):
        return None
    what = "the memory of crabtalk, which has no sessions" if is_memory(head, size) else "a store of another version"
    return f"this is {what}"


def read_sessions(source: SourceFile | SourceDatabase, is_known: IsKnown | None = None) -> Iterator[ForeignSession]:
    """Yield the sessions of a file, of the folder of a `meta` file, of a database, or of a store.

    `is_known` says which entries are stored. With it, events that are stored are not taken for those of a new reply.
    """
    if hasattr(source, "rows"):
        return _database_sessions(cast("SourceDatabase", source), is_known)
    if _begins_as_store(source):
        return _store_sessions(source, is_known)
    return _folder_session(source) if _name_of(source.path) == "meta" else _file_session(source)


def _begins_as_store(source: SourceFile) -> bool:
    first = next(source.lines(), None)
    if first is None:
        return False
    # A store may have no newline in its first megabytes.
    beginning = first.raw if first.raw is not None else source.content(FILE_BYTES_MAX)
    return beginning.startswith(MAGIC)


def _foreign(session: str, path: str, meta: JsonObject, items: Iterable[ImportedItem]) -> ForeignSession:
    began = parse_ms(text_of(meta.get("created_at")))
    return ForeignSession(
        origin=SessionOrigin(tool=TOOL, id=session, path=path),
        items=items,
        started_ms=began if began is not None and 0 <= began < 1 << 48 else 0,
        agent=TOOL,
        cwd=text_of(meta.get("root")),
        title=text_of(meta.get("title")).strip() or None,
    )


def _items(
    session: str,
    meta: Line,
    lines: Iterable[Line],
    archive: Callable[[str], str | None] | None = None,
    *,
    scope: str = "",
    others: Iterable[tuple[str, Any]] = (),
) -> Iterator[ImportedItem]:
    """Yield the metadata and the lines of a session; `others` are records of unknown kinds."""
    chain = EntryChain(TOOL, session)
    started = timestamp_of(object_of(meta.value).get("created_at"))
    if isinstance(meta.value, BadRecord):
        yield meta.value
    elif meta.value:
        yield chain.verbatim("meta", meta.value, f"{session}:meta", started, records=meta.records)
    for kind, value in others:
        yield value if isinstance(value, BadRecord) else chain.verbatim(kind, value, f"{session}:{kind}", started)
    yield from LineReader(chain, started, archive, scope).read(lines)


def _parts_of(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")


def _name_of(path: str) -> str:
    return _parts_of(path)[-1]


# ── files of lines ───────────────────────────────────────────────────────────────────────────────


def _file_session(source: SourceFile) -> Iterator[ForeignSession]:
    records = (found for found in json_records(source.lines()) if isinstance(found, Record))
    meta, first = next(records, None), next(records, None)
    if meta is None or first is None:
        return
    has_meta = _is_meta(meta.value)
    known = meta.value if has_meta else {}
    chain = EntryChain(TOOL, _first_part_of_name(_name_of(source.path), known))
    session = chain.content_key(first.value if has_meta else meta.value).rpartition(":")[0]
    yield _foreign(session, source.path, known, _file_items(source, session))


def _first_part_of_name(name: str, meta: JsonObject) -> str:
    """Return the agent, sender and number in the name of a file, which stay the same when it gets a title."""
    sender = "-".join(filter(None, _NOT_SLUG.sub("-", text_of(meta.get("created_by"))).lower().split("-")))
    start = f"{text_of(meta.get('agent'))}_{sender}_"
    number = re.match(r"[0-9]+", name.removeprefix(start)) if name.startswith(start) else None
    found = _NUMBERED.fullmatch(name)
    return f"{start}{number[0]}" if number else found[1] if found else start


def _file_items(source: SourceFile, session: str) -> Iterator[ImportedItem]:
    records = json_records(source.lines())
    waiting: list[Line] = []
    meta = Line({})
    for found in records:
        if isinstance(found, Record) and _is_meta(found.value):
            meta = Line(found.value)
            break
        waiting.append(Line(found if isinstance(found, BadRecord) else found.value))
        if isinstance(found, Record):
            break
    lines = (Line(found if isinstance(found, BadRecord) else found.value) for found in records)
    yield from _items(session, meta, (line for source_lines in (waiting, lines) for line in source_lines))


# ── folders of steps ─────────────────────────────────────────────────────────────────────────────


def _folder_session(source: SourceFile) -> Iterator[ForeignSession]:
    meta = _file_value(source, 0)
    known = {} if isinstance(meta, BadRecord) else meta
    name = (["session", *_parts_of(source.path)])[-2]
    session = name if _ULID.fullmatch(name) else f"{name}@{text_of(known.get('created_at'))}"
    steps = [file for file in source.list_beside(".") if _name_of(file.path).startswith("step-")]
    archives = _FolderArchives(source, steps, text_of(known.get("summary")))
    lines = (Line(_file_value(file, number)) for number, file in enumerate(steps))
    yield _foreign(session, source.path, known, _items(session, Line(meta), lines, archives.text))


def _file_value(file: SourceFile, number: int) -> Any:
    try:
        return json_cell(file.content(), number)
    except UsageError as error:
        return BadRecord(number, 0, 0, error.message)


class _FolderArchives:
    """The texts that the compactions in a folder name."""

    def __init__(self, source: SourceFile, steps: Sequence[SourceFile], summary: str) -> None:
        self._source = source
        self._steps = steps
        self._summary = summary

    def text(self, name: str) -> str | None:
        """Return the text of a compaction: from the memory, or from the metadata, which has that of the last one."""
        found = memory_archive(self._memory, name)
        if found is None and self._summary and name == self._last_name:
            return self._summary
        return found

    @cached_property
    def _memory(self) -> bytes:
        memory = self._source.beside("../../memory.db")
        try:
            return memory.content(FILE_BYTES_MAX) if memory is not None else b""
        except UsageError:
            return b""

    @cached_property
    def _last_name(self) -> Any:
        values = (object_of(_file_value(file, 0)) for file in reversed(self._steps))
        return next((value["archive_name"] for value in values if "archive_name" in value), None)


# ── database ─────────────────────────────────────────────────────────────────────────────────────


def _database_sessions(source: SourceDatabase, is_known: IsKnown | None) -> Iterator[ForeignSession]:
    columns = source.columns("sessions")
    known: set[str] = set()
    for cells in source.rows("sessions", columns, order=("created_at", "handle")):
        row = {column: cell for column, cell in zip(columns, cells, strict=True) if cell is not None}
        handle = text_of(row.get("handle"))
        if handle:
            known.add(handle)
            yield _foreign(handle, source.path, row, _database_items(source, handle, row, is_known))
    for handle in _other_handles(source, known):
        yield _foreign(handle, source.path, {}, _database_items(source, handle, {}, is_known))


def _other_handles(source: SourceDatabase, known: set[str]) -> list[str]:
    """Return the sessions that have messages or events but no row."""
    found: dict[str, None] = {}
    for table in ("session_messages", "session_events"):
        for (handle,) in source.rows(table, ("session_handle",)):
            if isinstance(handle, str) and handle and handle not in known:
                found[handle] = None
    return list(found)


def _database_items(
    source: SourceDatabase, handle: str, row: JsonObject, is_known: IsKnown | None
) -> Iterator[ImportedItem]:
    def cells(table: str, column: str) -> Iterator[Any]:
        for place, cell in source.rows(table, ("idx", column), where={"session_handle": handle}, order=("idx",)):
            yield json_cell(cell, place if isinstance(place, int) else 0)

    archive = text_of(row.get("archive"))
    lines = in_order(
        lambda: cells("session_messages", "entry_json"),
        lambda: cells("session_events", "payload_json"),
        Line({"archive_name": archive}, records=0) if archive else None,
        StoredRecords(TOOL, handle, is_known),
        archive,
    )
    summary = text_of(row.get("summary")) or None
    meta = {key: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for key, value in row.items()}
    yield from _items(handle, Line(meta), lines, lambda _: summary, scope=archive)


# ── store ────────────────────────────────────────────────────────────────────────────────────────


def _store_sessions(source: SourceFile, is_known: IsKnown | None) -> Iterator[ForeignSession]:
    raw = source.content(FILE_BYTES_MAX)
    if not is_store(raw[:64], len(raw)):
        return
    store = CrabStore(raw)
    keys: dict[tuple[str, str], list[bytes]] = {}
    indexed: Counter[tuple[str, str]] = Counter()
    unknown = 0
    for key in store.keys(SESSIONS):
        text = key.decode("utf-8", "replace")
        if (found := _SESSION_KEY.fullmatch(text)) is not None:
            keys.setdefault((found[1], found[2]), []).append(key)
        elif (found := _INDEX_KEY.fullmatch(text)) is not None:
            indexed[found[1], found[2]] += 1
        else:
            unknown += 1
    unknown += sum(count for session, count in indexed.items() if session not in keys)
    bad = _bad_by_session(store, keys)
    for (realm, handle), own in keys.items():
        meta = object_of(_stored(store, f"{realm}/session/{handle}/meta".encode()))
        items = _StoredSession(store, realm, handle, own, is_known).items()
        found_bad, index = bad.get((realm, handle), []), indexed[realm, handle]
        yield _foreign(handle, source.path, meta, _with_account(items, found_bad, index, unknown))
        unknown = 0


def _bad_by_session(
    store: CrabStore, sessions: Mapping[tuple[str, str], object]
) -> dict[tuple[str, str], list[BadRecord]]:
    """Return what could not be read, by session. What belongs to no session is reported with the first one."""
    found: dict[tuple[str, str], list[BadRecord]] = {}
    first = next(iter(sessions), None)
    for key, bad in store.bad:
        named = _SESSION_KEY.fullmatch(key.decode("utf-8", "replace"))
        session = (named[1], named[2]) if named is not None else None
        owner = session if session in sessions else first
        if owner is not None:
            found.setdefault(owner, []).append(bad)
    return found


def _with_account(
    items: Iterable[ImportedItem], bad: list[BadRecord], index: int, unknown: int
) -> Iterator[ImportedItem]:
    yield from items
    if index:
        yield SkippedRecords("session index", index, "it repeats the metadata of the session")
    if unknown:
        yield SkippedRecords("key of the store", unknown, "it belongs to no session")
    yield from bad


def _stored(store: CrabStore, key: bytes) -> Any:
    value = store.value(SESSIONS, key)
    found = json_cell(value, 0) if value is not None else None
    if isinstance(found, BadRecord):
        return BadRecord(0, store.place(SESSIONS, key), found.size, found.reason)
    return found


class _StoredSession:
    """One session of a store."""

    def __init__(self, store: CrabStore, realm: str, handle: str, keys: list[bytes], is_known: IsKnown | None) -> None:
        self._store = store
        self._is_known = is_known
        self._realm = realm
        self._handle = handle
        self._prefix = f"{realm}/session/{handle}/".encode()
        self._keys = keys

    def items(self) -> Iterator[ImportedItem]:
        """Yield the entries of the session."""
        meta_key, archive_key = self._prefix + b"meta", self._prefix + b"archive"
        meta = _stored(self._store, meta_key)
        name = self._archive_name(archive_key)
        others = [key for key in self._keys if key not in (meta_key, archive_key) and not self._is_line(key)]
        has_archive = archive_key in self._keys
        compaction = Line({"archive_name": name}) if name else None
        unknown = [(self._kind(key), _stored(self._store, key)) for key in others]
        unknown += [("archive", _stored(self._store, archive_key))] if has_archive and not name else []
        stored = StoredRecords(TOOL, self._handle, self._is_known)
        lines = in_order(lambda: self._values(b"msg/"), lambda: self._values(b"evt/"), compaction, stored, name)
        yield from _items(
            self._handle,
            Line(meta if meta is not None else {}),
            lines,
            lambda wanted: (
                stored_archive(self._store, self._realm, wanted) or text_of(object_of(meta).get("summary")) or None
            ),
            scope=name,
            others=unknown,
        )

    def _archive_name(self, key: bytes) -> str:
        """Return the name of the text of the last compaction: the value is a JSON text."""
        value = self._store.value(SESSIONS, key) or b""
        text = value.decode("utf-8", "replace").strip()
        return text[1:-1] if len(text) > 2 and text[0] == text[-1] == '"' and "\\" not in text else ""

    def _is_line(self, key: bytes) -> bool:
        return key.startswith((self._prefix + b"msg/", self._prefix + b"evt/"))

    def _kind(self, key: bytes) -> str:
        return key.removeprefix(self._prefix).decode("utf-8", "replace")

    def _values(self, kind: bytes) -> Iterator[Any]:
        for key in self._keys:
            if key.startswith(self._prefix + kind):
                yield _stored(self._store, key)

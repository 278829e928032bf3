"""Sessions of OpenClaw: JSONL files beside `sessions.json`, and the SQLite database of an agent.

Both hold records of pi (`pi/entries.py`), up to version 4 of the header. A session is one transcript. An index maps
session keys, which outlive transcripts, to the current transcript of each, with its title and the key that spawned it;
resets leave older transcripts (`ID.jsonl.reset.TIME`, `ID.jsonl.deleted.TIME`, windows and archives of the database),
which are sessions of their own. An archive is read if its session has no records outside of it. A copy of a transcript
(`ID.checkpoint.UUID.jsonl`) gives the ids that the transcript has.
The index changes all the time, so it is never a part of the entries. One thing depends on it: a sub-agent is entered
into its parent (`spawned`) as soon as the index and a transcript of the sub-agent exist.
Archives that cannot be read, because they are damaged or their compression is not installed, and sessions that OpenClaw
has put into cold storage, in a form of its own, are counted with the first session of the database.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from posixpath import basename
from typing import Any, Protocol, TypeAlias, TypeGuard, cast

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.openclaw_archives import TABLE as ARCHIVES
from wakelog.exchange.openclaw_archives import archive_records, inflated
from wakelog.exchange.pi.entries import EntryReader
from wakelog.exchange.pi.messages import count_field, text_field
from wakelog.exchange.pi.reader import (
    TITLE_MARK,
    format_version,
    is_header,
    is_pi,
    last_title,
    lines_with,
    parent_session,
    read_items,
    session_name,
    started_ms,
)
from wakelog.exchange.records import (
    BadRecord,
    JsonRecord,
    Record,
    SourceDatabase,
    SourceFile,
    SourceLine,
    decode_document,
    json_records,
)
from wakelog.exchange.sessions import ForeignSession, ImportedItem, SessionOrigin, SkippedRecords, session_id
from wakelog.log.content import JsonObject

TOOL = "openclaw"
_INDEX_FILE = "sessions.json"
_CHILD_MARK = b"childSessionKey"
_KEY_START = "agent:"
_COLD_ARCHIVES = "session_transcript_cold_archives"
_CUSTOM_TYPES = ("openclaw", "model-snapshot")
_EVENT_COLUMNS = ("session_id", "seq", "event_json")
_NOT_TRANSCRIPTS = (".trajectory.jsonl", ".lock")
_CONTINUATIONS = frozenset(("fork", "rewind", "compaction", "recovery"))


# ── detection ────────────────────────────────────────────────────────────────────────────────────


def is_openclaw(head: Sequence[Any]) -> bool:
    """Return whether a file is an index, or its first records are those of a transcript and not of pi itself."""
    if len(head) == 1 and is_openclaw_index(head[0]):
        return True
    return is_pi(head) and any(_is_marked(record) for record in head)


def is_openclaw_beside(head: Sequence[Any], source: SourceFile) -> bool:
    """Return whether a file is a transcript, with or without a mark of OpenClaw, beside an index of OpenClaw."""
    index = source.beside(_INDEX_FILE) if is_pi(head) else None
    return index is not None and is_openclaw_index(_document(index))


def _is_marked(record: Any) -> bool:
    match record:
        case {"type": "session", "version": int(version)}:
            return version >= 4
        case {"customType": str(kind)}:
            return kind.startswith(_CUSTOM_TYPES)
        case {"message": dict(message)}:
            return "__openclaw" in message
    return False


def is_openclaw_index(document: Any) -> bool:
    """Return whether a JSON document is a `sessions.json`: session keys with the ids of their transcripts."""
    if not isinstance(document, dict) or not any(key.startswith(_KEY_START) for key in document):
        return False
    return all(isinstance(entry, dict) and text_field(entry, "sessionId") for entry in document.values())


def is_openclaw_database(source: SourceDatabase) -> bool:
    """Return whether a database is that of an OpenClaw agent."""
    return set(_EVENT_COLUMNS) <= set(source.columns("transcript_events"))


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_sessions(source: SourceFile | SourceDatabase) -> Iterator[ForeignSession]:
    """Yield the session of a transcript, all that lie beside a `sessions.json`, or all of a database."""
    if _is_database(source):
        database = _Database(source)
        yield from _sessions(database, database.transcripts(), _unread_archives(database))
        return
    file = cast("SourceFile", source)
    if is_openclaw_index(_document(file)):
        found = (other for other in file.list_beside(".") if _may_be_transcript(other.path))
        yield from _sessions(_Folder(file), (_of_file(other) for other in found if _first_is_header(other)))
    else:
        yield from _sessions(_Folder(file), [_of_file(file)])


def _is_database(source: object) -> TypeGuard[SourceDatabase]:
    return hasattr(source, "rows")


# Returns the records whose lines hold a mark, each with the time when it was stored.
_Reader: TypeAlias = Callable[[bytes], Iterator[tuple[JsonRecord, object]]]


class _Transcript(msgspec.Struct, frozen=True):
    """The records of one session."""

    path: str
    records: _Reader
    session: str = ""
    began: int = 0
    parent: str = ""

    def header(self) -> JsonObject | None:
        """Return the first record."""
        return next((record.value for record, _ in self.records(b"") if isinstance(record, Record)), None)

    def name(self, header: Mapping[str, Any]) -> str:
        """Return the id of the session."""
        return self.session if self.session and not is_header(header) else session_name(header)

    def started_ms(self, header: Mapping[str, Any]) -> int:
        """Return when the session began."""
        return started_ms(header) or self.began


class _Key(msgspec.Struct, frozen=True):
    """What the index says about a session key. `sessions` are its transcripts, the current one first."""

    key: str
    sessions: tuple[str, ...]
    title: str | None = None
    parent: str | None = None
    is_subagent: bool = False


class _Index:
    """Session keys, by key and by the ids of their transcripts."""

    def __init__(self, keys: Iterable[_Key]) -> None:
        self.by_key = {key.key: key for key in keys}
        self.by_session = {session: key for key in reversed(self.by_key.values()) for session in key.sessions}


class _Store(Protocol):
    index: _Index
    children: dict[str, dict[str, tuple[str, str]]]
    """By session key: the keys that its transcripts started, with the transcript and the call."""

    def find(self, session: str) -> _Transcript | None:
        """Return the transcript of a session."""
        ...


def _sessions(
    store: _Store, transcripts: Iterable[_Transcript], before: Sequence[ImportedItem] = ()
) -> Iterator[ForeignSession]:
    """Yield the sessions of transcripts; the first of them reports what was not read."""
    for transcript in transcripts:
        header = transcript.header()
        if header is not None:
            yield _session(store, transcript, header, before)
            before = ()
    if before:
        raise UsageError("; ".join(item.reason for item in before if isinstance(item, SkippedRecords)))


def _session(
    store: _Store, transcript: _Transcript, header: JsonObject, before: Sequence[ImportedItem]
) -> ForeignSession:
    name = transcript.name(header)
    key = store.index.by_session.get(name)
    is_subagent = key is not None and key.is_subagent
    parent, parent_call = _spawned_by(store, key) if key is not None else ("", "")
    reader = EntryReader(TOOL, name, find_child=lambda message: _child_session(store, message))
    is_current = key is not None and key.sessions[0] == name
    title = key.title if key is not None and is_current else None
    return ForeignSession(
        origin=SessionOrigin(
            tool=TOOL,
            id=name,
            path=transcript.path,
            version=format_version(header),
            parent=(is_subagent and parent) or parent_session(header) or transcript.parent or parent,
            parent_call=parent_call,
            is_subagent=is_subagent,
        ),
        items=chain(before, read_items(reader, transcript.records(b""))),
        started_ms=transcript.started_ms(header),
        agent="subagent" if is_subagent else TOOL,
        cwd=text_field(header, "cwd") or "",
        title=title or last_title(record for record, _ in transcript.records(TITLE_MARK)),
    )


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────────


def _child_key(message: Mapping[str, Any]) -> str | None:
    """Return the session key that a result says it started: in its details, or in its text as JSON."""
    details = message.get("details")
    if isinstance(details, dict) and (key := text_field(details, "childSessionKey")):
        return key
    match message.get("content"):
        case [{"type": "text", "text": str(text)}] | str(text) if "childSessionKey" in text:
            return text_field(_json_object(text), "childSessionKey")
    return None


def _child_session(store: _Store, message: Mapping[str, Any]) -> str | None:
    """Return the id in wakelog of the session that a result says it started."""
    key = store.index.by_key.get(_child_key(message) or "")
    transcript = store.find(key.sessions[0]) if key is not None else None
    header = transcript.header() if transcript is not None else None
    if transcript is None or header is None:
        return None
    return session_id(TOOL, transcript.name(header))


def _spawned_by(store: _Store, key: _Key) -> tuple[str, str]:
    """Return the session that a key comes from, and the call there that started it."""
    parent = store.index.by_key.get(key.parent or "")
    if parent is None:
        return "", ""
    if parent.key not in store.children:
        found: dict[str, tuple[str, str]] = {}
        for session in parent.sessions:
            for child, call in _spawned_in(store.find(session)):
                found.setdefault(child, (session, call))
        store.children[parent.key] = found
    return store.children[parent.key].get(key.key, (parent.sessions[0], ""))


def _spawned_in(transcript: _Transcript | None) -> Iterator[tuple[str, str]]:
    """Yield the session keys that the results of a transcript say they started, with the calls."""
    for record, _ in transcript.records(_CHILD_MARK) if transcript is not None else ():
        match record:
            case Record(value={"message": {"role": "toolResult", "toolCallId": str(call)} as message}):
                if (child := _child_key(message)) is not None:
                    yield child, call.partition("|")[0]


# ── files ────────────────────────────────────────────────────────────────────────────────────────


class _Folder:
    """Transcripts in a folder, and its index."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        document = _document(source)
        index = source.beside(_INDEX_FILE)
        if not is_openclaw_index(document) and index is not None:
            document = _document(index)
        self._files: dict[str, str] = {}
        self.children: dict[str, dict[str, tuple[str, str]]] = {}
        self.index = _Index(self._keys(document) if is_openclaw_index(document) else ())

    def _keys(self, document: Mapping[str, Any]) -> Iterator[_Key]:
        for key, entry in document.items():
            session, older = entry["sessionId"], entry.get("usageFamilySessionIds")
            if (path := text_field(entry, "sessionFile")) is not None:
                self._files[session] = basename(path.replace("\\", "/"))
            family = [each for each in older if isinstance(each, str)] if isinstance(older, list) else []
            yield _index_key(key, (session, *family), entry)

    def find(self, session: str) -> _Transcript | None:
        """Return the transcript of a session."""
        file = self._source.beside(self._files.get(session, f"{session}.jsonl"))
        return _of_file(file) if file is not None else None


def _of_file(source: SourceFile) -> _Transcript:
    def read(mark: bytes) -> Iterator[tuple[JsonRecord, object]]:
        return ((record, None) for record in json_records(lines_with(source, mark) if mark else source.lines()))

    return _Transcript(source.path, read)


def _may_be_transcript(path: str) -> bool:
    return ".jsonl" in basename(path) and not path.endswith(_NOT_TRANSCRIPTS)


def _first_is_header(source: SourceFile) -> bool:
    header = _of_file(source).header()
    return header is not None and is_pi([header])


def _document(source: SourceFile) -> Any:
    """Return a file that is one JSON document; None if it is a transcript or anything else."""
    first = next(source.lines(), None)
    if first is None or (first.raw is not None and text_field(_json_object(first.raw), "type") is not None):
        return None
    try:
        return decode_document(source.content())
    except UsageError:
        return None


def _index_key(key: str, sessions: Sequence[str], entry: Mapping[str, Any]) -> _Key:
    spawned_by = text_field(entry, "spawnedBy")
    return _Key(
        key=key,
        sessions=tuple(dict.fromkeys(sessions)),
        title=text_field(entry, "label") or text_field(entry, "displayName"),
        parent=spawned_by or text_field(entry, "parentSessionKey"),
        is_subagent=":subagent:" in key or spawned_by is not None,
    )


def _json_object(text: str | bytes) -> JsonObject:
    value = decode_document(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return value if isinstance(value, dict) else {}


# ── the database ─────────────────────────────────────────────────────────────────────────────────


class _Database:
    """Transcripts in a database, and its index."""

    def __init__(self, source: SourceDatabase) -> None:
        self._transcripts = {transcript.session: transcript for transcript in _database_transcripts(source)}
        self.archives = [each for each in _archives(source) if each.session not in self._transcripts]
        self._archived = {archive.session: archive for archive in self.archives}
        self.cold = [count for (count,) in source.rows(_COLD_ARCHIVES, ("event_count",))]
        self.children: dict[str, dict[str, tuple[str, str]]] = {}
        windows: dict[str, list[str]] = {}
        for key, session in source.rows(
            "session_windows", ("session_key", "session_id"), order=("created_at", "session_id")
        ):
            if isinstance(key, str) and isinstance(session, str):
                windows.setdefault(key, []).append(session)
        self.index = _Index(_database_keys(source, windows))

    def transcripts(self) -> Iterator[_Transcript]:
        """Yield all transcripts, archives last."""
        return chain(self._transcripts.values(), self.archives)

    def find(self, session: str) -> _Transcript | None:
        """Return the transcript of a session."""
        return self._transcripts.get(session) or self._archived.get(session)


def _database_keys(source: SourceDatabase, windows: Mapping[str, Sequence[str]]) -> Iterator[_Key]:
    columns = ("session_key", "current_session_id", "entry_json", "label", "display_name", "spawned_by")
    for key, current, entry_json, label, display_name, spawned_by, parent in source.rows(
        "session_nodes", (*columns, "parent_session_key")
    ):
        if not isinstance(key, str) or not isinstance(current, str):
            continue
        entry = _json_object(entry_json) if isinstance(entry_json, str) else {}
        named = {"label": label, "displayName": display_name, "spawnedBy": spawned_by, "parentSessionKey": parent}
        known = {name: value for name, value in named.items() if value is not None}
        yield _index_key(key, (current, *windows.get(key, ())), {**entry, **known})


def _database_transcripts(source: SourceDatabase) -> Iterator[_Transcript]:
    """Yield the transcripts that have records: those of windows, then those that no window names."""
    left = {session: None for (session,) in source.rows("transcript_events", ("session_id",))}
    columns = ("session_id", "previous_session_id", "reason", "started_at", "created_at")
    for session, previous, reason, started, created in source.rows(
        "session_windows", columns, order=("created_at", "session_id")
    ):
        if isinstance(session, str) and session in left:
            del left[session]
            began = count_field({"at": started if started is not None else created}, "at") or 0
            parent = previous if reason in _CONTINUATIONS and isinstance(previous, str) else ""
            yield _Transcript(source.path, _row_reader(source, session), session, began, parent)
    for session in left:
        if isinstance(session, str):
            yield _Transcript(source.path, _row_reader(source, session), session)


def _archives(source: SourceDatabase) -> Iterator[_Transcript]:
    """Yield the transcripts in archives, oldest first."""
    columns = ("session_id", "generation", "created_at")
    for session, generation, created in source.rows(ARCHIVES, columns, order=("created_at", "session_id")):
        if isinstance(session, str):
            began = count_field({"at": created}, "at") or 0
            place = {"session_id": session, "generation": generation}
            yield _Transcript(source.path, _archive_reader(source, place), session, began)


def _archive_reader(source: SourceDatabase, place: dict[str, Any]) -> _Reader:
    return lambda mark: ((record, None) for record in archive_records(source, place, mark))


def _unread_archives(database: _Database) -> list[ImportedItem]:
    """Return the archives in which there is no record, with the reason."""
    unread: list[ImportedItem] = []
    for transcript in database.archives:
        if transcript.header() is None:
            reasons = (record.reason for record, _ in transcript.records(b"") if isinstance(record, BadRecord))
            unread.append(SkippedRecords("archive", 1, next(reasons, "archive: empty")))
    reason = "the session is in the cold storage of OpenClaw; continue it there to bring it back"
    cold = (count if isinstance(count, int) else 1 for count in database.cold)
    return [*unread, *(SkippedRecords("event in cold storage", count, reason) for count in cold)]


def _row_reader(source: SourceDatabase, session: str) -> _Reader:
    def read(mark: bytes) -> Iterator[tuple[JsonRecord, object]]:
        columns = ("seq", "event_json", "event_zstd", "created_at")
        for seq, event, compressed, stored in source.rows(
            "transcript_events", columns, where={"session_id": session}, order=("seq",)
        ):
            number = seq if isinstance(seq, int) else 0
            try:
                raw = _event_text(event, compressed)
            except UsageError as error:
                yield BadRecord(number, 0, len(compressed), str(error)), stored
                continue
            if mark in raw:
                yield from ((record, stored) for record in json_records([SourceLine(number, 0, raw, len(raw))]))

    return read


def _event_text(event: object, compressed: object) -> bytes:
    """Return the JSON of an event, which has one of two columns; `null` if it is in neither."""
    if event is None and isinstance(compressed, bytes):
        return inflated(compressed)
    raw = event.encode("utf-8", "surrogatepass") if isinstance(event, str) else event
    return raw if isinstance(raw, bytes) and raw.strip() else b"null"

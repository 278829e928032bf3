"""Sessions of OpenCode out of its database, its file tree, an export, or captured events."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from posixpath import basename, splitext
from typing import Any

from wakelog.exchange.opencode.events import EventFold
from wakelog.exchange.opencode.parts import child_of
from wakelog.exchange.opencode.records import (
    StoredMessage,
    StoredPart,
    StoredSession,
    cwd_of,
    decoded,
    list_of,
    message_of,
    message_of_row,
    number_of,
    numbered,
    object_of,
    part_of,
    started_ms,
    text_of,
)
from wakelog.exchange.records import BadRecord, Record, SourceDatabase, SourceFile, json_records
from wakelog.exchange.sessions import ImportedItem, SkippedRecords
from wakelog.log.content import JsonObject
from wakelog.log.ids import is_id

_SESSION_COLUMNS = (
    "id",
    "project_id",
    "workspace_id",
    "parent_id",
    "slug",
    "directory",
    "title",
    "version",
    "agent",
    "model",
    "revert",
    "time_created",
    "time_archived",
)
_DERIVED_TABLES = {
    "todo": "the calls of the todo tool hold the list",
    "session_input": "a prompt that the model has not got yet",
    "session_context_epoch": "a state that OpenCode computes again",
    "session_share": "a secret link",
}
_MESSAGE_TABLES = ("message", "session_message")
_REMOVED = ("message.removed", "message.part.removed")


def column_object(value: object) -> JsonObject:
    """Return the JSON object of a column; an empty one if it holds none."""
    found = decoded(_raw(value), "") if isinstance(value, str | bytes) and value else None
    return found.value if isinstance(found, Record) else {}


def _raw(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


# ── the database ─────────────────────────────────────────────────────────────────────────────────


class DatabaseReader:
    """Sessions of a database: one query for the messages of a session, one for the parts of each message."""

    def __init__(self, source: SourceDatabase) -> None:
        self._source = source
        self._calls: dict[str, dict[str, str]] = {}

    def sessions(self) -> Iterator[StoredSession]:
        """Yield the sessions, oldest first; then messages whose session has no row."""
        known = set()
        for row in self._source.rows("session", _SESSION_COLUMNS, order=("time_created", "id")):
            info = _session_info(dict(zip(_SESSION_COLUMNS, row, strict=True)))
            known.add(info["id"])
            yield self._session(info, records=1)
        homeless = {text_of(found) for (found,) in self._source.rows("message", ("session_id",))} - known
        for name in sorted(homeless):
            yield self._session({"id": name}, records=0)

    def _session(self, info: JsonObject, records: int) -> StoredSession:
        name, parent = info["id"], text_of(info.get("parentID"))
        session = StoredSession(
            id=name,
            info=info,
            messages=(),
            started_of=self._started_of,
            parent_call=self._calls_of(parent).get(name, "") if parent else "",
            records=records,
            is_live=True,
        )
        if self._has_messages(name) or not self._add_logged(session):
            session.messages = self._messages(name)
        return session

    def _has_messages(self, name: str) -> bool:
        found = (self._source.rows(table, ("id",), where={"session_id": name}) for table in _MESSAGE_TABLES)
        return any(next(rows, None) is not None for rows in found)

    def _add_logged(self, session: StoredSession) -> bool:
        """Take the messages of a session from the event log; return whether it holds any."""
        fold = EventFold()
        for event in self._events(session.id):
            fold.add(event)
        fold.close()
        folded = fold.session(session.id)
        if folded is None or not folded.has_messages:
            return False
        parts = sum(1 for _ in self._source.rows("part", ("id",), where={"session_id": session.id}))
        lost = [SkippedRecords("part", parts, "its message is known from the event log only")] if parts else []
        derived = self._derived(session.id, with_events=False)
        session.messages = [*fold.skipped(), *lost, *folded.messages, *derived]
        session.records += folded.records
        session.renames = folded.renames
        return True

    def _started_of(self, name: str) -> int | None:
        row = next(self._source.rows("session", ("time_created",), where={"id": name}), None)
        return None if row is None else int(number_of(row[0]))

    def _calls_of(self, parent: str) -> dict[str, str]:
        """Return the calls of a session that started sub-agents, by the sub-agent's id."""
        if parent not in self._calls:
            rows = self._source.rows("part", ("id", "data"), where={"session_id": parent})
            parts = (StoredPart(text_of(row[0]), column_object(row[1])) for row in rows if _mentions_child(row[1]))
            self._calls[parent] = calls_by_child(parts)
        return self._calls[parent]

    def _events(self, name: str) -> Iterator[JsonObject | BadRecord]:
        rows = self._source.rows("event", ("id", "type", "data"), where={"aggregate_id": name}, order=("seq",))
        for event_id, kind, data in rows:
            found = decoded(_raw(data) if isinstance(data, str | bytes) else b"", f"row {event_id} of event")
            if isinstance(found, BadRecord):
                yield found
            else:
                yield {"type": text_of(kind).rpartition(".")[0], "properties": found.value}

    def _messages(self, name: str) -> Iterator[StoredMessage | ImportedItem]:
        seen: set[str] = set()
        where = {"session_id": name}
        rows = self._source.rows("message", ("id", "time_created", "data"), where=where, order=("time_created", "id"))
        for row_id, created, data in rows:
            found = _row(data, f"row {row_id} of message")
            if isinstance(found, BadRecord):
                yield found
                continue
            seen.add(row_id)
            message = message_of({**found, "id": text_of(row_id)}, name, text_of(row_id))
            message.created = created
            for part_id, part_data in self._source.rows(
                "part", ("id", "data"), where={"message_id": row_id}, order=("id",)
            ):
                value = _row(part_data, f"row {part_id} of part")
                if isinstance(value, BadRecord):
                    yield value
                else:
                    message.parts.append(part_of({**value, "id": text_of(part_id)}, message, text_of(part_id)))
            yield message
        yield from self._new_messages(name, seen)
        yield from self._homeless_parts(name, seen)
        yield from self._derived(name, with_events=True)

    def _new_messages(self, name: str, seen: set[str]) -> Iterator[StoredMessage | ImportedItem]:
        columns = ("id", "type", "time_created", "data")
        for row_id, kind, created, data in self._source.rows(
            "session_message", columns, where={"session_id": name}, order=("seq",)
        ):
            found = _row(data, f"row {row_id} of session_message")
            if isinstance(found, BadRecord):
                yield found
            elif row_id in seen:
                yield SkippedRecords("session_message", 1, "the message of the same id holds it")
            else:
                message = message_of_row(text_of(row_id), text_of(kind), found, name)
                message.created = created
                yield message

    def _homeless_parts(self, name: str, seen: set[str]) -> Iterator[StoredMessage | ImportedItem]:
        """Yield parts whose message cannot be read, as messages of no known role."""
        rows = self._source.rows("part", ("id", "message_id", "data"), where={"session_id": name}, order=("id",))
        for part_id, message_id, data in rows:
            if message_id in seen:
                continue
            found = _row(data, f"row {part_id} of part")
            if isinstance(found, BadRecord):
                yield found
            else:
                value = {**found, "id": text_of(part_id), "messageID": text_of(message_id), "sessionID": name}
                yield StoredMessage(text_of(part_id), value, [], kind="part")

    def _derived(self, name: str, *, with_events: bool) -> Iterator[ImportedItem]:
        for table, reason in _DERIVED_TABLES.items():
            count = sum(1 for _ in self._source.rows(table, ("session_id",), where={"session_id": name}))
            if count:
                yield SkippedRecords(table, count, reason)
        kinds: Counter[str] = Counter()
        if with_events:
            rows = self._source.rows("event", ("type",), where={"aggregate_id": name})
            kinds.update(text_of(kind) for (kind,) in rows)
        for kind, count in sorted(kinds.items()):
            is_removal = kind.rpartition(".")[0] in _REMOVED
            reason = "deleted in OpenCode; only its event log holds it" if is_removal else "the rows hold its outcome"
            yield SkippedRecords(f"event {kind}", count, reason)


def _row(data: object, place: str) -> JsonObject | BadRecord:
    found = decoded(_raw(data) if isinstance(data, str | bytes) else b"", place)
    return found if isinstance(found, BadRecord) else object_of(found.value)


def _mentions_child(data: object) -> bool:
    return (isinstance(data, str) and '"sessionId"' in data) or (isinstance(data, bytes) and b'"sessionId"' in data)


def calls_by_child(parts: Iterable[StoredPart]) -> dict[str, str]:
    """Return the tool calls that started sub-agents, by the sub-agent's session; the first call of each counts."""
    found: dict[str, str] = {}
    for part in parts:
        if child := child_of(part):
            found.setdefault(child, text_of(part.value.get("callID")) or part.id)
    return found


def _session_info(row: dict[str, Any]) -> JsonObject:
    """Return a row of the table `session` as the JSON of a session."""
    return {
        "id": text_of(row["id"]),
        "projectID": row["project_id"],
        "workspaceID": row["workspace_id"],
        "parentID": row["parent_id"],
        "slug": row["slug"],
        "directory": row["directory"],
        "title": row["title"],
        "version": row["version"],
        "agent": row["agent"],
        "model": column_object(row["model"]),
        "revert": column_object(row["revert"]),
        "time": {"created": row["time_created"], "archived": row["time_archived"]},
    }


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def export_session(document: JsonObject) -> StoredSession:
    """Return the session of an export: `{"info", "messages": [{"info", "parts"}]}`."""
    info = object_of(document.get("info"))
    name = text_of(info.get("id"))
    messages: list[StoredMessage | ImportedItem] = []
    for at, value in numbered(list_of(document.get("messages"))):
        if not isinstance(value.get("info"), dict):
            messages.append(StoredMessage(f"{name}:{at}", value, [], kind="message"))
            continue
        message = message_of(value["info"], name, f"{name}:{at}")
        parts = numbered(list_of(value.get("parts")))
        message.parts = [part_of(part, message, f"{message.id}:{place}") for place, part in parts]
        messages.append(message)
    return StoredSession(id=name, info=info, messages=messages, started_of=_no_session, cwd=cwd_of(messages))


def listed_sessions(messages: Iterable[JsonObject]) -> Iterator[StoredSession]:
    """Yield the sessions of a list of messages `{"info", "parts"}`; each message names its session."""
    grouped: dict[str, list[JsonObject]] = {}
    for message in messages:
        grouped.setdefault(text_of(object_of(message.get("info")).get("sessionID")), []).append(message)
    for name, found in grouped.items():
        created = object_of(object_of(found[0].get("info")).get("time")).get("created")
        info = {"id": name, "time": {"created": created}}
        session = export_session({"info": info, "messages": found})
        session.records = 0
        yield session


def _no_session(_name: str) -> int | None:
    return None


class TreeReader:
    """The session of a file `storage/session/PROJECT/ID.json`, with its messages and parts in folders beside it."""

    def __init__(self, source: SourceFile, info: JsonObject) -> None:
        self._source = source
        self._info = info

    def session(self) -> StoredSession:
        """Return the session of the file."""
        name, parent = text_of(self._info.get("id")), text_of(self._info.get("parentID"))
        calls = calls_by_child(self._parts_in(parent)) if is_id(parent) else {}
        return StoredSession(
            id=name,
            info=self._info,
            messages=self._messages(name),
            started_of=self._started_of,
            parent_call=calls.get(name, ""),
            cwd="" if self._info.get("directory") else self._cwd(name),
        )

    def _cwd(self, name: str) -> str:
        """Return the folder that a reply names: the record of a session has none before September 2025."""
        files, _ = self._folders(name) if is_id(name) else ([], str)
        found = (_document(file) for file in files)
        return cwd_of(StoredMessage("", info, []) for info in found if not isinstance(info, BadRecord))

    def _folders(self, session: str) -> tuple[list[SourceFile], Callable[[str], str]]:
        """Return the message files of a session, and the folder of the parts of a message. Early trees differ."""
        files = list(self._source.list_beside(f"../../message/{session}"))
        if files:
            return files, lambda message: f"../../part/{message}"
        return list(self._source.list_beside(f"../message/{session}")), lambda message: f"../part/{session}/{message}"

    def _messages(self, name: str) -> Iterator[StoredMessage | ImportedItem]:
        files, folder_of = self._folders(name) if is_id(name) else ([], str)
        order: list[tuple[float, str, SourceFile]] = []
        for file in files:
            found = _document(file)
            if isinstance(found, BadRecord):
                yield found
            else:
                created = number_of(object_of(found.get("time")).get("created"))
                order.append((created, text_of(found.get("id")) or _stem(file), file))
        for _, message_id, file in sorted(order, key=lambda each: each[:2]):
            found = _document(file)
            if isinstance(found, BadRecord):
                yield found
                continue
            message = message_of(found, name, message_id)
            for part_file in self._source.list_beside(folder_of(message.id)) if is_id(message.id) else ():
                part = _document(part_file)
                if isinstance(part, BadRecord):
                    yield part
                else:
                    message.parts.append(part_of(part, message, _stem(part_file)))
            yield message
        for folder, reason in (("todo", _DERIVED_TABLES["todo"]), ("session_diff", "OpenCode computes it again")):
            if is_id(name) and self._source.beside(f"../../{folder}/{name}.json") is not None:
                yield SkippedRecords(folder, 1, reason)

    def _parts_in(self, session: str) -> Iterator[StoredPart]:
        """Yield the parts of another session of the tree."""
        files, folder_of = self._folders(session)
        for file in files:
            message = _document(file)
            message_id = "" if isinstance(message, BadRecord) else text_of(message.get("id")) or _stem(file)
            for part_file in self._source.list_beside(folder_of(message_id)) if is_id(message_id) else ():
                part = _document(part_file)
                if not isinstance(part, BadRecord):
                    yield StoredPart(text_of(part.get("id")) or _stem(part_file), part)

    def _started_of(self, name: str) -> int | None:
        file = self._source.beside(f"{name}.json") if is_id(name) else None
        found = None if file is None else _document(file)
        return started_ms(found) if isinstance(found, dict) else None


def _document(file: SourceFile) -> JsonObject | BadRecord:
    found = decoded(file.content(), file.path)
    return found if isinstance(found, BadRecord) else object_of(found.value)


def _stem(file: SourceFile) -> str:
    return splitext(basename(file.path))[0]


def event_sessions(events: Iterable[JsonObject | BadRecord]) -> Iterator[StoredSession]:
    """Yield the sessions of captured events. Events that belong to no session are reported with the first of them."""
    fold = EventFold()
    for event in events:
        fold.add(event)
    fold.close()
    before: list[ImportedItem] = fold.skipped()
    calls: dict[str, dict[str, str]] = {}
    for name in fold.names():
        folded = fold.session(name)
        if folded is None:
            continue
        parent = fold.session(text_of(folded.info.get("parentID")))
        if parent is not None and parent.id not in calls:
            calls[parent.id] = calls_by_child(part for message in parent.messages for part in message.parts)
        yield StoredSession(
            id=name,
            info=folded.info,
            messages=[*before, *folded.messages],
            started_of=fold.started_of,
            parent_call=calls[parent.id].get(name, "") if parent is not None else "",
            records=folded.records,
            cwd=cwd_of(folded.messages),
            renames=folded.renames,
        )
        before = []


def events_in(source: SourceFile) -> Iterator[JsonObject | BadRecord]:
    """Yield the events of a file: one array, or one event on each line."""
    first = next((line.raw.strip()[:1] for line in source.lines() if line.raw is not None and line.raw.strip()), b"")
    if first != b"[":
        for found in json_records(source.lines()):
            yield found.value if isinstance(found, Record) else found
        return
    document = decoded(b'{"events":' + source.content() + b"}", source.path)
    if isinstance(document, BadRecord):
        yield document
        return
    for at, event in enumerate(list_of(document.value.get("events"))):
        yield event if isinstance(event, dict) else BadRecord(1, 0, 0, f"event {at}: not a JSON object")

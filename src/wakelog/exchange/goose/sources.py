"""Sessions of Goose out of its database, an export, or a legacy file of lines.

The rows of a session are read in the order in which Goose wrote them (`id`). Goose itself sorts them by their time and
then by `id`; a rewritten session is written in that order. The two differ for rows that carry an older time (a sentence
that replaces a tool call) or one in milliseconds (`goose term`), which Goose's order would move when a session grows.
Goose notes the time of a result when the tool starts and that of its call when it has ended, so by their times a result
may come before its call. Exports, forks and rewritten sessions have that order; `in_call_order` puts it right.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import msgspec

from wakelog.exchange.goose.content import child_of
from wakelog.exchange.goose.entries import EntryReader
from wakelog.exchange.goose.records import (
    TOOL,
    StoredMessage,
    count_of,
    decoded,
    object_of,
    session_name,
    stored_message,
    string_of,
    time_ms,
    without,
)
from wakelog.exchange.records import BadRecord, JsonRecord, SourceDatabase
from wakelog.exchange.sessions import ImportedItem, entry_id
from wakelog.log.content import JsonObject
from wakelog.log.timestamps import iso_timestamp

SUBAGENT = "sub_agent"
_SESSION_KEY = "session"
# Messages that may wait for the calls that they answer.
_EARLY_MAX = 1_000
_CHILD_MARK = "subagent_session_id"
_JSON_COLUMNS = {
    "extension_data": "extension_data",
    "recipe_json": "recipe",
    "user_recipe_values_json": "user_recipe_values",
    "model_config_json": "model_config",
    "metadata_json": "metadata",
}
"""Columns that hold JSON, and what an export calls them."""
_MESSAGE_COLUMNS = (
    "id",
    "message_id",
    "role",
    "content_json",
    "created_timestamp",
    "timestamp",
    "tokens",
    "metadata_json",
)


class OtherRecord(msgspec.Struct, frozen=True):
    """A record that is not a message. `key` identifies it within its session."""

    kind: str
    record: Any
    key: str
    timestamp: str = ""


Stored: TypeAlias = StoredMessage | OtherRecord | BadRecord


class StoredSession(msgspec.Struct, kw_only=True):
    """One session as stored. `records` may be read once; the record of the session itself is the first of them."""

    name: str
    """What identifies it, as `session_name` returns it."""
    info: JsonObject
    records: Iterable[Stored]
    version: str = ""
    parent: str = ""
    parent_call: str = ""
    find_session: Callable[[str], str | None] = lambda _: None
    """Returns the name of another session of the source by its id."""


def session_items(session: StoredSession, is_known: Callable[[str], bool] = lambda _: False) -> Iterator[ImportedItem]:
    """Yield the entries and the bad records of a session. `is_known` says which entries are stored."""
    reader = EntryReader(session.name, session.find_session)
    states = _SessionStates(reader, session, is_known)
    waiting: StoredMessage | None = None
    for stored in in_call_order(session.records):
        if waiting is not None:
            yield from reader.read(waiting, stored if isinstance(stored, StoredMessage) else None)
            yield from states.stored()
            waiting = None
        match stored:
            case StoredMessage():
                waiting = stored
            case OtherRecord():
                yield reader.read_other(stored.kind, stored.record, stored.key, stored.timestamp)
                yield from states.stored()
            case BadRecord():
                yield stored
    if waiting is not None:
        yield from reader.read(waiting, None)
        yield from states.stored()
    yield from states.new()


class _SessionStates:
    """The record of a session as it was at each import that found new messages: token counts, provider, model.

    At the first import it is the first entry; later it stands behind the last entry, which its key names. So it has the
    same place when the session is read again.
    """

    def __init__(self, reader: EntryReader, session: StoredSession, is_known: Callable[[str], bool]) -> None:
        self._reader, self._session, self._is_known = reader, session, is_known

    def _is_stored(self, key: str) -> bool:
        return self._is_known(entry_id(TOOL, f"{self._session.name}:{key}"))

    def stored(self) -> Iterator[ImportedItem]:
        """Yield the record, and a change of the model, if an earlier import has put them here."""
        key = f"{_SESSION_KEY}:{self._reader.head}"
        if self._is_stored(key):
            yield from self._state(key, has_model=self._is_stored(f"{key}:model"))

    def new(self) -> Iterator[ImportedItem]:
        """Yield the record at the end, if the session is stored and has new messages."""
        if self._is_stored(_SESSION_KEY) and not self._is_known(self._reader.head):
            key = f"{_SESSION_KEY}:{self._reader.head}"
            yield from self._state(key, has_model=self._reader.is_other_model(model_of(self._session.info)))

    def _state(self, key: str, *, has_model: bool) -> Iterator[ImportedItem]:
        info = self._session.info
        yield self._reader.read_other("session", info, key, "", records=0)
        if has_model:
            yield self._reader.model_change(model_of(info), string_of(info.get("provider_name")), f"{key}:model")


def in_call_order(records: Iterable[Stored]) -> Iterator[Stored]:
    """Yield records so that a result comes behind its call, if both are in the same run of calls and results."""
    early = _EarlyResults()
    for stored in records:
        asked, answered = _ids(stored, "toolRequest"), _ids(stored, "toolResponse")
        if isinstance(stored, StoredMessage) and early.is_held(stored, asked, answered):
            if early.is_full:
                yield from early.take_all()
            continue
        if not asked and not answered:
            yield from early.take_all()
        yield stored
        yield from early.take_answered(asked)
    yield from early.take_all()


class _EarlyResults:
    """Messages with results whose calls have not come yet."""

    def __init__(self) -> None:
        self._calls: set[str] = set()
        self._held: dict[int, tuple[StoredMessage, set[str]]] = {}
        """Messages by their number, each with the calls that it waits for."""
        self._waiting: dict[str, list[int]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether no more messages are held."""
        return len(self._held) >= _EARLY_MAX

    def is_held(self, stored: StoredMessage, asked: set[str], answered: set[str]) -> bool:
        """Hold a message, if it answers a call that has not come; return whether it is held."""
        self._calls |= asked
        missing = answered - self._calls
        if not missing:
            return False
        self._count += 1
        self._held[self._count] = stored, missing
        for call_id in missing:
            self._waiting.setdefault(call_id, []).append(self._count)
        return True

    def take_answered(self, asked: Iterable[str]) -> Iterator[StoredMessage]:
        """Yield the messages whose last call has come, in their order."""
        ready: list[int] = []
        for call_id in asked:
            for number in self._waiting.pop(call_id, ()):
                _, missing = self._held[number]
                missing.discard(call_id)
                ready += [] if missing else [number]
        for number in sorted(ready):
            yield self._held.pop(number)[0]

    def take_all(self) -> Iterator[StoredMessage]:
        """Yield all messages."""
        held = [stored for stored, _ in self._held.values()]
        self._held.clear()
        self._waiting.clear()
        yield from held


def _ids(stored: Stored, kind: str) -> set[str]:
    """Return the ids of the calls that a message makes or answers."""
    content = stored.content if isinstance(stored, StoredMessage) else None
    return {item["id"] for item in content or () if item.get("type") == kind and isinstance(item.get("id"), str)}


def model_of(info: JsonObject) -> str:
    """Return the model that the record of a session names; empty if it names none."""
    return string_of(object_of(info.get("model_config")).get("model_name"))


def _session_record(info: JsonObject) -> OtherRecord:
    began = time_ms(info.get("created_at"))
    return OtherRecord("session", info, _SESSION_KEY, iso_timestamp(began) if began else "")


# ── the database ─────────────────────────────────────────────────────────────────────────────────


class DatabaseReader:
    """Sessions of a database of any schema: a column that it lacks is null."""

    def __init__(self, source: SourceDatabase) -> None:
        self._source = source
        self._calls: dict[str, tuple[str, str]] | None = None
        versions = [count_of(version) for (version,) in source.rows("schema_version", ("version",))]
        self._version = str(max(versions, default=0) or "")

    def sessions(self) -> Iterator[StoredSession]:
        """Yield the sessions, oldest first, then messages whose session has no row, then threads with messages."""
        known = set()
        for info in self._rows("sessions", ("created_at", "id")):
            name = string_of(info.get("id"))
            known.add(name)
            yield self._session(name, info, has_row=True)
        homeless = {string_of(found) for (found,) in self._source.rows("messages", ("session_id",))} - known
        for name in sorted(homeless):
            yield self._session(name, {"id": name}, has_row=False)
        for info in self._rows("threads", ("created_at", "id")):
            yield from self._thread(info)

    def _rows(self, table: str, order: tuple[str, ...]) -> Iterator[JsonObject]:
        """Yield the rows of a table with all their columns, under the names that an export has."""
        columns = self._source.columns(table)
        for row in self._source.rows(table, columns, order=order) if columns else ():
            yield _named(dict(zip(columns, row, strict=True)))

    def _session(self, own_id: str, info: JsonObject, *, has_row: bool) -> StoredSession:
        parent, parent_call = string_of(info.get("parent_session_id")), ""
        if info.get("session_type") == SUBAGENT:
            caller, call = self._calls_by_child().get(own_id, ("", ""))
            parent, parent_call = parent or caller, call if parent in ("", caller) else ""
        return StoredSession(
            name=session_name(own_id, info.get("created_at")),
            info=info,
            records=self._session_records(own_id, info if has_row else None),
            version=self._version,
            parent=(self._find_session(parent) or parent) if parent else "",
            parent_call=parent_call,
            find_session=self._find_session,
        )

    def _find_session(self, own_id: str) -> str | None:
        row = next(self._source.rows("sessions", ("created_at",), where={"id": own_id}), None)
        return None if row is None else session_name(own_id, row[0])

    def _session_records(self, own_id: str, info: JsonObject | None) -> Iterator[Stored]:
        if info is not None:
            yield _session_record(info)
        usage = self._usage(own_id)
        waiting = next(usage, None)
        for stored, written_ms in self._messages("messages", {"session_id": own_id}):
            # The tokens of a call are stored before its messages are.
            while waiting is not None and waiting[1] <= written_ms:
                yield waiting[0]
                waiting = next(usage, None)
            yield stored
        while waiting is not None:
            yield waiting[0]
            waiting = next(usage, None)

    def _usage(self, name: str) -> Iterator[tuple[OtherRecord, int]]:
        """Yield the rows of the usage ledger, each with its time."""
        columns = self._source.columns("usage_ledger")
        if "session_id" not in columns:
            return
        for row in self._source.rows("usage_ledger", columns, where={"session_id": name}, order=("id",)):
            record = without(dict(zip(columns, row, strict=True)), "session_id")
            time = time_ms(record.get("created_timestamp"))
            yield OtherRecord("usage", record, f"usage:{record.get('id')}", iso_timestamp(time) if time else ""), time

    def _messages(self, table: str, where: dict[str, Any]) -> Iterator[tuple[Stored, int]]:
        """Yield the messages of a session, each with the time when it was written."""
        for row in self._source.rows(table, _MESSAGE_COLUMNS, where=where, order=("id",)):
            row_id, message_id, role, content, created, written, tokens, metadata = row
            line = count_of(row_id) or 1
            value = decoded(content, f"row {row_id} of {table}", line)
            if isinstance(value, BadRecord):
                yield value, time_ms(written)
                continue
            record: JsonObject = {"id": message_id, "role": role, "created": created, "content": value}
            if tokens is not None:
                record["tokens"] = _plain(tokens)
            if metadata is not None:
                found = decoded(metadata, "")
                record["metadata" if isinstance(found, dict) else "metadata_json"] = (
                    found if isinstance(found, dict) else _plain(metadata)
                )
            yield stored_message(_plain_values(record)), time_ms(written)

    def _thread(self, info: JsonObject) -> Iterator[StoredSession]:
        """Yield a thread of schema 10 as a session, if it has messages."""
        name = string_of(info.get("id"))
        where = {"thread_id": name}
        if next(self._source.rows("thread_messages", ("id",), where=where), None) is None:
            return
        messages = (stored for stored, _ in self._messages("thread_messages", where))
        yield StoredSession(
            name=name, info=info, records=_chained(_session_record(info), messages), version=self._version
        )

    def _calls_by_child(self) -> dict[str, tuple[str, str]]:
        """Return the session and the call that started each sub-agent; the first call that names it counts."""
        if self._calls is None:
            self._calls = {}
            for name, content in self._source.rows("messages", ("session_id", "content_json"), order=("id",)):
                if not isinstance(content, str) or _CHILD_MARK not in content:
                    continue
                items = decoded(content, "")
                for item in items if isinstance(items, list) else ():
                    if isinstance(item, dict) and (child := child_of(item)):
                        self._calls.setdefault(child, (string_of(name), string_of(item.get("id"))))
        return self._calls


def _chained(first: Stored, rest: Iterable[Stored]) -> Iterator[Stored]:
    yield first
    yield from rest


def _named(row: JsonObject) -> JsonObject:
    """Return a row without its nulls, its JSON decoded and named as in an export."""
    found: JsonObject = {}
    for column, value in row.items():
        if value is None:
            continue
        name = _JSON_COLUMNS.get(column)
        inner = decoded(value, "") if name is not None else None
        if name is None or isinstance(inner, BadRecord):
            found[column] = _plain(value)
        elif inner is not None:
            found[name] = inner
    return found


def _plain(value: Any) -> Any:
    """Return a value of a column as JSON: bytes as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _plain_values(record: JsonObject) -> JsonObject:
    return {key: _plain(value) for key, value in record.items()}


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def export_session(document: JsonObject, name: str) -> StoredSession:
    """Return the session of an export. `name` is its id if it has none itself."""
    conversation = document.get("conversation")
    info = {key: value for key, value in document.items() if key != "conversation" or not isinstance(value, list)}
    records: list[Stored] = [_session_record(info)]
    for at, value in enumerate(conversation if isinstance(conversation, list) else []):
        is_message = isinstance(value, dict)
        records.append(stored_message(value) if is_message else OtherRecord("message", value, f"conversation:{at}"))
    own_id = string_of(document.get("id")) or name
    return StoredSession(name=session_name(own_id, document.get("created_at")), info=info, records=records)


def is_message(record: object) -> bool:
    """Return whether a record of a legacy file is a message."""
    return isinstance(record, dict) and "role" in record and "content" in record


def legacy_session(first: JsonObject, records: Iterable[JsonRecord], name: str) -> StoredSession:
    """Return the session of a legacy file. Its first record says what it is about, unless it is a message."""
    info = {} if is_message(first) else first
    return StoredSession(name=name, info=object_of(info), records=_legacy_records(records))


def _legacy_records(records: Iterable[JsonRecord]) -> Iterator[Stored]:
    is_first = True
    for record in records:
        if isinstance(record, BadRecord):
            yield record
        elif is_message(record.value):
            yield stored_message(record.value)
        elif is_first:
            yield _session_record(record.value)
        else:
            yield OtherRecord("record", record.value, f"line:{record.line}:{record.offset}")
        is_first = is_first and isinstance(record, BadRecord)

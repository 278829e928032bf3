"""Logs in the form of the document "Coding Agent Session Structures": one JSON line for each semantic record.

Every record has `schema_version`, `seq`, `time` and `type`. What becomes what:
- `session_meta`: the title, folder, model and provider of the session, and its first entry, verbatim.
- `context`: a `context` entry with its sources. `user`: a prompt. `session_renamed`: a new title.
- `tool_started`: a reply with this one call, and its start. The document has no other record of a call, so that each is
  a reply of its own. `tool_finished`: the result.
- `reasoning_finished`: the thinking of the next reply, or verbatim if the turn ends before one. `assistant_finished`: a
  reply. `assistant_started` is kept verbatim; its model is that of the reply with the same `message_id`.
- `cancelled` and `failed`: the entries of these names. Records of other types are kept verbatim.
A `turn_id` is kept with the prompt that begins the turn, and elsewhere only if it is another one.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wakelog.exchange.chains import EntryChain, count_of, object_of, output_parts, text_of, tool_call, without
from wakelog.exchange.records import BadRecord, Record, SourceFile, json_records
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    ImportedItem,
    SessionOrigin,
    SkippedRecords,
    timestamp_of,
)
from wakelog.log.content import JsonObject, Prompt, Reply, Text, Thinking, ToolResult, ToolStatus, Usage
from wakelog.log.entry import (
    Cancelled,
    ContextEntry,
    Failed,
    FaultReport,
    InstructionSource,
    KnownBody,
    Message,
    SessionRenamed,
    ToolStarted,
)
from wakelog.log.timestamps import parse_ms

TOOL = "session-structures"
_ENVELOPE = ("schema_version", "seq", "time", "type", "turn_id")
_RENAMED_MARK = b"session_renamed"
_STATUSES: dict[str, ToolStatus] = {
    "ok": "ok",
    "completed": "ok",
    "success": "ok",
    "error": "error",
    "failed": "error",
    "cancelled": "interrupted",
    "interrupted": "interrupted",
    "skipped": "skipped",
    "denied": "denied",
    "unknown": "unknown",
}
_USAGE_FIELDS = ("input", "output", "cache_read", "cache_write")
_ENDS_OF_TURNS = ("cancelled", "failed", "user")
_SOURCE_FIELDS = ("kind", "path", "scope", "hash", "bytes", "truncated", "error")


def is_session_structures(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file are in this form: each has its version, number and type."""
    return bool(head) and all(
        isinstance(object_of(record).get("schema_version"), int)
        and isinstance(object_of(record).get("seq"), int)
        and isinstance(object_of(record).get("type"), str)
        for record in head
    )


def read_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the session of a file; nothing if no record in it can be read."""
    first = next((found.value for found in json_records(source.lines()) if isinstance(found, Record)), None)
    if first is None:
        return
    meta = first if first.get("type") == "session_meta" else {}
    session = _session_name(first)
    began = parse_ms(text_of(first.get("time")))
    yield ForeignSession(
        origin=SessionOrigin(tool=TOOL, id=session, path=source.path, version=str(first.get("schema_version", ""))),
        items=_RecordReader(session).read(source),
        started_ms=began if began is not None and 0 <= began < 1 << 48 else 0,
        agent=TOOL,
        cwd=text_of(meta.get("cwd")),
        title=_last_title(source, text_of(meta.get("title"))) or None,
        provider=_known(meta.get("provider")),
        model=_known(meta.get("model")),
    )


def _session_name(first: JsonObject) -> str:
    """Return the id of a session; one made of the first record if that has none."""
    own_id = _known(first.get("session_id"))
    return own_id or f"unnamed-{hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()[:16]}"


def _known(value: object) -> str | None:
    """Return a text; None if it is empty or left open, as in the document."""
    return text_of(value) if text_of(value).strip(". ") else None


def _last_title(source: SourceFile, title: str) -> str:
    lines = (line for line in source.lines() if line.raw is not None and _RENAMED_MARK in line.raw)
    for found in json_records(lines):
        match found:
            case Record(value={"type": "session_renamed", "title": str(renamed)}):
                title = renamed
    return title


class _RecordReader:
    """Turns the records of one session into entries."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._chain = EntryChain(TOOL, session)
        self._time = ""
        self._turn: object = None
        self._reasoning: list[tuple[JsonObject, str]] = []
        """Records of reasoning whose reply has not come yet, with their keys."""
        self._started: dict[str, JsonObject] = {}

    def read(self, source: SourceFile) -> Iterator[ImportedItem]:
        """Yield the entries of all records, and the bad ones."""
        for number, found in enumerate(json_records(source.lines())):
            if isinstance(found, BadRecord):
                yield found
                continue
            record = found.value
            self._time = timestamp_of(record.get("time"), self._time)
            seq = record.get("seq")
            key = f"{self._session}:{seq if isinstance(seq, int) else f'record {number}'}"
            yield from self._record(record, key)
        if self._reasoning:
            reason = "the reply that it belongs to is not in the log yet"
            yield SkippedRecords("reasoning_finished", len(self._reasoning), reason)

    def _record(self, record: JsonObject, key: str) -> Iterator[ImportedItem]:
        match record:
            case {"type": "reasoning_finished", "text": str()}:
                self._reasoning.append((record, key))
            case {"type": "tool_started", "call_id": str(call_id), "name": str(name)}:
                call = tool_call(call_id, name, record.get("input"))
                entry, *fields = self._reply(Reply(content=(*self._thinking, call)), key)
                yield entry
                started = ToolStarted(reply_id=entry.body.id, tool_call_id=call_id or "call", name=name)
                yield self._chain.add(started, f"{key}:started", self._time, parent=entry.body.id)
                yield from fields
                yield from self._fields(record, key, "call_id", "name", "input")
            case {"type": "assistant_finished"} if isinstance(record.get("text"), str | None):
                yield from self._reply(self._finished(record), key)
                known = ("message_id", "text", "usage", "model", "provider", "finish_reason", "request_id")
                left = {"usage": _usage_rest(record.get("usage"))}
                yield from self._fields(record, key, *known, left=left)
            case {"type": "assistant_started", "message_id": str(message)}:
                self._started[message] = record
                yield self._chain.verbatim("assistant_started", record, key, self._time)
            case _:
                yield from self._other(record, key)

    @property
    def _thinking(self) -> Iterator[Thinking]:
        """The thinking of the next reply."""
        return (Thinking(thinking=record["text"]) for record, _ in self._reasoning)

    def _other(self, record: JsonObject, key: str) -> Iterator[ImportedItem]:
        if record.get("type") in _ENDS_OF_TURNS:
            for reasoning, own_key in self._reasoning:
                yield self._chain.verbatim("reasoning_finished", reasoning, own_key, self._time)
            self._reasoning = []
        body, known = self._body(record)
        if body is None:
            yield self._chain.verbatim(record.get("type"), record, key, self._time)
            return
        if record["type"] == "user":
            self._turn = record.get("turn_id")
        yield self._chain.add(body, key, self._time, records=1)
        is_unknown = record["type"] == "tool_finished" and record.get("status") not in (None, *_STATUSES)
        yield from self._fields(record, key, *known, left={"status": record.get("status")} if is_unknown else {})

    def _body(self, record: JsonObject) -> tuple[KnownBody | None, tuple[str, ...]]:
        """Return the entry of a record and the fields in it; None if the record has to be kept as it is."""
        reason = text_of(record.get("reason"))
        match record:
            case {"type": "user", "text": str(text)}:
                return Message(message=Prompt(content=(Text(text=text),) if text else ())), ("text",)
            case {"type": "context", "sources": list(sources)} if all(map(_is_source, sources)):
                return ContextEntry(sources=tuple(map(_source, sources))), ("sources",)
            case {"type": "tool_finished", "call_id": str(call_id)}:
                return self._result(record, call_id), (
                    "call_id",
                    "status",
                    "duration_ms",
                    "output",
                    "error",
                    "truncated",
                )
            case {"type": "cancelled"}:
                return Cancelled(reason=reason or "cancelled"), ("reason",)
            case {"type": "failed"}:
                error = FaultReport(kind="provider", message=text_of(record.get("message")) or reason)
                return Failed(reason=reason or "error", error=error), ("reason", "message")
            case {"type": "session_renamed", "title": str(title)} if self._chain.tip is not None:
                return SessionRenamed(title=title), ("title",)
        return None, ()

    def _fields(
        self, record: JsonObject, key: str, *known: str, left: Mapping[str, Any] | None = None
    ) -> list[ImportedEntry]:
        """Return the fields of a record that are not known, and what is left of those that are."""
        rest = without(record, *_ENVELOPE, *known) | without(left or {})
        is_own_turn = record.get("turn_id") == self._turn and record.get("type") != "user"
        turn = {} if is_own_turn or record.get("turn_id") is None else {"turn_id": record["turn_id"]}
        return self._chain.fields({**turn, **rest}, key, self._time)

    def _reply(self, reply: Reply, key: str) -> list[ImportedEntry]:
        """Return the entry of a reply, which accounts for the reasoning before it, too, and other fields of that."""
        reasoning, self._reasoning = self._reasoning, []
        made = [self._chain.add(Message(message=reply), key, self._time, records=1 + len(reasoning))]
        for record, own_key in reasoning:
            made += self._fields(record, own_key, "text")
        return made

    def _finished(self, record: JsonObject) -> Reply:
        started = self._started.pop(text_of(record.get("message_id")), {})
        text = text_of(record.get("text"))
        return Reply(
            content=(*self._thinking, *((Text(text=text),) if text else ())),
            model=_known(record.get("model")) or _known(started.get("model")),
            provider=_known(record.get("provider")) or _known(started.get("provider")),
            stop_reason=_known(record.get("finish_reason")),
            usage=_usage(record.get("usage")),
            request_id=_known(record.get("request_id")),
        )

    def _result(self, record: JsonObject, call_id: str) -> KnownBody | None:
        call = self._chain.call(call_id)
        if call is None:
            return None
        status = _status(record)
        output = record.get("output")
        is_truncated = record.get("truncated") is True or object_of(output).get("truncated") is True
        result = ToolResult(
            content=(*output_parts(output), *output_parts(record.get("error"))),
            tool_call_id=call.call_id,
            tool_name=call.name,
            reply_id=call.reply_id,
            status=status,
            is_error=status not in ("ok", None),
            duration_ms=count_of(record.get("duration_ms")),
            truncated=is_truncated,
        )
        return Message(message=result)


def _status(record: JsonObject) -> ToolStatus | None:
    """Return how a tool run ended; None if the record does not say."""
    if record.get("status") is None:
        return "error" if record.get("error") else None
    return _STATUSES.get(text_of(record["status"]), "error")


def _is_source(source: Any) -> bool:
    """Return whether all fields of a source have a counterpart of their type."""
    if not isinstance(source, dict) or set(source) - set(_SOURCE_FIELDS):
        return False
    texts = all(isinstance(source.get(field, ""), str) for field in ("kind", "path", "scope", "hash"))
    has_size = count_of(source.get("bytes", 0)) is not None
    return texts and has_size and isinstance(source.get("truncated", False), bool) and _is_text(source.get("error"))


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _source(source: JsonObject) -> InstructionSource:
    return InstructionSource(
        kind=source.get("kind", ""),
        path=source.get("path", ""),
        scope=source.get("scope", ""),
        hash=source.get("hash", ""),
        bytes=count_of(source.get("bytes")) or 0,
        truncated=source.get("truncated", False),
        error=source.get("error"),
    )


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return Usage(
        input_tokens=count_of(usage.get("input")) or 0,
        output_tokens=count_of(usage.get("output")) or 0,
        cache_read_tokens=count_of(usage.get("cache_read")) or 0,
        cache_write_tokens=count_of(usage.get("cache_write")) or 0,
    )


def _usage_rest(usage: Any) -> Any:
    """Return what is left of a usage; None if that is nothing."""
    if not isinstance(usage, dict):
        return usage
    return {key: usage[key] for key in usage if key not in _USAGE_FIELDS or count_of(usage[key]) is None} or None

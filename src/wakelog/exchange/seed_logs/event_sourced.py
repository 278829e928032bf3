"""Logs in the form of the document "Session as Source of Truth: Event-Sourced Agent State": one JSON line an event.

Every event has `ts`, `type`, `id` and `payload`. What becomes what:
- `MESSAGE_RECEIVED`: a prompt. `LLM_CALLED` is kept verbatim; its model is that of the replies that follow. It does not
  become a `call` entry: wakelog would take the tool calls of the reply for its own, and could run them.
- `GEN_START`, `GEN_CHUNK`, `GEN_COMPLETE`: one reply. `TOOL_INVOKED` ends a reply with the text so far and the call,
  and is the start of the tool run; what is generated afterwards is the next reply. `TOOL_RESULT`: the result.
- The text of a generation that has not ended is a `partial` entry, which counts until its reply is there. A tool call
  behind the next message or model call does not belong to it.
- `GEN_RESUMED`: the text so far as `partial`, and `resumed`. `GEN_SENT`: `sent`.
- `TOOL_FAILED_UNCERTAIN`: a result with the status `unknown`. Events of other types are kept verbatim; so is
  `SESSION_TERMINATED`, because a terminated session takes no more events.
A log does not name its session: it is identified by its first event, unless events have a `session_id`. Events of other
sessions than the first are kept verbatim.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from wakelog.exchange.chains import EntryChain, count_of, object_of, output_parts, text_of, tool_call, without
from wakelog.exchange.records import BadRecord, Record, SourceFile, json_records
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    ImportedItem,
    SessionOrigin,
    SkippedRecords,
    entry_id,
    timestamp_of,
)
from wakelog.log.content import AnyPart, JsonObject, Prompt, Reply, Text, ToolResult
from wakelog.log.entry import Message, Partial, Resumed, Sent, ToolStarted
from wakelog.log.timestamps import parse_ms

TOOL = "event-sourced-session"
_TYPES = frozenset(
    (
        "MESSAGE_RECEIVED",
        "LLM_CALLED",
        "GEN_START",
        "GEN_CHUNK",
        "GEN_COMPLETE",
        "GEN_SENT",
        "GEN_RESUMED",
        "TOOL_INVOKED",
        "TOOL_RESULT",
        "TOOL_FAILED_UNCERTAIN",
        "SESSION_TERMINATED",
    )
)
_ENVELOPE = ("ts", "type", "id", "payload", "session_id")


def is_event_sourced(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file are events of this form."""
    first = object_of(head[0]) if head else {}
    return text_of(first.get("type")) in _TYPES and isinstance(first.get("payload"), dict)


def read_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the session of a file; nothing if no event in it can be read."""
    first = next((found.value for found in json_records(source.lines()) if isinstance(found, Record)), None)
    if first is None:
        return
    unnamed = f"unnamed-{hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()[:16]}"
    session = text_of(first.get("session_id")) or unnamed
    began = parse_ms(text_of(first.get("ts")))
    yield ForeignSession(
        origin=SessionOrigin(tool=TOOL, id=session, path=source.path),
        items=_EventReader(session).read(source),
        started_ms=began if began is not None and 0 <= began < 1 << 48 else 0,
        agent=TOOL,
    )


class _Generation(msgspec.Struct):
    """A generation: its text since its last reply, and the events that no entry accounts for yet."""

    message: str
    parent: str | None
    pieces: list[str] = []
    chunks: int = 0
    events: int = 0
    replies: int = 0
    fields: JsonObject = {}

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)


class _EventReader:
    """Turns the events of one session into entries."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._chain = EntryChain(TOOL, session)
        self._time = ""
        self._model: str | None = None
        self._generations: dict[str, _Generation] = {}
        self._current = ""
        """The generation that a tool call belongs to; empty if none is going on."""
        self._own = ""
        """The `session_id` of the events of this session."""
        self._sent_as: dict[str, str] = {}

    def read(self, source: SourceFile) -> Iterator[ImportedItem]:
        """Yield the entries of all events, and the bad ones."""
        for number, found in enumerate(json_records(source.lines())):
            if isinstance(found, BadRecord):
                yield found
                continue
            event = found.value
            self._time = timestamp_of(event.get("ts"), self._time)
            key = f"{self._session}:{text_of(event.get('id')) or f'event {number}'}"
            made = self._event(event, object_of(event.get("payload")), key)
            yield from [self._chain.verbatim(event.get("type"), event, key, self._time)] if made is None else made
        for generation in self._generations.values():
            yield from self._unfinished(generation)

    def _event(self, event: JsonObject, payload: JsonObject, key: str) -> list[ImportedItem] | None:
        """Return the entries of an event; None if it has to be kept as it is."""
        session = text_of(event.get("session_id"))
        self._own = self._own or session
        if session not in ("", self._own):
            return None
        if event.get("type") in ("MESSAGE_RECEIVED", "LLM_CALLED"):
            self._current = ""
        match event.get("type"):
            case "MESSAGE_RECEIVED" if payload.get("role", "user") == "user" and isinstance(payload.get("text"), str):
                prompt = Prompt(content=(Text(text=payload["text"]),) if payload["text"] else ())
                entry = self._chain.add(Message(message=prompt), key, self._time, records=1)
                return [entry, *self._fields(event, payload, key, "role", "text")]
            case "LLM_CALLED":
                self._model = text_of(payload.get("model")) or self._model
                return None
            case "TOOL_INVOKED" if isinstance(payload.get("call_id"), str) and isinstance(payload.get("name"), str):
                return self._invoked(event, payload, key)
            case "TOOL_RESULT" | "TOOL_FAILED_UNCERTAIN":
                return self._result(event, payload, key)
            case "GEN_START" | "GEN_CHUNK" | "GEN_COMPLETE" | "GEN_SENT" | "GEN_RESUMED":
                message = payload.get("msg_id")
                return self._generated(event, payload, key, message) if isinstance(message, str) else None
        return None

    def _fields(self, event: JsonObject, payload: JsonObject, key: str, *known: str) -> list[ImportedEntry]:
        rest = without(payload, *known) | without(event, *_ENVELOPE)
        return self._chain.fields(rest, key, self._time)

    # ── generations ──────────────────────────────────────────────────────────────────────────────

    def _generated(self, event: JsonObject, payload: JsonObject, key: str, message: str) -> list[ImportedItem] | None:
        kind = event["type"]
        if kind == "GEN_SENT":
            return self._sent(event, payload, key, message)
        generation = self._generations.get(message)
        if kind == "GEN_RESUMED":
            self._current = message
            return self._resumed(event, payload, key, generation)
        if kind == "GEN_CHUNK" and not isinstance(payload.get("delta"), str):
            return None
        if generation is None:
            generation = self._generations[message] = _Generation(message, self._chain.tip, pieces=[], fields={})
        self._current = message if kind != "GEN_COMPLETE" else self._current
        generation.events += 1
        if kind == "GEN_CHUNK":
            generation.parent = generation.parent if generation.pieces else self._chain.tip
            generation.pieces.append(payload["delta"])
            generation.chunks += 1
            return []
        if kind == "GEN_START":
            generation.fields = without(payload) | without(event, *_ENVELOPE)
            return []
        reason = text_of(payload.get("reason")) or None
        entry = self._reply(generation, (), reason)
        del self._generations[message]
        self._sent_as[message] = entry.body.id
        fields = generation.fields or {"msg_id": message}
        rest = without(payload, "msg_id", "reason") | without(event, *_ENVELOPE)
        return [entry, *self._chain.fields({**fields, **rest}, key, self._time)]

    def _reply_key(self, generation: _Generation) -> str:
        number = f":{generation.replies}" if generation.replies else ""
        return f"{self._session}:reply:{generation.message}{number}"

    def _reply(self, generation: _Generation, calls: tuple[AnyPart, ...], reason: str | None) -> ImportedEntry:
        """Return the reply that a generation has made since its last one. It accounts for the events of it."""
        text = generation.text
        reply = Reply(content=(*((Text(text=text),) if text else ()), *calls), model=self._model, stop_reason=reason)
        records, key = generation.events, self._reply_key(generation)
        generation.pieces, generation.events = [], 0
        generation.replies += 1
        return self._chain.add(Message(message=reply), key, self._time, records=records)

    def _partial(self, generation: _Generation) -> ImportedEntry:
        """Return the text so far. Before the first node, where no annotation can be, it is kept verbatim."""
        key = self._reply_key(generation)
        records, generation.events = generation.events, 0
        own_key = f"{key}:partial:{generation.chunks}"
        if generation.parent is None:
            data = {"msg_id": generation.message, "text": generation.text}
            return self._chain.verbatim("partial", data, own_key, self._time, records=records)
        body = Partial(reply_id=entry_id(TOOL, key), content=(Text(text=generation.text),))
        return self._chain.add(body, own_key, self._time, records=records, parent=generation.parent)

    def _unfinished(self, generation: _Generation) -> Iterator[ImportedItem]:
        if generation.pieces and generation.events:
            yield self._partial(generation)
        elif generation.events:
            yield SkippedRecords("GEN_START", generation.events, "nothing was generated yet")

    def _resumed(
        self, event: JsonObject, payload: JsonObject, key: str, generation: _Generation | None
    ) -> list[ImportedItem] | None:
        strategy = payload.get("strategy")
        if generation is None or generation.parent is None or strategy not in ("resume", "replace"):
            return None
        made: list[ImportedItem] = [self._partial(generation)] if generation.pieces else []
        body = Resumed(
            reply_id=entry_id(TOOL, self._reply_key(generation)),
            strategy="resume" if strategy == "resume" else "replace",
            prior_chars=len(generation.text),
        )
        made.append(self._chain.add(body, key, self._time, records=1, parent=generation.parent))
        if strategy == "replace":
            generation.pieces = []
        is_last = payload.get("prior_seq") == generation.chunks - 1
        known = ("msg_id", "strategy", *(("prior_seq",) if is_last else ()))
        return [*made, *self._fields(event, payload, key, *known)]

    def _sent(self, event: JsonObject, payload: JsonObject, key: str, message: str) -> list[ImportedItem] | None:
        reply = self._sent_as.get(message)
        if reply is None:
            return None
        sent = Sent(reply_id=reply, channel=text_of(payload.get("channel")))
        entry = self._chain.add(sent, key, self._time, records=1, parent=reply)
        return [entry, *self._fields(event, payload, key, "msg_id", "channel")]

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def _invoked(self, event: JsonObject, payload: JsonObject, key: str) -> list[ImportedItem]:
        """Return a reply with the text generated so far and the call, and the start of the tool run."""
        call = tool_call(payload["call_id"], payload["name"], payload.get("args"))
        generation = self._generations.get(self._current)
        if generation is not None:
            generation.events += 1
            reply = self._reply(generation, (call,), None)
        else:
            body = Message(message=Reply(content=(call,), model=self._model))
            reply = self._chain.add(body, key, self._time, records=1)
        started = ToolStarted(reply_id=reply.body.id, tool_call_id=call.id or "call", name=call.name)
        entry = self._chain.add(started, f"{key}:started", self._time, parent=reply.body.id)
        return [reply, entry, *self._fields(event, payload, key, "call_id", "name", "args")]

    def _result(self, event: JsonObject, payload: JsonObject, key: str) -> list[ImportedItem] | None:
        """Return the result of a call. Output that is elsewhere is named by its reference."""
        call = self._chain.call(payload.get("call_id"))
        if call is None:
            return None
        is_unknown = event["type"] == "TOOL_FAILED_UNCERTAIN"
        is_error = is_unknown or payload.get("ok") is False
        rest = without(payload, "call_id", "ok", "duration_ms")
        output = rest["data"] if set(rest) == {"data"} else rest or None
        result = ToolResult(
            content=output_parts(output),
            tool_call_id=call.call_id,
            tool_name=call.name,
            reply_id=call.reply_id,
            status="unknown" if is_unknown else "error" if is_error else "ok",
            is_error=is_error,
            duration_ms=count_of(payload.get("duration_ms")),
            truncated="data_ref" in rest,
        )
        entry = self._chain.add(Message(message=result), key, self._time, records=1)
        return [entry, *self._fields(event, {}, key)]

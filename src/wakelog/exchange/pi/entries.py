"""The tree of a pi session as entries of wakelog, record by record. OpenClaw stores the same records.

Rule 1: a record goes where pi puts it: under the record that `parentId` names, else (version 1, and records without an
id) behind the record before it. A parent that is not in the file is bridged in the same way. Each place that differs
from the head is set by a `head` entry, because pi continues a session at its last record.
Rule 2: an entry depends only on records up to its own, so a file that has grown gives the same entries again.
Rule 3: the id of an entry comes from the record's own id and time, which copies in forks keep. Records without an id
(version 1) are identified by their content, and equal ones are numbered. If pi itself migrates such a file, it gives
its records new, random ids, and they are imported as new ones.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from wakelog.exchange.chains import without
from wakelog.exchange.pi.messages import (
    count_field,
    foreign_call_ids,
    has_content,
    left_over,
    parts_of,
    reply_of,
    text_field,
    usage_of,
    usage_rest,
)
from wakelog.exchange.pi.written_messages import api_of
from wakelog.exchange.sessions import ImportedEntry, entry_id, timestamp_of
from wakelog.log.content import JsonObject, Note, Prompt, Reply, Text, ToolResult, Usage
from wakelog.log.entry import (
    Annotation,
    Cancelled,
    Compaction,
    Custom,
    Failed,
    FaultReport,
    Head,
    KnownBody,
    Label,
    Message,
    ModelChange,
    Partial,
    SessionRenamed,
    Setting,
    Spawned,
)

_ENVELOPE = frozenset(("type", "id", "parentId", "timestamp"))
_STEPS_MAX = 1_000
"""Nodes that are searched upwards for a call, or for a kept entry; both are near."""
_RECENT_MAX = 10_000
"""Messages among which the first one of a retained tail is searched."""
_COMMAND = "A command that the user ran:\n"
_BRANCH = "Summary of a branch of this conversation that was left:\n"
_TAIL = "Messages that were kept:\n"


class _Call(msgspec.Struct, frozen=True):
    """A tool call that a result may name: its reply, and its id there."""

    reply_id: str
    call_id: str


class EntryReader:
    """Turns the records of one session into entries. Keeps ids, and no records.

    `find_child` returns the session that a tool result says it started.
    """

    def __init__(
        self, tool: str, session: str, *, find_child: Callable[[Mapping[str, Any]], str | None] | None = None
    ) -> None:
        self._tool = tool
        self._session = session
        self._find_child = find_child
        self._records = 0
        self._time = ""
        self._root = self._head = ""
        # The record at the head. What has no id of its own goes behind it, and its children go behind that.
        self._leaf: str | None = None
        self._entries: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        self._order: list[str] = []
        self._is_first_version = False
        self._contents: Counter[bytes] = Counter()
        self._calls: dict[str, dict[str, list[_Call]]] = {}
        # The call that a result answers, and the nearest reply or result at or above a node.
        self._answers: dict[str, _Call] = {}
        self._anchors: dict[str, str] = {}
        self._sent: dict[tuple[str, int], str] = {}

    def read(self, record: JsonObject, default_time: object = None) -> Iterator[ImportedEntry]:
        """Yield the entries of the next record; `default_time` is used if it has no time itself."""
        self._time = timestamp_of(record.get("timestamp"), self._default_time(record, default_time))
        own_id = self._own_id(record)
        key = self._own_key(record, own_id) if own_id is not None else self._key(record)
        place = self._place(record)
        bodies = self._mapped(record, place)
        is_verbatim = bodies is None
        if bodies is None:
            bodies = [Custom(custom_type=f"{self._tool}:{self._kind(record)}", data=record)]
        is_side = record.get("appendMode") == "side" and not isinstance(bodies[0], Head)
        before = self._head
        stamped: list[KnownBody] = []
        if place != before and not is_side and not isinstance(bodies[0], Head):
            stamped.append(self._stamp(Head(target_id=place), f"{key}:head", place))
        first = len(stamped)
        parent = place
        for number, body in enumerate(bodies):
            stamped.append(self._stamp(body, key if number == 0 else f"{key}:{number}", parent))
            if not isinstance(body, Annotation):
                self._add_node(stamped[-1], parent)
                parent = stamped[-1].id
        moved = self._target(stamped[-1])
        if is_side and parent != place and before:
            stamped.append(self._stamp(Head(target_id=before), f"{key}:side", before))
        self._remember(record, stamped[first], moved or parent, is_side=is_side)
        for number, body in enumerate(stamped):
            yield ImportedEntry(body, records=int(number == first), is_verbatim=is_verbatim and number == first)

    def _add_node(self, body: KnownBody, parent: str) -> None:
        self._parents[body.id] = parent
        is_anchor = isinstance(body, Message) and isinstance(body.message, Reply | ToolResult)
        if (anchor := body.id if is_anchor else self._anchors.get(parent)) is not None:
            self._anchors[body.id] = anchor
        match body:
            case Message(message=ToolResult(reply_id=str(reply_id), tool_call_id=call_id)):
                self._answers[body.id] = _Call(reply_id, call_id)

    # ── ids and places ───────────────────────────────────────────────────────────────────────────

    def _default_time(self, record: Mapping[str, Any], default: object) -> str:
        message = record.get("message")
        inner = message.get("timestamp") if isinstance(message, dict) else None
        return timestamp_of(inner, timestamp_of(default, self._time))

    def _own_id(self, record: Mapping[str, Any]) -> str | None:
        """Return the id of a record; None if it has none, or one that an earlier record has."""
        own_id = text_field(record, "id")
        is_taken = own_id in self._entries or own_id in self._places or record.get("type") == "session"
        return None if not own_id or is_taken else own_id

    def _own_key(self, record: Mapping[str, Any], own_id: str) -> str:
        """Return what identifies a record by its id, which is too short to be unique without the time."""
        time = record.get("timestamp")
        return f"{own_id}:{time}" if isinstance(time, str | int | float) else f"{self._session}:{own_id}"

    def _key(self, record: Mapping[str, Any]) -> str:
        """Return what identifies a record without an id of its own."""
        if record.get("type") == "session" and self._records == 0:
            return f"{self._session}:session"
        if text_field(record, "id"):
            return f"{self._session}:{self._records}"
        content = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).digest()[:16]
        self._contents[content] += 1
        return f"{content.hex()}:{self._contents[content]}"

    def _kind(self, record: Mapping[str, Any]) -> str:
        kind = text_field(record, "type") or "record"
        message = record.get("message")
        role = text_field(message, "role") if isinstance(message, dict) else None
        return role if kind == "message" and role else kind

    def _place(self, record: Mapping[str, Any]) -> str:
        """Return the node that a record goes under."""
        if "parentId" not in record or not self._head:
            return self._head
        parent = record["parentId"]
        if parent is None or parent == self._session:
            return self._root
        return self._node(parent) or self._head

    def _node(self, foreign_id: object) -> str | None:
        """Return the node that stands for a record: the last of its entries, or what an annotation is about."""
        if not isinstance(foreign_id, str):
            return None
        return self._places.get(foreign_id) or self._entries.get(foreign_id)

    def _stamp(self, body: KnownBody, key: str, parent: str) -> KnownBody:
        if isinstance(body, Label | Head):
            parent = body.target_id
        elif isinstance(body, Spawned):
            parent = body.reply_id
        elif isinstance(body, Partial) and not body.reply_id:
            body = msgspec.structs.replace(body, reply_id=parent)
        stamp = entry_id(self._tool, key)
        return msgspec.structs.replace(body, id=stamp, parent_id=parent or None, timestamp=self._time)

    def _target(self, body: KnownBody) -> str | None:
        return body.target_id if isinstance(body, Head) else None

    def _remember(self, record: JsonObject, first: KnownBody, place: str, *, is_side: bool) -> None:
        if self._records == 0:
            version = count_field(record, "version")
            self._is_first_version = version is None or version < 2
        self._records += 1
        is_node = not isinstance(first, Annotation)
        if self._is_first_version:
            self._order.append(first.id if is_node else place)
        foreign_id = text_field(record, "id") if record.get("type") != "session" else None
        if foreign_id:
            if is_node:
                self._entries[foreign_id] = first.id
            self._places.pop(foreign_id, None)
            if place != self._entries.get(foreign_id):
                self._places[foreign_id] = place
            self._leaf = self._leaf if is_side else foreign_id
        elif not is_side:
            self._move_on(place)
        self._root = self._root or place
        self._head = self._head if is_side else place
        self._remember_message(record, first)

    def _move_on(self, place: str) -> None:
        """Let what follows the record at the head follow a record without an id instead."""
        if self._leaf is not None:
            self._places[self._leaf] = place
        elif self._head == self._root:
            self._root = place

    def _remember_message(self, record: Mapping[str, Any], entry: KnownBody) -> None:
        message = record.get("message")
        if not isinstance(entry, Message) or not isinstance(message, dict):
            return
        if isinstance(entry.message, Reply):
            for foreign_id, call in zip(foreign_call_ids(message), entry.message.tool_calls, strict=True):
                self._calls.setdefault(foreign_id, {}).setdefault(entry.id, []).append(_Call(entry.id, call.id))
        if (time := count_field(message, "timestamp")) is not None:
            self._sent[str(message.get("role")), time] = entry.id
            if len(self._sent) > _RECENT_MAX:
                del self._sent[next(iter(self._sent))]

    def _path(self, node: str) -> Iterator[str]:
        """Yield a node and those above it, at most `_STEPS_MAX`."""
        for _ in range(_STEPS_MAX):
            yield node
            if not (node := self._parents.get(node, "")):
                return

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    def _mapped(self, record: JsonObject, place: str) -> list[KnownBody] | None:
        """Return what a record means, without envelopes; None if it has to be kept as it is."""
        match record:
            case {"type": "message", "message": dict(message)}:
                return self._message(record, message, place)
            case {"type": "model_change", "modelId": str(model)}:
                change = ModelChange(model=model, provider=text_field(record, "provider"))
                return [change, *self._rest(record, ("modelId", "provider"))]
            case {"type": "thinking_level_change", "thinkingLevel": str(level)}:
                return [Setting(key="thinkingLevel", value=level), *self._rest(record, ("thinkingLevel",))]
            case {"type": "compaction", "summary": str(summary)}:
                return self._compaction(record, summary, place)
            case {"type": "reset"}:
                kept = self._first_kept(record, place)
                return [Compaction(summary="", first_kept_entry_id=kept, trigger="reset"), *self._rest(record, ())]
            case {"type": "branch_summary", "summary": str(summary)}:
                return self._summary(summary, {key: record[key] for key in record if key not in _ENVELOPE})
            case {"type": "custom", "customType": str(kind)}:
                custom = Custom(custom_type=f"{self._tool}:custom:{kind}", data=record.get("data"))
                return [custom, *self._rest(record, ("customType", "data"))]
            case {"type": "custom_message", "customType": str()} if has_content(record):
                inner = {key: record[key] for key in record if key not in _ENVELOPE}
                return self._note({**inner, "role": "custom"}, {})
        return self._annotation(record)

    def _annotation(self, record: JsonObject) -> list[KnownBody] | None:
        """Return what a record says about others: pi has labels, titles and moves of the head in its tree."""
        if not self._head:
            return None
        match record:
            case {"type": "label", "targetId": target} if (node := self._node(target)) is not None:
                label, rest = record.get("label"), self._rest(record, ("targetId", "label"))
                return [Label(target_id=node, label=label or ""), *rest] if isinstance(label, str | None) else None
            case {"type": "session_info"} if isinstance(record.get("name"), str | None):
                title = (record.get("name") or "").strip()
                return [SessionRenamed(title=title), *self._rest(record, ("name",))]
            case {"type": "leaf", "targetId": str() | None as target}:
                place = self._root if target is None else self._node(target)
                return [*self._rest(record, ("targetId",)), Head(target_id=place)] if place is not None else None
        return None

    def _rest(self, record: Mapping[str, Any], known: tuple[str, ...]) -> list[KnownBody]:
        """Return the fields of a record without a counterpart, as an entry behind it."""
        return self._kept(without(record, *_ENVELOPE, *known))

    def _kept(self, rest: JsonObject) -> list[KnownBody]:
        return [Custom(custom_type=f"{self._tool}:fields", data=rest)] if rest else []

    def _spent(self, usage: Usage | None, reply_id: str, call_id: str) -> list[KnownBody]:
        """Return the usage of a model call that no reply stands for: a tool made it, or it summed up a branch."""
        return [Partial(reply_id=reply_id, tool_call_id=call_id, usage=usage)] if usage is not None else []

    def _compaction(self, record: JsonObject, summary: str, place: str) -> list[KnownBody]:
        kept = self._first_kept(record, place)
        compaction = Compaction(
            summary=summary,
            first_kept_entry_id=kept,
            tokens_before=count_field(record, "tokensBefore"),
            tokens_after=count_field(record, "tokensAfter"),
            trigger="hook" if record.get("fromHook") is True else "imported",
            usage=usage_of(record.get("usage")),
        )
        known = ("summary", "firstKeptEntryId", "firstKeptEntryIndex", "tokensBefore", "tokensAfter", "fromHook")
        rest = self._kept({**without(record, *_ENVELOPE, *known, "usage"), **usage_rest(record)})
        tail = record.get("retainedTail")
        if kept is None and isinstance(tail, list) and tail:
            # The messages are nowhere else: the model goes on seeing their text.
            text = "\n".join(_shown_message(message) for message in tail)
            data = rest[0].data if isinstance(rest[0], Custom) else None
            fields = Custom(custom_type=f"{self._tool}:fields", data=data, in_context=True, content=_TAIL + text)
            return [compaction, fields]
        return [compaction, *rest]

    def _first_kept(self, record: Mapping[str, Any], place: str) -> str | None:
        """Return the first entry that a compaction keeps."""
        kept, index = record.get("firstKeptEntryId"), count_field(record, "firstKeptEntryIndex")
        if isinstance(kept, str) and kept in self._entries:
            return self._entries[kept]
        if (node := self._node(kept)) is not None:
            # A label or a title: the first node behind it is kept.
            path = list(self._path(place))
            return path[path.index(node) - 1] if node in path[1:] else None if node == place else node
        if index is not None and self._is_first_version and index < len(self._order):
            return self._order[index]
        match record.get("retainedTail"):
            case [{"role": str(role), "timestamp": int(time)}, *_]:
                return self._sent.get((role, time))
        return None

    def _summary(self, summary: str, rest: JsonObject) -> list[KnownBody]:
        data = {key: value for key, value in rest.items() if key not in ("role", "summary")}
        content = (Text(text=_BRANCH), Text(text=summary)) if summary else ()
        kind = f"{self._tool}:branch_summary"
        custom = Custom(custom_type=kind, data=data, in_context=bool(summary), content=content)
        return [custom, *self._spent(usage_of(rest.get("usage")), "", "branch_summary")]

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message(self, record: JsonObject, message: JsonObject, place: str) -> list[KnownBody] | None:
        if not has_content(message):
            return None
        beside = without(record, *_ENVELOPE, "message")
        match message:
            case {"role": "user"}:
                return self._prompt(message, beside)
            case {"role": "assistant"}:
                return self._reply(message, beside)
            case {"role": "toolResult", "toolCallId": str(call_id)}:
                return self._result(message, beside, call_id, place)
            case {"role": "custom" | "hookMessage"}:
                return self._note(message, beside)
            case {"role": "bashExecution", "command": str(command)}:
                return [self._command(message, command), *self._kept({"record": beside} if beside else {})]
            case {"role": "branchSummary", "summary": str(summary)}:
                return [*self._summary(summary, message), *self._kept({"record": beside} if beside else {})]
        return None

    def _fields(self, message: Mapping[str, Any], beside: JsonObject, **more: Any) -> list[KnownBody]:
        """Return the fields of a message without a counterpart, and those beside the message in its record."""
        return self._kept({**left_over(message), **more, **({"record": beside} if beside else {})})

    def _prompt(self, message: JsonObject, beside: JsonObject) -> list[KnownBody]:
        """Return a prompt; what OpenClaw or another session sent in that role is a note."""
        content = parts_of(message.get("content"))
        origin = message.get("provenance")
        kind = text_field(origin, "kind") if isinstance(origin, dict) else None
        if kind is not None and kind != "external_user":
            note = Note(content=content, custom_type=f"{self._tool}:{kind}")
            return [Message(message=note), *self._fields(message, beside)]
        return [Message(message=Prompt(content=content)), *self._fields(message, beside)]

    def _note(self, message: JsonObject, beside: JsonObject) -> list[KnownBody]:
        kind = text_field(message, "customType") or "message"
        note = Note(content=parts_of(message.get("content")), custom_type=f"{self._tool}:{kind}")
        return [Message(message=note), *self._fields(message, beside)]

    def _reply(self, message: JsonObject, beside: JsonObject) -> list[KnownBody]:
        """Return a reply. What ended it early is an entry behind it."""
        reply = reply_of(message)
        error = text_field(message, "errorMessage") or ""
        bodies: list[KnownBody] = [Message(message=reply)]
        if reply.stop_reason == "aborted":
            bodies.append(Cancelled(reason=error or "aborted"))
        elif reply.stop_reason == "error" or error:
            bodies.append(Failed(reason="error", error=FaultReport(kind="provider", message=error)))
        api = text_field(message, "api")
        more = {"api": api} if api is not None and api != api_of(reply) else {}
        return [*bodies, *self._fields(message, beside, **more)]

    def _result(self, message: JsonObject, beside: JsonObject, call_id: str, place: str) -> list[KnownBody] | None:
        call = self._call(call_id, place)
        if call is None:
            return None
        is_error = message.get("isError") is True
        details = message.get("details")
        result = ToolResult(
            content=parts_of(message.get("content")),
            tool_call_id=call.call_id,
            tool_name=text_field(message, "toolName") or "",
            reply_id=call.reply_id,
            status="error" if is_error else "ok",
            is_error=is_error,
            duration_ms=count_field(details, "durationMs") if isinstance(details, dict) else None,
        )
        child = self._find_child(message) if self._find_child is not None else None
        spawned: list[KnownBody] = (
            [Spawned(child_session=child, reply_id=call.reply_id, tool_call_id=call.call_id)] if child else []
        )
        spent = self._spent(usage_of(message.get("usage")), call.reply_id, call.call_id)
        return [Message(message=result), *self._fields(message, beside), *spent, *spawned]

    def _call(self, call_id: str, place: str) -> _Call | None:
        """Return the call that a result at a place answers: ids repeat, so one of the nearest reply above it.

        None if there is none on the way up to the root, or if all of them have a result on this way.
        """
        by_reply = self._calls.get(call_id)
        if not by_reply:
            return None
        answered: set[_Call] = set()
        node = self._anchors.get(place)
        for _ in range(_STEPS_MAX):
            if node is None:
                return None
            if node in by_reply:
                return next((call for call in by_reply[node] if call not in answered), None)
            if node in self._answers:
                answered.add(self._answers[node])
            node = self._anchors.get(self._parents[node])
        return None

    def _command(self, message: JsonObject, command: str) -> KnownBody:
        """Return a command that a person ran. The output is a part of its own, the rest is in `data`."""
        output, code = text_field(message, "output"), message.get("exitCode")
        data = {key: value for key, value in message.items() if key != "output" or output is None}
        end = "(cancelled)" if message.get("cancelled") is True else f"(exit code {code})" if code else ""
        texts = (f"{_COMMAND}$ {command}\n", output or "(no output)\n", end)
        return Custom(
            custom_type=f"{self._tool}:bashExecution",
            data=data,
            in_context=message.get("excludeFromContext") is not True,
            content=tuple(Text(text=text) for text in texts if text),
        )


def _shown_message(message: Any) -> str:
    if not isinstance(message, dict):
        return ""
    content = message.get("content")
    text = "".join(part.text for part in parts_of(content) if isinstance(part, Text))
    return f"{message.get('role')}: {text}"

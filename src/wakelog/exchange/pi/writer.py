"""Write a session as a file of pi (version 3), with its whole tree.

Rule 1: a node becomes a record, below the record of its parent. Records that were imported from pi become what they
were: fields that have no counterpart go back into their record, verbatim records are written with new ids.
Rule 2: pi continues a session at its last record. Labels and the title, which pi keeps in its tree, come last, behind
the head; without them the record of the head is the last one.
Rule 3: the model is shown what wakelog shows it. What pi has no record for is kept as data of an extension (`custom`),
which pi stores and the model does not see; what the model does see becomes a message. Both are counted as losses.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from wakelog.exchange.pi.written_messages import (
    api_of,
    pi_provider,
    plain_parts,
    reply_message,
    usage_fields,
    written_call_id,
)
from wakelog.exchange.writing import (
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
    written_uuid,
)
from wakelog.log.content import JsonObject, Note, Prompt, Reply, Text, ToolResult
from wakelog.log.entry import Cancelled, Compaction, ContextEntry, Custom, Failed, Message, ModelChange, Setting
from wakelog.log.timestamps import iso_timestamp, parse_ms

TOOL = "pi"
VERSION = 3
_OWN = f"{TOOL}:"
_LEVELS = frozenset(("off", "minimal", "low", "medium", "high", "xhigh", "max"))
_ENVELOPE = ("type", "id", "parentId", "timestamp")
_HEADER_FIELDS = frozenset(("type", "version", "id", "timestamp", "cwd", "provider", "modelId", "thinkingLevel"))
_NAME_BYTES_MAX = 200
_IMPORT_TYPE = "wakelog:import"
_NO_OUTPUT = "(no output)\n"
_AS_DATA = "pi has no such entry: kept as data of an extension"
# By (reply, call): the ids in pi of the calls that a result may follow.
_OpenCalls = Mapping[tuple[str, str], str]


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return a session as a file of pi, and the command that continues it."""
    losses = Losses()
    tree = _TreeWriter(session, losses)
    written_id = written_uuid(TOOL, session.session, session.head)
    records = [tree.header(written_id), *tree.records()]
    return WrittenSession(
        tool=TOOL,
        id=written_id,
        files=(WrittenFile(_path(session, written_id), b"".join(map(_line, records))),),
        losses=tuple(losses),
        resume=("pi", "--session", "{file}"),
        model_option="--model",
        without_folder="pi refuses to continue the session",
    )


def _path(session: SessionToWrite, written_id: str) -> str:
    """Return where pi looks for a session: in a folder that is named by the working directory."""
    folder = re.sub(r"[/\\:\0]", "-", re.sub(r"^[/\\]", "", session.cwd))
    if len(folder.encode()) > _NAME_BYTES_MAX:
        # No file system takes such a name. The session is found by its path only.
        folder = folder.encode()[:_NAME_BYTES_MAX].decode(errors="ignore")
    time = re.sub(r"[:.]", "-", iso_timestamp(session.started_ms))
    return f"sessions/--{folder}--/{time}_{written_id}.jsonl"


def _line(record: JsonObject) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    # pi lists sessions with a reader that takes these two for ends of lines.
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode() + b"\n"


class _TreeWriter:
    """The records of one session."""

    def __init__(self, session: SessionToWrite, losses: Losses) -> None:
        self._session = session
        self._losses = losses
        headers = (_own_record(node, "session") for node in session.nodes)
        self._own_header = next((header for header in headers if header is not None), None)
        self._is_own = self._own_header is not None
        self._records: list[JsonObject] = []
        self._ids: set[str] = set()
        self._nodes: dict[str, WrittenNode] = {}
        # The record that children of a node go under, and the record that a node has become.
        self._places: dict[str, JsonObject] = {}
        self._made: dict[str, JsonObject] = {}
        self._merged: dict[str, JsonObject] = {}
        self._open: dict[str, _OpenCalls] = {}

    def header(self, written_id: str) -> JsonObject:
        """Return the first record."""
        session = self._session
        origin = self._own_header or {}
        rest = {key: value for key, value in origin.items() if key not in _HEADER_FIELDS}
        if "branchedFrom" in rest:
            rest.setdefault("parentSession", rest.pop("branchedFrom"))
        time = iso_timestamp(session.started_ms)
        return {"type": "session", "version": VERSION, "id": written_id, "timestamp": time, "cwd": session.cwd, **rest}

    def records(self) -> list[JsonObject]:
        """Return the other records; the last one is the head, or follows it."""
        for node in self._session.nodes:
            self._add(node)
        head = self._places.get(self._session.head)
        behind = [*self._labels(), *self._title()]
        if behind:
            for fields in behind:
                head = self._append(fields, head, f"{fields['type']}:{fields.get('targetId')}", self._last_time())
        elif self._records and self._records[-1] is not head and self._session.head:
            self._end_at(head)
        return self._records

    def _end_at(self, head: JsonObject | None) -> None:
        """Let the last record be the head; if others follow it, or if the head is the root, a mark below it."""
        if head is None or any(record["parentId"] == head["id"] for record in self._records):
            self._append({"type": "custom", "customType": "wakelog:head"}, head, "head", self._last_time())
        else:
            self._records.remove(head)
            self._records.append(head)

    def _last_time(self) -> str:
        return str(self._records[-1]["timestamp"]) if self._records else iso_timestamp(self._session.started_ms)

    def _labels(self) -> Iterator[JsonObject]:
        for target, label in self._session.labels.items():
            if (record := self._made.get(target, self._merged.get(target))) is not None:
                yield {"type": "label", "targetId": record["id"], "label": label}
            else:
                self._losses.add("label", "its entry is not in the file")

    def _title(self) -> Iterator[JsonObject]:
        if self._session.title:
            yield {"type": "session_info", "name": self._session.title}

    # ── the tree ─────────────────────────────────────────────────────────────────────────────────

    def _add(self, node: WrittenNode) -> None:
        self._nodes[node.id] = node
        parent = node.parent_id or ""
        above = self._places.get(parent)
        self._open[node.id] = self._open.get(parent, {})
        is_merged = self._is_merged(node, above)
        fields = None if is_merged else self._fields(node)
        if fields is None:
            if above is not None:
                self._places[node.id] = above
                self._merged |= {node.id: above} if is_merged else {}
            return
        time = node.timestamp if parse_ms(node.timestamp) is not None else self._last_time()
        self._places[node.id] = self._made[node.id] = self._append(fields, above, node.id, time)

    def _append(self, fields: JsonObject, above: JsonObject | None, key: str, time: str) -> JsonObject:
        record = {
            "type": fields["type"],
            "id": self._new_id(key),
            "parentId": above["id"] if above is not None else None,
            "timestamp": time,
            **{name: value for name, value in fields.items() if name not in _ENVELOPE},
        }
        match record:
            case {"message": {"role": "user" | "assistant" | "toolResult"} as message}:
                message.setdefault("timestamp", parse_ms(time) or 0)
        self._records.append(record)
        return record

    def _new_id(self, key: str) -> str:
        """Return the id of a record: 8 digits as in pi, and a whole UUID if they are taken."""
        whole = written_uuid(TOOL, self._session.session, key)
        short = whole[:8] if whole[:8] not in self._ids else whole
        self._ids.add(short)
        return short

    def _is_merged(self, node: WrittenNode, above: JsonObject | None) -> bool:
        """Return whether a node was a part of the record above it, which then gets its fields back."""
        message = above.get("message") if above is not None else None
        match node:
            case Custom(custom_type="pi:fields", data=dict(data)) if above is not None:
                _give_back(above, data)
                return True
            case Cancelled(content=()) | Failed() if self._ends_reply(node):
                reason = node.reason if isinstance(node, Cancelled) else node.error.message if node.error else ""
                if reason and reason != "aborted" and isinstance(message, dict):
                    message["errorMessage"] = reason
                return True
        return above is None and _own_record(node, "session") is not None

    def _ends_reply(self, node: WrittenNode) -> bool:
        """Return whether the reader made a node from the end of a reply: it says how the reply above it ended."""
        above = self._nodes.get(node.parent_id or "")
        reply = above.message if isinstance(above, Message) else None
        if not isinstance(reply, Reply):
            return False
        if isinstance(node, Cancelled):
            return reply.stop_reason == "aborted"
        is_read = isinstance(node, Failed) and node.error is not None and node.error.kind == "provider"
        return reply.stop_reason == "error" or (is_read and self._is_own)

    # ── nodes ────────────────────────────────────────────────────────────────────────────────────

    def _fields(self, node: WrittenNode) -> JsonObject | None:
        """Return the record of a node without its envelope; None if it is left out."""
        match node:
            case Message():
                return self._message(node)
            case Compaction():
                return self._compaction(node)
            case ModelChange():
                if node.provider == "openai-chat":
                    self._losses.add(kind_of(node), "pi calls both APIs of OpenAI by one name")
                provider = {"provider": pi_provider(node.provider)} if node.provider is not None else {}
                return {"type": "model_change", **provider, "modelId": node.model}
            case Setting(key="thinkingLevel", value=str(level)) if level in _LEVELS:
                return {"type": "thinking_level_change", "thinkingLevel": level}
            case Cancelled() if text := "".join(part.text for part in _texts(node.content)):
                self._close(node)
                self._losses.add(kind_of(node), "what was displayed of it is written as a finished message")
                reply = Reply(content=(Text(text=text),), stop_reason="stop")
                return {"type": "message", "message": reply_message(reply, self._losses, is_own=False)}
            case Custom():
                return self._custom(node)
            case ContextEntry():
                self._losses.add(kind_of(node), "pi has its own instructions and tools")
                return None
        self._losses.add(kind_of(node), _AS_DATA)
        body = node.without_envelope
        return {"type": "custom", "customType": f"wakelog:{node.type}", "data": msgspec.to_builtins(body)}

    def _close(self, node: WrittenNode) -> None:
        """Let no later result follow the calls above a node."""
        self._open[node.id] = {}

    def _compaction(self, node: Compaction) -> JsonObject:
        self._close(node)
        record: JsonObject = {"type": "compaction", "summary": node.summary}
        if (kept := self._first_kept(node)) is not None:
            record["firstKeptEntryId"] = kept["id"]
        record["tokensBefore"] = node.tokens_before or 0
        if node.tokens_after is not None:
            record["tokensAfter"] = node.tokens_after
        if node.usage is not None:
            record["usage"] = usage_fields(node.usage)
        return {**record, "fromHook": True} if node.trigger == "hook" else record

    def _first_kept(self, node: Compaction) -> JsonObject | None:
        """Return the first record that a compaction keeps. A node without a record stands for the next one."""
        if node.first_kept_entry_id is None:
            return None
        found = None
        at = self._nodes.get(node.parent_id or "")
        while at is not None:
            found = self._made.get(at.id, found)
            if at.id == node.first_kept_entry_id:
                return found
            at = self._nodes.get(at.parent_id or "")
        return None

    def _custom(self, node: Custom) -> JsonObject | None:
        if node.custom_type == _IMPORT_TYPE:
            self._losses.add(kind_of(node), "it is about the import, not a part of the session")
            return None
        if (written := self._own_custom(node)) is not None:
            return written
        if not node.in_context:
            return {"type": "custom", "customType": node.custom_type, "data": node.data}
        self._close(node)
        self._losses.add(kind_of(node), "its text is written as a message, its data is not")
        note = Note(content=node.content, custom_type=node.custom_type)
        return self._note(note)

    def _own_custom(self, node: Custom) -> JsonObject | None:
        """Return the record of pi that an entry was imported from; None if it was not."""
        kind, data = node.custom_type.removeprefix(_OWN), node.data
        if not node.custom_type.startswith(_OWN):
            return None
        if kind.startswith("custom:"):
            return {"type": "custom", "customType": kind.removeprefix("custom:"), "data": data}
        if not isinstance(data, dict):
            return None
        if kind == "branch_summary":
            self._close(node)
            summary = "".join(part.text for part in _texts(node.content)[1:])
            is_record = "timestamp" not in data
            return (
                {"type": "branch_summary", "summary": summary, **data}
                if is_record
                else {"type": "message", "message": {"role": "branchSummary", "summary": summary, **data}}
            )
        if kind == "bashExecution":
            self._close(node)
            return {"type": "message", "message": {**_output(node), **data}}
        if not isinstance(data.get("type"), str) or node.in_context:
            return None
        if data["type"] == "session":
            self._losses.add(kind_of(node), "a file has one header")
            return None
        if kind == "toolResult":
            self._losses.add(kind_of(node), "a result without a call: kept as data, because providers refuse it")
            return {"type": "custom", "customType": "wakelog:toolResult", "data": data}
        return json.loads(json.dumps(data))  # type: ignore[no-any-return]

    # ── messages ─────────────────────────────────────────────────────────────────────────────────

    def _message(self, node: Message) -> JsonObject:
        message = node.message
        match message:
            case Prompt():
                self._close(node)
                content = plain_parts(message.parts, self._losses, is_own=self._is_own)
                return {"type": "message", "message": {"role": "user", "content": content}}
            case Reply():
                api = api_of(message)
                self._open[node.id] = {(node.id, call.id): written_call_id(call, api) for call in message.tool_calls}
                return {"type": "message", "message": reply_message(message, self._losses, is_own=self._is_own)}
            case Note():
                self._close(node)
                return self._note(message)
            case ToolResult():
                return self._result(node, message)

    def _note(self, note: Note) -> JsonObject:
        return {
            "type": "custom_message",
            "customType": note.custom_type.removeprefix(_OWN) or "note",
            "content": plain_parts(note.parts, self._losses, is_own=self._is_own),
            "display": True,
        }

    def _result(self, node: Message, result: ToolResult) -> JsonObject:
        waiting = self._open[node.id]
        key = next((key for key in waiting if _answers(result, key)), None)
        content = plain_parts(result.parts, self._losses, is_own=self._is_own)
        if key is None:
            self._close(node)
            self._losses.add("toolresult", "it does not follow its call: written as a message")
            title = {"type": "text", "text": f"Result of {result.tool_name} ({result.tool_call_id}):\n"}
            return {
                "type": "custom_message",
                "customType": "wakelog:result",
                "content": [title, *content],
                "display": True,
            }
        self._open[node.id] = {other: written for other, written in waiting.items() if other != key}
        if result.effective_status not in ("ok", "error"):
            self._losses.add("toolresult", f"the status {result.effective_status!r} is written as an error")
        if result.duration_ms is not None and not self._is_own:
            self._losses.add("toolresult", "durations have no place in pi")
        message = {
            "role": "toolResult",
            "toolCallId": waiting[key],
            "toolName": result.tool_name,
            "content": content,
            "isError": result.effective_status != "ok",
        }
        return {"type": "message", "message": message}


def _give_back(record: JsonObject, fields: JsonObject) -> None:
    """Put fields without a counterpart back into their record: into its message, the parts and the usage of that."""
    message = record.get("message")
    target = message if isinstance(message, dict) else record
    for key, value in fields.items():
        match key, value:
            case "record", dict() if target is message:
                record |= {name: each for name, each in value.items() if name not in record}
            case "parts", dict() if isinstance(content := target.get("content"), list):
                for at, rest in value.items():
                    if at.isdecimal() and int(at) < len(content) and isinstance(content[int(at)], dict):
                        content[int(at)] = {**rest, **content[int(at)]}
            case "usage", dict() if isinstance(usage := target.get("usage"), dict):
                target["usage"] = {**value, **usage}
            case _ if key in ("display", "api") or key not in target:
                target[key] = value


def _answers(result: ToolResult, key: tuple[str, str]) -> bool:
    return key[1] == result.tool_call_id and result.reply_id in (None, key[0])


def _texts(content: Any) -> list[Text]:
    return [Text(text=content)] if isinstance(content, str) else [part for part in content if isinstance(part, Text)]


def _output(node: Custom) -> JsonObject:
    """Return the output of a command that a person ran, which the reader made the second text."""
    texts = _texts(node.content)
    output = texts[1].text if len(texts) > 1 else ""
    return {"output": "" if output == _NO_OUTPUT else output}


def _own_record(node: WrittenNode | None, kind: str) -> JsonObject | None:
    """Return a record of pi that was kept verbatim, by its kind."""
    is_own = isinstance(node, Custom) and node.custom_type == _OWN + kind and isinstance(node.data, dict)
    return node.data if is_own and isinstance(node, Custom) else None

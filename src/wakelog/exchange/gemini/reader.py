"""Sessions of Gemini CLI: its log of operations, the JSON documents before it, sub-agents, and `logs.json`.

`tmp/<project>/chats/session-<time>-<id>.jsonl` is a log of operations (`entries.py`); before April 2026 it was one JSON
document. Sub-agents are sessions of their own in `chats/<session>/<sub-agent>.jsonl`; the call that started one names
it as `agentId`. When a session is resumed, Gemini CLI leaves a file of the same session without messages; nothing in it
is new. `logs.json` has the prompts of all sessions of a project: those of sessions without a file in `chats` are
sessions of their own, unless the session was imported from its file before Gemini CLI deleted that.

The folder of a project is not recorded: it is taken from the file `.project_root` of its folder, or from what Gemini
CLI tells the model about the session. The version of Gemini CLI is not recorded either.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.gemini.content import PROVIDER, TOOL, parts_list, text_field
from wakelog.exchange.gemini.entries import EntryReader
from wakelog.exchange.records import BadRecord, JsonRecord, Record, SourceFile, SourceLine, json_records
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    ImportedItem,
    SessionOrigin,
    SkippedRecords,
    entry_id,
    timestamp_of,
    verbatim,
)
from wakelog.log.content import JsonObject, Prompt, Reply, Text
from wakelog.log.entry import Compaction, Message
from wakelog.log.timestamps import parse_ms

__all__ = ["TOOL", "is_gemini", "read_sessions"]

IsKnown = Callable[[str], bool]
TAKES_KNOWN_ENTRIES = True
"""`read_sessions` must be told which entries are stored, so that a reply that has grown continues in a new one."""

_LOG_FIELDS = frozenset(("sessionId", "messageId", "timestamp", "type", "message"))
_OPERATIONS = ("$set", "$rewindTo")
_FOLDER = re.compile(r"Workspace Directories:\*\*\n  - (.+)")
_PATH_CHARS_MAX = 4_096
_HELD_MAX = 1_000
"""Records before the first message of a file."""


def is_gemini(head: Sequence[Any]) -> bool:
    """Return whether the first records of a file, or its one document, are those of Gemini CLI."""
    values = head[0] if len(head) == 1 and isinstance(head[0], list) else head
    records = [value for value in values if isinstance(value, dict)]
    if any(_is_metadata(record) for record in records):
        return True
    if any(name in record for record in records for name in _OPERATIONS):
        return all(any(name in record for name in (*_OPERATIONS, "id")) for record in records)
    return bool(records) and all(_is_logged(record) for record in records)


def _is_metadata(record: Mapping[str, Any]) -> bool:
    return bool(text_field(record, "sessionId")) and bool(text_field(record, "projectHash")) and "uuid" not in record


def _is_logged(record: Mapping[str, Any]) -> bool:
    is_named = isinstance(record.get("sessionId"), str) and isinstance(record.get("message"), str)
    return is_named and isinstance(record.get("messageId"), int) and set(record) <= _LOG_FIELDS


def read_sessions(source: SourceFile, is_known: IsKnown | None = None) -> Iterator[ForeignSession]:
    """Yield the session of a file and those of its sub-agents; of `logs.json` those that are nowhere else.

    `is_known` says which entries an earlier import of the same file has made. With it, the entries of a file that has
    grown begin with those of the earlier import. Without it they may differ in one place: the last message of the model
    at that time, if its calls have been recorded since.
    """
    document = _document(source)
    if isinstance(document, list):
        yield from _logged_sessions(source, document)
        return
    yield from _File(source, document, is_known).sessions()


def _document(source: SourceFile) -> Any:
    """Return the one JSON document that a file is; None if it has a record on each line."""
    first = next((line.raw for line in source.lines() if line.raw is None or line.raw.strip()), None)
    if first is None or (first.lstrip()[:1] == b"{" and any(isinstance(each, Record) for each in _decoded(first))):
        return None
    raw = source.content()
    is_list = raw.lstrip()[:1] == b"["
    found = list(islice(_decoded(b'{"items":' + raw + b"}" if is_list else raw), 2))
    match found:
        case [Record(value=value)]:
            return value["items"] if is_list else value
        case [BadRecord(reason=reason)] if not reason.startswith("not JSON"):
            raise UsageError(f"{source.path} cannot be read: {reason}")
    return None


def _decoded(raw: bytes) -> Iterator[JsonRecord]:
    return json_records([SourceLine(1, 0, raw, len(raw))])


# ── sessions in files of their own ───────────────────────────────────────────────────────────────


class _Facts(msgspec.Struct):
    """What must be known of a file before its entries are made."""

    session: str = ""
    metadata: JsonObject = {}
    title: str | None = None
    folder: str = ""
    agents: dict[str, str] = {}
    """The calls that started sub-agents, by the ids of these."""


class _File:
    """A file with a session, or with a sub-agent."""

    def __init__(self, source: SourceFile, document: JsonObject | None, is_known: IsKnown | None) -> None:
        self._source = source
        self._document = document
        self._is_known = is_known
        self.facts = _facts(self._records(), source)

    def _records(self) -> Iterator[JsonRecord]:
        """Yield the records of a file; those of a document are its messages, and the rest of it."""
        if self._document is None:
            yield from json_records(self._source.lines())
            return
        messages = self._document.get("messages")
        is_listed = isinstance(messages, list)
        yield Record(1, 0, {key: value for key, value in self._document.items() if key != "messages" or not is_listed})
        for number, message in enumerate(messages if isinstance(messages, list) else (), 2):
            yield Record(number, 0, message if isinstance(message, dict) else {"message": message})

    def sessions(self) -> Iterator[ForeignSession]:
        """Yield the session and those of its sub-agents."""
        if not self.facts.session:
            return
        is_subagent = self.facts.metadata.get("kind") == "subagent"
        agents = [] if is_subagent else self._agent_files()
        yield self._session(
            frozenset(file.facts.session for file in agents), _parent_of(self._source) if is_subagent else ""
        )
        for file in agents:
            yield file._session(frozenset(), self.facts.session, self.facts.agents.get(file.facts.session, ""))  # noqa: SLF001

    def _agent_files(self) -> "list[_File]":
        """Return the files of sub-agents, which are in a folder named by the session."""
        if not re.fullmatch(r"[\w-]+", self.facts.session):
            return []
        listed = [file for file in self._source.list_beside(self.facts.session) if file.path.endswith(".jsonl")]
        files = [_File(file, None, self._is_known) for file in listed]
        own = self.facts.session
        return [
            file
            for file in files
            if file.facts.session not in ("", own) and file.facts.metadata.get("kind") == "subagent"
        ]

    def _session(self, children: frozenset[str], parent: str, call: str = "") -> ForeignSession:
        facts = self.facts
        started = parse_ms(text_field(facts.metadata, "startTime")) or 0
        return ForeignSession(
            origin=SessionOrigin(
                tool=TOOL,
                id=facts.session,
                path=self._source.path,
                parent=parent,
                parent_call=call,
                is_subagent=facts.metadata.get("kind") == "subagent",
            ),
            items=_items(EntryReader(facts.session, self._is_known, children), self._records(), self._is_known),
            started_ms=started if 0 <= started < 1 << 48 else 0,
            agent=TOOL if facts.metadata.get("kind") != "subagent" else "subagent",
            cwd=facts.folder,
            title=facts.title,
        )


def _items(reader: EntryReader, records: Iterable[JsonRecord], is_known: IsKnown | None) -> Iterator[ImportedItem]:
    """Yield the items of a session. What comes before the first message is held until there is one.

    A file without messages is left by each resume. If its session is stored, what it has must not become the head.
    """
    root: str | None = None
    held: list[ImportedEntry] = []
    has_messages = False
    for item in _all_items(reader, records):
        if has_messages or not isinstance(item, ImportedEntry):
            yield item
            continue
        has_messages = isinstance(item.body, Message | Compaction) or len(held) > _HELD_MAX
        if root is None:
            root = item.body.id
            yield item
        elif has_messages:
            yield from held
            yield item
            held.clear()
        else:
            held.append(item)
    is_stored = is_known is not None and root is not None and is_known(root)
    for item in held:
        if is_known is not None and is_stored and not is_known(item.body.id):
            yield SkippedRecords(item.body.type, item.records, "the file has no messages")
        else:
            yield item


def _all_items(reader: EntryReader, records: Iterable[JsonRecord]) -> Iterator[ImportedItem]:
    for record in records:
        if isinstance(record, BadRecord):
            yield record
        else:
            yield from reader.read(record.value)
    yield from reader.close()


def _facts(records: Iterable[JsonRecord], source: SourceFile) -> _Facts:
    """Return what a pass over all records finds."""
    facts = _Facts(agents={})
    first: JsonObject | None = None
    for record in records:
        if isinstance(record, BadRecord):
            continue
        value: JsonObject = record.value
        first = value if first is None else first
        inner = value.get("$set")
        changes: JsonObject = inner if isinstance(inner, dict) else value
        if _is_metadata(value) and not facts.metadata:
            facts.metadata, facts.session = value, text_field(value, "sessionId")
        if "id" not in value and isinstance(title := changes.get("summary"), str) and title.strip():
            facts.title = title.strip()
        messages = changes.get("messages")
        for message in (value, *(messages if isinstance(messages, list) else ())):
            if isinstance(message, dict):
                _add_facts(facts, message)
    if first is not None and not facts.session:
        facts.session = f"unnamed-{hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()[:16]}"
    facts.folder = _project_root(source) or facts.folder
    return facts


def _add_facts(facts: _Facts, message: Mapping[str, Any]) -> None:
    calls = message.get("toolCalls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and (agent := text_field(call, "agentId")):
            facts.agents.setdefault(agent, text_field(call, "id"))
    if not facts.folder and message.get("type") == "user":
        for part in parts_list(message.get("content"))[:1]:
            text = text_field(part, "text") if isinstance(part, dict) else ""
            if text.startswith("<session_context>") and (found := _FOLDER.search(text)):
                facts.folder = found[1].strip()[:_PATH_CHARS_MAX]


def _project_root(source: SourceFile) -> str:
    """Return the folder that Gemini CLI has noted for a project, if it can be read."""
    for relative in ("../.project_root", "../../.project_root"):
        noted = source.beside(relative)
        if noted is not None:
            line = next(iter(noted.lines()), None)
            return (line.raw or b"")[:_PATH_CHARS_MAX].decode("utf-8", "replace").strip() if line is not None else ""
    return ""


def _parent_of(source: SourceFile) -> str:
    """Return the session that started a sub-agent: the name of the folder that its file is in."""
    folders = re.split(r"[/\\]", source.path)[:-1]
    return folders[-1] if len(folders) > 1 and folders[-2] == "chats" else ""


# ── logs.json ────────────────────────────────────────────────────────────────────────────────────


def _logged_sessions(source: SourceFile, document: Sequence[Any]) -> Iterator[ForeignSession]:
    """Yield the sessions of `logs.json` that have no file in `chats`. They have another id than such a file has.

    A session that is stored had a file, which Gemini CLI has deleted since: it has these prompts.
    """
    chats = {re.split(r"[/\\]", file.path)[-1] for file in source.list_beside("chats")}
    by_session: dict[str, list[Any]] = {}
    for value in document:
        name = text_field(value, "sessionId") if isinstance(value, dict) else ""
        by_session.setdefault(name, []).append(value)
    for name, values in by_session.items():
        if name and any(re.search(rf"-{re.escape(name[:8])}\.jsonl?$", file) for file in chats):
            continue
        times = [parse_ms(text_field(value, "timestamp")) for value in values if isinstance(value, dict)]
        started = next((time for time in times if time is not None), 0)
        yield ForeignSession(
            origin=SessionOrigin(tool=TOOL, id=f"{name or 'unnamed'}:prompts", path=source.path),
            items=_logged_items(f"{name or 'unnamed'}:prompts", values),
            started_ms=started if 0 <= started < 1 << 48 else 0,
            agent=TOOL,
            part_of=name,
        )


def _logged_items(session: str, values: Sequence[Any]) -> Iterator[ImportedItem]:
    parent: str | None = None
    time = ""
    for number, value in enumerate(values):
        key = f"{session}:{number}"
        match value:
            case {"type": "user" | "gemini" as kind, "message": str(text), **rest} if text:
                time = timestamp_of(rest.get("timestamp"), time)
                content = (Text(text=text),)
                said = Prompt(content=content) if kind == "user" else Reply(content=content, provider=PROVIDER)
                body = Message(id=entry_id(TOOL, key), parent_id=parent, timestamp=time, message=said)
                parent = body.id
                yield ImportedEntry(body)
            case _:
                kept = verbatim(TOOL, "log", value, key=key, parent_id=parent, timestamp=time)
                parent = kept.body.id
                yield kept

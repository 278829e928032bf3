"""Messages, exports, legacy files and databases of Goose, made for tests."""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from tests.exchange.samples import MemoryDatabase, MemoryFile, entries_of, jsonl
from wakelog.exchange.goose import reader as goose
from wakelog.exchange.sessions import ForeignSession

SESSION, NAME = "20260301_1", "20260301_1@2026-03-01T10:00:00Z"
"""The id of a session, and what identifies it."""
START_S = 1_772_359_200
"""2026-03-01T10:00:00Z."""
SEEN, HIDDEN = {"userVisible": True, "agentVisible": True}, {"userVisible": True, "agentVisible": False}
AGENT_ONLY, ARCHIVED = {"userVisible": False, "agentVisible": True}, {"userVisible": False, "agentVisible": False}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def request(call: str, name: str = "shell", arguments: Any = None, **more: Any) -> dict[str, Any]:
    value = {"name": name, "arguments": {"command": "ls"} if arguments is None else arguments}
    return {"type": "toolRequest", "id": call, "toolCall": {"status": "success", "value": value}, **more}


def response(call: str, *content: dict[str, Any], is_error: bool = False, **more: Any) -> dict[str, Any]:
    value = {"content": list(content) or [text("a.txt")], "isError": is_error, **more}
    return {"type": "toolResponse", "id": call, "toolResult": {"status": "success", "value": value}}


def message(at: int, role: str, *content: Any, metadata: Any = SEEN, **more: Any) -> dict[str, Any]:
    """Return a message `at` seconds after the start. A text stands for an item with that text."""
    items = [text(item) if isinstance(item, str) else item for item in content]
    own = {"id": f"msg_{SESSION}_{at}", "role": role, "created": START_S + at}
    return {**own, "content": items, "metadata": metadata, **more}


def conversation() -> list[dict[str, Any]]:
    """Return messages with everything that a session of Goose may hold but a compaction."""
    inference = {"provider": "anthropic", "requestedModel": "claude", "resolvedModel": "claude-4"}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    resource = {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "in a.txt"}}
    notice = {"type": "systemNotification", "notificationType": "inlineMessage", "msg": "Almost full"}
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    return [
        message(0, "user", "Look at it", image),
        message(1, "assistant", thought, "I look.", metadata={**SEEN, "inference": inference}, id="msg_01Provider"),
        message(2, "assistant", request("c1", metadata={"thoughtSignature": "x"}, _meta={"goose_extension": "d"})),
        message(3, "user", response("c1", text("a.txt", annotations={"priority": 0.5}), structuredContent={"code": 0})),
        message(4, "assistant", request("c2", "read__file"), request("c3")),
        message(5, "user", response("c3", text("no"), is_error=True), response("c2", resource, image)),
        message(6, "assistant", notice, metadata=HIDDEN),
        message(7, "assistant", {"type": "redactedThinking", "data": "ZGF0YQ=="}, "It is there."),
        message(8, "user", "/recipe now", metadata=HIDDEN),
        message(9, "user", "The recipe says: go on", metadata=AGENT_ONLY),
        message(10, "assistant", "Done."),
        message(11, "user", "One more thing"),
        message(12, "assistant", request("c4")),
    ]


def compacted(messages: list[dict[str, Any]], summary: str, at: int) -> list[dict[str, Any]]:
    """Return a conversation as Goose rewrites it at a compaction: all hidden, a summary, a note, the last prompt."""
    hidden = [{**each, "metadata": {**each["metadata"], "agentVisible": False}} for each in messages]
    go_on = "Your context was compacted."
    return [
        *hidden,
        message(at, "user", summary, metadata=AGENT_ONLY),
        message(at, "assistant", go_on, metadata=AGENT_ONLY),
        message(at, "user", "One more thing"),
    ]


def export(messages: Iterable[Any], **more: Any) -> dict[str, Any]:
    found = list(messages)
    return {
        "id": SESSION,
        "working_dir": "/repo",
        "name": "A name",
        "user_set_name": True,
        "session_type": "user",
        "created_at": "2026-03-01T10:00:00Z",
        "updated_at": "2026-03-01T10:10:00Z",
        "extension_data": {},
        "total_tokens": 140,
        "input_tokens": 120,
        "output_tokens": 20,
        "accumulated_total_tokens": 420,
        "accumulated_input_tokens": 360,
        "accumulated_output_tokens": 60,
        "accumulated_cost": None,
        "schedule_id": None,
        "recipe": None,
        "user_recipe_values": None,
        "conversation": found,
        "message_count": len(found),
        "provider_name": "anthropic",
        "model_config": {"model_name": "claude-4", "toolshim": False},
        "goose_mode": "auto",
        **more,
    }


def export_file(document: Any, path: str = "export.json") -> MemoryFile:
    return MemoryFile(json.dumps(document, indent=2).encode(), path)


def read(messages: Iterable[Any], **more: Any) -> ForeignSession:
    [session] = goose.read_sessions(export_file(export(messages, **more)))
    return session


def bodies(messages: Iterable[Any], **more: Any) -> list[Any]:
    return entries_of(read(messages, **more))


def legacy_file(messages: Iterable[Any], header: Any = None, path: str = "20250301_100000.jsonl") -> MemoryFile:
    """Return a legacy file: messages without ids and metadata."""
    first = header or {"working_dir": "/repo", "description": "Old name", "message_count": 2, "total_tokens": 5}
    lines = [{key: value for key, value in each.items() if key not in ("id", "metadata")} for each in messages]
    return MemoryFile(jsonl(first, *lines), path)


# ── databases ────────────────────────────────────────────────────────────────────────────────────

_SESSION_COLUMNS = (
    (1, "id TEXT PRIMARY KEY"),
    (1, "description TEXT NOT NULL DEFAULT ''"),
    (1, "working_dir TEXT NOT NULL"),
    (1, "created_at TIMESTAMP"),
    (1, "updated_at TIMESTAMP"),
    (1, "extension_data TEXT DEFAULT '{}'"),
    (1, "total_tokens INTEGER"),
    (1, "schedule_id TEXT"),
    (1, "recipe_json TEXT"),
    (2, "user_recipe_values_json TEXT"),
    (4, "name TEXT DEFAULT ''"),
    (4, "user_set_name BOOLEAN DEFAULT FALSE"),
    (5, "session_type TEXT NOT NULL DEFAULT 'user'"),
    (6, "provider_name TEXT"),
    (6, "model_config_json TEXT"),
    (8, "goose_mode TEXT NOT NULL DEFAULT 'auto'"),
    (10, "thread_id TEXT"),
    (12, "archived_at TIMESTAMP"),
    (13, "accumulated_cost REAL"),
    (15, "parent_session_id TEXT"),
)
_MESSAGE_COLUMNS = (
    (1, "id INTEGER PRIMARY KEY AUTOINCREMENT"),
    (1, "session_id TEXT NOT NULL"),
    (1, "role TEXT NOT NULL"),
    (1, "content_json TEXT NOT NULL"),
    (1, "created_timestamp INTEGER NOT NULL"),
    (1, "timestamp TIMESTAMP"),
    (1, "tokens INTEGER"),
    (3, "metadata_json TEXT"),
    (7, "message_id TEXT"),
)
_THREADS = "id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TIMESTAMP, metadata_json TEXT DEFAULT '{}'"
_LEDGER = (
    "id INTEGER PRIMARY KEY, session_id TEXT, created_timestamp INTEGER, model TEXT, input_tokens INTEGER, cost REAL"
)
SCHEMAS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15)


class Database:
    """A database of a schema version, with sessions added to it as Goose adds them."""

    def __init__(self, schema: int = 13) -> None:
        self.schema = schema
        self.connection = sqlite3.connect(":memory:")
        self._make("schema_version", "version INTEGER PRIMARY KEY")
        self.insert("schema_version", version=schema)
        self._make("sessions", self._columns(_SESSION_COLUMNS))
        self._make("messages", self._columns(_MESSAGE_COLUMNS))
        if schema >= 10:
            self._make("threads", _THREADS)
            self._make("thread_messages", f"thread_id TEXT, {self._columns(_MESSAGE_COLUMNS)}".replace(" NOT NULL", ""))
        if schema >= 15:
            self._make("usage_ledger", _LEDGER)

    def _columns(self, columns: Iterable[tuple[int, str]]) -> str:
        return ", ".join(definition for since, definition in columns if since <= self.schema)

    def _make(self, table: str, columns: str) -> None:
        self.connection.execute(f"CREATE TABLE {table} ({columns})")

    def insert(self, table: str, **values: Any) -> None:
        """Insert a row; columns that the schema lacks are left out."""
        there = {row[0] for row in self.connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        known = {name: value for name, value in values.items() if name in there}
        marks = ", ".join("?" for _ in known)
        self.connection.execute(f"INSERT INTO {table} ({', '.join(known)}) VALUES ({marks})", list(known.values()))

    def add_session(self, messages: Iterable[Any], session: str = SESSION, **more: Any) -> None:
        """Add a session with its messages."""
        times = {"created_at": "2026-03-01 10:00:00", "updated_at": "2026-03-01 10:10:00"}
        config = {"provider_name": "anthropic", "model_config_json": '{"model_name": "claude-4"}'}
        named = {"name": "A name", "description": "A name", "user_set_name": 1}
        self.insert("sessions", id=session, working_dir="/repo", **{**times, **config, **named, **more})
        self.add_messages(messages, session)

    def add_messages(
        self, messages: Iterable[Any], session: str = SESSION, table: str = "messages", **more: Any
    ) -> None:
        for each in messages:
            self.insert(
                table,
                session_id=session,
                message_id=each.get("id"),
                role=each["role"],
                content_json=json.dumps(each["content"]),
                created_timestamp=each["created"],
                timestamp=f"2026-03-01 10:{(each['created'] - START_S) // 60:02}:{(each['created'] - START_S) % 60:02}",
                metadata_json=json.dumps(each["metadata"]),
                **more,
            )

    @property
    def source(self) -> MemoryDatabase:
        return MemoryDatabase(self.connection, "sessions.db")

    def read(self) -> list[ForeignSession]:
        return list(goose.read_sessions(self.source))

    def bodies(self, session: str = NAME) -> list[Any]:
        [found] = [each for each in self.read() if each.origin.id == session]
        return entries_of(found)

"""Sessions of crabtalk for tests, in the four forms that it has stored them in."""

import json
import sqlite3
import struct
from typing import Any

from tests.exchange.samples import MemoryDatabase, MemoryFile, jsonl

HANDLE = "01K2WZ3V7Q8R9S0T1V2V3W4X5Y"
META = {
    "agent": "crab",
    "created_by": "user",
    "created_at": "2026-08-10T10:00:00+00:00",
    "title": "greeting",
    "updated_at": "2026-08-10T10:05:00+00:00",
    "message_count": 3,
}
SCHEMA = """
    CREATE TABLE sessions (handle, agent, created_by, title, created_at, updated_at, message_count, summary, archive);
    CREATE TABLE session_messages (session_handle, idx, entry_json);
    CREATE TABLE session_events (session_handle, idx, ts, kind, payload_json);
"""


def stamp(second: int) -> str:
    return f"2026-08-10T10:{second // 60:02}:{second % 60:02}+00:00"


def entry(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {**more, "message": {"role": role, "content": content}}


def use(call_id: str, name: str = "bash", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "name": "bash", "content": content, **more}


def start(*call_ids: str, at: int) -> dict[str, Any]:
    calls = [{"id": call_id, "name": "bash", "arguments": "{}"} for call_id in call_ids]
    return {"event": "tool_start", "calls": calls, "ts": stamp(at)}


def ended(call_id: str, duration_ms: int, *, at: int) -> dict[str, Any]:
    return {"event": "tool_result", "call_id": call_id, "duration_ms": duration_ms, "ts": stamp(at)}


def done(*, at: int, model: str = "m", **usage: int) -> dict[str, Any]:
    end = {"iterations": 1, "stop_reason": "text", "usage": usage, "ts": stamp(at)}
    return {"event": "done", "model": model, **end}


def run(number: int, *, call: bool = False) -> tuple[list[Any], list[Any]]:
    """Return the messages and the events of one run."""
    asked = entry("user", [{"type": "text", "text": f"ask {number}"}])
    answered = entry("assistant", [{"type": "text", "text": f"answer {number}"}])
    end = done(at=10 * number + 9, input_tokens=number, output_tokens=1)
    if not call:
        return [asked, answered], [end]
    name = f"c{number}"
    calls = [entry("assistant", [use(name, n=number)]), entry("user", [result(name, "out")])]
    return [asked, *calls, answered], [start(name, at=10 * number), ended(name, 12, at=10 * number + 1), end]


# ── forms ────────────────────────────────────────────────────────────────────────────────────────


def file_of(lines: list[Any], name: str = "crab_user_1.jsonl", meta: Any = META) -> MemoryFile:
    return MemoryFile(jsonl(meta, *lines), f"/h/sessions/{name}")


def folder_of(lines: list[Any], meta: Any = META, handle: str = HANDLE, **others: bytes) -> MemoryFile:
    steps = {f"step-{number:06}": json.dumps(line).encode() for number, line in enumerate(lines)}
    return MemoryFile(json.dumps(meta).encode(), f"/h/sessions/{handle}/meta", {**steps, **others})


def database_of(messages: list[Any], events: list[Any], **row: Any) -> MemoryDatabase:
    return MemoryDatabase(filled_database(messages, events, **row), "crabtalk.db")


def filled_database(messages: list[Any], events: list[Any], **row: Any) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    cells = {"handle": HANDLE, **META, **row}
    marks = ", ".join("?" for _ in cells)
    connection.execute(f"INSERT INTO sessions ({', '.join(cells)}) VALUES ({marks})", list(cells.values()))
    for number, value in enumerate(messages):
        stored = value if isinstance(value, str | bytes | None) else json.dumps(value)
        connection.execute("INSERT INTO session_messages VALUES (?, ?, ?)", (HANDLE, number, stored))
    for number, value in enumerate(events):
        row_of_event = (HANDLE, number, "", "", json.dumps(value))
        connection.execute("INSERT INTO session_events VALUES (?, ?, ?, ?, ?)", row_of_event)
    return connection


def put(key: str, value: bytes, column: int = 1, operation: int = 0) -> bytes:
    """Return one record of a store."""
    name = key.encode()
    return struct.pack("<BBI", operation, column, len(name)) + name + struct.pack("<I", len(value)) + value


def session_puts(messages: list[Any], events: list[Any], handle: str = HANDLE, **more: Any) -> list[bytes]:
    """Return the records of one session in a store."""
    place = f"local/session/{handle}"
    records = [put(f"{place}/meta", json.dumps(META).encode())]
    records.append(put(f"local/idx/sess/A/user/{META['created_at']}/{handle}", handle.encode()))
    records += [put(f"{place}/msg/{at:012}", json.dumps(each).encode()) for at, each in enumerate(messages)]
    records += [put(f"{place}/evt/{at:012}", json.dumps(each).encode()) for at, each in enumerate(events)]
    return records + [put(f"{place}/{name}", json.dumps(value).encode()) for name, value in more.items()]


def store_bytes(records: list[bytes], *, snapshot_after: int | None = None, tail: bytes = b"") -> bytes:
    """Return a store with a snapshot of the keys behind some of the records."""
    body, index = b"", b""
    at = size = 0
    for number, record in enumerate(records):
        if number == snapshot_after:
            at, size = 32 + len(body), 4 + len(index)
            body += struct.pack("<I", number) + index
        (key_size,) = struct.unpack_from("<I", record, 2)
        key = record[6 : 6 + key_size]
        index += struct.pack("<BI", record[1], len(key)) + key + struct.pack("<Q", 32 + len(body))
        body += record
    return b"CRMEM\0" + struct.pack("<IHIQQ", 1, 0, 0, at, size) + body + tail


def store_of(records: list[bytes], **more: Any) -> MemoryFile:
    return MemoryFile(store_bytes(records, **more), "/h/store.crmem")


def memory_bytes(texts: dict[str, str]) -> bytes:
    """Return the memory of an older version."""
    raw = b"CRMEM\0" + struct.pack("<IHI", 1, 0, 0) + struct.pack("<QI", len(texts) + 1, len(texts))
    for number, (name, content) in enumerate(texts.items(), 1):
        raw += struct.pack("<QQI", number, 5, 1)
        for part in (name, content):
            raw += struct.pack("<I", len(part.encode())) + part.encode()
        raw += struct.pack("<I", 1) + struct.pack("<I", 2) + b"al"
    return raw

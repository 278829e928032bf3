"""Lists of messages for tests: one for each API, with everything that the API has."""

import json
from typing import Any

from tests.exchange.samples import MemoryFile
from wakelog.exchange.message_lists import reader
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Message

URL = "data:image/png;base64,QQ=="
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": URL}}]},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Hm",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}},
            {"id": "c2", "type": "function", "function": {"name": "pwd", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "/home"},
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    {"role": "assistant", "content": "One file."},
    {"role": "user", "content": "Thanks"},
]
RESPONSES: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "Look"}, {"type": "input_image", "image_url": URL}]},
    {"type": "reasoning", "id": "rs1", "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "enc"},
    {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "ls", "arguments": '{"path":"."}'},
    {"type": "function_call", "id": "fc2", "call_id": "c2", "name": "pwd", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": "/home"},
    {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a.py"}]},
    {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "One file.", "annotations": []}],
    },
    {"role": "user", "content": "Thanks"},
]
ANTHROPIC: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "sig"},
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": ".", "cache_control": 1}},
            {"type": "tool_use", "id": "c2", "name": "pwd", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c2", "content": "/home", "is_error": True},
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.py"}]},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
    {"role": "user", "content": [{"type": "text", "text": "Thanks"}]},
]
LISTS: dict[str, list[dict[str, Any]]] = {"chat": CHAT, "responses": RESPONSES, "anthropic": ANTHROPIC}


def sessions(value, *, lines=False):
    """Return the sessions of a document, or of one JSON value a line, each with its items."""
    raw = b"".join(json.dumps(each).encode() + b"\n" for each in value) if lines else json.dumps(value).encode()
    return sessions_of_bytes(raw)


def sessions_of_bytes(raw):
    return [(session, list(session.items)) for session in reader.read_sessions(MemoryFile(raw, "list.json"))]


def bodies(value, *, lines=False):
    ((_, items),) = sessions(value, lines=lines)
    return [item.body for item in items if isinstance(item, ImportedEntry)]


def messages(entries):
    return [entry.message for entry in entries if isinstance(entry, Message)]


def told(entries):
    """Return what was said, called and answered: what must be the same however a list is written."""
    names: dict[tuple[str | None, str], str] = {}
    for entry in entries:
        if not isinstance(entry, Message):
            continue
        message = entry.message
        if isinstance(message, Reply):
            yield "reply", message.text, [(call.name, call.input) for call in message.tool_calls]
            names |= {(entry.id, call.id): f"{call.name} {at}" for at, call in enumerate(message.tool_calls)}
        elif isinstance(message, ToolResult):
            yield "result", names[message.reply_id, message.tool_call_id], message.text
        elif isinstance(message, Prompt):
            yield "prompt", message.text, [part.data for part in message.parts if hasattr(part, "data")]

"""Records of Gemini CLI for tests, and what holds for every session that is read from them."""

import hashlib
from typing import Any

from tests.exchange.pi_records import check_entries, json_records_of
from tests.exchange.samples import MemoryFile, account_of, entries_of, jsonl
from wakelog.exchange.gemini import reader as gemini
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ForeignSession, ImportedEntry

SESSION = "5e551011-0000-4000-8000-000000000001"
CONTEXT_ID = "d04923d38bb0f6017037e74183378ef4"
"""The id of the message about the session: the same in all sessions."""
FOLDER = "/home/ada/project"
ACKNOWLEDGED = "Got it. Thanks for the additional context!"


def uuid(name: str) -> str:
    """Return the id of a message as Gemini CLI makes them; the name is only for the test."""
    raw = hashlib.sha256(name.encode()).hexdigest()
    return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-8{raw[17:20]}-{raw[20:32]}"


def stamp(second: int) -> str:
    return f"2026-05-01T10:{second // 60:02}:{second % 60:02}.000Z"


def metadata(**fields: Any) -> dict[str, Any]:
    times = {"startTime": stamp(0), "lastUpdated": stamp(0)}
    return {"sessionId": SESSION, "projectHash": "0" * 64, **times, "kind": "main", **fields}


def context(day: str = "Friday") -> dict[str, Any]:
    text = f"<session_context>\nToday is {day}.\n- **Workspace Directories:**\n  - {FOLDER}\n</session_context>"
    return {"id": CONTEXT_ID, "timestamp": stamp(0), "type": "user", "content": [{"text": text}]}


def user(name: str, content: Any, second: int = 1, **fields: Any) -> dict[str, Any]:
    parts = [{"text": content}] if isinstance(content, str) else content
    return {"id": uuid(name), "timestamp": stamp(second), "type": "user", "content": parts, **fields}


def model(name: str, content: Any = "", second: int = 2, **fields: Any) -> dict[str, Any]:
    tokens = {"input": 100, "output": 20, "cached": 40, "thoughts": 5, "tool": 0, "total": 125}
    record = {"id": uuid(name), "timestamp": stamp(second), "type": "gemini", "content": content, "thoughts": []}
    return {**record, "tokens": tokens, "model": "gemini-2.5-flash", **fields}


def answered(call_id: str, text: str = "done", name: str = "run_shell_command", **fields: Any) -> dict[str, Any]:
    """Return a call with its result, as in `toolCalls`."""
    record = {"id": call_id, "name": name, "args": {"command": "ls"}, "result": [response(call_id, text, name)]}
    return {**record, "status": "success", "timestamp": stamp(3), "displayName": "Shell", **fields}


def response(call_id: str, text: str, name: str = "run_shell_command", key: str = "output") -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": name, "response": {key: text}}}


def function_call(call_id: str, name: str = "run_shell_command") -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": {"command": "ls"}}}


def changed(**fields: Any) -> dict[str, Any]:
    return {"$set": fields}


def conversation() -> list[dict[str, Any]]:
    """Return a session with every kind of record: a tool, a resume, a rewind, a compression and titles."""
    call = model("r1", "I look", thoughts=[{"subject": "Plan", "description": "List files", "timestamp": stamp(2)}])
    done = {**call, "toolCalls": [answered("c1", "a.txt")]}
    result = user("t1", [response("c1", "a.txt")], 4)
    again = [
        context(),
        user("u1", "Look"),
        {**model("r1", [{"text": "I look"}, function_call("c1")]), "tokens": None},
        {**user("x", [response("c1", "a.txt")]), "id": f"{uuid('r1')}_response"},
        result,
        model("r2", [{"text": "One file"}]),
    ]
    kept = [user("k1", "More", 9), {**model("k2", [{"text": "Ten lines"}]), "tokens": None}]
    return [
        metadata(),
        changed(messages=[context()], lastUpdated=stamp(0)),
        user("u1", "Look"),
        changed(lastUpdated=stamp(1)),
        call,
        changed(lastUpdated=stamp(2)),
        done,
        result,
        model("r2", "One file", 5),
        changed(summary="First title", memoryScratchpad={"version": 1}),
        metadata(startTime=stamp(6)),
        changed(messages=[context("Monday")]),
        changed(sessionId=SESSION),
        changed(messages=[context("Monday"), *again[1:]]),
        user("u2", "Wrong", 7),
        model("r3", "Nonsense", 8),
        {"$rewindTo": uuid("u2")},
        user("u3", "More", 9),
        model("r4", "Ten lines", 10),
        {"id": uuid("i1"), "timestamp": stamp(11), "type": "info", "content": "Compressing"},
        changed(messages=[context("Monday"), user("s1", "Summary", 12), model("s2", [{"text": ACKNOWLEDGED}]), *kept]),
        user("u4", [{"text": "And this?"}, {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}], 13),
        model("r5", "A picture", 14),
        changed(summary="Second title"),
        {"future": [1]},
    ]


def read(*records: Any, path: str = "chats/session-2026-05-01T10-00-5e551011.jsonl") -> ForeignSession:
    [session] = gemini.read_sessions(MemoryFile(jsonl(*records), path))
    return session


def bodies(*records: Any) -> list[Any]:
    return entries_of(read(*records))


def check_session(items: list[Any], raw: bytes) -> None:
    """Check what holds for every session: the account, ids, parents before children, results with their calls."""
    records = json_records_of(raw)
    account = account_of(items)
    assert sum(account.values()) == len(records), (account, len(records))
    assert account["bad"] == sum(isinstance(record, BadRecord) for record in records)
    check_entries([item.body for item in items if isinstance(item, ImportedEntry)])

"""Records as Claude Code writes them, for tests, and what is true of every imported session."""

from collections import Counter

from tests.exchange.samples import MemoryFile, account_of, entries_of, jsonl
from wakelog.exchange.claude_code.reader import read_sessions
from wakelog.exchange.records import json_records
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Note, Reply, ToolResult
from wakelog.log.entry import Message, Node

SESSION = "11111111-2222-4333-8444-555555555555"


def chained(kind, uuid, parent, **more):
    """Return a record with a place in the chain of uuids; `at` seconds after the session began."""
    at = more.pop("at", 0)
    return {
        "parentUuid": parent,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/repo",
        "sessionId": SESSION,
        "version": "2.1.36",
        "gitBranch": "main",
        "type": kind,
        "uuid": uuid,
        "timestamp": f"2026-02-08T05:{at // 60:02}:{at % 60:02}.000Z",
        **more,
    }


def user(uuid, parent, content, **more):
    return chained("user", uuid, parent, message={"role": "user", "content": content}, **more)


def line(uuid, parent, message_id, *blocks, output_tokens=1, stop=None, **more):
    """Return one line of a message of the model."""
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(blocks),
        "stop_reason": stop,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 100,
            "output_tokens": output_tokens,
        },
    }
    return chained("assistant", uuid, parent, message=message, requestId=f"req_{message_id}", **more)


def text(words):
    return {"type": "text", "text": words}


def call(call_id, name="Bash", **given):
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(uuid, parent, call_id, content="done", *, is_error=False, **more):
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return user(uuid, parent, [block], **more)


def progress(uuid, parent, **given):
    return chained("progress", uuid, parent, data={"type": "bash_progress", **given}, toolUseID="bash-progress-0")


def thinking(words, signature):
    return {"type": "thinking", "thinking": words, "signature": signature}


SESSION_WITH_A_HOOK = (
    user("u1", None, "hi"),
    chained(
        "attachment",
        "h1",
        "u1",
        attachment={"type": "hook_additional_context", "content": ["from a hook"]},
        rendered=[{"content": "from a hook"}],
    ),
    {
        **line("a1", "h1", "m1", thinking("hm", "sig")),
        "message": {"id": "m1", "model": "glm-5", "role": "assistant", "content": [thinking("hm", "sig")]},
    },
    {
        **line("a2", "a1", "m1", text("yes")),
        "message": {"id": "m1", "model": "glm-5", "role": "assistant", "content": [text("yes")]},
    },
)
"""A session with context that the model saw, and reasoning of a model that is served in place of Claude."""


def source(*records, path="session.jsonl", others=None):
    return MemoryFile(jsonl(*records), path, others)


def entries(*records, **more):
    """Return the entries of the main conversation of a file."""
    return entries_of(next(iter(read_sessions(source(*records, **more)))))


def named(found):
    """Return entries as short words: the role of a message, or the type of an entry."""
    return [_name(entry) for entry in found]


def _name(entry):
    if not isinstance(entry, Message):
        return entry.custom_type.removeprefix("claude-code:") if entry.type == "custom" else entry.type
    message = entry.message
    return {Reply: "reply", ToolResult: "result"}.get(
        type(message), message.custom_type if isinstance(message, Note) else "prompt"
    )


def messages(found, kind):
    """Return the entries with messages of one type."""
    return [entry for entry in found if isinstance(entry, Message) and isinstance(entry.message, kind)]


def branch_points(found):
    """Return the ids of entries that have more than one child."""
    children = Counter(entry.parent_id for entry in found if isinstance(entry, Node))
    return [entry_id for entry_id, count in children.items() if count > 1]


def check_sessions(file):
    """Check what holds for every session of a file; return the sessions and their items."""
    sessions = [(session, list(session.items)) for session in read_sessions(file)]
    for _, items in sessions:
        _check_tree([item.body for item in items if isinstance(item, ImportedEntry)])
    own = [items for session, items in sessions if session.origin.path == file.path]
    counted = sum(sum(account_of(items).values()) for items in own)
    if b'"loglines"' not in file.content()[:200]:
        assert counted == len(list(json_records(file.lines())))
    return sessions


def _check_tree(found):
    """Check that ids are unique, parents precede children, and each result belongs to an open tool call."""
    seen: set[str] = {""}
    open_calls: set[tuple[str | None, str]] = set()
    for entry in found:
        assert entry.id not in seen
        assert entry.parent_id in seen
        seen.add(entry.id)
        match entry:
            case Message(message=Reply() as reply):
                open_calls |= {(entry.id, made.id) for made in reply.tool_calls}
            case Message(message=ToolResult(reply_id=reply_id, tool_call_id=call_id)):
                open_calls.remove((reply_id, call_id))
    return open_calls

"""Records of pi and OpenClaw for tests, and what holds for every session that is read from them."""

import json
from typing import Any

import msgspec
from hypothesis import strategies as st

from tests.exchange.samples import MemoryFile, account_of, entries_of, jsonl
from wakelog.exchange.pi import reader as pi
from wakelog.exchange.records import BadRecord, json_records
from wakelog.exchange.sessions import ForeignSession, ImportedEntry, entry_id
from wakelog.log.codec import decode, encode
from wakelog.log.content import ToolResult
from wakelog.log.entry import Annotation, Entry, Message, SessionHeader
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context

SESSION = "0199aaaa-0000-7000-8000-000000000001"


def stamp(second: int) -> str:
    return f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000Z"


def header(**fields: Any) -> dict[str, Any]:
    return {"type": "session", "version": 3, "id": SESSION, "timestamp": stamp(0), "cwd": "/repo", **fields}


class Chain:
    """Records with ids and parents, each under the one before it unless a parent is given."""

    def __init__(self, *first: dict[str, Any]) -> None:
        self.records = list(first)
        self._last: str | None = None

    def add(self, kind: str, own_id: str, *, parent: Any = ..., **fields: Any) -> "Chain":
        above = self._last if parent is ... else parent
        time = stamp(len(self.records))
        self.records.append({"type": kind, "id": own_id, "parentId": above, "timestamp": time, **fields})
        self._last = own_id
        return self

    def say(self, own_id: str, role: str, content: Any, *, parent: Any = ..., **fields: Any) -> "Chain":
        time = 1_772_359_200_000 + 1_000 * len(self.records)
        message = {"role": role, "content": content, "timestamp": time, **fields}
        return self.add("message", own_id, parent=parent, message=message)


def call(call_id: str, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def conversation() -> list[dict[str, Any]]:
    """Return a session with every type of record."""
    chain = Chain(header())
    chain.add("model_change", "m1", provider="anthropic", modelId="claude-x")
    chain.add("thinking_level_change", "k1", thinkingLevel="high")
    chain.say("y1", "system", "", sections={"preamble": "You are…"})
    chain.say(
        "u1", "user", [{"type": "text", "text": "Look"}, {"type": "image", "data": "QQ==", "mimeType": "image/png"}]
    )
    chain.say(
        "r1",
        "assistant",
        [{"type": "thinking", "thinking": "Hm", "thinkingSignature": "sig"}, call("c1", path="a")],
        api="anthropic-messages",
        provider="anthropic",
        model="claude-x",
        stopReason="toolUse",
        responseId="msg_1",
        usage={"input": 10, "output": 5, "cacheRead": 3, "cacheWrite": 2, "cost": {"total": 0.0174}},
    )
    chain.say("t1", "toolResult", [{"type": "text", "text": "ok"}], toolCallId="c1", toolName="bash", details={"n": 1})
    chain.say(
        "r2", "assistant", [{"type": "text", "text": "Half"}, call("c2")], stopReason="aborted", errorMessage="stop"
    )
    chain.add("label", "l1", targetId="u1", label="start")
    chain.add("session_info", "i1", name="First title")
    chain.say("u2", "user", "More", parent="t1")
    chain.say("r3", "assistant", [], stopReason="error", errorMessage="529 overloaded")
    chain.add("branch_summary", "b1", parent="u1", fromId="r3", summary="Tried A")
    chain.add("custom", "x1", customType="todo", data={"open": 2})
    chain.add("custom_message", "n1", customType="todo", content="Two are open", display=False, details={"a": 1})
    chain.say("h1", "hookMessage", "From a hook", customType="lint", display=True)
    chain.add("message", "e1", message={"role": "bashExecution", "command": "ls", "output": "a\n", "exitCode": 2})
    chain.add(
        "compaction", "p1", summary="So far…", firstKeptEntryId="n1", tokensBefore=900, details={"readFiles": ["a"]}
    )
    chain.add("session_info", "i2", name="Second title")
    chain.add("future_type", "f1", anything=[1])
    chain.say("u3", "user", "Go on")
    return chain.records


def first_version() -> list[dict[str, Any]]:
    """Return a session of version 1, without ids."""
    records: list[dict[str, Any]] = [
        {"type": "session", "id": "old", "timestamp": stamp(0), "cwd": "/r", "provider": "p", "modelId": "m"}
    ]
    for number, text in enumerate(["A", "B", "C", "C"], 1):
        message = {"role": "user", "content": text, "timestamp": 1}
        records.append({"type": "message", "timestamp": stamp(number if number < 4 else 3), "message": message})
    records.append({"type": "compaction", "timestamp": stamp(5), "summary": "S", "firstKeptEntryIndex": 2})
    return records


def check_session(items: list[Any], raw: bytes) -> None:
    """Check what holds for every session: the account, ids, parents before children, results with their calls."""
    records = list(json_records_of(raw))
    account = account_of(items)
    assert sum(account.values()) == len(records)
    assert account["bad"] == sum(isinstance(record, BadRecord) for record in records)
    check_entries([item.body for item in items if isinstance(item, ImportedEntry)])


def json_records_of(raw: bytes) -> list[Any]:
    return list(json_records(MemoryFile(raw).lines()))


def check_entries(bodies: list[Any]) -> None:
    seen: set[str] = set()
    calls: set[tuple[str, str]] = set()
    nodes: set[str] = set()
    for number, body in enumerate(bodies):
        assert body.id not in seen
        assert (body.parent_id in nodes) if number else body.parent_id is None, body
        seen.add(body.id)
        if not isinstance(body, Annotation):
            nodes.add(body.id)
        if isinstance(body, Message):
            if isinstance(body.message, ToolResult):
                assert (body.message.reply_id, body.message.tool_call_id) in calls
            else:
                calls |= {(body.id, each.id) for each in getattr(body.message, "tool_calls", ())}


def tree_of(bodies: list[Any]) -> Tree:
    """Return the tree of the log that the entries become."""
    first = msgspec.structs.replace(bodies[0], parent_id="s")
    lines = [SessionHeader(id="s", timestamp="2026-01-01T00:00:00.000Z", version=1), first, *bodies[1:]]
    return Tree().add_all(Entry((raw := encode(body)), decode(raw), seq) for seq, body in enumerate(lines))


def read(*records: Any, path: str = "session.jsonl") -> ForeignSession:
    [session] = pi.read_sessions(MemoryFile(jsonl(*records), path))
    return session


def bodies(*records: Any) -> list[Any]:
    return entries_of(read(*records))


def messages(entries: list[Any], kind: Any = None) -> list[Any]:
    found = [entry.message for entry in entries if isinstance(entry, Message)]
    return [message for message in found if kind is None or isinstance(message, kind)]


def only(entries: list[Any], kind: Any) -> Any:
    [found] = [entry for entry in entries if isinstance(entry, kind)]
    return found


def own(record_id: str, records: list[dict[str, Any]]) -> str:
    """Return the entry id of a record."""
    [time] = {record["timestamp"] for record in records if record.get("id") == record_id}
    return entry_id("pi", f"{record_id}:{time}")


def context_texts(entries: list[Any]) -> list[str]:
    return [message.text for message in build_context(tree_of(entries).branch()).messages]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records with random fields replaced, removed or moved, and records repeated, dropped and shuffled."""
    changed = json.loads(json.dumps(records))
    for _ in range(draw(st.integers(1, 6))):
        target = draw(st.sampled_from(changed))
        while isinstance(target, dict) and target:
            key = draw(st.sampled_from(sorted(target)))
            if isinstance(target[key], dict) and draw(st.booleans()):
                target = target[key]
                continue
            match draw(st.sampled_from(("replace", "remove", "ids"))):
                case "replace":
                    target[key] = draw(json_values)
                case "remove":
                    del target[key]
                case "ids":
                    target[key] = draw(st.sampled_from([record.get("id") for record in records]))
            break
    order = draw(st.lists(st.integers(0, len(changed) - 1), max_size=2 * len(changed)))
    return [changed[at] for at in order] if draw(st.booleans()) else changed

"""What a session for a writer and a session that was read from pi have in common: trees of plain items to compare."""

import hashlib
from collections import Counter
from typing import Any

import msgspec

from tests.exchange.pi_records import tree_of
from tests.exchange.samples import MemoryFile, entries_of
from wakelog.exchange.pi import reader
from wakelog.exchange.pi.writer import write_session
from wakelog.exchange.writing import SessionToWrite, WrittenSession
from wakelog.log.content import BaseMessage, Note, Prompt, Reply, ToolResult, Usage
from wakelog.log.entry import (
    Annotation,
    Cancelled,
    Compaction,
    ContextEntry,
    Custom,
    Failed,
    Label,
    Message,
    ModelChange,
    Setting,
)
from wakelog.projections.context import build_context

_DATA = "pi:custom:"


def read_back(written: WrittenSession) -> tuple[Any, list[Any]]:
    """Return the session in a written file, and its entries."""
    [file] = written.files
    [session] = reader.read_sessions(MemoryFile(file.content, file.path))
    return session, entries_of(session)


def to_write(foreign: Any, entries: list[Any]) -> SessionToWrite:
    """Return what a writer gets of a session that was read, as the importer and the exporter leave it."""
    tree = tree_of(entries)
    nodes = [entry for entry in entries if not isinstance(entry, Annotation)]
    labels = {entry.target_id: entry.label for entry in entries if isinstance(entry, Label)}
    return SessionToWrite(
        session="s",
        agent="pi",
        started_ms=foreign.started_ms,
        cwd=foreign.cwd,
        title=foreign.title,
        nodes=tuple(msgspec.structs.replace(node, parent_id=node.parent_id or "s") for node in nodes),
        head=tree.head or "",
        labels={target: label for target, label in labels.items() if label},
    )


class Shape:
    """The nodes of a session by what they are and where, without ids: each by the digest of its path from the root."""

    def __init__(self, nodes: Any, head: str, labels: Any = ()) -> None:
        self._places: dict[str, tuple[int, str]] = {}
        by_id = {node.id: node for node in nodes}
        self.tree: Counter[str] = Counter()
        for node in nodes:
            depth, digest = self._places.get(node.parent_id or "", (0, ""))
            if (item := self._item(node)) is not None:
                depth, digest = depth + 1, hashlib.sha256(f"{digest}{item!r}".encode()).hexdigest()
                self.tree[digest] += 1
            self._places[node.id] = depth, digest
        self.branch: list[Any] = []
        at = by_id.get(head)
        while at is not None:
            self.branch.append(self._item(at))
            at = by_id.get(at.parent_id or "")
        self.branch = [item for item in reversed(self.branch) if item is not None]
        self.labels = {(self._places[target], label) for target, label in dict(labels).items() if target in by_id}

    def _depth(self, node: str | None) -> int | None:
        return self._places[node][0] if node in self._places else None

    def _item(self, node: Any) -> Any:
        match node:
            case Message(message=Prompt() as message):
                return "prompt", message.parts
            case Message(message=Reply() as message):
                usage = message.usage or Usage()
                usage = msgspec.structs.replace(usage, cost_micros=usage.cost_micros or 0)
                stop = message.stop_reason or ("tools" if message.tool_calls else "stop")
                return "reply", message.parts, message.model, message.provider, stop, usage, message.request_id
            case Message(message=Note() as message):
                return "note", message.custom_type.removeprefix("pi:"), message.parts
            case Message(message=ToolResult() as message):
                is_error = message.effective_status != "ok"
                reply = self._depth(message.reply_id)
                return "result", reply, message.tool_call_id, message.tool_name, is_error, message.parts
            case Compaction():
                kept = self._depth(node.first_kept_entry_id)
                return "compaction", node.summary, kept, node.tokens_before or 0, node.tokens_after
            case ModelChange():
                return "model", (node.provider or "").removesuffix("-chat"), node.model
            case Setting(key="thinkingLevel"):
                return "thinking level", node.value
            case Cancelled() if content := BaseMessage(content=node.content).parts:
                return "reply", content, None, None, "stop", Usage(cost_micros=0), None
            case Setting() | Failed() | Cancelled() if node.type != "custom":
                return "data", f"wakelog:{node.type}", msgspec.to_builtins(node.without_envelope)
            case Custom(in_context=True) if not node.custom_type.startswith("pi:"):
                return "note", node.custom_type, node.content
            case Custom() if node.custom_type in ("pi:session", "pi:custom:wakelog:head", "wakelog:import"):
                return None
            case Custom():
                return "data", node.custom_type.removeprefix(_DATA), _without_ids(node.data)
            case ContextEntry():
                return None
        raise AssertionError(node)


def _without_ids(data: Any) -> Any:
    """Return a record that was kept verbatim without what the writer gives it anew."""
    own = ("id", "parentId", "timestamp", "targetId")
    return {key: data[key] for key in data if key not in own} if isinstance(data, dict) and "type" in data else data


def shape_of(session: SessionToWrite) -> Shape:
    """Return the shape of a session for a writer."""
    return Shape(session.nodes, session.head, session.labels)


def shape_read(entries: list[Any]) -> Shape:
    """Return the shape of entries that were read."""
    labels = {entry.target_id: entry.label for entry in entries if isinstance(entry, Label)}
    nodes = [entry for entry in entries if not isinstance(entry, Annotation)]
    return Shape(nodes, tree_of(entries).head or "", labels)


def context_of(session: SessionToWrite) -> list[tuple[str, str, str]]:
    """Return what the model is shown of a session: roles, texts and the calls that results belong to."""
    nodes = [
        msgspec.structs.replace(node, parent_id="s" if node.parent_id == session.session else node.parent_id)
        for node in session.nodes
    ]
    messages = build_context(tree_of(nodes).branch(session.head)).messages
    return [(message.role, message.text, message.tool_call_id or "") for message in messages]


def write_and_read(session: SessionToWrite) -> tuple[WrittenSession, Any, list[Any]]:
    """Write a session, and read it again."""
    written = write_session(session)
    foreign, entries = read_back(written)
    return written, foreign, entries

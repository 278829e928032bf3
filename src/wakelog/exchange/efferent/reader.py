"""Sessions of efferent: the databases `efferent.db` (to July 2026) and `smith.db`, `math.db`, `canvas.db` (since then).

What becomes what:
- A conversation is a session. A node of the context tree (`context_nodes`, older databases only) is the run of a
  sub-agent and a session of its own; its parent is the session with the call of `run_agent` whose result names it, else
  the node or conversation above it. The reply with that call gets a `spawned` annotation.
- The rows of messages are prompts, replies and tool results, in the order of their positions. What efferent itself put
  into the role of the user, such as a handoff brief, the mission of a sub-agent or a message of another agent, is a
  note. A row that efferent itself could not decode is reported, or kept verbatim if it is JSON.
- A checkpoint is a compaction, placed by its time. Rows behind its position that were there already are kept.
- Verdicts of the gate, and the outcome of a node, are kept verbatim, placed by their time.
- The row of a conversation or node is a `custom` entry with the columns that efferent never changes. Title and model
  are those of the session; the model is an entry as well, because it may be set after the first import.
  `pending_prompt` repeats the last prompt while a turn runs, and is left out.
- A node that was made of a selection holds copies of the first rows of another node. They have the ids of the rows
  that they are copies of, so that a model call is counted once.
- A fork is a copy without a reference to its original: it is a session of its own.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from wakelog.exchange.chains import count_of, json_cell, object_of, text_of
from wakelog.exchange.efferent.entries import TOOL, Row, SessionRows, session_items
from wakelog.exchange.records import SourceDatabase
from wakelog.exchange.sessions import ForeignSession, SessionOrigin
from wakelog.log.content import JsonObject
from wakelog.log.entry import ModelChange

__all__ = ["TAKES_KNOWN_ENTRIES", "TOOL", "is_efferent_database", "read_sessions"]

TAKES_KNOWN_ENTRIES = True
IsKnown: TypeAlias = Callable[[str], bool]
_NEEDED = {
    "conversations": {"id", "workspace_dir", "created_at"},
    "messages": {"conversation_id", "position", "content"},
    "checkpoints": {"conversation_id", "message_position", "summary"},
}
_CHANGING = frozenset(("title", "pending_prompt", "model"))
_OUTCOME = frozenset(
    ("status", "return_summary", "stop_reason", "files_changed", "usage", "workspace_ref", "ended_at", "title")
)
_MODEL = re.compile(r"([a-z][a-z0-9_-]*):(.+)")
_NODE_MARK = "nodeId"
_COPIED = ("position", "role", "content")
# How many copies of copies are followed.
_SELECTIONS_MAX = 8


def is_efferent_database(source: SourceDatabase) -> bool:
    """Return whether a database is of efferent, by the columns of its tables."""
    return all(columns <= set(source.columns(table)) for table, columns in _NEEDED.items())


def read_sessions(source: SourceDatabase, is_known: IsKnown | None = None) -> Iterator[ForeignSession]:
    """Yield the conversations of a database, and the sub-agents of its context tree.

    `is_known` says which entries are stored. With it, a model that was set later has its place among the messages.
    """
    nodes = {text_of(row.get("id")): row for row in _rows(source, "context_nodes", order="created_at")}
    tree = _Tree(source, nodes, _callers(source, nodes) if nodes else {})
    version = _version(source)
    seen = set()
    for row in _rows(source, "conversations", order="created_at"):
        identity = text_of(row.get("id"))
        if identity and identity not in seen:
            seen.add(identity)
            yield _conversation(tree, identity, row, version, is_known)
    for identity in _orphans(source, ("messages", "checkpoints", "gate_verdicts"), "conversation_id", seen):
        yield _conversation(tree, identity, {}, version, is_known)
    for identity, row in nodes.items():
        if identity:
            yield _node(tree, identity, row, version)
    for identity in _orphans(source, ("context_messages",), "node_id", set(nodes)):
        yield _node(tree, identity, {}, version)


class _Tree:
    """The context tree of a database: its nodes, what started each of them, and which rows are copies."""

    def __init__(self, source: SourceDatabase, nodes: dict[str, Row], callers: dict[str, tuple[str, str]]) -> None:
        self.source = source
        self.callers = callers
        self._nodes = nodes
        self._children: dict[str, set[str]] = {}
        for node, (caller, _) in callers.items():
            self._children.setdefault(caller, set()).add(node)

    def children(self, session: str) -> frozenset[str]:
        """Return the nodes that a session has started."""
        return frozenset(self._children.get(session, ()))

    def messages(self, node: str, depth: int = 0) -> Iterator[Row]:
        """Yield the rows of a node. A row that is a copy has the id of the row that it is a copy of."""
        original, count = self._selection(node)
        copied: Iterator[Row] = iter(())
        if original and depth < _SELECTIONS_MAX:
            copied = itertools.islice(self.messages(original, depth + 1), count)
        for row in _rows(self.source, "context_messages", where={"node_id": node}, order="position"):
            other = next(copied, None)
            is_copy = other is not None and all(row.get(column) == other.get(column) for column in _COPIED)
            yield {**row, "id": other["id"]} if other is not None and is_copy else row

    def _selection(self, node: str) -> tuple[str, int]:
        """Return the node whose first rows were copied into a node, and how many."""
        seed = object_of(json_cell(self._nodes.get(node, {}).get("seed"), 0))
        original = text_of(seed.get("sourceNodeId"))
        is_selection = seed.get("kind") == "selection" and original in self._nodes and original != node
        return (original, count_of(seed.get("turnCount")) or 0) if is_selection else ("", 0)


def _rows(source: SourceDatabase, table: str, *, where: JsonObject | None = None, order: str = "") -> Iterator[Row]:
    """Yield the rows of a table as objects."""
    columns = source.columns(table)
    for cells in source.rows(table, columns, where=where, order=(order,) if order else ()):
        yield {column: _plain(cell) for column, cell in zip(columns, cells, strict=True)}


def _plain(cell: Any) -> Any:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell


def _orphans(source: SourceDatabase, tables: tuple[str, ...], column: str, known: set[str]) -> list[str]:
    """Return the owners of rows that have no row of their own, such as those of a conversation deleted by hand."""
    found: dict[str, None] = {}
    for table in tables:
        for (owner,) in source.rows(table, (column,)):
            if isinstance(owner, str) and owner and owner not in known:
                found[owner] = None
    return list(found)


def _version(source: SourceDatabase) -> str:
    """Return the last migration of an older database; the newer ones have a number that is not in a table."""
    numbers = [count_of(number) or 0 for (number,) in source.rows("effect_sql_migrations", ("migration_id",))]
    return f"migration {max(numbers)}" if numbers else ""


def _callers(source: SourceDatabase, nodes: dict[str, Row]) -> dict[str, tuple[str, str]]:
    """Return the session and the call that started each node: the first call of `run_agent` whose result names it."""
    found: dict[str, tuple[str, str]] = {}
    for table, owner in (("messages", "conversation_id"), ("context_messages", "node_id")):
        for session, content in source.rows(table, (owner, "content"), order=("created_at", "position")):
            if not isinstance(session, str) or _NODE_MARK not in str(_plain(content)):
                continue
            parts = object_of(json_cell(content, 0)).get("content")
            for part in parts if isinstance(parts, list) else ():
                node = text_of(object_of(object_of(part).get("output")).get(_NODE_MARK))
                if node in nodes and node != session and object_of(part).get("toolName") == "run_agent":
                    found.setdefault(node, (session, text_of(object_of(part).get("toolCallId"))))
    return found


def _conversation(tree: _Tree, identity: str, row: Row, version: str, is_known: IsKnown | None) -> ForeignSession:
    source = tree.source
    lasting = {key: value for key, value in row.items() if key not in _CHANGING and value is not None}
    provider, model = _model(text_of(row.get("model")))
    of_session = {"conversation_id": identity}
    rows = SessionRows(
        id=identity,
        kind="conversation",
        root=lasting,
        messages=_rows(source, "messages", where=of_session, order="position"),
        checkpoints=list(_rows(source, "checkpoints", where=of_session, order="message_position")),
        verdicts=list(_rows(source, "gate_verdicts", where=of_session, order="created_at")),
        children=tree.children(identity),
        model=ModelChange(model=model, provider=provider) if model else None,
        is_known=is_known,
    )
    return ForeignSession(
        origin=SessionOrigin(tool=TOOL, id=identity, path=source.path, version=version),
        items=session_items(rows),
        started_ms=_started_ms(row),
        agent=TOOL,
        cwd=text_of(row.get("workspace_dir")),
        title=text_of(row.get("title")).strip() or None,
        provider=provider,
        model=model,
    )


def _node(tree: _Tree, identity: str, row: Row, version: str) -> ForeignSession:
    above = text_of(row.get("parent_id")) or text_of(row.get("root_conversation_id"))
    parent, call = tree.callers.get(identity, (above, ""))
    outcome = {key: row[key] for key in row if key in _OUTCOME - {"title"} and row[key] is not None}
    rows = SessionRows(
        id=identity,
        kind="context_node",
        root={key: value for key, value in row.items() if key not in _OUTCOME and value is not None},
        messages=tree.messages(identity),
        outcome=outcome if count_of(row.get("ended_at")) is not None else {},
        children=tree.children(identity),
    )
    return ForeignSession(
        origin=SessionOrigin(
            tool=TOOL,
            id=identity,
            path=tree.source.path,
            version=version,
            parent=parent,
            parent_call=call,
            is_subagent=bool(parent),
        ),
        items=session_items(rows),
        started_ms=_started_ms(row),
        agent="subagent" if parent else TOOL,
        cwd=text_of(row.get("folder")),
        title=text_of(row.get("title")).strip() or None,
    )


def _model(name: str) -> tuple[str | None, str | None]:
    """Return the provider and the model of a name such as `ollama:llama3`."""
    found = _MODEL.fullmatch(name)
    return (found[1], found[2]) if found else (None, name or None)


def _started_ms(row: Row) -> int:
    started = count_of(row.get("created_at")) or 0
    return started if started < 1 << 48 else 0

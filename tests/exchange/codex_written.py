"""Sessions written for Codex and read back, and both sides in one form that can be compared."""

from typing import Any

import msgspec

from tests.exchange.codex_records import read_raw
from wakelog.exchange.codex.writer import write_session
from wakelog.exchange.sessions import ForeignSession, ImportedEntry
from wakelog.exchange.writing import SessionToWrite, WrittenSession
from wakelog.log.content import BaseMessage, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, UnknownPart
from wakelog.log.entry import Cancelled, Compaction, Custom, Head, Message, Node
from wakelog.log.ids import new_id
from wakelog.log.timestamps import iso_timestamp

STARTED_MS = 1_772_359_200_000
SESSION = new_id(STARTED_MS, bytes(10))


def session_of(*bodies: Any, **fields: Any) -> SessionToWrite:
    """Return a session with one branch of bodies; a message may be given without its entry."""
    nodes: list[Any] = []
    for number, body in enumerate(bodies, 1):
        node: Any = Message(message=body) if isinstance(body, Prompt | Reply | ToolResult | Note) else body
        at = iso_timestamp(STARTED_MS + 1000 * number)
        parent = nodes[-1].id if nodes else SESSION
        nodes.append(msgspec.structs.replace(node, id=f"n{number}", parent_id=parent, timestamp=at))
    known = {"agent": "crab", "started_ms": STARTED_MS, "cwd": "/repo", "version": "0.2.0"}
    return SessionToWrite(**{"session": SESSION, "nodes": tuple(nodes), "head": nodes[-1].id, **known, **fields})


def imported(session: ForeignSession) -> SessionToWrite:
    """Return a session of Codex as a writer gets it after an import, with the head where Codex goes on."""
    bodies = [item.body for item in session.items if isinstance(item, ImportedEntry)]
    head = ""
    for body in bodies:
        head = body.target_id if isinstance(body, Head) else body.id if isinstance(body, Node) else head
    nodes: list[Any] = [body for body in bodies if isinstance(body, Node)]
    return SessionToWrite(
        session=SESSION,
        agent=session.agent,
        started_ms=session.started_ms,
        cwd=session.cwd,
        title=session.title,
        provider=session.provider,
        model=session.model,
        nodes=tuple(msgspec.structs.replace(node, parent_id=node.parent_id or SESSION) for node in nodes),
        head=head,
        version="0.2.0",
    )


def records_of(written: WrittenSession) -> list[dict[str, Any]]:
    """Return the lines of a written session."""
    return [msgspec.json.decode(line) for line in written.files[0].content.splitlines()]


def payloads(written: WrittenSession, kind: str) -> list[dict[str, Any]]:
    """Return the payloads of the lines with a name such as `compacted` or `event_msg/task_started`."""
    wanted, _, inner = kind.partition("/")
    found = [record["payload"] for record in records_of(written) if record["type"] == wanted]
    return [payload for payload in found if not inner or payload["type"] == inner]


def items(written: WrittenSession) -> list[dict[str, Any]]:
    return payloads(written, "response_item")


def read_back(written: WrittenSession) -> SessionToWrite:
    """Return a written session as it is after it was imported."""
    path = written.files[0].path
    return imported(read_raw(written.files[0].content, path))


def written_and_read(session: SessionToWrite) -> SessionToWrite:
    return read_back(write_session(session))


# ── comparison ───────────────────────────────────────────────────────────────────────────────────


class Compared:
    """The messages of a branch in order, with calls, results and kept entries named by their place.

    `plain` leaves out what Codex keeps only of its own replies: reasoning, bound data, models; and what it never keeps.
    """

    def __init__(self, session: SessionToWrite, *, plain: bool) -> None:
        self._plain = plain
        self._places: dict[str, int] = {}
        self._calls: dict[tuple[str | None, str], tuple[int, int]] = {}
        self.rows: list[Any] = []
        for node in session.branch:
            row = self._row(node)
            if row is not None:
                self._places[node.id] = len(self.rows)
                self.rows.append(row)

    def _row(self, node: Any) -> Any:
        match node:
            case Message(message=Reply() as reply):
                return self._reply_row(node.id, reply)
            case Message(message=ToolResult() as result):
                call = self._calls.get((result.reply_id, result.tool_call_id))
                status = () if self._plain else (result.effective_status, result.duration_ms)
                return ("result", self._parts(result), call, *status)
            case Message(message=Note() as note):
                return ("note", note.custom_type.removeprefix("codex:"), self._parts(note))
            case Message():
                return ("prompt", self._parts(node.message))
            case Custom(in_context=True):
                return ("note", node.custom_type, self._parts(BaseMessage(content=node.content)))
            case Compaction():
                return ("compaction", node.summary, self._places.get(node.first_kept_entry_id or ""))
            case Cancelled():
                text = BaseMessage(content=node.content).text
                if text and self._plain:
                    self.rows.append(("reply", (text,), None))
                return ("cancelled",)
        return None

    def _reply_row(self, reply_id: str, reply: Reply) -> Any:
        for place, call in enumerate(reply.tool_calls):
            self._calls[reply_id, call.id] = len(self.rows), place
        usage = msgspec.structs.replace(reply.usage, cost_micros=None) if reply.usage else None
        if self._plain:
            return ("reply", self._parts(reply), usage)
        known = (reply.model, reply.provider, reply.stop_reason, reply.request_id)
        return ("reply", self._parts(reply), usage, *known)

    def _parts(self, message: BaseMessage) -> tuple[Any, ...]:
        left_out = (Thinking, UnknownPart) if self._plain else ()
        return tuple(self._part(part) for part in message.parts if not isinstance(part, left_out))

    def _part(self, part: Any) -> Any:
        match part:
            case Text() if self._plain:
                return part.text
            case ToolCall() if self._plain:
                return (part.name, part.input)
        return part


def losses_of(written: WrittenSession) -> dict[str, int]:
    """Return how often something of each kind was left out or changed."""
    found: dict[str, int] = {}
    for loss in written.losses:
        assert loss.reason
        assert loss.count > 0
        found[loss.kind] = found.get(loss.kind, 0) + loss.count
    return found

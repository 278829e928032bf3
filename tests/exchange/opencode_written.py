"""Small sessions of wakelog, and the files that they become for OpenCode."""

import json
from typing import Any

import msgspec

from tests.exchange.opencode_schema import checked_export
from wakelog.exchange.opencode.writer import write_session
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import Note, Prompt, Reply, ToolCall, ToolResult
from wakelog.log.entry import Custom, Message
from wakelog.log.timestamps import iso_timestamp

STARTED = 1_770_000_000_000


def chained(*bodies, **fields):
    """Return a session of nodes that stand one below the other, a second apart."""
    nodes: list[Any] = []
    for at, body in enumerate(bodies, 1):
        node = Message(message=body) if isinstance(body, Prompt | Reply | Note | ToolResult) else body
        placed = {"id": node.id or f"n{at}", "parent_id": nodes[-1].id if nodes else "s"}
        nodes.append(
            msgspec.structs.replace(node, **placed, timestamp=node.timestamp or iso_timestamp(STARTED + 1000 * at))
        )
    head = nodes[-1].id if nodes else "s"
    return SessionToWrite(
        **{"session": "s", "agent": "crab", "started_ms": STARTED, "nodes": tuple(nodes), "head": head, **fields}
    )


def document(*bodies, **fields):
    """Return the file of such a session, checked against OpenCode's schema, and the losses."""
    written = write_session(chained(*bodies, **fields))
    checked_export(written.files[0].content)
    return json.loads(written.files[0].content), list(written.losses)


def bare(part):
    """Return a part without its ids."""
    return {key: value for key, value in part.items() if key not in ("id", "sessionID", "messageID")}


def parts_of(*bodies):
    """Return the parts of each message of a session, without their ids and steps."""
    found, _ = document(*bodies)
    steps = ("step-start", "step-finish")
    return [[bare(part) for part in each["parts"] if part["type"] not in steps] for each in found["messages"]]


def reply(*parts, **fields):
    """Return a reply of the model."""
    return Reply(content=parts, **{"model": "m", "provider": "p", "stop_reason": "stop", **fields})


def call(name="shell", call_id="c1", given=None):
    """Return a tool call."""
    return ToolCall(id=call_id, name=name, input=given or {})


def result(*parts, status="ok", call_id="c1", **fields):
    """Return the result of a tool call."""
    return ToolResult(
        content=parts, tool_call_id=call_id, tool_name="shell", status=status, is_error=status != "ok", **fields
    )


def kept(kind, **data):
    """Return a part of OpenCode as an import keeps it."""
    return Custom(custom_type=f"opencode:{kind}", data={"id": "old", "messageID": "old", "type": kind, **data})

"""Tool calls of a Codex session that have no result yet, and the sub-agents that they started."""

from collections import deque
from collections.abc import Iterable

import msgspec

from wakelog.exchange.codex.items import call_id_of, outcome_of, text_of
from wakelog.log.content import AnyPart, JsonObject, ToolCall, ToolResult


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call without a result; `id` is unique in its reply."""

    reply_id: str
    id: str
    name: str


class OpenCalls:
    """The open calls by the ids that the file has for them, which may repeat."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[OpenCall]] = {}
        self._children: dict[str, str] = {}

    def open(
        self, reply_id: str, parts: Iterable[AnyPart], renamed: Iterable[AnyPart]
    ) -> Iterable[tuple[OpenCall, str]]:
        """Take note of the calls of a reply; return those that are known to have started a sub-agent, with it."""
        started: list[tuple[OpenCall, str]] = []
        for part, unique in zip(parts, renamed, strict=True):
            if isinstance(part, ToolCall) and isinstance(unique, ToolCall):
                call = OpenCall(reply_id, unique.id, unique.name)
                self._calls.setdefault(part.id, deque()).append(call)
                if child := self._children.pop(part.id, None):
                    started.append((call, child))
        return started

    def first(self, call_id: str) -> OpenCall | None:
        """Return the first open call with an id; None if there is none."""
        waiting = self._calls.get(call_id)
        return waiting[0] if waiting else None

    def note_child(self, call_id: str, child: str) -> None:
        """Take note of the sub-agent that a call started whose reply is in progress."""
        self._children[call_id] = child

    def close(self, item: JsonObject) -> OpenCall | None:
        """Return the call that an output answers, which is open no longer; None if there is none."""
        call_id = call_id_of(item)
        waiting = self._calls.get(call_id)
        if not waiting:
            return None
        call = waiting.popleft()
        if not waiting:
            del self._calls[call_id]
        return call

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()


def result_of(call: OpenCall, item: JsonObject) -> ToolResult:
    """Return the result of a call."""
    outcome = outcome_of(item)
    return ToolResult(
        content=outcome.content,
        tool_call_id=call.id,
        tool_name=call.name,
        reply_id=call.reply_id,
        status=outcome.status,
        is_error=outcome.status not in (None, "ok"),
        duration_ms=outcome.duration_ms,
    )


def spawned_thread(call: OpenCall, item: JsonObject) -> str | None:
    """Return the thread that a call started, as its output names it; None if it started none."""
    output = item.get("output")
    if call.name != "spawn_agent" or not isinstance(output, str):
        return None
    try:
        found = msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return text_of(found.get("agent_id")) or None if isinstance(found, dict) else None

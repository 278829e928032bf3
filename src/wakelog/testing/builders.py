"""Builders for sessions by hand, and a deterministic clock.

A `SessionBuilder` writes through a real `Session`, so its entries are stamped, sealed and have a parent like any
others. With a `FixedClock` the same calls give the same bytes every time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakelog.log.content import Prompt, Reply, Text, ToolCall, ToolResult, ToolStatus, Usage
from wakelog.log.entry import Entry, Message, ModelCall, ToolStarted
from wakelog.log.ids import RANDOM_BYTES, new_id
from wakelog.ports.stores import Store
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

_START_MS = 1_767_261_600_000


class FixedClock:
    """A clock that advances one second per call, and sequential ids."""

    def __init__(self, *, start_ms: int = _START_MS) -> None:
        self._now_ms = start_ms
        self._drawn = 0

    def now_ms(self) -> int:
        """Advance by one second and return the time."""
        self._now_ms += 1_000
        return self._now_ms

    def new_id(self) -> str:
        """Return the next id; advances the clock by one second."""
        self._drawn += 1
        return new_id(self.now_ms(), self._drawn.to_bytes(RANDOM_BYTES, "big"))


class SessionBuilder:
    """A session written with short method calls. Each method returns the entry it wrote."""

    def __init__(self, store: Store | None = None, *, agent: str = "crab", sender: str = "user") -> None:
        self.store = store or MemoryStore()
        self.session = Session.create(self.store, agent=agent, sender=sender, cwd="/repo", clock=FixedClock())

    def user(self, text: str, *, at: str | None = None) -> Entry:
        """Append a prompt at the head, or as a fork below `at`."""
        return self.session.append(Message(message=Prompt(content=(Text(text=text),))), at=at, fork=at is not None)

    def reply(
        self,
        text: str = "",
        *,
        calls: Sequence[tuple[str, str, Mapping[str, Any]]] = (),
        at: str | None = None,
        usage: Usage | None = None,
        model: str = "example",
    ) -> Entry:
        """Append a reply; `calls` are (id, tool, input)."""
        text_parts = (Text(text=text),) if text else ()
        tool_calls = tuple(ToolCall(id=call, name=name, input=dict(given)) for call, name, given in calls)
        message = Reply(content=(*text_parts, *tool_calls), model=model, usage=usage)
        return self.session.append(Message(message=message), at=at, fork=at is not None)

    def result(self, reply: Entry, call: str, text: str = "ok", *, status: ToolStatus = "ok") -> Entry:
        """Append the result of one tool call of a reply."""
        message = ToolResult(
            tool_call_id=call,
            reply_id=reply.id,
            content=(Text(text=text),),
            status=status,
            is_error=status != "ok",
        )
        return self.session.append(Message(message=message))

    def call(self, reply_id: str, *, at: str | None = None, channels: Sequence[str] = ()) -> Entry:
        """Append the annotation that a model call for the reply of that id is about to be made."""
        return self.session.append(
            ModelCall(call_id=f"call-{reply_id}", reply_id=reply_id, channels=tuple(channels)), at=at
        )

    def started(self, reply: Entry, call: str, *, attempt: int = 1) -> Entry:
        """Append the annotation that a tool is about to run."""
        return self.session.append(ToolStarted(reply_id=reply.id, tool_call_id=call, attempt=attempt), at=reply.id)

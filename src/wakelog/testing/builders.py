"""Short words for making sessions by hand, and a clock that does what it is told.

A `Story` writes through a real `Session`, so what it makes is what wakelog makes: stamped, sealed,
under a parent. With a `FixedClock` the same story gives the same bytes every time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakelog.log.content import Prompt, Reply, Settlement, Text, ToolCall, ToolResult, Usage
from wakelog.log.entry import Call, Entry, Message, ToolStarted
from wakelog.log.ids import RANDOM_BYTES, new_id
from wakelog.ports import Store
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

_START_MS = 1_767_261_600_000


class FixedClock:
    """Time that moves one second at each look, and ids that count."""

    def __init__(self, *, start_ms: int = _START_MS) -> None:
        self._now_ms = start_ms
        self._drawn = 0

    def now_ms(self) -> int:
        """One second later than the last time."""
        self._now_ms += 1_000
        return self._now_ms

    def new_id(self) -> str:
        """The next id: one second later, and one more."""
        self._drawn += 1
        return new_id(self.now_ms(), self._drawn.to_bytes(RANDOM_BYTES, "big"))


class Story:
    """A session told in short words. Each gives the entry it wrote."""

    def __init__(self, store: Store | None = None, *, agent: str = "crab", sender: str = "user") -> None:
        self.store = store or MemoryStore()
        self.session = Session.create(self.store, agent=agent, sender=sender, cwd="/repo", clock=FixedClock())

    def user(self, text: str, *, at: str | None = None) -> Entry:
        """A prompt at the head, or a fork under `at`."""
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
        """A reply; `calls` are (id, tool, input)."""
        said = (Text(text=text),) if text else ()
        asked = tuple(ToolCall(id=call, name=name, input=dict(given)) for call, name, given in calls)
        message = Reply(content=(*said, *asked), model=model, usage=usage)
        return self.session.append(Message(message=message), at=at, fork=at is not None)

    def result(self, reply: Entry, call: str, text: str = "ok", *, status: Settlement = "ok") -> Entry:
        """The result of one call of a reply."""
        message = ToolResult(
            tool_call_id=call,
            reply_id=reply.id,
            content=(Text(text=text),),
            status=status,
            is_error=status != "ok",
        )
        return self.session.append(Message(message=message))

    def call(self, reply_id: str, *, at: str | None = None, channels: Sequence[str] = ()) -> Entry:
        """The annotation that a request for a reply of that id is about to be made."""
        return self.session.append(Call(call_id=f"call-{reply_id}", reply_id=reply_id, channels=tuple(channels)), at=at)

    def started(self, reply: Entry, call: str, *, attempt: int = 1) -> Entry:
        """The annotation that a tool is about to run."""
        return self.session.append(ToolStarted(reply_id=reply.id, tool_call_id=call, attempt=attempt), at=reply.id)

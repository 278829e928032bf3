"""Calls and their results, side by side as the wire wants them.

Rule 1: every call goes out with one result behind it. A call of which there is no record gets a result that says so:
leaving it out would hide what it may have done. A result without its call is no result.
Rule 2: the id of a call is unique in a request, and short enough for the wire. It depends on nothing behind it, so
that the beginning of a request stays as it was (law 8).
"""

import hashlib
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

import msgspec

from wakelog.log.content import AnyPart, Text, ToolCall
from wakelog.ports import Request
from wakelog.projections.context import ContextMessage

NO_RECORD = "(there is no record of what came of this call)"
# What the wire takes, with room for a number behind it.
_ID_CHARS = 64 - 8
_NAME_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Exchange(msgspec.Struct, frozen=True):
    """A message, and if it is a reply: the ids of its calls on the wire, in order, and what each came to."""

    said: ContextMessage
    ids: tuple[str, ...] = ()
    results: tuple[tuple[str, tuple[AnyPart, ...]], ...] = ()

    def parts(self) -> Iterator[tuple[AnyPart, str]]:
        """What was said, part by part; a call with its id."""
        ids = iter(self.ids)
        for part in self.said.content:
            yield part, next(ids) if isinstance(part, ToolCall) else ""


def exchanges(messages: Sequence[ContextMessage]) -> Iterator[Exchange]:
    """Everything that was said, in order, each reply with the results behind it."""
    taken: set[str] = set()
    for said, behind in _groups(messages):
        yield Exchange(said) if said.role == "user" else _exchange(said, behind, taken)


def _groups(messages: Sequence[ContextMessage]) -> list[tuple[ContextMessage, list[ContextMessage]]]:
    """Each message with the results right behind it."""
    groups: list[tuple[ContextMessage, list[ContextMessage]]] = []
    for message in messages:
        if message.role != "toolResult":
            groups.append((message, []))
        elif groups:
            groups[-1][1].append(message)
    return groups


def _exchange(reply: ContextMessage, behind: Sequence[ContextMessage], taken: set[str]) -> Exchange:
    ids: list[str] = []
    waiting: dict[str, deque[str]] = defaultdict(deque)
    for part in reply.content:
        if isinstance(part, ToolCall):
            ids.append(_free(part.id, taken))
            waiting[part.id].append(ids[-1])
    results = [
        (left.popleft(), message.content) for message in behind if (left := waiting.get(message.tool_call_id or ""))
    ]
    unknown = (Text(text=NO_RECORD),)
    return Exchange(reply, tuple(ids), (*results, *((each, unknown) for left in waiting.values() for each in left)))


def _free(wanted: str, taken: set[str]) -> str:
    short = wanted if 0 < len(wanted) <= _ID_CHARS else "call_" + hashlib.sha256(wanted.encode()).hexdigest()[:32]
    number, free = 1, short
    while free in taken:
        number += 1
        free = f"{short}_{number}"
    taken.add(free)
    return free


def safe_name(name: str) -> str:
    """The name of a tool as the wire takes it: one that came from elsewhere may hold other signs."""
    return _UNSAFE.sub("_", name)[:_NAME_CHARS] or "tool"


def is_own(said: ContextMessage, request: Request, provider: str) -> bool:
    """Whether a reply came from this provider and this very model: only then what is bound to it goes back."""
    return said.provider == provider and said.model == request.model


def new_call_id(request: Request, number: int) -> str:
    """An id for a call that came without one: no other call of the branch has it."""
    return f"call_{request.answers}_{number}"

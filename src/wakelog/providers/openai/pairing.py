"""Pairs of tool calls and results, as the APIs require them.

Rule 1: every call is sent with one result after it. A call without a result on record gets one that says so: leaving it
out would hide what it may have done. A result without its call is dropped.
Rule 2: the id of a call is unique in a request, and short enough for the API. It depends on nothing after it, so that
the beginning of a request stays the same (law 8: each request is a prefix of the next).
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
# The API's limit, with space for a numeric suffix.
_ID_CHARS = 64 - 8
_NAME_CHARS = 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Exchange(msgspec.Struct, frozen=True):
    """A message, and for a reply: the ids of its calls on the wire, in order, and the result of each."""

    said: ContextMessage
    ids: tuple[str, ...] = ()
    results: tuple[tuple[str, tuple[AnyPart, ...]], ...] = ()

    def parts(self) -> Iterator[tuple[AnyPart, str]]:
        """Yield the parts of the message; a call with its id on the wire."""
        ids = iter(self.ids)
        for part in self.said.content:
            yield part, next(ids) if isinstance(part, ToolCall) else ""


def exchanges(messages: Sequence[ContextMessage]) -> Iterator[Exchange]:
    """Yield all messages in order, each reply with the results after it."""
    taken: set[str] = set()
    for said, behind in _groups(messages):
        yield Exchange(said) if said.role == "user" else _exchange(said, behind, taken)


def _groups(messages: Sequence[ContextMessage]) -> list[tuple[ContextMessage, list[ContextMessage]]]:
    """Return each message with the results directly after it."""
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
    """Return the name of a tool as the API accepts it: one from elsewhere may hold other characters."""
    return _UNSAFE.sub("_", name)[:_NAME_CHARS] or "tool"


def is_own(said: ContextMessage, request: Request, provider: str) -> bool:
    """Return whether a reply came from this provider and model: only then is its bound data sent back."""
    return said.provider == provider and said.model == request.model


def new_call_id(request: Request, number: int) -> str:
    """Return an id for a call that came without one; it is unique on the branch."""
    return f"call_{request.answers}_{number}"

"""The order of messages and events where crabtalk stores them apart, without a reference between them.

crabtalk writes the messages of a run and then its events, of which the last is `done`. A compaction or a rewind deletes
messages but no events. So a run of messages, which begins with a prompt, belongs to the run of events that has its tool
calls; runs without calls are matched in their order: from the first, or from the last if there was a compaction. A turn
of a guest without calls has no events. Events that are stored do not belong to a reply that is not: the messages that
they belong to were deleted. An entry behind such events says so, for the next import.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.chains import EntryChain, object_of
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import entry_id

DELETED_SUFFIX = ":deleted"
"""Behind the key of the event that ends a run: the key of the entry which says that its messages were deleted."""


class Line(msgspec.Struct):
    """A line of a session: a record or a `BadRecord`, and how many records it stands for."""

    value: Any
    records: int = 1
    is_apart: bool = False
    """Whether it is an event whose messages are not there, so that nothing may go below it."""
    is_deleted: bool = False
    """Whether it ends a run of events whose messages were there and have been deleted."""


class Run(msgspec.Struct):
    """A run of messages or of events: how many records it has, and the ids of its tool calls."""

    records: int = 0
    calls: set[str] = msgspec.field(default_factory=set)
    is_guest: bool = False
    """Of messages: whether another agent has replied."""
    is_stored: bool = False
    """Whether the last reply, or the event that ends the run, is stored already."""
    is_deleted: bool = False
    """Of events: whether it is known that the messages were deleted."""


class StoredRecords:
    """Says which records of a session are stored. They are asked for in order, because equal ones have numbers."""

    def __init__(self, tool: str, session: str, is_known: Callable[[str], bool] | None) -> None:
        self._tool = tool
        # Of a session that is new, no record is stored.
        is_session_known = is_known is not None and is_known(entry_id(tool, f"{session}:meta"))
        self._is_known = is_known if is_session_known else None
        self._chain = EntryChain(tool, session)

    def state(self, record: Any, scope: str = "") -> tuple[bool, bool]:
        """Return whether a record is stored, and whether the note is that its messages were deleted."""
        if self._is_known is None or isinstance(record, BadRecord):
            return False, False
        key = self._chain.content_key(record, scope)
        return self._is_known(entry_id(self._tool, key)), self._is_known(entry_id(self._tool, key + DELETED_SUFFIX))


def in_order(
    messages: Callable[[], Iterator[Any]],
    events: Callable[[], Iterator[Any]],
    compaction: Line | None,
    stored: StoredRecords,
    scope: str = "",
) -> Iterator[Line]:
    """Yield the messages of each run and then its events. The compaction stands before the first messages."""
    ours = message_runs(messages(), lambda record: stored.state(record, scope)[0])
    pairs = matched(ours, event_runs(events(), stored.state), from_end=compaction is not None)
    left_messages, left_events = messages(), events()
    for run, trace in pairs:
        if run is not None and compaction is not None:
            yield compaction
            compaction = None
        for _ in range(run.records if run is not None else 0):
            yield Line(next(left_messages))
        is_apart = run is None and compaction is None
        for left in reversed(range(trace.records if trace is not None else 0)):
            is_deleted = trace is not None and trace.is_deleted and left == 0
            yield Line(next(left_events), is_apart=is_apart, is_deleted=is_apart and is_deleted)
    if compaction is not None:
        yield compaction


def message_runs(entries: Iterable[Any], is_stored: Callable[[Any], bool] = lambda _: False) -> list[Run]:
    """Return the runs of messages; what precedes the first prompt belongs to the first run."""
    runs: list[Run] = []
    for entry in entries:
        message = message_of(entry)
        if not runs or (is_prompt(message) and runs[-1].records):
            runs.append(Run())
        run, is_known = runs[-1], is_stored(entry)
        run.records += 1
        run.calls |= set(call_ids(message))
        if message.get("role") == "assistant":
            run.is_stored = is_known
            run.is_guest = run.is_guest or bool(object_of(entry).get("agent"))
    return runs


def event_runs(
    events: Iterable[Any], state: Callable[[Any], tuple[bool, bool]] = lambda _: (False, False)
) -> list[Run]:
    """Return the runs of events; the last one may lack its end."""
    runs: list[Run] = []
    is_ended = True
    for event in events:
        if is_ended:
            runs.append(Run())
        run, value = runs[-1], object_of(event)
        run.records += 1
        calls = value.get("calls") if value.get("event") == "tool_start" else None
        for call in calls if isinstance(calls, list) else ():
            identity = object_of(call).get("id")
            run.calls |= {identity} if isinstance(identity, str) else set()
        run.is_stored, run.is_deleted = state(event)
        is_ended = value.get("event") == "done"
    return runs


def message_of(entry: Any) -> dict[str, Any]:
    """Return the message of an entry. The first versions stored it without an entry around it."""
    found = object_of(entry)
    return object_of(found.get("message")) if "message" in found else found


def is_prompt(message: dict[str, Any]) -> bool:
    """Return whether a message begins a run: it is of the user and has more than results of tools."""
    content = message.get("content")
    if message.get("role") != "user":
        return False
    return not isinstance(content, list) or any(object_of(part).get("type") != "tool_result" for part in content)


def call_ids(message: dict[str, Any]) -> Iterator[str]:
    """Yield the ids of the tool calls of a message, in both of the shapes that crabtalk used."""
    for field, kind in (("content", "tool_use"), ("tool_calls", None)):
        parts = message.get(field)
        for part in parts if isinstance(parts, list) and message.get("role") == "assistant" else ():
            identity = object_of(part).get("id")
            if isinstance(identity, str) and (kind is None or object_of(part).get("type") == kind):
                yield identity


def matched(messages: list[Run], events: list[Run], *, from_end: bool) -> list[tuple[Run | None, Run | None]]:
    """Return runs of messages with their runs of events, in order. One of both is None if it has no counterpart."""
    ours, theirs = (messages[::-1], events[::-1]) if from_end else (messages, events)
    our_alone, their_alone = _without_counterpart(ours, theirs), _without_counterpart(theirs, ours)
    pairs: list[tuple[Run | None, Run | None]] = []
    at = other = 0
    while at < len(ours) and other < len(theirs):
        run, trace = ours[at], theirs[other]
        has_calls = bool(run.calls or trace.calls)
        # Events are written last: those that are stored belong to no reply that is new.
        is_older = not has_calls and not our_alone[at] and trace.is_stored and not run.is_stored
        if their_alone[other] or (is_older and not from_end) or (run.calls and not our_alone[at] and not trace.calls):
            trace.is_deleted = trace.is_deleted or is_older
            pairs.append((None, trace))
            other += 1
        elif our_alone[at] or is_older or (has_calls and run.calls.isdisjoint(trace.calls)):
            pairs.append((run, None))
            at += 1
        else:
            pairs.append((run, trace))
            at, other = at + 1, other + 1
    pairs += [(run, None) for run in ours[at:]]
    pairs += [(None, trace) for trace in theirs[other:]]
    return pairs[::-1] if from_end else pairs


def _without_counterpart(runs: list[Run], others: list[Run]) -> list[bool]:
    """Return for each run whether none of the others can belong to it."""
    calls: set[str] = set().union(*(run.calls for run in others))
    return [run.calls.isdisjoint(calls) if run.calls else run.is_guest or run.is_deleted for run in runs]

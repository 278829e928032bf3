"""The order of messages and events where crabtalk stores them apart, without a reference between them.

crabtalk writes the messages of a run and then its events, of which the last is `done`. A compaction or a rewind deletes
messages but no events. So a run of messages, which begins with a prompt, belongs to the run of events that has its tool
calls; runs without calls are matched in their order: from the first, or from the last if there was a compaction.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.chains import object_of


class Run(msgspec.Struct):
    """A run of messages or of events: how many records it has, and the ids of its tool calls."""

    records: int = 0
    calls: set[str] = msgspec.field(default_factory=set)


def message_runs(entries: Iterable[Any]) -> list[Run]:
    """Return the runs of messages; what precedes the first prompt belongs to the first run."""
    runs: list[Run] = []
    for entry in entries:
        message = message_of(entry)
        if not runs or (is_prompt(message) and runs[-1].records):
            runs.append(Run())
        runs[-1].records += 1
        runs[-1].calls |= set(call_ids(message))
    return runs


def event_runs(events: Iterable[Any]) -> list[Run]:
    """Return the runs of events; the last one may lack its end."""
    runs: list[Run] = []
    is_ended = True
    for event in events:
        if is_ended:
            runs.append(Run())
        value = object_of(event)
        runs[-1].records += 1
        calls = value.get("calls") if value.get("event") == "tool_start" else None
        for call in calls if isinstance(calls, list) else ():
            identity = object_of(call).get("id")
            runs[-1].calls |= {identity} if isinstance(identity, str) else set()
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
    our_calls: set[str] = set().union(*(run.calls for run in ours))
    their_calls: set[str] = set().union(*(run.calls for run in theirs))
    pairs: list[tuple[Run | None, Run | None]] = []
    at = other = 0
    while at < len(ours) and other < len(theirs):
        run, trace = ours[at], theirs[other]
        is_same = bool(run.calls & trace.calls) or not (run.calls or trace.calls)
        is_ours_alone = bool(run.calls) and not run.calls & their_calls
        is_theirs_alone = bool(trace.calls) and not trace.calls & our_calls
        if is_same:
            pairs.append((run, trace))
            at, other = at + 1, other + 1
        elif is_theirs_alone or (not trace.calls and not is_ours_alone):
            pairs.append((None, trace))
            other += 1
        else:
            pairs.append((run, None))
            at += 1
    pairs += [(run, None) for run in ours[at:]]
    pairs += [(None, trace) for trace in theirs[other:]]
    return pairs[::-1] if from_end else pairs

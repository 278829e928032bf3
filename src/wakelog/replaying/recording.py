"""A recorded log as a script: for each line, whether it is an input to the runtime or was written by it.

Inputs (`given`) are entries of people and other programs, and damage: the runtime finds them in the log. The rest the
runtime must write again, byte for byte. Everything before the first worker attached is an input.
"""

from collections.abc import Iterable, Iterator

import msgspec

from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import (
    Activity,
    Attention,
    Call,
    Cancelled,
    Compaction,
    Custom,
    Entry,
    Failed,
    Message,
    Partial,
    Resumed,
    SendFailed,
    Sent,
    Spawned,
    ToolStarted,
)
from wakelog.log.lines import Line, Reader
from wakelog.projections.losses import DAMAGE_NOTICE

_RUNTIME = (Activity, Partial, Resumed, ToolStarted, Sent, SendFailed, Spawned, Failed, Cancelled)


class Recorded(msgspec.Struct, frozen=True):
    """One line of the log: its bytes, its entry if it holds exactly one, and whether it is an input (`given`)."""

    line: Line
    entry: Entry | None
    given: bool

    @property
    def body(self) -> object:
        """The typed value of the entry; None if there is none."""
        return self.entry.value if self.entry is not None else None


def record(lines: Iterable[Line]) -> list[Recorded]:
    """Return a log as a script."""
    reader = Reader()
    return list(_sorted_out((line, reader.feed(line)) for line in lines))


def _sorted_out(read: Iterable[tuple[Line, list[Entry]]]) -> Iterator[Recorded]:
    attached = False
    reruns: set[str] = set()
    for line, entries in read:
        entry = entries[0] if len(entries) == 1 else None
        value = entry.value if entry is not None else None
        attached = attached or isinstance(value, Activity)
        if isinstance(value, Call) and value.purpose == "rerun":
            reruns.add(value.reply_id)
        given = not attached or not _is_the_runtimes(value, reruns)
        if isinstance(value, Attention):
            # The first question about a rerun is part of the request; the runtime writes any later one.
            reruns.discard(value.reply_id or "")
        yield Recorded(line, entry, given)


def _is_the_runtimes(value: object, reruns: set[str]) -> bool:
    match value:
        case Call():
            return value.purpose != "rerun"
        case Attention():
            return value.reply_id not in reruns
        case Message(message=Reply(call_id=made_by)):
            return made_by is not None and value.id not in reruns
        case Message(message=ToolResult()):
            return True
        case Message(message=Prompt(queued_id=queued_id)):
            return queued_id is not None
        case Compaction(call_id=made_by):
            return made_by is not None
        case Custom(custom_type=kind):
            return kind == DAMAGE_NOTICE
    return isinstance(value, _RUNTIME)


def ids_made(entry: Entry) -> tuple[str, ...]:
    """Return the ids that the runtime made for an entry, in the order it made them."""
    match entry.value:
        case Call() as call:
            return (call.reply_id, call.id)
        case Spawned() as spawned:
            return (spawned.child_session, spawned.id)
    return (entry.id,)

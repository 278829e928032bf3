"""A recorded log as a script: line by line, what was given to the runtime and what it wrote itself.

Given is whatever people, programs and accidents put into the log: it stands there for the runtime to find. The
rest the runtime must write again, byte for byte. Everything before a worker first took the session up is given.
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
    """One line of the log: its bytes, the entry if it is just one, and whether the runtime wrote it."""

    line: Line
    entry: Entry | None
    given: bool

    @property
    def body(self) -> object:
        """The typed value, if there is one."""
        return self.entry.value if self.entry is not None else None


def record(lines: Iterable[Line]) -> list[Recorded]:
    """Reads a log as a script."""
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
            # A rerun asks one question of its own; whatever is asked about that call later, the runtime asks.
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
    """The ids that the runtime made for an entry, in the order it made them."""
    match entry.value:
        case Call() as call:
            return (call.reply_id, call.id)
        case Spawned() as spawned:
            return (spawned.child_session, spawned.id)
    return (entry.id,)

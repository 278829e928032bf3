"""Uptime of a session, the time for which workers have run it: a fold over its entries.

Rule 1: a worker's time goes from its `activity` (attached) to its `activity` (left). A killed worker writes no `left`:
its time ends with the last entry that only a worker writes, before the next `activity`; without such an entry it is 0.
Rule 2: a compaction carries the sum. Sums of rules 1 include time after a worker was killed, so they are ignored.
"""

from collections.abc import Iterable, Sequence

import msgspec

from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Activity, Body, Call, CarriedState, Compaction, Entry, Message, Partial, Sent, ToolStarted
from wakelog.log.times import elapsed_ms


class Uptime(msgspec.Struct, frozen=True):
    """The total of ended workers, and when the last one attached and last wrote, if it has not left."""

    ended_ms: int = 0
    attached_at: str | None = None
    worked_at: str | None = None

    @property
    def total_ms(self) -> int:
        """The total, including the worker that has not left."""
        if self.attached_at is None or self.worked_at is None:
            return self.ended_ms
        return self.ended_ms + elapsed_ms(self.attached_at, self.worked_at)


def uptime(entries: Sequence[Entry], *, whole: bool) -> Uptime | None:
    """Return the uptime by a fold over a session's own entries from the newest carried sum of rules 2 on.

    `whole`: the entries begin with the first one of the log. None without such a sum, unless `whole`.
    """
    start, found = _carried(entries)
    if found is None and not whole:
        return None
    fold = UptimeFold(found or Uptime())
    for entry in entries[start:]:
        fold.add(entry.value)
    return fold.found


class UptimeFold:
    """Streaming `uptime`; input: entries in seq order."""

    def __init__(self, found: Uptime) -> None:
        self.found = found
        self._reruns: set[str] = set()

    def add(self, value: Body) -> None:
        """Add the next entry."""
        carried = _carried_by(value)
        if carried is not None:
            self.found, self._reruns = carried, set()
        elif isinstance(value, Activity):
            self.found = _after(self.found, value)
        elif isinstance(value, Call) and value.purpose == "rerun":
            self._reruns.add(value.reply_id)
        elif self.found.attached_at is not None and _is_a_workers(value, self._reruns):
            self.found = msgspec.structs.replace(self.found, worked_at=value.timestamp)


def _carried(entries: Sequence[Entry]) -> tuple[int, Uptime | None]:
    for at in range(len(entries) - 1, -1, -1):
        found = _carried_by(entries[at].value)
        if found is not None:
            return at + 1, found
    return 0, None


def _carried_by(value: Body) -> Uptime | None:
    """Return the sum that a compaction of rules 2 carries; None for any other entry."""
    match value:
        case Compaction(state=CarriedState() as state) if state.rules >= 2:
            return Uptime(state.uptime_ms, state.attached_at, state.worked_at)
    return None


def _after(found: Uptime, activity: Activity) -> Uptime:
    if activity.event == "left" and found.attached_at is not None:
        return Uptime(found.ended_ms + elapsed_ms(found.attached_at, activity.timestamp))
    return Uptime(found.total_ms, activity.timestamp if activity.event == "attached" else None)


def _is_a_workers(value: Body, reruns: set[str]) -> bool:
    """Whether only a worker writes such an entry. A person's rerun of a tool also writes a reply with a call id."""
    match value:
        case Message(message=Reply(call_id=call_id)):
            return call_id is not None and value.id not in reruns
        case Message(message=ToolResult()):
            return True
    return isinstance(value, Call | ToolStarted | Partial | Sent)


def uptime_of_rules_1(entries: Iterable[Entry]) -> tuple[int, str | None]:
    """Return the sum and the last attach time as workers under rules 1 computed them; replay writes them again."""
    total_ms, attached_at = 0, None
    for entry in entries:
        match entry.value:
            case Compaction(state=CarriedState(uptime_ms=before, attached_at=since)):
                total_ms, attached_at = before, since
            case Activity(event=event, timestamp=now):
                total_ms += elapsed_ms(attached_at, now) if attached_at is not None else 0
                attached_at = now if event == "attached" else None
    return total_ms, attached_at

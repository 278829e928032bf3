"""Usage of a session: tokens and cost of its model calls, and the time for which workers have run it.

Rule 1: every model call counts once, however many branches or sessions contain its reply. Calls are identified by the
id of the entry that holds the usage; forks and copies keep these ids.
Rule 2: a worker's time goes from its `activity` (attached) to its `activity` (left). A killed worker writes no `left`:
its time ends with the last entry that only a worker writes, before the next `activity`; without such an entry it is 0.
Rule 3: a compaction carries the sum. Sums of rules 1 include time after a worker was killed, so they are ignored.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from wakelog.log.content import Reply, ToolResult, Usage
from wakelog.log.entry import (
    Activity,
    Body,
    CarriedState,
    Compaction,
    Entry,
    Message,
    ModelCall,
    Partial,
    Sent,
    ToolStarted,
)
from wakelog.log.ids import IdTable
from wakelog.log.timestamps import elapsed_ms
from wakelog.log.tree import Tree


class UsageTotal(msgspec.Struct, frozen=True):
    """The number of model calls and their total usage. The cost is known only if that of every call is."""

    calls: int = 0
    usage: Usage = Usage(cost_micros=0)


class BranchUsage(msgspec.Struct, frozen=True):
    """Usage of one branch, and the part of it that is on no other branch."""

    leaf: str
    total: UsageTotal
    exclusive: UsageTotal


def usage(entries: Iterable[Entry]) -> UsageTotal:
    """Return the sum over distinct model calls; entries may come from many branches and many sessions."""
    found = {entry.id: spent for entry in entries if (spent := _usage_of(entry)) is not None}
    total = Usage(cost_micros=0)
    for spent in found.values():
        total = total + spent
    return UsageTotal(len(found), total)


class UsageCounter:
    """Adds up the usage of many sessions. A call that several of them contain counts once in the total."""

    def __init__(self) -> None:
        self.total = UsageTotal()
        self._counted = IdTable()

    def add(self, entries: Iterable[Entry]) -> UsageTotal:
        """Count the entries of one session; return the usage of that session alone."""
        alone, fresh = UsageTotal(), self.total
        for entry in entries:
            if (spent := _usage_of(entry)) is None:
                continue
            alone = UsageTotal(alone.calls + 1, alone.usage + spent)
            if entry.id not in self._counted:
                self._counted.add_ids([entry.id])
                fresh = UsageTotal(fresh.calls + 1, fresh.usage + spent)
        self.total = fresh
        return alone


def usage_by_branch(tree: Tree) -> tuple[BranchUsage, ...]:
    """Return the usage of each branch, in total and for the entries that only this branch has."""
    branches = {leaf: tree.branch(leaf) for leaf in tree.branch_ends()}
    paths = {
        leaf: (*branch.nodes, *branch.annotations, *branch.inherited_annotations) for leaf, branch in branches.items()
    }
    holders = Counter(entry.id for path in paths.values() for entry in path)
    return tuple(
        BranchUsage(leaf, usage(path), usage(entry for entry in path if holders[entry.id] == 1))
        for leaf, path in paths.items()
    )


def _usage_of(entry: Entry) -> Usage | None:
    match entry.value:
        case Message(message=Reply(usage=Usage() as usage)):
            return usage
        case Compaction(usage=Usage() as usage) | Partial(usage=Usage() as usage):
            return usage
    return None


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
    start, found = _last_carried_uptime(entries)
    if found is None and not whole:
        return None
    counter = UptimeCounter(found or Uptime())
    for entry in entries[start:]:
        counter.add(entry.value)
    return counter.uptime


class UptimeCounter:
    """Streaming `uptime`; input: entries in seq order."""

    def __init__(self, found: Uptime) -> None:
        self.uptime = found
        self._reruns: set[str] = set()

    def add(self, value: Body) -> None:
        """Add the next entry."""
        carried = _carried_uptime(value)
        if carried is not None:
            self.uptime, self._reruns = carried, set()
        elif isinstance(value, Activity):
            self.uptime = _after_activity(self.uptime, value)
        elif isinstance(value, ModelCall) and value.purpose == "rerun":
            self._reruns.add(value.reply_id)
        elif self.uptime.attached_at is not None and _is_written_by_worker(value, self._reruns):
            self.uptime = msgspec.structs.replace(self.uptime, worked_at=value.timestamp)


def _last_carried_uptime(entries: Sequence[Entry]) -> tuple[int, Uptime | None]:
    for at in range(len(entries) - 1, -1, -1):
        found = _carried_uptime(entries[at].value)
        if found is not None:
            return at + 1, found
    return 0, None


def _carried_uptime(value: Body) -> Uptime | None:
    """Return the sum that a compaction of rules 2 carries; None for any other entry."""
    match value:
        case Compaction(state=CarriedState() as state) if state.rules >= 2:
            return Uptime(state.uptime_ms, state.attached_at, state.worked_at)
    return None


def _after_activity(found: Uptime, activity: Activity) -> Uptime:
    if activity.event == "left" and found.attached_at is not None:
        return Uptime(found.ended_ms + elapsed_ms(found.attached_at, activity.timestamp))
    return Uptime(found.total_ms, activity.timestamp if activity.event == "attached" else None)


def _is_written_by_worker(value: Body, reruns: set[str]) -> bool:
    """Whether only a worker writes such an entry. A person's rerun of a tool also writes a reply with a call id."""
    match value:
        case Message(message=Reply(call_id=call_id)):
            return call_id is not None and value.id not in reruns
        case Message(message=ToolResult()):
            return True
    return isinstance(value, ModelCall | ToolStarted | Partial | Sent)


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

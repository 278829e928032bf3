"""Usage of a session: tokens and cost of its model calls, and the time for which workers have run it.

Rule 1: every model call counts once, however many branches or sessions contain its reply. Calls are identified by the
id of the entry that holds the usage; forks and copies keep these ids.
Rule 2: a worker's time goes from its `activity` (attached) to its `activity` (left). A killed worker writes no `left`:
its time ends with the last entry that only a worker writes, before the next `activity`; without such an entry it is 0.
Rule 3: a compaction carries the sum. Sums of rules 1 include time after a worker was killed, so they are ignored.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

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


class PricedCall(msgspec.Struct, frozen=True):
    """A model call whose cost is not in the log: what it used, the model that answered, and when."""

    usage: Usage
    provider: str | None
    model: str | None
    timestamp: str


FindCost: TypeAlias = Callable[[PricedCall], int | None]
"""Returns the cost of a call in millionths of a dollar, or None if the price of its model is not known."""


class UsageTotal(msgspec.Struct, frozen=True):
    """The number of model calls with figures and their total usage.

    `usage.cost_micros` is known only if the cost of every call is. `known_cost_micros` is the sum of the known ones,
    and `calls_without_cost` the number of the others. Replies without any figures are counted apart.
    """

    calls: int = 0
    usage: Usage = Usage(cost_micros=0)
    known_cost_micros: int = 0
    calls_without_cost: int = 0
    replies_without_usage: int = 0

    def __add__(self, other: "UsageTotal") -> "UsageTotal":
        return UsageTotal(
            self.calls + other.calls,
            self.usage + other.usage,
            self.known_cost_micros + other.known_cost_micros,
            self.calls_without_cost + other.calls_without_cost,
            self.replies_without_usage + other.replies_without_usage,
        )


class BranchUsage(msgspec.Struct, frozen=True):
    """Usage of one branch, and the part of it that is on no other branch."""

    leaf: str
    total: UsageTotal
    exclusive: UsageTotal


def usage(entries: Iterable[Entry], find_cost: FindCost | None = None) -> UsageTotal:
    """Return the sum over distinct model calls; entries may come from many branches and many sessions.

    `find_cost` returns the cost of a call whose entry has none.
    """
    found = {entry.id: spent for entry in entries if (spent := _usage_of(entry, find_cost)) is not None}
    return sum(found.values(), UsageTotal())


class UsageCounter:
    """Adds up the usage of many sessions. A call that several of them contain counts once in the total."""

    def __init__(self, find_cost: FindCost | None = None) -> None:
        self.total = UsageTotal()
        self._find_cost = find_cost
        self._counted = IdTable()

    def add(self, entries: Iterable[Entry]) -> UsageTotal:
        """Count the entries of one session; return the usage of that session alone."""
        alone, fresh = UsageTotal(), self.total
        for entry in entries:
            if (spent := _usage_of(entry, self._find_cost)) is None:
                continue
            alone = alone + spent
            if entry.id not in self._counted:
                self._counted.add_ids([entry.id])
                fresh = fresh + spent
        self.total = fresh
        return alone


def usage_by_branch(tree: Tree, find_cost: FindCost | None = None) -> tuple[BranchUsage, ...]:
    """Return the usage of each branch, in total and for the entries that only this branch has."""
    branches = {leaf: tree.branch(leaf) for leaf in tree.branch_ends()}
    paths = {
        leaf: (*branch.nodes, *branch.annotations, *branch.inherited_annotations) for leaf, branch in branches.items()
    }
    holders = Counter(entry.id for path in paths.values() for entry in path)
    return tuple(
        BranchUsage(leaf, usage(path, find_cost), usage((each for each in path if holders[each.id] == 1), find_cost))
        for leaf, path in paths.items()
    )


def _usage_of(entry: Entry, find_cost: FindCost | None) -> UsageTotal | None:
    """Return the usage of one model call; None if the entry is not the end of one."""
    match entry.value:
        case Message(message=Reply(usage=None)):
            return UsageTotal(replies_without_usage=1)
        case Message(message=Reply(usage=Usage() as used, provider=provider, model=model)):
            return _total_of(PricedCall(used, provider, model, entry.value.timestamp), find_cost)
        case Compaction(usage=Usage() as used) | Partial(usage=Usage() as used):
            return _total_of(PricedCall(used, None, None, entry.value.timestamp), find_cost)
    return None


def _total_of(call: PricedCall, find_cost: FindCost | None) -> UsageTotal:
    cost = call.usage.cost_micros
    if cost is None and find_cost is not None:
        cost = find_cost(call)
    used = msgspec.structs.replace(call.usage, cost_micros=cost)
    return UsageTotal(1, used, cost or 0, int(cost is None))


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

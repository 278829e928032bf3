"""The order in which a written session has its nodes, and which of them it has more than once.

Records name their parents, but a branch is recognised only where it begins with a prompt, a reply or a compaction
(`generations.py`): what else follows such a record belongs to it, as results do that hang off different lines of one
reply. So nodes are written in *runs*: a node that begins a run, and those that follow it. A run can be continued by
several runs, but only at its end. Where the tree has a branch in the middle of a run, or the head, the beginning of the
run is written once more for it.

The run that ends with the head is the last one: the tool continues there, and an import has its head there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from wakelog.exchange.writing import WrittenNode

_ROOT = ""


class Run(msgspec.Struct, eq=False):
    """Nodes that are written one after the other. `copies` has the number of each: 0 where it is written first."""

    nodes: list[WrittenNode]
    end: str
    """The id of the last node; empty for the beginning of the session."""
    leads_to_head: bool
    has_next: bool
    """Whether other runs follow it. The one for a head that is not a leaf has none."""
    copies: list[int] = []
    parent: "Run | None" = None

    def copy_of(self, node_id: str) -> int | None:
        """Return the number of the copy of a node in this run or the ones before it; None if they do not have it."""
        at: Run | None = self
        while at is not None:
            for node, copy in zip(at.nodes, at.copies, strict=True):
                if node.id == node_id:
                    return copy
            at = at.parent
        return None


class Runs:
    """All runs of a session. A node's `parent_id` is empty where the session begins with it."""

    def __init__(self, nodes: Sequence[WrittenNode], head: str, begins_run: Callable[[WrittenNode], bool]) -> None:
        self._by_id = {node.id: node for node in nodes}
        self._beginnings = {node.id for node in nodes if begins_run(node)}
        self._children: dict[str, list[str]] = {}
        for node in nodes:
            self._children.setdefault(node.parent_id or _ROOT, []).append(node.id)
        self._head = head
        self._to_head = set(self._path(head, _ROOT))
        self.copies: Counter[str] = Counter()
        """How often each node is written."""
        self.ordered = list(self._ordered())

    @property
    def unwritten(self) -> list[WrittenNode]:
        """The nodes that no run has: branches that begin before the first prompt."""
        written = {node.id for run in self.ordered for node in run.nodes}
        return [node for node in self._by_id.values() if node.id not in written]

    def _ordered(self) -> Iterator[Run]:
        waiting = self._first_runs()[::-1]
        while waiting:
            run = waiting.pop()
            if run.nodes:
                yield run
            if run.has_next:
                waiting += self._next_runs(run)[::-1]

    def _first_runs(self) -> list[Run]:
        """Return the runs with which the session begins.

        What precedes the first prompt can be there once only. Of several such beginnings the one of the head is taken,
        and an empty one.
        """
        runs = self._runs_from(_ROOT)
        if len(runs) > 1:
            runs = [run for run in runs if run.leads_to_head or not run.nodes] or runs[-1:]
        return _with_head_last(runs)

    def _next_runs(self, run: Run) -> list[Run]:
        children = self._children.get(run.end, ())
        found = [following for child in children if child in self._beginnings for following in self._runs_from(child)]
        for following in found:
            following.parent = run if run.nodes else None
        return _with_head_last(found)

    def _runs_from(self, start: str) -> list[Run]:
        """Return the runs that begin with a node, or with the session: one for each of the ends that are needed."""
        found = [
            Run([self._by_id[node] for node in self._path(end, start)], end, leads_to_head, has_next)
            for end, leads_to_head, has_next in self._ends(start)
        ]
        for run in sorted(found, key=lambda run: not run.leads_to_head):
            run.copies = [self.copies[node.id] for node in run.nodes]
            self.copies.update(node.id for node in run.nodes)
        return found

    def _ends(self, start: str) -> Iterator[tuple[str, bool, bool]]:
        """Yield the nodes that a run from `start` has to end with, whether it leads to the head, and has next runs."""
        waiting = [start]
        while waiting:
            at = waiting.pop()
            children = self._children.get(at, [])
            inside = [child for child in children if child not in self._beginnings]
            if len(inside) < len(children):
                leads_to_head = any(child in self._to_head and child in self._beginnings for child in children)
                yield at, leads_to_head, True
            if not children or at == self._head:
                yield at, at == self._head, False
            waiting += inside[::-1]

    def _path(self, end: str, start: str) -> list[str]:
        """Return the ids from `start` to `end`."""
        found: list[str] = []
        at = end
        while at in self._by_id:
            found.append(at)
            if at == start:
                break
            at = self._by_id[at].parent_id or _ROOT
        return found[::-1]


def _with_head_last(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.leads_to_head)

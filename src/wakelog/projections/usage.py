"""Token usage and cost: every model call counts once, however many branches or sessions contain its reply.

Calls are identified by the id of the entry that holds the usage. A fork shares entries instead of copying them, and a
copy of a session keeps their ids, so a sum over distinct ids neither misses a call nor counts one twice.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from wakelog.log.content import Reply, Usage
from wakelog.log.entry import Compaction, Entry, Message, Partial
from wakelog.log.tree import Tree


class Spent(msgspec.Struct, frozen=True):
    """The number of model calls and their total usage. The cost is known only if that of every call is."""

    calls: int = 0
    usage: Usage = Usage(cost_micros=0)


class BranchSpent(msgspec.Struct, frozen=True):
    """Usage of one branch, and the part of it that is on no other branch."""

    leaf: str
    spent: Spent
    alone: Spent


def usage(entries: Iterable[Entry]) -> Spent:
    """Return the sum over distinct model calls; entries may come from many branches and many sessions."""
    found = {entry.id: spent for entry in entries if (spent := _usage_of(entry)) is not None}
    total = Usage(cost_micros=0)
    for spent in found.values():
        total = total + spent
    return Spent(len(found), total)


def usage_by_branch(tree: Tree) -> tuple[BranchSpent, ...]:
    """Return the usage of each branch, in total and for the entries that only this branch has."""
    branches = {leaf: tree.branch(leaf) for leaf in tree.leaves()}
    paths = {
        leaf: (*branch.nodes, *branch.annotations, *branch.inherited_annotations) for leaf, branch in branches.items()
    }
    holders = Counter(entry.id for path in paths.values() for entry in path)
    return tuple(
        BranchSpent(leaf, usage(path), usage(entry for entry in path if holders[entry.id] == 1))
        for leaf, path in paths.items()
    )


def _usage_of(entry: Entry) -> Usage | None:
    match entry.value:
        case Message(message=Reply(usage=Usage() as usage)):
            return usage
        case Compaction(usage=Usage() as usage) | Partial(usage=Usage() as usage):
            return usage
    return None

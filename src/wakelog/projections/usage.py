"""What was spent: every real model call once, however many branches or sessions contain its reply.

The key is the entry that holds the usage: a fork shares entries instead of copying them, and a copy
of a session keeps their ids, so adding up distinct ids can neither miss a call nor count one twice.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from wakelog.log.content import Reply, Usage
from wakelog.log.entry import Compaction, Entry, Message, Partial
from wakelog.log.tree import Tree


class Spent(msgspec.Struct, frozen=True):
    """Calls and their sum. A cost is only known if every call's is."""

    calls: int = 0
    usage: Usage = Usage(cost_micros=0)


class BranchSpent(msgspec.Struct, frozen=True):
    """What one branch holds, and what of it no other branch does."""

    leaf: str
    spent: Spent
    alone: Spent


def usage(entries: Iterable[Entry]) -> Spent:
    """The sum over distinct calls; entries may come from many branches and many sessions."""
    found = {entry.id: spent for entry in entries if (spent := _usage_of(entry)) is not None}
    total = Usage(cost_micros=0)
    for spent in found.values():
        total = total + spent
    return Spent(len(found), total)


def usage_by_branch(tree: Tree) -> tuple[BranchSpent, ...]:
    """What each branch cost, and what would not have been spent without it."""
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

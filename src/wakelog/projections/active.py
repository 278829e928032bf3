"""The active part of a branch: what follows the last fold. Context and pending work look no further back.

Two reads of one truth: the branch holds everything that ever happened on it, this the stretch that
still counts. Only the last compaction speaks; an earlier one inside the kept stretch is history.
"""

import msgspec

from wakelog.log.entry import Compaction, Entry
from wakelog.log.tree import Branch


class Active(msgspec.Struct, frozen=True):
    """The last compaction, if any, and the nodes that count, oldest first, compactions left out."""

    compaction: Compaction | None
    nodes: tuple[Entry, ...]


def active(branch: Branch) -> Active:
    """What is left of a branch when its last compaction has been applied."""
    at, fold = _last_compaction(branch.nodes)
    if fold is None:
        return Active(None, branch.nodes)
    first = _first_kept(branch.nodes, at, fold.first_kept_entry_id)
    return Active(fold, tuple(node for node in branch.nodes[first:] if not isinstance(node.value, Compaction)))


def _last_compaction(nodes: tuple[Entry, ...]) -> tuple[int, Compaction | None]:
    for at in range(len(nodes) - 1, -1, -1):
        value = nodes[at].value
        if isinstance(value, Compaction):
            return at, value
    return 0, None


def _first_kept(nodes: tuple[Entry, ...], compaction_at: int, kept: str | None) -> int:
    """Where the kept stretch begins; a first kept entry that is not on this branch keeps nothing older."""
    for at in range(compaction_at, -1, -1):
        if nodes[at].id == kept:
            return at
    return compaction_at

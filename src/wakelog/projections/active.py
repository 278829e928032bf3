"""The active part of a branch: the nodes that the last compaction kept and those after it.

Context and pending work are computed from this part; the branch itself holds the whole history. Only the last
compaction applies; an earlier one among the kept nodes is ignored.
"""

import msgspec

from wakelog.log.entry import Compaction, Entry
from wakelog.log.tree import Branch


class Active(msgspec.Struct, frozen=True):
    """The last compaction, if any, and the active nodes, oldest first, without compactions."""

    compaction: Compaction | None
    nodes: tuple[Entry, ...]


def active(branch: Branch) -> Active:
    """Return the active part of a branch: its last compaction applied."""
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
    """Return the index of the first kept node; that of the compaction if the entry `kept` is not on this branch."""
    for at in range(compaction_at, -1, -1):
        if nodes[at].id == kept:
            return at
    return compaction_at

"""Displayed names of entries: the shortest that can be typed for each. `addresses` resolves what is typed.

A session's own entry is named by its number, or by its id if that is short. An entry that a fork inherited has its
number in another session, and `^` says in which: `^3` is entry 3 of the parent session, `^^3` of the parent's parent.
No id begins with `^`.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from wakelog.log.entry import Entry, SessionHeader
from wakelog.ports.catalogs import SearchHit

if TYPE_CHECKING:
    from wakelog.log.tree import Tree

_SHORT_ID = 8
LONG_ID = 18
"""Length of an id prefix that is unique in practice: the time and forty random bits."""


class EntryNames:
    """The names of entries of one tree. Build it once for many names: for a fork the tree is walked."""

    def __init__(self, tree: "Tree") -> None:
        self._tree = tree
        self._inherited = inherited_names(tree)

    def short(self, entry: Entry) -> str:
        """Return what to type for an entry."""
        if len(entry.id) <= _SHORT_ID:
            return entry.id
        if self._tree.is_inherited(entry.id):
            return self._inherited.get(entry.id) or self._unique_prefixes.get(entry.id, entry.id[:LONG_ID])
        number = str(entry.seq)
        # Foreign ids may consist of digits, and an exact id takes precedence over a number.
        return number if self._tree.entry(number) is None else entry.id

    def of(self, entry_id: str) -> str:
        """Return what to type for a node by its id; the id itself if the tree does not contain it."""
        node = self._tree.nodes.get(entry_id)
        return self.short(node) if node is not None else entry_id

    @cached_property
    def _unique_prefixes(self) -> dict[str, str]:
        """Return the shortest unique prefix of each id; empty if the tree is only partly loaded."""
        return {} if self._tree.partial else dict(_unique_prefixes(_ids(self._tree)))


def entry_name(tree: "Tree", entry: Entry) -> str:
    """Return what to type for one entry."""
    return EntryNames(tree).short(entry)


def hit_name(hit: SearchHit) -> str:
    """Return what to type for a search hit; hits are entries of the session itself, never inherited ones."""
    return hit.entry if len(hit.entry) <= _SHORT_ID or hit.seq is None else str(hit.seq)


def inherited_names(tree: "Tree") -> dict[str, str]:
    """Return what to type for inherited nodes, by id; empty if the tree is only partly loaded.

    The header of each session marks where the next one begins. Of two nodes with the same number in one session the
    first gets the name, as in that session itself.
    """
    if tree.partial:
        return {}
    nodes = list(takewhile(lambda node: tree.is_inherited(node.id), tree.nodes.values()))
    ids: dict[str, str] = {}
    sessions = 1 + sum(isinstance(node.value, SessionHeader) for node in nodes)
    for node in nodes:
        sessions -= isinstance(node.value, SessionHeader)
        ids.setdefault(f"{'^' * sessions}{node.seq}", node.id)
    return {node: name for name, node in ids.items()}


def _ids(tree: "Tree") -> list[str]:
    return sorted({entry.id for node in tree.nodes.values() for entry in (node, *tree.annotations(node.id))})


def _unique_prefixes(ids: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each id with its shortest unique prefix: what it shares with its neighbours, plus one character."""
    shared = [0, *(_common_prefix_length(one, other) for one, other in pairwise(ids)), 0]
    for at, entry_id in enumerate(ids):
        yield entry_id, entry_id[: max(_SHORT_ID, shared[at] + 1, shared[at + 1] + 1)]


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two ids."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

"""What people are shown for an entry: the shortest that they can type for it. `addresses` takes what is typed.

A session's own entry is its number, or its id where that is short. An entry that a fork inherited has its number in
another session, and `^` says in which: `^3` is entry 3 of the session that this one was forked from, `^^3` of the one
that that one was forked from. No id begins so.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from wakelog.log.entry import Entry, Session
from wakelog.ports import Hit

if TYPE_CHECKING:
    from wakelog.log.tree import Tree

_SHORT_ID = 8
LONG_ID = 18
"""How much of an id is unique wherever it is looked for: the time, and forty bits of chance."""


class Names:
    """The names of entries of one tree. Made once for many: a fork has to be walked for them."""

    def __init__(self, tree: "Tree") -> None:
        self._tree = tree
        self._inherited = inherited_names(tree)

    def short(self, entry: Entry) -> str:
        """What to type for an entry."""
        if len(entry.id) <= _SHORT_ID:
            return entry.id
        if self._tree.is_inherited(entry.id):
            return self._inherited.get(entry.id) or self._beginnings.get(entry.id, entry.id[:LONG_ID])
        number = str(entry.seq)
        # Ids of others may be digits, and an exact id is what is meant.
        return number if self._tree.entry(number) is None else entry.id

    def of(self, entry_id: str) -> str:
        """What to type for a node by its id; the id itself where the tree does not hold it."""
        node = self._tree.nodes.get(entry_id)
        return self.short(node) if node is not None else entry_id

    @cached_property
    def _beginnings(self) -> dict[str, str]:
        """Ids as far as they are typed; none where the tree does not know them all."""
        return {} if self._tree.partial else dict(_beginnings(_ids(self._tree)))


def short(tree: "Tree", entry: Entry) -> str:
    """What to type for one entry."""
    return Names(tree).short(entry)


def hit_name(hit: Hit) -> str:
    """What to type for an entry that a search found; a search finds entries in the session that they are of."""
    return hit.entry if len(hit.entry) <= _SHORT_ID or hit.seq is None else str(hit.seq)


def inherited_names(tree: "Tree") -> dict[str, str]:
    """What to type for the nodes that a fork inherited, by id. None where not all of them were read.

    Where one session ends and the next begins is told by their first lines. Of two nodes with the same number in one
    session the first has it, as in that session itself.
    """
    if tree.partial:
        return {}
    nodes = list(takewhile(lambda node: tree.is_inherited(node.id), tree.nodes.values()))
    ids: dict[str, str] = {}
    sessions = 1 + sum(isinstance(node.value, Session) for node in nodes)
    for node in nodes:
        sessions -= isinstance(node.value, Session)
        ids.setdefault(f"{'^' * sessions}{node.seq}", node.id)
    return {node: name for name, node in ids.items()}


def _ids(tree: "Tree") -> list[str]:
    return sorted({entry.id for node in tree.nodes.values() for entry in (node, *tree.annotations(node.id))})


def _beginnings(ids: list[str]) -> Iterator[tuple[str, str]]:
    """Each id with its shortest beginning that no other has: what it shares with its neighbours, and one more."""
    shared = [0, *(_shared(one, other) for one, other in pairwise(ids)), 0]
    for at, entry_id in enumerate(ids):
        yield entry_id, entry_id[: max(_SHORT_ID, shared[at] + 1, shared[at + 1] + 1)]


def _shared(one: str, other: str) -> int:
    """How many characters two ids have in common at the beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

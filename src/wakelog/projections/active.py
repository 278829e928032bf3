"""The active part of a branch: what follows the last fold. Context and pending work look no further back.

Two reads of one truth: the branch holds everything that ever happened on it, this the stretch that
still counts. Only the last compaction speaks; an earlier one inside the kept stretch is history.
"""

import msgspec

from wakelog.log.entry import Compaction, Entry
from wakelog.log.tree import Branch


class Active(msgspec.Struct, frozen=True):
    """The last compaction, if any, and the links that count, oldest first, compactions left out."""

    compaction: Compaction | None
    links: tuple[Entry, ...]


def active(branch: Branch) -> Active:
    """What is left of a branch when its last compaction has been applied."""
    at, fold = _last_fold(branch.links)
    if fold is None:
        return Active(None, branch.links)
    first = _first_kept(branch.links, at, fold.first_kept_entry_id)
    return Active(fold, tuple(link for link in branch.links[first:] if not isinstance(link.value, Compaction)))


def _last_fold(links: tuple[Entry, ...]) -> tuple[int, Compaction | None]:
    for at in range(len(links) - 1, -1, -1):
        value = links[at].value
        if isinstance(value, Compaction):
            return at, value
    return 0, None


def _first_kept(links: tuple[Entry, ...], fold_at: int, kept: str | None) -> int:
    """Where the kept stretch begins; a first kept entry that is not on this branch keeps nothing older."""
    for at in range(fold_at, -1, -1):
        if links[at].id == kept:
            return at
    return fold_at

"""Summary memory: what the compactions of a branch have kept, in order."""

from wakelog.log.entry import Compaction
from wakelog.log.tree import Branch


def memory(branch: Branch) -> tuple[str, ...]:
    """The summaries of a branch, oldest first. Needs the whole branch: a tail holds only the last one."""
    return tuple(link.value.summary for link in branch.links if isinstance(link.value, Compaction))

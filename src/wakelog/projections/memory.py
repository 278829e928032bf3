"""Summary memory: the summaries of all compactions of a branch, in order."""

from wakelog.log.entry import Compaction
from wakelog.log.tree import Branch


def memory(branch: Branch) -> tuple[str, ...]:
    """Return the summaries of a branch, oldest first. Needs the whole branch: a tail has only the last one."""
    return tuple(node.value.summary for node in branch.nodes if isinstance(node.value, Compaction))

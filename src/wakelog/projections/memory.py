"""Summary memory: what the compactions of a branch have kept, in order."""

from wakelog.log.entry import Compaction
from wakelog.log.tree import Branch


def memory(branch: Branch) -> tuple[str, ...]:
    """The summaries of a branch, oldest first. Needs the whole branch: a tail holds only the last one."""
    return tuple(node.value.summary for node in branch.nodes if isinstance(node.value, Compaction))

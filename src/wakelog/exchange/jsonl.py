"""JSONL: the log itself. An ordinary session leaves as the bytes it is stored as, damage included.

A session forked from another refers to it; away from its store it would have no beginning. So it is
written out whole: the parent's branch, then its own entries, sealed anew as one log that stands alone.
"""

from collections.abc import Iterable

from wakelog.log.entry import Session
from wakelog.log.lines import Line
from wakelog.log.salvage import Salvaged, salvage
from wakelog.log.tree import Branch
from wakelog.reading import Log


def is_fork(log: Log) -> bool:
    """Whether a session goes on from an entry of another one."""
    first = log.session.value if log.session else None
    return isinstance(first, Session) and first.parent is not None and first.parent.kind == "fork"


def exact(lines: Iterable[Line]) -> bytes:
    """The bytes of a log as they are stored."""
    return b"".join(line.bytes for line in lines)


def standalone(log: Log, lines: Iterable[Line]) -> Salvaged:
    """A clean copy of a log that needs no other: what can be read, a fork with its parent's branch."""
    return salvage(lines, _inherited(log))


def _inherited(log: Log) -> Branch | None:
    links = [link for link in log.tree.links if log.tree.is_inherited(link)]
    return log.tree.branch(links[-1]) if links else None

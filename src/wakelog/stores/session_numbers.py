"""Session numbers: find the last number of an (agent, sender) pair under the naming scheme of earlier versions."""

from collections.abc import Callable, Iterator

from wakelog.log.codec import decode_identity
from wakelog.log.session_names import name_stem, old_stem, split_name
from wakelog.ports.stores import FirstLine

NUMBERS_MAX = 1_000_000


def last_old_number(first_lines: Callable[[str], Iterator[FirstLine]], agent: str, sender: str) -> int:
    """The highest number of this exact pair under the stem of earlier versions, or 0.

    Called only while the pair has no session under its current stem; new numbers continue from this one. Other pairs
    may share the old stem, so the session headers are compared.
    """
    old = old_stem(agent, sender)
    if old == name_stem(agent, sender):
        return 0
    for first in first_lines(old):
        header = decode_identity(first.raw)
        if header is not None and header.is_of(agent, sender):
            return split_name(first.name)[1] or 0
    return 0

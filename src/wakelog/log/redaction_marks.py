"""Redaction marks: the texts that stand in a log for secrets, recognised by their form. Pure.

A mark holds the kind of the secret and nothing derived from it. Text from outside may look like a mark.
"""

import re
from collections import Counter
from collections.abc import Iterable

REDACTION_MARK = re.compile(r"\[redacted: ([a-z0-9-]{1,40})\]")
_MARK_IN_LINE = re.compile(REDACTION_MARK.pattern.encode())
_MARK_START = b"[redacted: "


def mark_of(kind: str) -> str:
    """Return the mark for a kind of secret."""
    return f"[redacted: {kind}]"


def count_marks(lines: Iterable[bytes]) -> Counter[str]:
    """Return how many marks lines of a log have, by the kind of the secret. Most lines are only searched for one."""
    return Counter(kind.decode() for line in lines if _MARK_START in line for kind in _MARK_IN_LINE.findall(line))


def differs_in_marks_only(marked: bytes, other: bytes) -> bool:
    """Whether a text is another one in which some stretches are replaced by marks."""
    # Every second piece is the kind in a mark.
    first, *between = _MARK_IN_LINE.split(marked)[::2]
    if not between:
        return marked == other
    *between, last = between
    at, end = len(first), len(other) - len(last)
    if not (other.startswith(first) and other.endswith(last)):
        return False
    for piece in between:
        found = other.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return at <= end

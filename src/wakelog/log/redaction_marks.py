"""Redaction marks: the texts that stand in a log for secrets, recognised by their form. Pure.

A mark holds the kind of the secret and nothing derived from it. Text from outside may look like a mark.
"""

import re

REDACTION_MARK = re.compile(r"\[redacted: ([a-z0-9-]+)\]")
_MARK_BYTES = re.compile(REDACTION_MARK.pattern.replace("(", "(?:").encode())


def mark_of(kind: str) -> str:
    """Return the mark for a kind of secret."""
    return f"[redacted: {kind}]"


def differs_in_marks_only(marked: bytes, other: bytes) -> bool:
    """Whether a text is another one in which some stretches are replaced by marks."""
    first, *between = _MARK_BYTES.split(marked)
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

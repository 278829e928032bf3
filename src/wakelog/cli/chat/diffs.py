"""What a call of `edit` or `write` changes, as lines of a diff. Pure: made from the call alone, as the log holds it.

The log does not hold what a file was before `write`, so a whole file is shown as added. What else a call was given is
told too: nobody approves what they have not seen.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from wakelog.log.codec import canonical

# More lines than this on one side are not compared: the work grows with their product.
_COMPARED_MAX = 2_000


def diff_of(tool: str, given: object) -> list[tuple[str, str]] | None:
    """The lines of a change, each with its sign (`+`, `-` or a space); None for what is no change of a file."""
    if not isinstance(given, Mapping):
        return None
    match tool, dict(given):
        case "edit", {"path": str(), "old": str() as old, "new": str() as new}:
            return [*_rest(given, ("path", "old", "new")), *_compared(old.split("\n"), new.split("\n"))]
        case "write", {"path": str(), "content": str() as content}:
            lines = content.removesuffix("\n").split("\n") if content else []
            return [*_rest(given, ("path", "content")), *(("+", line) for line in lines)]
    return None


def _rest(given: Mapping[str, Any], told: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, value in given.items():
        if key not in told:
            yield " ", f"({key}: {canonical(value).decode()})"


def _compared(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    if max(len(old), len(new)) > _COMPARED_MAX:
        yield from (("-", line) for line in old)
        yield from (("+", line) for line in new)
        return
    for line in difflib.ndiff(old, new):
        if not line.startswith("?"):
            yield line[0], line[2:]

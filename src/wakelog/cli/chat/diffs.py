"""Diff lines of an `edit` or `write` tool call. Pure: made from the logged call alone.

The log does not contain the file's content before `write`, so a whole file is shown as added. Other arguments of the
call are shown too, because an approval must not cover anything unseen.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from wakelog.log.codec import canonical

# Above this number of lines on one side nothing is compared: the time grows with the product of both.
_COMPARED_MAX = 2_000


def diff_of(tool: str, given: object) -> list[tuple[str, str]] | None:
    """Return the diff lines, each with its sign (`+`, `-` or a space); None if the call changes no file."""
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

"""The records of sub-agents inside the file of their session, for one sub-agent after the other.

Old files have many sub-agents, and each is a session that is read by itself. So that the file is not read once for each
of them, the lines of as many as fit into memory are read at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from wakelog.exchange.claude_code.plan import Sidechain
from wakelog.exchange.records import SourceLine

_LINES_BYTES = 16 * 1024 * 1024


class SidechainLines:
    """The lines of sidechains. `read` returns the lines of the whole file, each time anew."""

    def __init__(self, sidechains: Sequence[Sidechain], read: Callable[[], Iterable[SourceLine]]) -> None:
        self._sidechains = sidechains
        self._read = read
        self._found: dict[int, list[SourceLine]] = {}

    def of(self, number: int) -> Iterator[SourceLine]:
        """Yield the lines with records of a sidechain. Sidechains are asked for in order."""
        if number not in self._found:
            self._found = self._together(number)
        if number in self._found:
            yield from self._found.pop(number)
        else:
            yield from (line for line in self._read() if line.number in self._sidechains[number].lines)

    def _together(self, first: int) -> dict[int, list[SourceLine]]:
        """Return the lines of a sidechain and of those after it, up to a size; nothing if the first is too large."""
        found: dict[int, list[SourceLine]] = {}
        numbers: dict[int, list[int]] = {}
        size = 0
        for at in range(first, len(self._sidechains)):
            size += self._sidechains[at].size
            if size > _LINES_BYTES:
                break
            found[at] = []
            for line_number in self._sidechains[at].lines:
                numbers.setdefault(line_number, []).append(at)
        for line in self._read() if found else ():
            for at in numbers.get(line.number, ()):
                found[at].append(line)
        return found

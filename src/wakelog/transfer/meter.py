"""Progress of a copy in bytes of logs. Each byte counts three times: read, written, and read back."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the amount done so far, and the total."""

_PASSES = 3


class Meter:
    """Counts the progress. `finish` also counts work that a session did not need."""

    def __init__(self, progress: Progress | None, sizes: Mapping[str, int]) -> None:
        self._progress = progress
        self._sizes = sizes
        self._left: dict[str, int] = {}
        self._done = self._total = 0

    def expect(self, names: Iterable[str]) -> None:
        """Add sessions to the total."""
        for name in names:
            if name not in self._left:
                self._left[name] = _PASSES * self._sizes.get(name, 0)
                self._total += self._left[name]

    def step(self, name: str, count: int) -> None:
        """Count bytes of a session as done."""
        if self._progress is not None:
            count = min(count, self._left[name])
            self._left[name] -= count
            self._done += count
            self._progress(self._done, self._total)

    def finish(self, name: str) -> None:
        """Count the rest of a session as done."""
        self.step(name, self._left[name])

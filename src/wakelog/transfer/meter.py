"""How much of the work is done, in bytes of logs: every one is read here, written there, and read back."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""

_PASSES = 3


class Meter:
    """Counts. A session that needs less than was expected is done sooner."""

    def __init__(self, progress: Progress | None, sizes: Mapping[str, int]) -> None:
        self._progress = progress
        self._sizes = sizes
        self._left: dict[str, int] = {}
        self._done = self._total = 0

    def expect(self, names: Iterable[str]) -> None:
        """These will be copied."""
        for name in names:
            if name not in self._left:
                self._left[name] = _PASSES * self._sizes.get(name, 0)
                self._total += self._left[name]

    def step(self, name: str, count: int) -> None:
        """So many bytes of a session were dealt with."""
        if self._progress is not None:
            count = min(count, self._left[name])
            self._left[name] -= count
            self._done += count
            self._progress(self._done, self._total)

    def finish(self, name: str) -> None:
        """A session is done."""
        self.step(name, self._left[name])

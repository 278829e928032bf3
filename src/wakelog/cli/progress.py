"""Progress bar for operations that take over a second; only if stderr is a terminal.

The drawing library is loaded after that second, so that quick commands do not pay for it.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from wakelog.cli import load

_PATIENCE_S = 1.0


@contextlib.contextmanager
def watched(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback for (done, total); None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(what)
    try:
        yield bar.step
    finally:
        bar.close()


class _Bar:
    """A progress bar that is drawn after `_PATIENCE_S` seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def step(self, done: int, total: int) -> None:
        """Update the bar: `done` of `total`."""
        if self._drawn is None and time.monotonic() - self._begun > _PATIENCE_S:
            console = load("rich.console").Console(stderr=True)
            self._drawn = load("rich.progress").Progress(console=console, transient=True)
            self._task = self._drawn.add_task(self._what, total=total)
            self._drawn.start()
        if self._drawn is not None:
            self._drawn.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._drawn is not None:
            self._drawn.stop()

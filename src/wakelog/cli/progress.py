"""A progress bar for whatever takes over a second, on a terminal's stderr only.

The drawing library is loaded when the second is over: a command that is quick never pays for it.
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
    """A callback for (done, total); None where nobody is watching."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(what)
    try:
        yield bar.step
    finally:
        bar.close()


class _Bar:
    """Waits a second, then draws."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def step(self, done: int, total: int) -> None:
        """So much is done of so much."""
        if self._drawn is None and time.monotonic() - self._begun > _PATIENCE_S:
            console = load("rich.console").Console(stderr=True)
            self._drawn = load("rich.progress").Progress(console=console, transient=True)
            self._task = self._drawn.add_task(self._what, total=total)
            self._drawn.start()
        if self._drawn is not None:
            self._drawn.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Takes the bar off the terminal."""
        if self._drawn is not None:
            self._drawn.stop()

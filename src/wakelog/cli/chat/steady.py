"""The terminal as something to write to. What belongs together is of one size and written at once: nobody sees a screen
without its input, and none is laid out half for one width and half for another.
"""

import contextlib
import os
import sys
from collections.abc import Iterator

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.vt100 import Vt100_Output


class Steady(Vt100_Output):
    """The terminal's output."""

    _held = 0
    _size: Size | None = None

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Everything in here is written at its end, and all of it for the size that the terminal has now."""
        self._size = self.get_size()
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            self._size = self._size if self._held else None
            self.flush()

    def get_size(self) -> Size:
        """See `Output`."""
        return self._size or super().get_size()

    def flush(self) -> None:
        """See `Output`."""
        if not self._held:
            super().flush()


def terminal() -> Steady:
    """The terminal of this process. Where its cursor stands is never asked: nothing is drawn above it."""
    output = Steady.from_pty(sys.stdout, term=os.environ.get("TERM"))
    assert isinstance(output, Steady)
    output.enable_cpr = False
    return output

"""Terminal output that is written in whole frames, each laid out for one terminal size.

The user never sees a screen without its input, or one that is laid out for two different widths.
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
        """Hold all output until the end of the block, and keep the current terminal size meanwhile."""
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
    """Return the output of this process. The cursor position is never queried, because nothing is drawn above it."""
    output = Steady.from_pty(sys.stdout, term=os.environ.get("TERM"))
    assert isinstance(output, Steady)
    output.enable_cpr = False
    return output

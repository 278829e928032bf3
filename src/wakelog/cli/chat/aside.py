"""What is said on stderr while a chat has the terminal: a line of its own, above what is live, instead of across it."""

import asyncio
import io
from collections.abc import Callable


class Aside(io.TextIOBase):
    """Takes the place of stderr. Lines may come from any thread; they are handed over in the loop of the chat."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._line = ""

    def write(self, text: str, /) -> int:
        """Hands over each line as it ends."""
        *ended, self._line = (self._line + text).split("\n")
        for line in ended:
            if line.strip():
                self._loop.call_soon_threadsafe(self._tell, line)
        return len(text)

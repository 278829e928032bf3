"""Replacement of stderr during a chat: each line is printed above the live area instead of across it."""

import asyncio
import io
from collections.abc import Callable


class Aside(io.TextIOBase):
    """A stderr replacement. Lines may come from any thread; they are passed on in the event loop of the chat."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._line = ""

    def write(self, text: str, /) -> int:
        """Pass on each complete line."""
        *ended, self._line = (self._line + text).split("\n")
        for line in ended:
            if line.strip():
                self._loop.call_soon_threadsafe(self._tell, line)
        return len(text)

"""Diagnostics of a server: the end of its standard error and notes of the connection, for failure messages.

Standard error never reaches the terminal of the agent. It is read as it arrives, so that a server that writes a lot is
not blocked, and all but the end is dropped.
"""

import asyncio
import contextlib
import os
from io import TextIOWrapper

from wakelog.tools.mcp.declaring import one_line

_KEPT_BYTES = 8 * 1024
_KEPT_LINES = 8
_BLOCK_BYTES = 64 * 1024


class StderrTail:
    """Keeps the last lines read from a descriptor or added with `note`."""

    def __init__(self) -> None:
        self._kept = b""
        self._incoming: int | None = None

    def pen(self) -> TextIOWrapper:
        """Return the file for a server's standard error; close it once the server has it."""
        self.close()
        self._incoming, outgoing = os.pipe()
        os.set_blocking(self._incoming, False)
        asyncio.get_running_loop().add_reader(self._incoming, self._take)
        return os.fdopen(outgoing, "w")

    def note(self, line: str) -> None:
        """Add a line of the connection's own."""
        self._keep(f"{line}\n".encode("utf-8", "backslashreplace"))

    def forget(self) -> None:
        """Drop everything kept so far."""
        self._kept = b""

    def text(self) -> str:
        """Return the last lines."""
        lines = self._kept.decode("utf-8", "replace").splitlines()
        return "\n".join([one_line(line) for line in lines if line.strip()][-_KEPT_LINES:])

    def close(self) -> None:
        """Read what is left, and close the descriptor."""
        if self._incoming is None:
            return
        while self._incoming is not None and self._take():
            pass
        self._let_go()

    def _take(self) -> bool:
        """Read what is available; return False if there is nothing."""
        assert self._incoming is not None
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._incoming, _BLOCK_BYTES)
            self._keep(piece)
            if not piece:
                self._let_go()
            return bool(piece)
        return False

    def _keep(self, piece: bytes) -> None:
        self._kept = (self._kept + piece)[-_KEPT_BYTES:]

    def _let_go(self) -> None:
        if self._incoming is not None:
            asyncio.get_running_loop().remove_reader(self._incoming)
            os.close(self._incoming)
            self._incoming = None

"""The last words of a server: what it said beside the protocol, kept for the day it dies.

Its standard error never comes near the terminal of whoever runs the agent. It is read as it comes, so that a server
that talks a lot is not held up, and all but the end is let go.
"""

import asyncio
import contextlib
import os
from io import TextIOWrapper

from wakelog.tools.mcp.declaring import one_line

_KEPT_BYTES = 8 * 1024
_KEPT_LINES = 8
_BLOCK_BYTES = 64 * 1024


class LastWords:
    """Takes lines from a descriptor, or as they are noted."""

    def __init__(self) -> None:
        self._kept = b""
        self._incoming: int | None = None

    def pen(self) -> TextIOWrapper:
        """What a server's standard error is to be; close it once the server has it."""
        self.close()
        self._incoming, outgoing = os.pipe()
        os.set_blocking(self._incoming, False)
        asyncio.get_running_loop().add_reader(self._incoming, self._take)
        return os.fdopen(outgoing, "w")

    def note(self, line: str) -> None:
        """Adds a line of our own."""
        self._keep(f"{line}\n".encode("utf-8", "backslashreplace"))

    def forget(self) -> None:
        """What was said so far is of no interest any more."""
        self._kept = b""

    def text(self) -> str:
        """The last lines."""
        lines = self._kept.decode("utf-8", "replace").splitlines()
        return "\n".join([one_line(line) for line in lines if line.strip()][-_KEPT_LINES:])

    def close(self) -> None:
        """Lets go of the descriptor, after a last look."""
        if self._incoming is None:
            return
        while self._incoming is not None and self._take():
            pass
        self._let_go()

    def _take(self) -> bool:
        """Reads what is there; False if nothing is."""
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

"""Command output buffer: decodes output for live display and keeps it up to a bound.

Pure: bytes go in, text comes out. Below the bound, the returned text is exactly the text that was shown. Above it, the
middle is left out and live display stops; both are stated in the text.
"""

import codecs
from collections import deque

from wakelog.decide.clip import mark

KEPT_BYTES = 10 * 1024 * 1024


class Output:
    """The output of one command."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, piece: bytes) -> str:
        """Keep a piece; return the text to show for it, which ends at a complete character."""
        was_whole = not self._left_out
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._keep_last(piece[room:] if room < len(piece) else b"")
        if not self._left_out:
            return self._decoder.decode(piece)
        return "\n[the output is too long to be shown live]\n" if was_whole else ""

    def rest(self) -> str:
        """Return the text still to be shown at the end: the replacement for an incomplete character."""
        return "" if self._left_out else self._decoder.decode(b"", final=True)

    def text(self) -> str:
        """Return the kept output."""
        head, tail = bytes(self._head), b"".join(self._tail)
        if not self._left_out:
            return (head + tail).decode("utf-8", "replace")
        spare = max(0, len(tail) - self._half)
        left_out = mark(self._left_out + spare)
        return head.decode("utf-8", "replace") + left_out + tail[spare:].decode("utf-8", "replace")

    def _keep_last(self, piece: bytes) -> None:
        """Append to the tail, and drop pieces that are no longer part of the last half."""
        if piece:
            self._tail.append(piece)
            self._tail_bytes += len(piece)
        while self._tail and self._tail_bytes - len(self._tail[0]) >= self._half:
            dropped = self._tail.popleft()
            self._tail_bytes -= len(dropped)
            self._left_out += len(dropped)

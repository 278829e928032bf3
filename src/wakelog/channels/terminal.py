"""Terminal channel: prints replies to a terminal or a pipe while they are streamed.

Rule 1: a reply is hostile text. Each line goes through the given function `clean`, which must work on a part of a line:
text that follows never changes the output for the text before it. `clean` also gets the text before each piece, so that
it does not matter where a reply was split into deltas.
Rule 2: text counts as shown only when all of it is written; otherwise an error is raised. An unbuffered stream may
write only a part without an error, so writing is repeated until nothing is left.
Rule 3: notices of the channel itself are on lines of their own.
"""

from collections.abc import Callable
from typing import BinaryIO, TextIO

from wakelog.channels.offsets import ShownText

STARTING_OVER = "(starting over)"
# How many characters before a piece `clean` gets.
_CONTEXT_CHARS = 16


class TerminalChannel:
    """Prints the text of replies."""

    def __init__(self, out: TextIO, *, name: str = "terminal", clean: Callable[[str], str]) -> None:
        self.name = name
        self._out = out
        self._clean = clean
        self._shown = ShownText()
        # The reply whose line is unfinished, the end of that line, and a CR that may be the first half of a CRLF.
        self._open: str | None = None
        self._line = ""
        self._held = ""

    async def begin(self, reply_id: str, attempt: int) -> None:  # noqa: ARG002 - the port's signature
        """Finish the line of another reply that was interrupted."""
        if self._open != reply_id:
            self._finish_line()

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Print the new part of the text."""
        fresh = self._shown.new_part(reply_id, offset, text)
        if not fresh:
            return
        if self._open != reply_id:
            self._finish_line()
        self._print(fresh)
        self._open = reply_id if self._line or self._held else None
        self._shown.add(reply_id, fresh)

    async def reset(self, reply_id: str) -> None:
        """Print a notice that the text shown so far is void, if there is any."""
        if self._shown.size(reply_id):
            self._finish_line()
            self._put(f"{STARTING_OVER}\n")
        self._shown.reset(reply_id)

    async def end(self, reply_id: str) -> None:
        """Finish the line. All output is flushed when this returns."""
        if self._open == reply_id:
            self._finish_line()
        self._put("")
        self._shown.end(reply_id)

    def _print(self, fresh: str) -> None:
        text = (self._held + fresh).replace("\r\n", "\n")
        # The LF of a CRLF may come with the next delta.
        held = "\r" if text.endswith("\r") else ""
        first, *others = text.removesuffix(held).split("\n")
        before = self._line
        lines = [self._clean(before + first)[len(self._clean(before)) :], *map(self._clean, others)]
        self._put("\n".join(lines))
        self._held = held
        self._line = (others[-1] if others else before + first)[-_CONTEXT_CHARS:]

    def _finish_line(self) -> None:
        if self._open is not None:
            self._put(f"{self._clean(self._line + self._held)[len(self._clean(self._line)) :]}\n")
        self._open, self._line, self._held = None, "", ""

    def _put(self, text: str) -> None:
        """Write and flush. A character that the stream cannot encode is written as a backslash escape."""
        encoding = self._out.encoding or "utf-8"
        raw = text.encode(encoding, "backslashreplace")
        # In-memory streams have no binary buffer.
        binary: BinaryIO | None = getattr(self._out, "buffer", None)
        self._out.flush()
        if binary is None:
            self._out.write(raw.decode(encoding))
        else:
            _write_all(binary, raw)
        self._out.flush()


def _write_all(binary: BinaryIO, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        # A raw stream returns None when it cannot write anything now.
        written: int | None = binary.write(view)
        if written is None:
            raise BlockingIOError("the output is not ready for writing")
        view = view[written:]

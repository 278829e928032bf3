"""Replies on a terminal or a pipe, as they come.

Rule 1: a reply is hostile text. Each line goes through `clean`, which is handed in and must work on a
piece of a line: more text behind it never changes what came out for the text before. It is shown what
stands before a piece as well, so that it does not matter where a reply was cut into deltas.
Rule 2: all of it is written, or an error is raised; only then does it count as shown. An unbuffered
stream may take a part of what it is given and say nothing, so no write is trusted to be whole.
Rule 3: lines of our own stand on lines of their own.
"""

from collections.abc import Callable
from typing import BinaryIO, TextIO

from wakelog.channels.offsets import Shown

STARTING_OVER = "(starting over)"
# How far behind a piece `clean` may look.
_CONTEXT_CHARS = 16


class TerminalChannel:
    """Prints the text of replies."""

    def __init__(self, out: TextIO, *, name: str = "terminal", clean: Callable[[str], str]) -> None:
        self.name = name
        self._out = out
        self._clean = clean
        self._shown = Shown()
        # The reply whose line is not finished, what stands at the end of that line, and a CR that may be half a CRLF.
        self._open: str | None = None
        self._line = ""
        self._held = ""

    async def begin(self, reply_id: str, attempt: int) -> None:  # noqa: ARG002 - the port's signature
        """Finishes the line of another reply that was cut."""
        if self._open != reply_id:
            self._finish_line()

    async def delta(self, reply_id: str, offset: int, text: str) -> None:
        """Prints what is fresh."""
        fresh = self._shown.fresh(reply_id, offset, text)
        if not fresh:
            return
        if self._open != reply_id:
            self._finish_line()
        self._print(fresh)
        self._open = reply_id if self._line or self._held else None
        self._shown.add(reply_id, fresh)

    async def reset(self, reply_id: str) -> None:
        """Says that what was shown is void, if anything was."""
        if self._shown.size(reply_id):
            self._finish_line()
            self._put(f"{STARTING_OVER}\n")
        self._shown.reset(reply_id)

    async def end(self, reply_id: str) -> None:
        """Finishes the line. Everything is with the system when this returns."""
        if self._open == reply_id:
            self._finish_line()
        self._put("")
        self._shown.end(reply_id)

    def _print(self, fresh: str) -> None:
        text = (self._held + fresh).replace("\r\n", "\n")
        # The other half of a CRLF may come with the next delta.
        held = "\r" if text.endswith("\r") else ""
        first, *others = text.removesuffix(held).split("\n")
        before = self._line
        seen = [self._clean(before + first)[len(self._clean(before)) :], *map(self._clean, others)]
        self._put("\n".join(seen))
        self._held = held
        self._line = (others[-1] if others else before + first)[-_CONTEXT_CHARS:]

    def _finish_line(self) -> None:
        if self._open is not None:
            self._put(f"{self._clean(self._line + self._held)[len(self._clean(self._line)) :]}\n")
        self._open, self._line, self._held = None, "", ""

    def _put(self, text: str) -> None:
        """Writes and flushes. A sign that the stream cannot write comes out as its number."""
        encoding = self._out.encoding or "utf-8"
        raw = text.encode(encoding, "backslashreplace")
        # Streams in memory have no bytes beneath them.
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
        # A raw stream answers None when it cannot take anything now.
        written: int | None = binary.write(view)
        if written is None:
            raise BlockingIOError("the output takes nothing at the moment")
        view = view[written:]

"""Write JSON lines, stored bytes and drawn lines to stdout, optionally through a pager; draw progress on stderr.

Rule 1: output is written in large pieces, so that ten thousand entries do not take ten thousand system calls.
Rule 2: everything is written, or an error is raised. An unbuffered stream may accept only a part of its input without
an error, so nothing here relies on a single write.
Rule 3: a progress bar appears after a second and only if stderr is a terminal; the drawing library is loaded then.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wakelog.app.notices import OutputClosed
from wakelog.cli import load
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.safe_text import json_line

_PIECE_CHARS = 64 * 1024


def put(text: str) -> None:
    """Write one line of text."""
    put_bytes(_encoded(f"{text}\n"))


def put_raw(text: str) -> None:
    """Write text that was made visible before, without a line end."""
    put_bytes(_encoded(text))


def put_text(lines: Iterable[str]) -> None:
    """Write many lines of text."""
    for piece in _join_lines(lines):
        put_bytes(_encoded(piece))


def put_json(value: object) -> None:
    """Write one line of JSON."""
    put_bytes(json_line(value))


def put_json_lines(values: Iterable[object]) -> None:
    """Write many values, one line of JSON each."""
    piece = bytearray()
    for value in values:
        piece += json_line(value)
        if len(piece) > _PIECE_CHARS:
            put_bytes(bytes(piece))
            piece.clear()
    put_bytes(bytes(piece))


def put_lines(lines: Iterable[bytes]) -> None:
    """Write stored lines unchanged, each followed by LF."""
    put_bytes(b"".join(line + b"\n" for line in lines))


def put_bytes(content: bytes) -> None:
    """Write bytes unchanged. `OutputClosed` if the pipe is closed."""
    view = memoryview(content)
    try:
        sys.stdout.flush()
        while view:
            view = view[sys.stdout.buffer.write(view) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise OutputClosed from None


def _encoded(text: str) -> bytes:
    """Encode text for stdout; characters that its encoding lacks are escaped."""
    return text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")


def put_pages(shared: SharedOptions, lines: Iterable[str]) -> None:
    """Write drawn lines, through a pager on a terminal."""
    if not (shared.pager and _can_page() and load("wakelog.cli.ui.pager").page(_join_lines(lines))):
        put_text(lines)


def _can_page() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _join_lines(lines: Iterable[str]) -> Iterator[str]:
    piece: list[str] = []
    size = 0
    for line in lines:
        piece.append(f"{line}\n")
        size += len(line)
        if size > _PIECE_CHARS:
            yield "".join(piece)
            piece, size = [], 0
    yield "".join(piece)


_BAR_DELAY_S = 1.0


@contextlib.contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback for (done, total); None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _ProgressBar(what)
    try:
        yield bar.step
    finally:
        bar.close()


class _ProgressBar:
    """A progress bar that is drawn after `_BAR_DELAY_S` seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._drawn: Any = None
        self._task: Any = None

    def step(self, done: int, total: int) -> None:
        """Update the bar: `done` of `total`."""
        if self._drawn is None and time.monotonic() - self._begun > _BAR_DELAY_S:
            console = load("rich.console").Console(stderr=True)
            self._drawn = load("rich.progress").Progress(console=console, transient=True)
            self._task = self._drawn.add_task(self._what, total=total)
            self._drawn.start()
        if self._drawn is not None:
            self._drawn.update(self._task, completed=done, total=total)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._drawn is not None:
            self._drawn.stop()

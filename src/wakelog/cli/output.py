"""The way out: JSON lines, stored bytes and drawn lines to stdout, through a pager where one is wanted.

Rule 1: output is written in large pieces: ten thousand entries are not ten thousand system calls.
Rule 2: all of it is written, or an error is raised. An unbuffered stream may take a part of what it is
given and say nothing, so nothing here relies on a single write.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from wakelog.cli import load
from wakelog.cli.options import Asked
from wakelog.cli.safe import json_line

_PIECE_CHARS = 64 * 1024


class ReaderGone(BaseException):
    """The reader of our output has closed the pipe: nothing is wrong, and the rest is not needed.

    It ends the command, as Ctrl-C does. It is no failure of a channel, which would be tried again.
    """


def put(text: str) -> None:
    """One line of text."""
    put_bytes(_encoded(f"{text}\n"))


def put_raw(text: str) -> None:
    """Text that has been made visible, as it is: without an end of line."""
    put_bytes(_encoded(text))


def put_text(lines: Iterable[str]) -> None:
    """Many lines of text."""
    for piece in _pieces(lines):
        put_bytes(_encoded(piece))


def put_json(value: object) -> None:
    """One line of JSON."""
    put_bytes(json_line(value))


def put_lines(lines: Iterable[bytes]) -> None:
    """Stored lines as they are, an LF behind each."""
    put_bytes(b"".join(line + b"\n" for line in lines))


def put_bytes(content: bytes) -> None:
    """Bytes as they are."""
    view = memoryview(content)
    try:
        sys.stdout.flush()
        while view:
            view = view[sys.stdout.buffer.write(view) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def _encoded(text: str) -> bytes:
    """A sign that the stream cannot write comes out as its number."""
    return text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")


def put_pages(asked: Asked, lines: Iterable[str]) -> None:
    """Drawn lines, in a pager on a terminal."""
    if not (asked.pager and _can_page() and load("wakelog.cli.pager").page(_pieces(lines))):
        put_text(lines)


def _can_page() -> bool:
    return sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    piece: list[str] = []
    size = 0
    for line in lines:
        piece.append(f"{line}\n")
        size += len(line)
        if size > _PIECE_CHARS:
            yield "".join(piece)
            piece, size = [], 0
    yield "".join(piece)

"""Write JSON lines, stored bytes and drawn lines to stdout, optionally through a pager.

Rule 1: output is written in large pieces, so that ten thousand entries do not take ten thousand system calls.
Rule 2: everything is written, or an error is raised. An unbuffered stream may accept only a part of its input without
an error, so nothing here relies on a single write.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from wakelog.cli import load
from wakelog.cli.options import Asked
from wakelog.cli.safe import json_line

_PIECE_CHARS = 64 * 1024


class ReaderGone(BaseException):
    """The reader of stdout has closed the pipe; the rest of the output is not needed.

    It ends the command, as Ctrl-C does. It is not a channel failure, which would be retried.
    """


def put(text: str) -> None:
    """Write one line of text."""
    put_bytes(_encoded(f"{text}\n"))


def put_raw(text: str) -> None:
    """Write text that was made visible before, without a line end."""
    put_bytes(_encoded(text))


def put_text(lines: Iterable[str]) -> None:
    """Write many lines of text."""
    for piece in _pieces(lines):
        put_bytes(_encoded(piece))


def put_json(value: object) -> None:
    """Write one line of JSON."""
    put_bytes(json_line(value))


def put_lines(lines: Iterable[bytes]) -> None:
    """Write stored lines unchanged, each followed by LF."""
    put_bytes(b"".join(line + b"\n" for line in lines))


def put_bytes(content: bytes) -> None:
    """Write bytes unchanged. `ReaderGone` if the pipe is closed."""
    view = memoryview(content)
    try:
        sys.stdout.flush()
        while view:
            view = view[sys.stdout.buffer.write(view) :]
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def _encoded(text: str) -> bytes:
    """Encode text for stdout; characters that its encoding lacks are escaped."""
    return text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")


def put_pages(asked: Asked, lines: Iterable[str]) -> None:
    """Write drawn lines, through a pager on a terminal."""
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

"""The way out: JSON lines, stored bytes and drawn lines to stdout, through a pager where one is wanted.

Output is written in large pieces: a session of ten thousand entries is not ten thousand system calls.
"""

import os
import sys
from collections.abc import Iterable, Iterator

from wakelog.cli import load
from wakelog.cli.options import Asked
from wakelog.cli.safe import json_line

_PIECE_CHARS = 64 * 1024


def put(text: str) -> None:
    """One line of text."""
    sys.stdout.write(f"{text}\n")


def put_json(value: object) -> None:
    """One line of JSON."""
    put_bytes(json_line(value))


def put_bytes(content: bytes) -> None:
    """Bytes as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def put_lines(lines: Iterable[bytes]) -> None:
    """Stored lines as they are, an LF behind each."""
    put_bytes(b"".join(line + b"\n" for line in lines))


def put_pages(asked: Asked, lines: Iterable[str]) -> None:
    """Drawn lines, in a pager on a terminal."""
    pieces = _pieces(lines)
    if asked.pager and _can_page():
        load("wakelog.cli.pager").page(pieces)
        return
    for piece in pieces:
        sys.stdout.write(piece)
    sys.stdout.flush()


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

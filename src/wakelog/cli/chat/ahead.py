"""What is typed before a chat is there: it counts as if it had been typed into it.

Until a program takes the terminal, that edits lines by itself, and what was Enter is a line feed by the time it is
read: in a chat that would be a new line of a message instead of its end. So what is there already is read before
anybody else reads, and each line feed in it is Enter again. What was pressed in a list before the chat, behind the
Enter that ended it, is kept for the chat likewise.
"""

import contextlib
import os
import select
from collections.abc import Iterator
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.input.vt100 import raw_mode
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

_PIECE = 4_096
# A terminal that edits lines stands so for the key that ends its input.
_KEYS = str.maketrans({"\n": "\r", "\0": "\x04"})


@contextlib.contextmanager
def typed_ahead(terminal: int) -> Iterator[str]:
    """A terminal that hands over keys as they are pressed, and those that were pressed before."""
    with raw_mode(terminal):
        yield as_keys(_waiting(terminal))


def _waiting(terminal: int) -> bytes:
    taken = b""
    while select.select([terminal], [], [], 0)[0] and (piece := os.read(terminal, _PIECE)):
        taken += piece
    return taken


def as_keys(line: bytes) -> str:
    """The keys that a terminal has made a line of."""
    return line.decode(errors="replace").translate(_KEYS)


def pressed(keys: str) -> list[KeyPress]:
    """Keys, told apart."""
    found: list[KeyPress] = []
    parser = Vt100Parser(found.append)
    parser.feed(keys)
    parser.flush()
    return found


def press(app: Application[Any], keys: list[KeyPress]) -> None:
    """Presses keys in a program that runs."""
    app.key_processor.feed_multiple(keys)
    app.key_processor.process_keys()

"""Typeahead: keys pressed before a chat has the terminal count as if they had been typed into it.

Until a program takes the terminal, the terminal is in line mode, and Enter arrives as a line feed; in a chat that would
be a new line of a message instead of its end. So the waiting input is read first, and each line feed in it becomes
Enter again. Keys pressed in the session list after the Enter that ended it are passed to the chat in the same way.
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
# In line mode, NUL in the waiting input stands for the end-of-input key (Ctrl-D).
_KEYS = str.maketrans({"\n": "\r", "\0": "\x04"})


@contextlib.contextmanager
def typed_ahead(terminal: int) -> Iterator[str]:
    """Put the terminal into raw mode; yield the keys that were pressed before."""
    with raw_mode(terminal):
        yield as_keys(_waiting(terminal))


def _waiting(terminal: int) -> bytes:
    taken = b""
    while select.select([terminal], [], [], 0)[0] and (piece := os.read(terminal, _PIECE)):
        taken += piece
    return taken


def as_keys(line: bytes) -> str:
    """Return the keys for input that was read in line mode."""
    return line.decode(errors="replace").translate(_KEYS)


def pressed(keys: str) -> list[KeyPress]:
    """Parse keys into key presses."""
    found: list[KeyPress] = []
    parser = Vt100Parser(found.append)
    parser.feed(keys)
    parser.flush()
    return found


def press(app: Application[Any], keys: list[KeyPress]) -> None:
    """Feed key presses to a running application."""
    app.key_processor.feed_multiple(keys)
    app.key_processor.process_keys()

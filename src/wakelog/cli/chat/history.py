"""What was typed in earlier chats: one JSON string a line, in the XDG state folder, for its owner's eyes only.

It is bounded, may be deleted at any time, and a chat that cannot write it goes on without: it is a convenience, and
no log. Two chats add to it side by side, a line at a time. Secrets stay out (law 14), whatever is agreed for a log:
this file belongs to no session, so nobody has said that it may hold any.
"""

import contextlib
import os
from collections.abc import Iterable

import msgspec
from prompt_toolkit.history import History

from wakelog.decide.clip import storable
from wakelog.redaction.redactor import redact
from wakelog.stores.files import make_private_folders

KEPT = 1_000
_TEXT_MAX = 100_000


def history_path() -> str:
    """Where it is kept."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.expanduser("~/.local/state")
    return os.path.join(state, "wakelog", "history.jsonl")


class TypedHistory(History):
    """See `History`."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        lines = _lines(self._path)
        if len(lines) > 2 * KEPT:
            lines = lines[-KEPT:]
            _rewrite(self._path, lines)
        return [text for line in reversed(lines[-KEPT:]) if (text := _text(line)) is not None]

    def store_string(self, string: str) -> None:
        """Adds a line."""
        if len(string) > _TEXT_MAX:
            return
        with contextlib.suppress(OSError):
            make_private_folders(os.path.dirname(self._path))
            _add(self._path, msgspec.json.encode(redact(storable(string)).text) + b"\n", os.O_APPEND)


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _text(line: bytes) -> str | None:
    """What a line says; None for one that was cut, or that somebody else wrote."""
    try:
        text: str = msgspec.json.decode(line, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return text


def _rewrite(path: str, lines: list[bytes]) -> None:
    beside = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        _add(beside, b"".join(line + b"\n" for line in lines), os.O_TRUNC)
        os.replace(beside, path)


def _add(path: str, content: bytes, how: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, content)
    finally:
        os.close(descriptor)

"""Input history of chats: one JSON string per line, in the XDG state folder, readable by its owner only.

It is bounded and may be deleted at any time; a chat that cannot write it works without it. Several chats may append to
it at once, one line at a time. Secrets stay out (law 14), whatever a session's policy says: the file belongs to no
session, so no policy applies to it.
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
    """Return the path of the history file."""
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
        """Return the entries, the newest first."""
        lines = _lines(self._path)
        if len(lines) > 2 * KEPT:
            lines = lines[-KEPT:]
            _rewrite(self._path, lines)
        return [text for line in reversed(lines[-KEPT:]) if (text := _text(line)) is not None]

    def store_string(self, string: str) -> None:
        """Append an entry."""
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
    """Return the text of a line; None if the line is cut or foreign."""
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

"""Journals as files: `.journals/NAME/REPLY`, one line a piece, written without a sync.

A piece is written before it is shown, so what a crash of the process leaves behind is at least what
anybody saw. A last piece without its LF was shown to nobody, and is none.
"""

import contextlib
import os

from wakelog.errors import UsageError
from wakelog.log.ids import is_id
from wakelog.stores.files import Folder, checked_name, no_follow, storage, write_all

_FOLDER = ".journals"


class JournalFiles:
    """The journals of one folder's sessions."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def add(self, name: str, reply_id: str, piece: bytes) -> None:
        """Adds a piece to a reply's journal."""
        if b"\n" in piece:
            raise UsageError("a journal piece is one line")
        path = os.path.join(self._folder.make(_FOLDER, name), checked_name(reply_id))
        with storage(f"write the journal of {reply_id}"):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, 0o600)
            try:
                write_all(descriptor, piece + b"\n")
            finally:
                os.close(descriptor)

    def read(self, name: str) -> dict[str, tuple[bytes, ...]]:
        """The journals of a session, by reply, as whole pieces."""
        folder = self._folder.inside(_FOLDER, name)
        found = {}
        with storage(f"read the journals of {name}"):
            for reply_id in filter(is_id, sorted(_listed(folder))):
                path = os.path.join(folder, reply_id)
                with contextlib.suppress(FileNotFoundError), open(path, "rb", opener=no_follow) as file:
                    found[reply_id] = tuple(file.read().split(b"\n")[:-1])
        return found

    def drop(self, name: str, reply_id: str) -> None:
        """Removes a journal; one that is not there is removed already."""
        path = os.path.join(self._folder.inside(_FOLDER, name), checked_name(reply_id))
        with storage("drop a journal"), contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []

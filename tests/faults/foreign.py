"""Sessions that a worker would run at once, all files that hold them, and changes of owners and modes."""

import os
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.log.content import Image, Prompt, Text
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.sqlite import SqliteStore
from wakelog.tools import builtin_tools

STRANGER, STRANGERS = 54_321, 54_322
"""A user and a group that no system has."""
IS_ROOT = os.geteuid() == 0


class Change(NamedTuple):
    """A change of a file's owner or mode. Without `bits` and `uid` nothing changes: the control of the table."""

    name: str
    bits: int = 0
    uid: int = -1
    gid: int = -1

    @property
    def exposes(self) -> bool:
        """Whether a file is no longer private after the change."""
        return bool(self.bits & (stat.S_IWGRP | stat.S_IWOTH)) or self.uid not in (-1, os.geteuid())

    def apply(self, path: str) -> Callable[[], None]:
        """Make the change, assert that it holds, and return a function that undoes it."""
        before = os.stat(path)
        os.chown(path, self.uid, self.gid)
        os.chmod(path, stat.S_IMODE(before.st_mode) | self.bits)
        after = os.stat(path)
        assert after.st_mode & self.bits == self.bits
        assert self.uid in (-1, after.st_uid)
        assert self.gid in (-1, after.st_gid)

        def undo() -> None:
            os.chown(path, before.st_uid, before.st_gid)
            os.chmod(path, stat.S_IMODE(before.st_mode))

        return undo


_MODES = {"": 0, " g+r": 0o040, " o+rx": 0o005, " g+w": 0o020, " o+w": 0o002, " go+w": 0o022}
CHANGES = [
    *(Change(f"own{words}", bits) for words, bits in _MODES.items()),
    # Only root can change the owner of a file.
    *(Change(f"foreign{words}", bits, STRANGER, STRANGERS) for words, bits in _MODES.items() if IS_ROOT),
]


def runnable_session(store: JsonlStore | SqliteStore, marker: str) -> Session:
    """A session that runs `touch MARKER` without asking as soon as it is woken. It has a blob and a journal."""
    tools = builtin_tools(os.path.dirname(marker), ["shell"])
    session = Agent(model="demo", tools=tools, policy=Policy(approval="auto")).begin(store, cwd=os.path.dirname(marker))
    image = store.blobs.put(b"an image", "image/png")
    session.append(Message(message=Prompt(content=(Text(text=f"run `touch {marker}`"), Image(blob=image)))))
    session.release(session.acquire("an earlier worker", ttl_s=5))
    return session


def files_of_folder(store: JsonlStore, name: str) -> Iterator[str]:
    """Every file and folder of a file store with one session; links are left out."""
    for folder, _, files in os.walk(store.folder.path):
        yield folder
        paths = (os.path.join(folder, file) for file in files)
        yield from (path for path in paths if not os.path.islink(path))


def files_of_database(store: SqliteStore, name: str) -> Iterator[str]:
    """The files of a SQLite store."""
    yield from (store.file.path + ending for ending in ("", "-wal", "-shm", "-lock"))

"""File paths of an agent: resolves paths that a model writes, or refuses them.

Rule 1: a path is checked after every symbolic link in it is resolved. If confined, it must then be inside the working
directory. This guards against mistakes; it is not a sandbox, because files can change between check and use.
Rule 2: an `OSError` becomes one line with the path as the model wrote it.
Rule 3: file names are hostile: displayed, they are one line of UTF-8.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

from wakelog.errors import UsageError

_BINARY_PROBE_BYTES = 8192


class WorkingDirectory:
    """The working directory of one agent, and whether paths must stay inside it."""

    def __init__(self, cwd: str, *, confined: bool = True) -> None:
        self.cwd = os.path.abspath(cwd)
        self._confined = confined

    def find(self, path: str) -> str:
        """Return the real path of `path`, existing or not; `UsageError` if it may not be accessed."""
        if not path or "\0" in path:
            raise UsageError(f"not a path: {shown(path)!r}")
        found = os.path.realpath(os.path.join(self.cwd, os.path.expanduser(path)))
        home = os.path.realpath(self.cwd)
        if self._confined and found != home and not found.startswith(os.path.join(home, "")):
            raise UsageError(f"{shown(path)} leads out of the working directory, which is not allowed")
        return found

    def show(self, found: str) -> str:
        """Return a real path for display: relative to the working directory if it is inside."""
        home = os.path.join(os.path.realpath(self.cwd), "")
        return shown(found.removeprefix(home))


@contextlib.contextmanager
def reaching(what: str) -> Iterator[None]:
    """Turn an `OSError` into a one-line `UsageError` that says what could not be done."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot {what}: {error.strerror or error}") from error


def open_file(found: str) -> int:
    """Return a descriptor for reading a regular file. Never waits for the other end of a pipe; raises `OSError`."""
    descriptor = os.open(found, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is a folder" if stat.S_ISDIR(kind) else "it is not a regular file")


def is_binary(start: bytes) -> bool:
    """Return whether the start of a file holds a zero byte, which text does not."""
    return b"\0" in start[:_BINARY_PROBE_BYTES]


def shown(name: str) -> str:
    """Return a file name as one line of UTF-8: invalid bytes and control characters are escaped."""
    clean = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in clean)

"""Where an agent works: paths as a model writes them, made into real ones or refused.

Rule 1: a path is looked at after every link in it has been followed. Confined, it must then lie inside the
working directory. This keeps mistakes in; it is no sandbox, since what is there can change in between.
Rule 2: what the system refuses becomes one line with the path as the model wrote it.
Rule 3: file names are hostile: shown, they keep to one line and to UTF-8.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

from wakelog.errors import UsageError

_BINARY_PROBE_BYTES = 8192


class Workplace:
    """The working directory of one agent, and whether it must stay there."""

    def __init__(self, cwd: str, *, confined: bool = True) -> None:
        self.cwd = os.path.abspath(cwd)
        self._confined = confined

    def find(self, path: str) -> str:
        """The real path that `path` leads to, there or not; `UsageError` if it may not be touched."""
        if not path or "\0" in path:
            raise UsageError(f"not a path: {shown(path)!r}")
        found = os.path.realpath(os.path.join(self.cwd, os.path.expanduser(path)))
        home = os.path.realpath(self.cwd)
        if self._confined and found != home and not found.startswith(os.path.join(home, "")):
            raise UsageError(f"{shown(path)} leads out of the working directory, which is not allowed")
        return found

    def show(self, found: str) -> str:
        """A real path as the model knows it: relative to the working directory if it lies inside."""
        home = os.path.join(os.path.realpath(self.cwd), "")
        return shown(found.removeprefix(home))


@contextlib.contextmanager
def reaching(what: str) -> Iterator[None]:
    """Turns an `OSError` into one line that says what could not be done."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot {what}: {error.strerror or error}") from error


def open_file(found: str) -> int:
    """A descriptor for reading a regular file. Never waits for the other end of a pipe; raises `OSError`."""
    descriptor = os.open(found, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is a folder" if stat.S_ISDIR(kind) else "it is not a regular file")


def is_binary(start: bytes) -> bool:
    """Whether the start of a file says that it is no text: text has no zero bytes."""
    return b"\0" in start[:_BINARY_PROBE_BYTES]


def shown(name: str) -> str:
    """A file name in one line of UTF-8: odd bytes and control characters are written as escapes."""
    clean = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in clean)

"""The read-only file tools `read` and `list`, both safe to run again, and the resolution of a model's paths.

Rule 1: a path is checked after every symbolic link in it is resolved. If confined, it must then be inside the
working directory. This guards against mistakes; it is not a sandbox, because files can change between check and
use.
Rule 2: an `OSError` becomes one line with the path as the model wrote it. File names are hostile: displayed, they
are one line of UTF-8.
Rule 3: file text is returned unchanged, without line numbers, so that it can be passed to `edit` verbatim. Every
result is bounded and states at its end, in square brackets, what was left out and how to get it.
"""

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from typing import Annotated

import msgspec

from wakelog.errors import UsageError
from wakelog.ports.runtime import ToolOutcome
from wakelog.tools.function_tool import FunctionTool, tool

_BINARY_PROBE_BYTES = 8192


class WorkingDirectory:
    """The working directory of one agent, and whether paths must stay inside it."""

    def __init__(self, cwd: str, *, confined: bool = True) -> None:
        self.cwd = os.path.abspath(cwd)
        self._confined = confined

    def resolve(self, path: str) -> str:
        """Return the real path of `path`, existing or not; `UsageError` if it may not be accessed."""
        if not path or "\0" in path:
            raise UsageError(f"not a path: {printable_name(path)!r}")
        real_path = os.path.realpath(os.path.join(self.cwd, os.path.expanduser(path)))
        home = os.path.realpath(self.cwd)
        if self._confined and real_path != home and not real_path.startswith(os.path.join(home, "")):
            raise UsageError(f"{printable_name(path)} leads out of the working directory, which is not allowed")
        return real_path

    def display_path(self, real_path: str) -> str:
        """Return a real path for display: relative to the working directory if it is inside."""
        home = os.path.join(os.path.realpath(self.cwd), "")
        return printable_name(real_path.removeprefix(home))


@contextlib.contextmanager
def reporting_os_errors(what: str) -> Iterator[None]:
    """Turn an `OSError` into a one-line `UsageError` that says what could not be done."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot {what}: {error.strerror or error}") from error


def open_regular_file(path: str) -> int:
    """Return a descriptor for reading a regular file. Never waits for the other end of a pipe; raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor
    os.close(descriptor)
    raise OSError(0, "it is a folder" if stat.S_ISDIR(kind) else "it is not a regular file")


def is_binary(start: bytes) -> bool:
    """Return whether the start of a file holds a zero byte, which text does not."""
    return b"\0" in start[:_BINARY_PROBE_BYTES]


def printable_name(name: str) -> str:
    """Return a file name as one line of UTF-8: invalid bytes and control characters are escaped."""
    clean = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in clean)


READ_BYTES = 256 * 1024
LIST_ENTRIES = 1000
_Count = Annotated[int, msgspec.Meta(ge=1)]


def read_tool(directory: WorkingDirectory) -> FunctionTool:
    """Create the `read` tool, which returns the text of a file."""

    @tool(replay="safe")
    def read(path: str, offset: _Count = 1, limit: _Count | None = None) -> ToolOutcome:
        """Gives the text of a file, or some of its lines. Long files come in parts; the last line says how to go on.

        Args:
            path: The file, relative to the working directory.
            offset: The number of the first line wanted; the first line of a file is 1.
            limit: How many lines are wanted; all by default.
        """
        with (
            reporting_os_errors(f"read {printable_name(path)}"),
            open(open_regular_file(directory.resolve(path)), "rb") as file,
        ):
            if is_binary(file.peek()):
                raise UsageError(
                    f"{printable_name(path)} is a binary file of {os.fstat(file.fileno()).st_size:,} bytes"
                )
            return ToolOutcome(_read_lines(file, offset, limit))

    return read


def list_tool(directory: WorkingDirectory) -> FunctionTool:
    """Create the `list` tool, which lists a folder."""

    @tool(name="list", replay="safe")
    def list_folder(path: str = ".") -> ToolOutcome:
        """Lists a folder, hidden entries included: `name/` is a folder, `name -> target` a link, a file has its bytes.

        Args:
            path: The folder, relative to the working directory, which is the default.
        """
        with reporting_os_errors(f"list {printable_name(path)}"), os.scandir(directory.resolve(path)) as entries:
            lines = [_list_line(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
        left = len(lines) - LIST_ENTRIES
        more = [f"[{left:,} more entries are not shown]"] if left > 0 else []
        return ToolOutcome("\n".join(lines[:LIST_ENTRIES] + more) or "[the folder is empty]")

    return list_folder


def _read_lines(file: io.BufferedReader, offset: int, limit: int | None) -> str:
    """Return the lines from `offset` on, within `limit` and the size bound, and a note on what is missing."""
    for before in range(offset - 1):
        if not _skip_line(file):
            raise UsageError(f"there is no line {offset:,}: the file has {before:,}")
    lines: list[bytes] = []
    room = READ_BYTES
    while room > 0 and (limit is None or len(lines) < limit):
        line = file.readline(room)
        if not line:
            break
        lines.append(line)
        room -= len(line)
    left = os.fstat(file.fileno()).st_size - file.tell()
    if left > 0 and len(lines) > 1 and not lines[-1].endswith(b"\n"):
        left += len(lines.pop())
    return _with_notes(lines, offset, left)


def _skip_line(file: io.BufferedReader) -> bool:
    """Skip a line of any length; return False at the end of the file."""
    line = file.readline(READ_BYTES)
    some = bool(line)
    while line and not line.endswith(b"\n"):
        line = file.readline(READ_BYTES)
    return some


def _with_notes(lines: list[bytes], offset: int, left: int) -> str:
    """Return the lines as text, followed by bracketed notes on missing bytes, invalid UTF-8 and empty results."""
    text = b"".join(lines).decode("utf-8", "replace")
    notes = []
    if left > 0:
        after = offset + len(lines)
        cut = lines and not lines[-1].endswith(b"\n")
        where = f"line {offset:,} is cut" if cut else f"lines {offset:,} to {after - 1:,}"
        notes.append(f"[{where}; {left:,} bytes follow; go on with offset {after}]")
    if b"".join(lines).decode("utf-8", "ignore").encode() != b"".join(lines):
        notes.append("[bytes that are not UTF-8 are shown as \ufffd]")
    if not lines:
        notes.append("[the file is empty]" if offset == 1 else f"[the file ends before line {offset:,}]")
    return text if not notes else text + ("\n" if text and not text.endswith("\n") else "") + "\n".join(notes)


def _list_line(entry: os.DirEntry[str]) -> str:
    """Return one line of a listing. An entry that vanishes or cannot be read is listed with the error."""
    name = printable_name(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {printable_name(os.readlink(entry.path))}"
        if entry.is_dir():
            return f"{name}/"
        return f"{name}  {entry.stat(follow_symlinks=False).st_size:,}" if entry.is_file() else f"{name}  (no file)"
    except OSError as error:
        return f"{name}  ({error.strerror})"

"""The read-only file tools `read` and `list`. Both are safe to run again.

File text is returned unchanged, without line numbers, so that it can be passed to `edit` verbatim; `grep` reports line
numbers, and `read` accepts them. Every result is bounded and states at its end, in square brackets, what was left out
and how to get it.
"""

import io
import os
from typing import Annotated

import msgspec

from wakelog.errors import UsageError
from wakelog.ports import Outcome
from wakelog.tools.function_tool import FunctionTool, tool
from wakelog.tools.places import WorkingDirectory, is_binary, open_file, reaching, shown

READ_BYTES = 256 * 1024
LIST_ENTRIES = 1000
_Count = Annotated[int, msgspec.Meta(ge=1)]


def read_tool(place: WorkingDirectory) -> FunctionTool:
    """Create the `read` tool, which returns the text of a file."""

    @tool(replay="safe")
    def read(path: str, offset: _Count = 1, limit: _Count | None = None) -> Outcome:
        """Gives the text of a file, or some of its lines. Long files come in parts; the last line says how to go on.

        Args:
            path: The file, relative to the working directory.
            offset: The number of the first line wanted; the first line of a file is 1.
            limit: How many lines are wanted; all by default.
        """
        with reaching(f"read {shown(path)}"), open(open_file(place.find(path)), "rb") as file:
            if is_binary(file.peek()):
                raise UsageError(f"{shown(path)} is a binary file of {os.fstat(file.fileno()).st_size:,} bytes")
            return Outcome(_part(file, offset, limit))

    return read


def list_tool(place: WorkingDirectory) -> FunctionTool:
    """Create the `list` tool, which lists a folder."""

    @tool(name="list", replay="safe")
    def list_folder(path: str = ".") -> Outcome:
        """Lists a folder, hidden entries included: `name/` is a folder, `name -> target` a link, a file has its bytes.

        Args:
            path: The folder, relative to the working directory, which is the default.
        """
        with reaching(f"list {shown(path)}"), os.scandir(place.find(path)) as entries:
            lines = [_listed(entry) for entry in sorted(entries, key=lambda entry: entry.name)]
        left = len(lines) - LIST_ENTRIES
        more = [f"[{left:,} more entries are not shown]"] if left > 0 else []
        return Outcome("\n".join(lines[:LIST_ENTRIES] + more) or "[the folder is empty]")

    return list_folder


def _part(file: io.BufferedReader, offset: int, limit: int | None) -> str:
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


def _listed(entry: os.DirEntry[str]) -> str:
    """Return one line of a listing. An entry that vanishes or cannot be read is listed with the error."""
    name = shown(entry.name)
    try:
        if entry.is_symlink():
            return f"{name} -> {shown(os.readlink(entry.path))}"
        if entry.is_dir():
            return f"{name}/"
        return f"{name}  {entry.stat(follow_symlinks=False).st_size:,}" if entry.is_file() else f"{name}  (no file)"
    except OSError as error:
        return f"{name}  ({error.strerror})"

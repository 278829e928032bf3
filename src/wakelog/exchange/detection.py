"""Find out what a file is, by its content: which agent wrote it, and which reader reads it.

Names are not trusted: any tool may call its file `session.jsonl`. A file that only looks like a known one is refused
with its name, and one that no reader knows is refused with what was looked for.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from wakelog.exchange.files import DiskDatabase, DiskFile
from wakelog.exchange.sessions import ForeignSession
from wakelog.exchange.sync_index import Signature

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEAD_RECORDS = 20
# Modules with `TOOL`, `read_sessions`, and the functions that recognise the head of a file or the tables of a database.
_FILE_READERS = ("claude_code", "codex", "pi", "opencode")
_DATABASE_READERS = ("opencode", "openclaw")


class DetectedSource:
    """A file or database whose format is known. Use it in a `with` statement."""

    def __init__(
        self, tool: str, source: DiskFile | DiskDatabase, read: Callable[[Any], Iterator[ForeignSession]]
    ) -> None:
        self.tool = tool
        self.path = source.path
        self._source = source
        self._read = read

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._source, DiskDatabase):
            self._source.__exit__(kind, error, trace)

    @property
    def opened(self) -> Signature:
        """The files that were read so far, as they were when they were opened."""
        return self._source.opened

    def sessions(self) -> Iterator[ForeignSession]:
        """Yield the sessions of the source. Each must be read before the next is taken."""
        return self._read(self._source)

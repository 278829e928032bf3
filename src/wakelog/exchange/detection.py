"""Find out what a file is, by its content: which agent wrote it, and which reader reads it.

Names are not trusted: any tool may call its file `session.jsonl`. A file that only looks like a known one is refused
with its name, and one that no reader knows is refused with what was looked for.
"""

import importlib
import itertools
from collections.abc import Callable, Iterator
from types import ModuleType, TracebackType
from typing import Any, Self

import msgspec

from wakelog.errors import NotASession, UsageError
from wakelog.exchange.files import DiskDatabase, DiskFile
from wakelog.exchange.records import Record, json_records
from wakelog.exchange.sessions import ForeignSession
from wakelog.exchange.sync_index import Signature

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEAD_RECORDS = 20
_DOCUMENT_BYTES_MAX = 256 << 20
# In this order: a session of OpenClaw is one of pi with more in it.
_FILE_READERS = ("claude_code", "codex", "openclaw", "pi", "opencode")
_DATABASE_READERS = ("opencode", "openclaw")
_KNOWN = "sessions of Claude Code, Codex, pi, OpenCode and OpenClaw are known"


class DetectedSource:
    """A file or database whose format is known. Use it in a `with` statement."""

    def __init__(self, reader: ModuleType, source: DiskFile | DiskDatabase) -> None:
        self.tool: str = reader.TOOL
        self.path = source.path
        self._reader = reader
        self._source = source

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

    @property
    def takes_known_entries(self) -> bool:
        """Whether the reader must be told which entries are stored."""
        return getattr(self._reader, "TAKES_KNOWN_ENTRIES", False)

    def sessions(self, is_known: Callable[[str], bool] | None = None) -> Iterator[ForeignSession]:
        """Yield the sessions of the source. Each must be read before the next is taken."""
        found: Iterator[ForeignSession] = (
            self._reader.read_sessions(self._source, is_known)
            if is_known is not None and self.takes_known_entries
            else self._reader.read_sessions(self._source)
        )
        return found


def tool_of(path: str) -> str:
    """Return which agent wrote a file; empty if no reader knows it."""
    try:
        with detect(path) as source:
            return source.tool
    except NotASession:
        return ""


def detect(path: str) -> DetectedSource:
    """Open a file or database and return it with its reader; `NotASession` if no reader knows it.

    `UsageError` for a file that is recognised and cannot be imported.
    """
    file = DiskFile(path)
    if _starts_with(file, _SQLITE_MAGIC):
        return _detect_database(path)
    head = _head(file)
    if head is None:
        raise NotASession(f"{path} has no JSON in it", hint=_KNOWN)
    for name in _FILE_READERS:
        reader = _load(name)
        if getattr(reader, f"is_{name}")(head):
            return DetectedSource(reader, _with_root(file, name))
    refused = _load("codex").why_refused(head) or _own_log(path, head)
    if refused:
        raise UsageError(f"{path}: {refused}")
    raise NotASession(f"{path} is not a known session", hint=_KNOWN)


def _own_log(path: str, head: list[Any]) -> str | None:
    first = head[0] if head and isinstance(head[0], dict) else {}
    is_own = first.get("type") == "session" and "seq" in first
    return f"this is a log of wakelog itself; `wakelog show {path}` shows it" if is_own else None


def _starts_with(file: DiskFile, magic: bytes) -> bool:
    with open(file.path, "rb") as opened:
        return opened.read(len(magic)) == magic


def _detect_database(path: str) -> DetectedSource:
    database = DiskDatabase(path)
    try:
        for name in _DATABASE_READERS:
            reader = _load(name)
            if getattr(reader, f"is_{name}_database")(database):
                return DetectedSource(reader, database)
        refused = _load("opencode").refusal(database)
        if refused is None and _load("codex").is_state_database(database.tables):
            refused = "this is the index of Codex, which has no transcripts; import its folder `sessions`"
    except BaseException:
        database.__exit__(None, None, None)
        raise
    database.__exit__(None, None, None)
    if refused:
        raise UsageError(f"{path}: {refused}")
    raise NotASession(f"{path} is not a database of a known agent", hint=_KNOWN)


def _head(file: DiskFile) -> list[Any] | None:
    """Return the first records of a file, or the whole document if it is one; None if there is no JSON."""
    lines = itertools.islice(file.lines(), 2 * _HEAD_RECORDS)
    head = [found.value for found in json_records(lines) if isinstance(found, Record)][:_HEAD_RECORDS]
    if head:
        return head
    if file.size > _DOCUMENT_BYTES_MAX:
        return None
    try:
        document = msgspec.json.decode(file.content(_DOCUMENT_BYTES_MAX))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return document if isinstance(document, list) else [document]


def _with_root(file: DiskFile, name: str) -> DiskFile:
    """Return a file that may name files in the folders its format keeps records in."""
    return file.below(up=2) if name == "opencode" and "/session/" in file.path.replace("\\", "/") else file


def _load(name: str) -> ModuleType:
    return importlib.import_module(
        "wakelog.exchange.openclaw" if name == "openclaw" else f"wakelog.exchange.{name}.reader"
    )

"""Find out what a file is, by its content: which agent wrote it, and which reader reads it.

Names are not trusted: any tool may call its file `session.jsonl`. A file that only looks like a known one is refused
with its name, and one that no reader knows is refused with what was looked for.
A reader module has a function for each kind of source that its format has. `is_NAME` gets the first records of a file,
or the one document in it, and `is_NAME_beside` the file as well, for a format that is known by what lies beside a file
of another one; `is_NAME_text` gets the beginning of a text, `is_NAME_store` the first bytes and size of a
file, `is_NAME_database` a database.
"""

import importlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self

from wakelog.errors import NotASession
from wakelog.exchange.files import DiskDatabase, DiskFile
from wakelog.exchange.records import LINE_BYTES_MAX, JsonRecord, Record, SourceLine, decode_document, json_records
from wakelog.exchange.sessions import ForeignSession
from wakelog.exchange.sync_index import Signature

READERS = {
    "claude_code": "claude_code.reader",
    "codex": "codex.reader",
    # Before pi: a session of OpenClaw is one of pi with more in it.
    "openclaw": "openclaw",
    "pi": "pi.reader",
    "opencode": "opencode.reader",
    "gemini": "gemini.reader",
    "goose": "goose.reader",
    "efferent": "efferent.reader",
    "crabtalk": "crabtalk.reader",
    "aider": "aider.reader",
    "event_sourced": "seed_logs.event_sourced",
    "session_structures": "seed_logs.session_structures",
    # Last: most formats have messages of this form somewhere.
    "message_list": "message_lists.reader",
}
"""The module of each reader, in the order in which they are asked."""
# Formats that keep records outside the folder of a session: a folder that its path has then, and how many folders above
# that one belong to the tool.
_FOLDERS = {
    "opencode": (("/session/", 1),),
    "gemini": (("/chats/", 2),),
    "crabtalk": (("/sessions/", 1),),
    "codex": (("/sessions/", 1), ("/archived_sessions/", 1)),
}
_SQLITE_MAGIC = b"SQLite format 3\0"
_HEAD_BYTES = 16 * 1024
_HEAD_RECORDS, _HEAD_RECORDS_BYTES = 20, 8 << 20
_KNOWN = (
    "sessions of Claude Code, Codex, pi, OpenCode, OpenClaw, Gemini CLI, Goose, Aider, efferent and crabtalk, lists of "
    "messages, and logs of wakelog are known"
)


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
    def damage(self) -> tuple[str, ...]:
        """What could not be read of a database so far, as sentences."""
        return tuple(self._source.damage) if isinstance(self._source, DiskDatabase) else ()

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

    The error says what a file is that is recognised and has no session.
    """
    file = DiskFile(path)
    start = next(file.blocks(), b"")[:_HEAD_BYTES]
    if start.startswith(_SQLITE_MAGIC):
        return _detect_database(path)
    found = _reader_of(file, start)
    if found is not None:
        name, reader = found
        return DetectedSource(reader, _with_root(file, name))
    refused = _refusal(file, start)
    if refused:
        raise NotASession(f"{path}: {refused}")
    if file.size > LINE_BYTES_MAX and start.lstrip()[:1] in (b"{", b"["):
        limit = f"{LINE_BYTES_MAX >> 20} MB"
        raise NotASession(f"{path} has no known records, and more than the {limit} of one JSON document", hint=_KNOWN)
    raise NotASession(f"{path} is not a known session", hint=_KNOWN)


def _reader_of(file: DiskFile, start: bytes) -> tuple[str, ModuleType] | None:
    """Return the reader that knows a file, and its name."""
    head = _head(file)
    text = start.decode("utf-8", "replace")
    # Text first: the answers in it may have lines of JSON.
    questions: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("is_{}_text", (text,)),
        ("is_{}_store", (start, file.size)),
        *([("is_{}_beside", (head, file)), ("is_{}", (head,))] if head is not None else []),
    )
    for question, given in questions:
        for name in READERS:
            reader = _load(name)
            ask: Callable[..., bool] | None = getattr(reader, question.format(name), None)
            if ask is not None and ask(*given):
                return name, reader
    return None


def _refusal(file: DiskFile, start: bytes) -> str | None:
    """Return why a file that is recognised is not imported; None for one that is not recognised."""
    head = _head(file)
    because: str | None = _load("codex").why_refused(head) if head is not None else None
    return because or _load("crabtalk").why_refused(start, file.size)


def _detect_database(path: str) -> DetectedSource:
    database = DiskDatabase(path)
    try:
        for name in READERS:
            reader = _load(name)
            ask: Callable[[DiskDatabase], bool] | None = getattr(reader, f"is_{name}_database", None)
            if ask is not None and ask(database):
                return DetectedSource(reader, database)
        refused = _load("opencode").refusal(database)
        if refused is None and _load("codex").is_state_database(database.tables):
            refused = "this is the index of Codex, which has no transcripts; import its folder `sessions`"
    except BaseException:
        database.__exit__(None, None, None)
        raise
    database.__exit__(None, None, None)
    if refused:
        raise NotASession(f"{path}: {refused}")
    raise NotASession(f"{path} is not a database of a known agent", hint=_KNOWN)


def _head(file: DiskFile) -> list[Any] | None:
    """Return the first records of a file, or the whole document if it is one; None if there is no JSON."""
    found = list(json_records(_first_lines(file)))
    records = _values(found)
    if found and isinstance(found[0], Record):
        return records
    # A document that is written over many lines has lines that are records by accident, such as `{}`.
    document = _document(file)
    if document is None:
        return records or None
    return document if isinstance(document, list) else [document]


def _first_lines(file: DiskFile) -> Iterator[SourceLine]:
    """Yield the first lines of a file, fewer if they are long."""
    size = 0
    for line in itertools.islice(file.lines(), 2 * _HEAD_RECORDS):
        yield line
        size += line.size
        if size > _HEAD_RECORDS_BYTES:
            return


def _values(found: Sequence[JsonRecord]) -> list[Any]:
    return [record.value for record in found if isinstance(record, Record)][:_HEAD_RECORDS]


def _document(file: DiskFile) -> Any | None:
    return decode_document(file.content()) if file.size <= LINE_BYTES_MAX and not file.is_compressed else None


def _with_root(file: DiskFile, name: str) -> DiskFile:
    """Return a file that may name files in the folders its format keeps records in."""
    path = os.path.abspath(file.path).replace("\\", "/")
    for folder, above in _FOLDERS.get(name, ()):
        if folder in path:
            return file.below(up=path.rpartition(folder)[2].count("/") + above)
    return file


def _load(name: str) -> ModuleType:
    return importlib.import_module(f"wakelog.exchange.{READERS[name]}")

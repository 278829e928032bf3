"""Histories of Aider: of chats (`.aider.chat.history.md`), of inputs and of requests to the model.

Aider appends all chats of a folder to one file and gives them no ids. Each run of Aider is a session here: `records.py`
finds the records, `entries.py` turns them into entries. `inputs.py` and `llm_history.py` read the other two files.

Rule 1: a session is identified by the time when it began and everything up to its first prompt. It keeps its id when
the file grows, is moved, or loses older chats.
Rule 2: a run without a prompt or an answer is no session. Its records are counted with the session before it.
Rule 3: Aider records local times without a zone. They are taken for UTC.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from wakelog.exchange.aider.entries import TOOL, ChatReader, input_kind, model_of
from wakelog.exchange.aider.inputs import (
    InputTimes,
    has_commands,
    is_input_history,
    read_input_sessions,
    timestamp_of_local,
)
from wakelog.exchange.aider.llm_history import is_llm_history, read_llm_sessions
from wakelog.exchange.aider.records import START, ChatRecord, chat_records, start_time
from wakelog.exchange.records import BadRecord, SourceFile
from wakelog.exchange.sessions import ForeignSession, ImportedItem, SessionOrigin, SkippedRecords
from wakelog.log.timestamps import parse_ms

__all__ = ["TOOL", "is_aider_text", "read_sessions"]

_VERSION = re.compile(r"Aider v(\S+)")
_RESTORED = "Restored previous conversation history."
_CHAT_NAME, _INPUT_NAME = "chat.history.md", "input.history"
_NO_PROMPT = "a run without a prompt or an answer"
_HEAD_BYTES = 16_384
_HEAD_RECORDS_MAX = 10_000
_IDS_MAX = 100_000


def is_aider_text(text: str) -> bool:
    """Return whether the beginning of a text file is that of one of Aider's histories.

    A text that only mentions one is none: the line that starts a chat is the first, or it stands between empty lines
    and output of Aider follows. Other programs write input histories of the same form: one of Aider has a command of
    Aider in it.
    """
    if (is_input_history(text) and has_commands(text)) or is_llm_history(text):
        return True
    if START not in text:
        return False
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first = next((line for line in lines if line.strip()), "")
    if start_time(first) is not None:
        return True
    return any(
        start_time(line) is not None and not lines[at - 1].strip() and "> Aider v" in "\n".join(lines[at + 1 :])
        for at, line in enumerate(lines)
        if at
    )


def read_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the sessions of a history. Each must be read before the next is taken."""
    head = _head(source)
    if is_input_history(head):
        return read_input_sessions(source)
    if is_llm_history(head):
        return read_llm_sessions(source)
    return _Chats(source).read()


def _head(source: SourceFile) -> str:
    found: list[bytes] = []
    size = 0
    for line in source.lines():
        raw = (line.raw or b"")[:_HEAD_BYTES]
        found.append(raw)
        size += len(raw) + 1
        if size > _HEAD_BYTES:
            break
    return b"\n".join(found).decode("utf-8", "replace")


class _Run(msgspec.Struct, frozen=True):
    """The beginning of a run of Aider: the records up to its first prompt or answer."""

    head: tuple[ChatRecord | BadRecord, ...]
    is_session: bool

    @property
    def time(self) -> str:
        """When it began; empty if the file does not say so."""
        first = self.head[0]
        return first.text if isinstance(first, ChatRecord) and first.kind == "start" else ""

    @property
    def outputs(self) -> list[str]:
        """What Aider said at its start."""
        return [record.text for record in self.head if isinstance(record, ChatRecord) and record.kind == "output"]


class _Chats:
    """Reads the runs of a chat history one after the other, in one pass."""

    def __init__(self, source: SourceFile) -> None:
        self._path = source.path
        self._records = iter(chat_records(source.lines()))
        self._held: ChatRecord | BadRecord | None = None
        self._next: _Run | None = None
        self._skipped = 0
        self._ids: Counter[str] = Counter()
        name = source.path.replace("\\", "/").rpartition("/")[2]
        beside = name.replace(_CHAT_NAME, _INPUT_NAME)
        self._times = InputTimes(source.beside(beside) if beside != name else None)

    def read(self) -> Iterator[ForeignSession]:
        """Yield the sessions."""
        self._find_next()
        previous = ""
        while (run := self._next) is not None:
            session = self._id(run)
            items = self._items(run, session)
            outputs = run.outputs
            yield ForeignSession(
                origin=SessionOrigin(
                    tool=TOOL,
                    id=session,
                    path=self._path,
                    version=next((found[1] for text in outputs if (found := _VERSION.match(text))), ""),
                    parent=previous if _RESTORED in outputs else "",
                ),
                items=items,
                started_ms=parse_ms(timestamp_of_local(run.time)) or 0,
                agent=TOOL,
                model=next((model for text in reversed(outputs) if (model := model_of(text))), None),
            )
            for _ in items:
                # The rest of a session that was not read to its end.
                pass
            previous = session

    def _find_next(self) -> None:
        """Read on to the beginning of the next session, and count the records of runs that are none."""
        self._next = None
        while (run := self._beginning()) is not None:
            if run.is_session:
                self._next = run
                return
            self._skipped += len(run.head)

    def _beginning(self) -> _Run | None:
        head: list[ChatRecord | BadRecord] = []
        while (record := self._take()) is not None:
            if head and isinstance(record, ChatRecord) and record.kind == "start":
                self._held = record
                return _Run(tuple(head), is_session=False)
            head.append(record)
            is_said = isinstance(record, ChatRecord) and record.kind in ("input", "answer")
            if is_said or len(head) >= _HEAD_RECORDS_MAX:
                return _Run(tuple(head), is_session=True)
        return _Run(tuple(head), is_session=False) if head else None

    def _take(self) -> ChatRecord | BadRecord | None:
        held, self._held = self._held, None
        return held if held is not None else next(self._records, None)

    def _id(self, run: _Run) -> str:
        """Return the id of a session. A run that is in the file twice gets two."""
        texts = [f"{record.kind}\0{record.text}" for record in run.head if isinstance(record, ChatRecord)]
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
        name = f"{run.time.replace(' ', 'T') or 'unknown'}-{digest}"
        if len(self._ids) > _IDS_MAX:
            self._ids.clear()
        self._ids[name] += 1
        return name if self._ids[name] == 1 else f"{name}-{self._ids[name]}"

    def _items(self, run: _Run, session: str) -> Iterator[ImportedItem]:
        started = timestamp_of_local(run.time)
        if self._skipped:
            yield SkippedRecords("run", self._skipped, _NO_PROMPT)
            self._skipped = 0
        yield from ChatReader(session, started).read(self._timed(run))
        self._find_next()
        if self._skipped:
            yield SkippedRecords("run", self._skipped, _NO_PROMPT)
            self._skipped = 0

    def _timed(self, run: _Run) -> Iterator[tuple[ChatRecord | BadRecord, str]]:
        """Yield the records of a run; a prompt has the time at which it was typed, if the input history has it."""
        for record in run.head:
            yield record, self._time(record, run.time)
        while (found := self._take()) is not None:
            if isinstance(found, ChatRecord) and found.kind == "start":
                self._held = found
                return
            yield found, self._time(found, run.time)

    def _time(self, record: ChatRecord | BadRecord, started: str) -> str:
        if isinstance(record, BadRecord) or record.kind != "input" or input_kind(record.text) == "answer":
            return ""
        return self._times.take(record.text, started)

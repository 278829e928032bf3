"""The input history of Aider (`.aider.input.history`), which prompt_toolkit writes: a time, then `+` before each line.

It has the exact text and the time of everything that a person typed, in all chats of a folder, and no answers. Beside a
chat history it gives the prompts there their times. By itself it is one session with prompts and nothing else.
"""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from wakelog.exchange.aider.entries import TOOL, command_entry, input_kind
from wakelog.exchange.aider.records import decoded, too_long
from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, SourceFile, SourceLine
from wakelog.exchange.sessions import ForeignSession, ImportedEntry, ImportedItem, SessionOrigin, entry_id
from wakelog.log.content import Prompt
from wakelog.log.entry import Message
from wakelog.log.timestamps import iso_timestamp, parse_ms

_TIME = re.compile(r"# (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?)\s*\Z")
# Inputs that are compared with one prompt: answers to questions stand between them.
_SEARCHED_MAX = 50


_LINE_COST = 64
_COMMAND = re.compile(
    r"\+/(add|architect|ask|chat-mode|clear|code|commit|context|copy-context|diff|drop|exit|git|help|lint|load|ls|map"
    r"|model|models|paste|quit|read-only|reset|run|save|settings|test|tokens|undo|voice|web)\b"
)


class Input(msgspec.Struct, frozen=True, gc=False):
    """What a person typed, and when."""

    time: str
    text: str
    line: int

    @property
    def timestamp(self) -> str:
        """The time; Aider records no time zone, so it is taken for UTC."""
        return timestamp_of_local(self.time)


def timestamp_of_local(time: str) -> str:
    """Return a time of Aider as a timestamp; empty if it is none. Aider records no time zone: it is taken for UTC."""
    found = parse_ms(time)
    return iso_timestamp(found) if found is not None and 0 <= found < 1 << 48 else ""


def is_input_history(text: str) -> bool:
    """Return whether a text is the beginning of an input history: a time, and a line that begins with `+`."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) > 1 and _TIME.match(lines[0]) is not None and lines[1].startswith("+")


def has_commands(text: str) -> bool:
    """Return whether an input history has a command of Aider. Any program with prompt_toolkit may write the rest."""
    return any(_COMMAND.match(line) for line in text.split("\n"))


def inputs(lines: Iterable[SourceLine]) -> Iterator[Input | BadRecord]:
    """Yield the inputs of an input history, in order. Lines that belong to none are bad records."""
    time, first, size, texts = "", 0, 0, list[str]()
    for line in lines:
        text = decoded(line)
        if line.raw is None:
            yield too_long(line)
        elif text.startswith("+") and time:
            texts.append(text[1:])
            size += len(text) + _LINE_COST
            if size > LINE_BYTES_MAX:
                yield Input(time, "\n".join(texts), first)
                size, texts = 0, []
        elif found := _TIME.match(text):
            if texts:
                yield Input(time, "\n".join(texts), first)
            time, first, size, texts = found[1], line.number, 0, []
        elif text.strip():
            yield BadRecord(line.number, line.offset, line.size, f"not an input: {text[:80]}")
    if texts:
        yield Input(time, "\n".join(texts), first)


class InputTimes:
    """The times of prompts: the inputs in the order in which they were typed."""

    def __init__(self, source: SourceFile | None) -> None:
        self._source = iter(inputs(source.lines())) if source is not None else iter(())
        self._next: deque[tuple[Input, str]] = deque()
        """The inputs that come next, each with its text as it is compared."""

    def take(self, text: str, started: str) -> str:
        """Return the time of the next input with a text since a time; empty if there is none."""
        while self._next and self._next[0][0].time < started:
            self._next.popleft()
        wanted = _comparable(text)
        for at in range(_SEARCHED_MAX):
            found = self._peek(at, started)
            if found is None:
                break
            given, text_given = found
            if text_given == wanted:
                for _ in range(at + 1):
                    self._next.popleft()
                return given.timestamp
        return ""

    def _peek(self, at: int, started: str) -> tuple[Input, str] | None:
        while len(self._next) <= at:
            found = next(self._source, None)
            if found is None:
                return None
            if isinstance(found, Input) and found.time >= started:
                self._next.append((found, _comparable(found.text)))
        return self._next[at]


def _comparable(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def read_input_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the session of an input history; nothing if there is no input in it."""
    first = next((found for found in inputs(source.lines()) if isinstance(found, Input)), None)
    if first is None:
        return
    digest = hashlib.sha256(first.text.encode()).hexdigest()[:12]
    session = f"inputs-{first.time.replace(' ', 'T')}-{digest}"
    yield ForeignSession(
        origin=SessionOrigin(tool=TOOL, id=session, path=source.path),
        items=_items(session, inputs(source.lines())),
        started_ms=parse_ms(first.timestamp) or 0,
        agent=TOOL,
        title="Input history",
    )


def _items(session: str, found: Iterable[Input | BadRecord]) -> Iterator[ImportedItem]:
    parent = ""
    for number, item in enumerate(found):
        if isinstance(item, BadRecord):
            yield item
            continue
        key = entry_id(TOOL, f"{session}:{item.time}:{hashlib.sha256(item.text.encode()).hexdigest()[:16]}:{number}")
        kind = input_kind(item.text)
        body = Message(message=Prompt(content=item.text)) if kind == "prompt" else command_entry(kind, item.text)
        placed = msgspec.structs.replace(body, id=key, parent_id=parent or None, timestamp=item.timestamp)
        yield ImportedEntry(placed, is_verbatim=kind != "prompt")
        parent = key

"""The records of a chat history of Aider (`.aider.chat.history.md`): one for each time that Aider appended to it.

Aider appends Markdown: the line `# aider chat started at TIME` when it starts, a prompt as lines that begin with
`#### `, output of the program as lines that begin with `> `, and the answer of the model as it is. An answer may hold
such lines too, so Aider itself reads headings and quotations in it as prompts and output. Three things tell them apart:

- A prompt and the start of a chat follow an empty line.
- Each line of a prompt and the last line of an output end with two spaces. That is required as soon as one such line of
  the chat has them; some editors remove them all.
- In a code block of an answer such lines are text. Models leave code blocks open, so three lines end one: the start of
  a later chat, the count of tokens behind an answer, and a prompt behind two empty lines, which is how one follows an
  answer directly.

An output may have several lines, of which only the first has the mark and only the last has the spaces.
A chat that wakelog wrote says so in an output (`WRITTEN`). There no line of an answer begins with a mark: such lines
have one more space before them.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, SourceLine

WRITTEN = 'Written by wakelog: lines of text that begin with "# ", "> " or "#### " have a space before them.'
"""The output that begins a chat that wakelog wrote."""
START = "# aider chat started at "
_TORN = "# aider"
INPUT, OUTPUT, BREAK = "#### ", "> ", "  "
TOKENS = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent"
    r"(?:, (?P<write>[\d.,]+[kM]?) cache write)?(?:, (?P<hit>[\d.,]+[kM]?) cache hit)?"
    r", (?P<received>[\d.,]+[kM]?) received\.(?:\s+Cost: \$(?P<cost>\d+(?:\.\d+)?) message)?"
)
"""The output behind an answer that has its usage."""
_START = re.compile(re.escape(START) + r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)\Z", re.DOTALL)
_TOKEN_LIMIT = re.compile(r"Model \S+ has hit a token limit!")
_ESCAPED = re.compile(r" *(?:# |> |#### )")
_LOOKED_AT = 200
# Limits for files that are made to use up memory.
_RECORD_SIZE_MAX = LINE_BYTES_MAX
_LINE_COST = 64
_EMPTY_MAX = 1_000
_FENCES_MAX = 100

RecordKind: TypeAlias = Literal["start", "input", "output", "answer"]


class ChatRecord(msgspec.Struct, frozen=True, gc=False):
    """What Aider appended at one time: the time of a start, or a text without the marks of its lines."""

    kind: RecordKind
    text: str
    line: int
    is_written: bool = False
    """Whether it is in a chat that wakelog wrote."""


class _Line(msgspec.Struct, frozen=True, gc=False):
    number: int
    text: str
    offset: int = 0

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()

    @property
    def has_break(self) -> bool:
        return self.text.endswith(BREAK)


def decoded(line: SourceLine) -> str:
    """Return the text of a line; bytes that are not UTF-8 become U+FFFD."""
    return (line.raw or b"").decode("utf-8", "replace").removesuffix("\r")


def too_long(line: SourceLine) -> BadRecord:
    """Return the account of a line that is not decoded."""
    return BadRecord(line.number, line.offset, line.size, f"longer than {LINE_BYTES_MAX // 1_048_576} MB")


def start_time(text: str) -> str | None:
    """Return the time in a line that starts a chat; None if it is another line."""
    found = _START.match(text)
    return found[1] if found else None


def escaped(text: str) -> str:
    """Return a text of which no line is read as a prompt, an output or a start: a space is put before such lines."""
    return "\n".join(f" {line}" if _ESCAPED.match(line) else line for line in text.split("\n"))


def unescaped(text: str) -> str:
    """Return the text that `escaped` was given."""
    return "\n".join(line[1:] if line.startswith(" ") and _ESCAPED.match(line) else line for line in text.split("\n"))


def chat_records(lines: Iterable[SourceLine]) -> Iterator[ChatRecord | BadRecord]:
    """Yield the records of a chat history, in order."""
    return _Records(lines).read()


class _Records:
    """Splits lines into records. Holds one record, and some lines that come next."""

    def __init__(self, lines: Iterable[SourceLine]) -> None:
        self._source = iter(lines)
        self._next: deque[_Line | BadRecord] = deque()
        self._kind: RecordKind | None = None
        self._line = 0
        self._texts: list[str] = []
        self._size = 0
        # Empty lines since the last one with text. The beginning of a file counts as one.
        self._empty: list[str] = [""]
        self._fences: list[str] = []
        self._started = ""
        self._has_breaks: bool | None = None
        self._is_written = False
        self._is_continued = False

    def read(self) -> Iterator[ChatRecord | BadRecord]:
        """Yield the records."""
        while (line := self._take()) is not None:
            if isinstance(line, BadRecord):
                yield from self._end()
                yield line
            elif self._is_torn_start(line):
                yield from self._end()
                yield BadRecord(line.number, line.offset, len(line.text.encode()), "only a part of it was written")
            elif line.is_blank:
                if len(self._empty) < _EMPTY_MAX:
                    self._empty.append(line.text)
            else:
                yield from self._add(line)
                self._empty = []
        yield from self._end()

    def _take(self) -> _Line | BadRecord | None:
        self._fill(1)
        return self._next.popleft() if self._next else None

    def _fill(self, count: int) -> None:
        while len(self._next) < count and (line := next(self._source, None)) is not None:
            self._next.append(too_long(line) if line.raw is None else _Line(line.number, decoded(line), line.offset))

    def _peek(self, at: int) -> _Line | None:
        self._fill(at + 1)
        found = self._next[at] if len(self._next) > at else None
        return found if isinstance(found, _Line) else None

    # ── what a line is ───────────────────────────────────────────────────────────────────────────

    def _add(self, line: _Line) -> Iterator[ChatRecord]:
        if self._has_breaks is None and line.text.startswith((INPUT, OUTPUT)):
            self._has_breaks = line.has_break or self._are_breaks_kept()
        if self._is_continued and not self._ends_output(line):
            self._texts.extend((*self._empty, line.text.removesuffix(BREAK)))
            self._size += len(line.text) + _LINE_COST
            self._is_continued = not line.has_break and self._size < _RECORD_SIZE_MAX
        elif (time := self._start(line)) is not None:
            yield from self._begin("start", line, time)
            self._started = time
            self._has_breaks, self._is_written = None, False
        elif self._is_input(line):
            self._has_breaks = self._has_breaks or line.has_break
            text = _without_mark(line, INPUT)
            if self._kind == "input" and not self._empty and self._size < _RECORD_SIZE_MAX:
                self._texts.append(text)
                self._size += len(text) + _LINE_COST
            else:
                yield from self._begin("input", line, text)
        elif self._is_output(line):
            self._has_breaks = self._has_breaks or line.has_break
            text = _without_mark(line, OUTPUT)
            yield from self._begin("output", line, text)
            self._is_continued = bool(self._has_breaks) and not line.has_break and not self._is_written
            self._is_written = self._is_written or text == WRITTEN
        elif self._kind == "answer" and self._size < _RECORD_SIZE_MAX:
            self._add_text(line)
        else:
            yield from self._begin("answer", line)
            self._add_text(line)

    def _are_breaks_kept(self) -> bool:
        """Return whether the lines of prompts and output of this chat end with two spaces, by those that come next.

        The first line of an output of several lines has none.
        """
        marked: list[bool] = []
        others: list[bool] = []
        for at in range(_LOOKED_AT):
            line = self._peek(at)
            if line is None or start_time(line.text) is not None:
                break
            (marked if line.text.startswith((INPUT, OUTPUT)) else others).append(line.has_break)
        return any(marked or others)

    def _ends_output(self, line: _Line) -> bool:
        """Return whether a line does not belong to an output that has not come to its end."""
        is_prompt = line.text.startswith(INPUT) and line.has_break
        return bool(self._empty) and (is_prompt or start_time(line.text) is not None)

    def _start(self, line: _Line) -> str | None:
        """Return the time if a line starts a chat: an empty line follows, and in a code block an output after that."""
        time = start_time(line.text)
        if time is None or self._is_written:
            return time
        if not self._empty:
            return time if self._kind != "answer" else None
        behind = self._peek(0)
        if behind is not None and not behind.is_blank:
            return None
        if not self._fences:
            return time
        first = self._peek(1)
        return time if time > self._started and (first is None or first.text.startswith(OUTPUT)) else None

    def _is_torn_start(self, line: _Line) -> bool:
        """Return whether the last line of a file is the beginning of one that starts a chat."""
        is_begun = line.text.startswith(_TORN) and (START.startswith(line.text) or line.text.startswith(START))
        is_last = is_begun and bool(self._empty) and self._peek(0) is None and not self._next
        return is_last and start_time(line.text) is None

    def _is_input(self, line: _Line) -> bool:
        if not line.text.startswith(INPUT):
            return False
        if self._is_written:
            return True
        if self._has_breaks and not line.has_break:
            return False
        if self._fences:
            return len(self._empty) > 1
        return bool(self._empty) or self._kind != "answer" or not self._has_breaks

    def _is_output(self, line: _Line) -> bool:
        if not line.text.startswith(OUTPUT) and (self._has_breaks or line.text != ">"):
            return False
        if self._is_written:
            return True
        text = line.text[len(OUTPUT) :]
        if self._kind == "answer" and self._empty and TOKENS.match(text):
            behind = self._peek(0)
            is_cost = behind is not None and behind.text.startswith("Cost: ") and behind.has_break
            return line.has_break or is_cost or not self._has_breaks
        if self._fences:
            return bool(self._empty and _TOKEN_LIMIT.match(text))
        if not self._has_breaks or line.has_break:
            return True
        # The first line of several, directly behind another output or a prompt.
        return self._kind == "start" or (self._kind in ("input", "output") and not self._empty)

    # ── the record at hand ───────────────────────────────────────────────────────────────────────

    def _begin(self, kind: RecordKind, line: _Line, text: str | None = None) -> Iterator[ChatRecord]:
        yield from self._end()
        self._kind, self._line = kind, line.number
        self._texts = [] if text is None else [text]

    def _add_text(self, line: _Line) -> None:
        if self._texts:
            self._texts.extend(self._empty)
        self._texts.append(line.text)
        self._size += len(line.text) + _LINE_COST
        found = _FENCE.match(line.text)
        if found is None or (found[1][0] == "`" and "`" in found[2]):
            return
        mark, words = found[1], found[2].strip()
        if not self._fences:
            self._fences.append(mark)
        elif mark[0] == self._fences[-1][0] and len(mark) >= len(self._fences[-1]):
            # Models put code blocks with a language into code blocks.
            if words and len(self._fences) < _FENCES_MAX:
                self._fences.append(mark)
            elif not words:
                self._fences.pop()

    def _end(self) -> Iterator[ChatRecord]:
        """Yield the record at hand."""
        if self._kind is not None:
            text = "\n".join(self._texts)
            is_written = self._is_written
            if self._kind == "answer" and is_written:
                text = unescaped(text)
            yield ChatRecord(self._kind, text, self._line, is_written)
        self._kind, self._texts, self._size = None, [], 0
        self._fences, self._is_continued = [], False


def _without_mark(line: _Line, mark: str) -> str:
    text = line.text[len(mark) :]
    if text == " ":
        # Aider removes the space of the mark from an empty line at the end, and adds two.
        return ""
    return text.removesuffix(BREAK) if line.has_break else text.rstrip()

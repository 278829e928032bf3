"""Display items of a chat, and the assembly of a streamed reply into items. Pure.

Each item is printed once to the terminal's scroll-back. Its strings are as stored, and hostile until they are drawn.
Rule 1: the blocks of a reply depend only on its text, not on how it was cut into deltas, and not on whether it was
streamed or is read whole. What was taken from deltas is counted, so that the whole reply adds only what is missing.
Rule 2: a block that was returned is never taken back, so a line is judged only when it has ended.
Rule 3: no line with content is lost. A fence stays whole; so does a list, also with blank lines between its items.
"""

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from wakelog.decide.assembly import to_deltas
from wakelog.log.content import AnyPart, ContentDelta, TextDelta, ThinkingDelta, ToolResult
from wakelog.log.entry import AttentionResolved


class UserMessage(msgspec.Struct, frozen=True):
    """A user message."""

    text: str


class Block(msgspec.Struct, frozen=True):
    """A finished Markdown block of a reply."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """A thought, to be shortened to one line."""

    text: str


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call with its result; indented if it was made in a sub-agent.

    `input_shown`: its input was already shown in full, because approval was requested.
    """

    name: str
    input: object
    result: ToolResult
    in_subagent: bool = False
    input_shown: bool = False


class Decision(msgspec.Struct, frozen=True):
    """A decision about a tool call, made here or in another process."""

    decision: AttentionResolved
    name: str = ""
    input: object = None
    in_subagent: bool = False


class Notice(msgspec.Struct, frozen=True):
    """A line by wakelog about an event; it may quote stored text."""

    text: str
    style: str = "dim"


class DrawnLines(msgspec.Struct, frozen=True):
    """Lines that are already drawn."""

    lines: tuple[str, ...]


Item: TypeAlias = UserMessage | Block | Thought | ToolUse | Decision | Notice | DrawnLines


class PendingMessage(msgspec.Struct, frozen=True):
    """A sent message that is not in the log yet, or is still queued."""

    text: str
    steer: bool = False


class RunningTool(msgspec.Struct, frozen=True):
    """A running tool: its input, its start time, and the end of its output."""

    name: str
    input: object
    started: str
    in_subagent: bool = False
    output: str = ""


_FENCE = re.compile(r"( *)(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_BULLET = re.compile(r" {0,3}(?:[-+*]|[0-9]{1,9}[.)])(?:\s|$)")
_INDENTED = re.compile(r" {2,}|\t")
_FENCE_INDENT_MAX = 3


class BlockSplitter:
    """Splits one streamed text into Markdown blocks."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._blank_lines = 0
        self._fence: tuple[int, str] | None = None
        self._open_line: list[str] = []

    def feed(self, text: str) -> list[str]:
        """Add more of the text; return the blocks that it finishes."""
        first, *others = text.split("\n")
        self._open_line.append(first)
        if not others:
            return []
        ended = ["".join(self._open_line), *others[:-1]]
        self._open_line = [others[-1]]
        return [block for line in ended for block in self._take(line.removesuffix("\r"))]

    def finish(self) -> list[str]:
        """End the text; return what is left as blocks."""
        last = "".join(self._open_line).removesuffix("\r")
        self._open_line = []
        return [*(self._take(last) if last else ()), *self._end_block()]

    def last_lines(self, limit: int, chars: int = 4_000) -> list[str]:
        """Return the last lines of the unfinished block, bounded so that a long one costs no more than a short one."""
        self._open_line = ["".join(self._open_line)]
        open_line = self._open_line[0][-chars:]
        blank = [""] * (self._blank_lines if open_line else 0)
        lines = [*self._lines[-limit:], *blank, *([open_line] if open_line else ())]
        return [line[-chars:] for line in lines[-limit:]]

    def _take(self, line: str) -> list[str]:
        if self._fence is not None:
            return self._take_fenced(line, *self._fence)
        if not line.strip():
            return self._take_blank()
        left = self._end_block() if self._starts_block(line) else []
        self._lines += [""] * self._blank_lines
        self._blank_lines = 0
        self._lines.append(line)
        opening = _FENCE.match(line)
        if opening and (self._is_list or len(opening[1]) <= _FENCE_INDENT_MAX):
            self._fence = (len(opening[1]), opening[2])
        elif _HEADING.match(line) and len(self._lines) == 1:
            left += self._end_block()
        return left

    def _take_fenced(self, line: str, indent: int, mark: str) -> list[str]:
        self._lines.append(line)
        bare = line.strip()
        near = len(line) - len(line.lstrip(" ")) <= indent + _FENCE_INDENT_MAX
        if near and len(bare) >= len(mark) and bare == mark[0] * len(bare):
            self._fence = None
            return [] if self._is_list else self._end_block()
        return []

    def _take_blank(self) -> list[str]:
        """Handle a blank line: a list may continue after it; any other block ends."""
        if self._is_list:
            self._blank_lines += 1
            return []
        return self._end_block()

    @property
    def _is_list(self) -> bool:
        return bool(self._lines) and _BULLET.match(self._lines[0]) is not None

    def _starts_block(self, line: str) -> bool:
        """Return whether a line begins a new block."""
        if not self._lines:
            return False
        if self._is_list and (_INDENTED.match(line) or (self._blank_lines and _BULLET.match(line))):
            return False
        opening = _FENCE.match(line)
        return (
            self._blank_lines > 0
            or _HEADING.match(line) is not None
            or (opening is not None and len(opening[1]) <= _FENCE_INDENT_MAX)
        )

    def _end_block(self) -> list[str]:
        block = "\n".join(self._lines)
        self._lines, self._blank_lines, self._fence = [], 0, None
        return [block] if block else []


class ReplyAssembler:
    """Assembles the display items of one streamed reply."""

    def __init__(self) -> None:
        self._splitter = BlockSplitter()
        self._thoughts: list[str] = []
        # Characters of text and thinking, and number of tool calls, taken so far.
        self._seen = {"text": 0, "thinking": 0, "call": 0}

    @property
    def has_begun(self) -> bool:
        """Return whether anything has arrived."""
        return any(self._seen.values())

    @property
    def thinking(self) -> str:
        """Return the end of the current thought."""
        self._thoughts = ["".join(self._thoughts)] if self._thoughts else []
        return self._thoughts[0][-1_000:] if self._thoughts else ""

    def last_lines(self, limit: int) -> list[str]:
        """Return the last lines of the unfinished block."""
        return self._splitter.last_lines(limit)

    def take(self, delta: ContentDelta) -> list[Item]:
        """Take the next delta."""
        match delta:
            case TextDelta(text=text):
                self._seen["text"] += len(text)
                return [*self._end_thought(), *self._add_text(text)] if text else []
            case ThinkingDelta(thinking=thinking):
                self._seen["thinking"] += len(thinking)
                ended = self._end_text() if thinking else []
                self._thoughts += [thinking] if thinking else []
                return ended
        self._seen["call"] += 1
        return self.finish()

    def catch_up(self, parts: Iterable[AnyPart]) -> list[Item]:
        """Take what is new in these parts compared with the deltas taken before."""
        left = dict(self._seen)
        return [
            shown for delta in to_deltas(parts) if (fresh := _unseen_part(delta, left)) for shown in self.take(fresh)
        ]

    def resume(self) -> None:
        """Continue an interrupted reply: its text goes on; thinking and tool calls begin again."""
        self._thoughts = []
        self._seen |= {"thinking": 0, "call": 0}

    def finish(self) -> list[Item]:
        """End the unfinished block and thought."""
        return [*self._end_text(), *self._end_thought()]

    def _add_text(self, text: str) -> list[Item]:
        return [Block(block) for block in self._splitter.feed(text)]

    def _end_text(self) -> list[Item]:
        return [Block(block) for block in self._splitter.finish()]

    def _end_thought(self) -> list[Item]:
        text = "".join(self._thoughts)
        self._thoughts = []
        return [Thought(text)] if text.strip() else []


def _unseen_part(delta: ContentDelta, left: dict[str, int]) -> ContentDelta | None:
    """Return the part of a delta that was not taken before; None if there is none."""
    match delta:
        case TextDelta(text=text):
            known = min(len(text), left["text"])
            left["text"] -= known
            return TextDelta(text[known:]) if text[known:] else None
        case ThinkingDelta(thinking=thinking):
            known = min(len(thinking), left["thinking"])
            left["thinking"] -= known
            return ThinkingDelta(thinking[known:]) if thinking[known:] else None
    left["call"] -= 1
    return delta if left["call"] < 0 else None

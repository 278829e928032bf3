"""Items that a chat displays, as values: each is printed once to the terminal's scroll-back.

Their strings are as stored, and hostile until they are drawn.
"""

from typing import TypeAlias

import msgspec

from wakelog.log.content import ToolResult
from wakelog.log.entry import AttentionResolved


class Prompted(msgspec.Struct, frozen=True):
    """A user message."""

    text: str


class Block(msgspec.Struct, frozen=True):
    """A finished Markdown block of a reply."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """A thought, to be shortened to one line."""

    text: str


class Used(msgspec.Struct, frozen=True):
    """A tool call with its result; indented if it is `inside` a sub-agent.

    `told`: its input was already shown in full, because approval was requested.
    """

    name: str
    input: object
    result: ToolResult
    inside: bool = False
    told: bool = False


class Decided(msgspec.Struct, frozen=True):
    """A decision about a tool call, made here or in another process."""

    decision: AttentionResolved
    name: str = ""
    input: object = None
    inside: bool = False


class Notice(msgspec.Struct, frozen=True):
    """A line by wakelog about an event; it may quote stored text."""

    text: str
    style: str = "dim"


class Lines(msgspec.Struct, frozen=True):
    """Lines that are drawn already."""

    lines: tuple[str, ...]


Shown: TypeAlias = Prompted | Block | Thought | Used | Decided | Notice | Lines


class PendingMessage(msgspec.Struct, frozen=True):
    """A sent message that is not in the log yet, or is still queued."""

    text: str
    steer: bool = False


class Tool(msgspec.Struct, frozen=True):
    """A running tool: its input, its start time, and the end of its output."""

    name: str
    input: object
    since: str
    inside: bool = False
    output: str = ""

"""What a chat shows, as values: each is printed once and stays in the terminal's own scroll-back.

Strings in them are as they were stored, and hostile until they are drawn.
"""

from typing import TypeAlias

import msgspec

from wakelog.log.content import ToolResult
from wakelog.log.entry import AttentionResolved


class Prompted(msgspec.Struct, frozen=True):
    """What a person said."""

    text: str


class Block(msgspec.Struct, frozen=True):
    """A finished block of Markdown of a reply."""

    text: str


class Thought(msgspec.Struct, frozen=True):
    """A thought, to be folded to one line."""

    text: str


class Used(msgspec.Struct, frozen=True):
    """A tool call that has its result; `inside` a sub-agent it stands further to the right.

    What it was given has been `told` in full where a person was asked about it.
    """

    name: str
    input: object
    result: ToolResult
    inside: bool = False
    told: bool = False


class Decided(msgspec.Struct, frozen=True):
    """What a person has decided about a tool call, here or elsewhere."""

    decision: AttentionResolved
    name: str = ""
    input: object = None
    inside: bool = False


class Notice(msgspec.Struct, frozen=True):
    """A line of our own about what happened, which may quote what was stored."""

    text: str
    style: str = "dim"


class Lines(msgspec.Struct, frozen=True):
    """Lines that are drawn already."""

    lines: tuple[str, ...]


Shown: TypeAlias = Prompted | Block | Thought | Used | Decided | Notice | Lines


class Unsaid(msgspec.Struct, frozen=True):
    """A message that was sent and is not part of the talk yet."""

    text: str
    steer: bool = False


class Tool(msgspec.Struct, frozen=True):
    """A tool that runs: what it was given, since when, and the end of what it has put out."""

    name: str
    input: object
    since: str
    inside: bool = False
    output: str = ""

"""The words of an entry that a search can find: what was said, called, answered, summed up or titled.

One entry is one piece of text, so that words of one message are found together. Reasoning, pictures and
the machinery's own entries (calls, starts, leases) are not searched.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.log.content import AnyMessage, AnyPart, Content, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Body, Compaction, Custom, Label, Message, Partial, Queued, Session, SessionRenamed
from wakelog.stores.catalog.query import listed


class Words(msgspec.Struct, frozen=True):
    """The searchable text of an entry, and the tools it names, as `listed` writes them."""

    text: str
    tools: str = ""


def searchable(value: Body) -> Words | None:
    """What of an entry is searched; None for an entry without words."""
    words = _words(value)
    # SQLite and its snippets end a text at NUL, and PostgreSQL takes none.
    return Words(words.text.replace("\0", " "), words.tools) if words.text.strip() else None


def _words(value: Body) -> Words:
    match value:
        case Message(message=said) | Queued(message=said) if said is not None:
            return _said(said)
        case Partial(content=content) | Custom(content=content):
            return Words("\n".join(_texts(content)))
        case Compaction(summary=text) | SessionRenamed(title=text) | Label(label=text):
            return Words(text)
        case Session(title=str() as title):
            return Words(title)
    return Words("")


def _said(said: AnyMessage) -> Words:
    text = "\n".join(_texts(said.content))
    if isinstance(said, Reply):
        return Words(text, listed([call.name for call in said.calls]))
    return Words(text, listed([said.tool_name]) if isinstance(said, ToolResult) and said.tool_name else "")


def _texts(content: Content) -> Iterable[str]:
    return [content] if isinstance(content, str) else [text for part in content for text in _part(part)]


def _part(part: AnyPart) -> Iterator[str]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, ToolCall):
        yield part.name
        yield from _leaves(part.input)


def _leaves(value: Any) -> Iterator[str]:
    """The words and numbers inside plain JSON, in order, however deep it is."""
    rest = [value]
    while rest:
        match rest.pop():
            case str() as text:
                yield text
            case dict() as members:
                rest.extend(reversed(members.values()))
            case list() as items:
                rest.extend(reversed(items))
            case bool() | None:
                pass
            case number:
                yield str(number)

"""Extract the searchable text of an entry: messages, tool calls and results, compaction summaries, titles and labels.

The text of an entry is indexed as one piece, so that a query for several words matches within one message.
Reasoning, images and control entries (model calls, tool starts, leases) are not indexed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.log.content import AnyMessage, AnyPart, Content, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Body, Compaction, Custom, Label, Message, Partial, Queued, Session, SessionRenamed
from wakelog.stores.catalog.query import listed


class Words(msgspec.Struct, frozen=True):
    """The searchable text of an entry and the names of its tools, as encoded by `listed`."""

    text: str
    tools: str = ""


def searchable(value: Body) -> Words | None:
    """Return the searchable text of an entry, or None if it has none."""
    words = _words(value)
    # SQLite and its snippets end a text at NUL, and PostgreSQL rejects NUL.
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
    """Yield the strings and numbers inside a JSON value in document order; iterative, so any depth is safe."""
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

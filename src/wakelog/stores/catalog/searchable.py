"""What is searchable: the texts of entries, and the marks that identify them.

Searchable are messages, tool calls and results, compaction summaries, titles and labels. The text of an entry is
indexed as one piece, so that a query for several words matches within one message. Reasoning, images and control
entries (model calls, tool starts, leases) are not indexed.
This module imports nothing that reads logs: a search needs it for excerpts, and must start fast.
"""

import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from wakelog.log.content import AnyMessage, AnyPart, Content, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import (
    Body,
    Compaction,
    Custom,
    Entry,
    Label,
    Message,
    Partial,
    Queued,
    SessionHeader,
    SessionRenamed,
)
from wakelog.log.provider_calls import ProviderCall, provider_calls
from wakelog.log.timestamps import parse_ms
from wakelog.stores.catalog.query import encode_names
from wakelog.stores.catalog.tables import SearchableEntry


class SearchableText(msgspec.Struct, frozen=True):
    """The searchable text of an entry and the names of its tools, as encoded by `encode_names`."""

    text: str
    tools: str = ""


def searchable_text(value: Body) -> SearchableText | None:
    """Return the searchable text of an entry, or None if it has none."""
    words = _text_of(value)
    # SQLite and its snippets end a text at NUL, and PostgreSQL rejects NUL.
    return SearchableText(words.text.replace("\0", " "), words.tools) if words.text.strip() else None


def _text_of(value: Body) -> SearchableText:
    match value:
        case Message(message=message) | Queued(message=message) if message is not None:
            return _message_text(message)
        case Partial(content=content) | Custom(content=content):
            return SearchableText("\n".join(_content_texts(content)))
        case Compaction(summary=text) | SessionRenamed(title=text) | Label(label=text):
            return SearchableText(text)
        case SessionHeader(title=str() as title):
            return SearchableText(title)
    return SearchableText("")


def _message_text(message: AnyMessage) -> SearchableText:
    text = "\n".join(_content_texts(message.content))
    if isinstance(message, Reply):
        by_provider = [call for call in provider_calls(message.parts).values() if call is not None]
        if by_provider:
            text = "\n".join([text, *(piece for call in by_provider for piece in _provider_call_texts(call))])
        names = [*(call.name for call in message.tool_calls), *(call.name for call in by_provider)]
        return SearchableText(text, encode_names(names))
    return SearchableText(
        text, encode_names([message.tool_name]) if isinstance(message, ToolResult) and message.tool_name else ""
    )


def _content_texts(content: Content) -> Iterable[str]:
    return [content] if isinstance(content, str) else [text for part in content for text in _part_texts(part)]


def _part_texts(part: AnyPart) -> Iterator[str]:
    if isinstance(part, Text):
        yield part.text
    elif isinstance(part, ToolCall):
        yield part.name
        yield from _json_leaves(part.input)


def _provider_call_texts(call: ProviderCall) -> Iterator[str]:
    yield call.name
    yield from _json_leaves(call.input)
    yield call.result


def _json_leaves(value: Any) -> Iterator[str]:
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


def searchable_entries(entries: Iterable[Entry], start: int) -> Iterator[SearchableEntry]:
    """Yield the searchable entries with their places, counted from `start`."""
    place, last_seq = start, -1
    for entry in entries:
        seq = entry.seq if entry.seq > last_seq else None
        last_seq = max(last_seq, entry.seq)
        words = searchable_text(entry.value)
        if words is None:
            continue
        stamp = entry.value.timestamp
        mark = text_mark(entry, words, seq)
        yield SearchableEntry(
            place, entry.id, entry.type, words.tools, stamp, parse_ms(stamp) or 0, words.text, mark, seq
        )
        place += 1


def text_mark(entry: Entry, words: SearchableText, seq: int | None) -> int:
    """Return the mark of a searchable entry: a checksum of its text and of what is stored beside it."""
    stamp = entry.value.timestamp
    about = binascii.crc32(f"{entry.id}\0{entry.type}\0{words.tools}\0{stamp}\0{seq}".encode())
    return binascii.crc32(words.text.encode(), about)

"""Records of Claude Code: what they are, the lines of one message of the model as a draft of its reply, and titles."""

import hashlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.claude_code.content import blocks_of, object_of, spilled_name, text_of, usage_of
from wakelog.exchange.records import JsonRecord, Record, SourceFile
from wakelog.log.content import JsonObject, Usage

_KIND_CHARS = 60
_TITLE_FIELDS = {"custom-title": ("customTitle", 3), "agent-name": ("agentName", 2), "ai-title": ("aiTitle", 2)}
_SUMMARY_RANK = 1


def kind_of(value: JsonObject) -> str:
    """Return the kind of a record: its type, and its subtype or the type of what it holds."""
    inner = value.get("subtype") or object_of(value.get("attachment") or value.get("data")).get("type")
    names = [name for name in (value.get("type"), inner) if isinstance(name, str) and name]
    return ":".join(name[:_KIND_CHARS] for name in names) or "record"


def is_reply_line(value: JsonObject) -> bool:
    """Return whether a record is a line of a message of the model."""
    message = object_of(value.get("message"))
    return value.get("type") == "assistant" and isinstance(message.get("content"), list | str)


def message_id_of(value: JsonObject) -> str:
    """Return the id of the message that a line belongs to; empty if it has none."""
    return text_of(object_of(value.get("message")).get("id"))


def digest_of_record(value: JsonObject) -> str:
    """Return a digest of a record that has no id of its own."""
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def fingerprint_of(value: JsonObject) -> int:
    """Return a number that is equal for a record and its repetition, in which the tool may change version or usage."""
    message = object_of(value.get("message"))
    content = message.get("content", value.get("attachment") or value.get("data") or value.get("content"))
    return hash((text_of(value.get("type")), text_of(value.get("subtype")), _plain(content)))


def _plain(value: Any) -> Any:
    """Return a value that can be hashed: texts as they are, objects and lists by the texts in them."""
    if isinstance(value, dict):
        return tuple(_plain(each) for each in value.values())
    if isinstance(value, list):
        return tuple(_plain(each) for each in value)
    return value if isinstance(value, str | int | float | bool) else None


def has_user_content(value: JsonObject) -> bool:
    """Return whether a record is a message in the user role that the model saw."""
    content = object_of(value.get("message")).get("content")
    is_hidden = value.get("isVisibleInTranscriptOnly") is True and value.get("isCompactSummary") is not True
    return not is_hidden and _is_content(content)


def _is_content(content: object) -> bool:
    """Return whether a value is a text, or blocks that are all objects."""
    if isinstance(content, list):
        return bool(content) and all(isinstance(block, dict) for block in content)
    return isinstance(content, str)


def is_queued_prompt(queued: JsonObject) -> bool:
    """Return whether a queued command is a text of a person, which was handed to the model in the middle of a turn."""
    return _is_content(queued.get("prompt")) and queued.get("commandMode", "prompt") == "prompt"


def is_tool_use(block: Any) -> bool:
    """Return whether a block of a reply is a tool call."""
    return isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(block.get("name"), str)


def kept_head(metadata: JsonObject) -> str:
    """Return the uuid of the first record that a compaction keeps; empty if it names none."""
    named = object_of(metadata.get("preservedMessages")).get("uuids")
    first = named[0] if isinstance(named, list) and named else ""
    return text_of(object_of(metadata.get("preservedSegment")).get("headUuid")) or text_of(first)


def spilled_text(value: JsonObject, find: Callable[[str], SourceFile | None] | None) -> str | None:
    """Return the whole output of a tool from the file that it was written to; None if there is no such file."""
    name = spilled_name(value)
    found = find(name) if find is not None and name is not None else None
    if found is None:
        return None
    try:
        return found.content().decode("utf-8", "replace")
    except UsageError:
        # Longer than what is read at once: the result keeps the beginning, which the model saw.
        return None


class MessageUsage:
    """The usage of messages, each counted once: lines of one message repeat it, and so do copies after a compaction."""

    def __init__(self) -> None:
        self._counted: set[int] = set()
        self._last_id = ""
        self._last = Usage()

    def new_usage(self, message_id: str, message: JsonObject) -> Usage | None:
        """Return the usage of a message as far as no earlier reply has it."""
        usage = usage_of(message.get("usage"))
        if usage is None or not message_id:
            return usage
        earlier, is_rest = self._last, message_id == self._last_id
        self._last_id, self._last = message_id, usage
        if hash(message_id) not in self._counted:
            self._counted.add(hash(message_id))
            return usage
        return _usage_since(earlier, usage) if is_rest else None


def _usage_since(earlier: Usage, usage: Usage) -> Usage | None:
    """Return what a later line of a message counts in addition to an earlier one; None if it counts nothing more."""
    rest = Usage(
        input_tokens=max(0, usage.input_tokens - earlier.input_tokens),
        output_tokens=max(0, usage.output_tokens - earlier.output_tokens),
        cache_read_tokens=max(0, usage.cache_read_tokens - earlier.cache_read_tokens),
        cache_write_tokens=max(0, usage.cache_write_tokens - earlier.cache_write_tokens),
    )
    return rest if rest != Usage() else None


class Draft:
    """The lines of a message that have been read, and the records between them."""

    def __init__(self, first: Record, end: int, key: str) -> None:
        self.lines = [first]
        self.end = end
        self.key = self._last_key = key
        self.held: list[JsonRecord] = []
        self.fingerprints = {text_of(first.value.get("uuid")): fingerprint_of(first.value)}

    def add(self, line: Record, key: str) -> None:
        """Add the next line of the message."""
        self.lines.append(line)
        self._last_key = key
        self.fingerprints[text_of(line.value.get("uuid"))] = fingerprint_of(line.value)

    @property
    def first(self) -> JsonObject:
        """The first line."""
        value: JsonObject = self.lines[0].value
        return value

    @property
    def last(self) -> JsonObject:
        """The last line, which has the usage and the stop reason of the message."""
        value: JsonObject = self.lines[-1].value
        return value

    @property
    def blocks(self) -> list[Any]:
        """The blocks of all lines."""
        return [block for line in self.lines for block in blocks_of(line.value["message"]["content"])]

    @property
    def full_key(self) -> str:
        """What identifies the reply: its last line, also if a part of it was imported before as another reply."""
        return self._last_key


class Titles:
    """The title of a session while its records are read.

    A title that a person gave comes before one that the tool made, and both before the summary of an old file; the last
    one among equals counts. A summary may belong to another session: it counts if it names a record of this one.
    """

    def __init__(self) -> None:
        self.title: str | None = None
        self._rank = 0

    def changed_by(self, record: JsonObject, has_record: Callable[[str], bool]) -> str | None:
        """Return the new title of the session if this record changes it; None if it does not."""
        kind = record.get("type")
        if kind == "summary" and "message" not in record:
            leaf = text_of(record.get("leafUuid"))
            title, rank = text_of(record.get("summary")), _SUMMARY_RANK if leaf and has_record(leaf) else 0
        elif isinstance(kind, str) and kind in _TITLE_FIELDS:
            field, rank = _TITLE_FIELDS[kind]
            title = text_of(record.get(field))
        else:
            return None
        if not title.strip() or rank == 0 or rank < self._rank:
            return None
        self._rank = rank
        if title == self.title:
            return None
        self.title = title
        return title


class Child(msgspec.Struct, frozen=True):
    """A sub-agent: the id of its imported session, and of the tool call that started it, if that is known."""

    session: str
    call: str = ""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation needs to know besides its own records."""

    session: str
    """The tool's id of the session."""
    message_ends: Mapping[int, int] = {}
    """For the first line of each message with several lines, the offset of its last line."""
    children: Mapping[str, Child] = {}
    """Sub-agents with files of their own, by agent id."""
    sidechains: Mapping[int, Child] = {}
    """Sub-agents in the same file, by the offset of their first record."""
    kept_heads: AbstractSet[str] = frozenset()
    """The uuids of the first records that compactions keep."""
    spilled: Callable[[str], SourceFile | None] | None = None
    """Returns the file with the whole output of a tool, by its name."""
    is_known: Callable[[str], bool] | None = None
    """Returns whether an earlier import has made the entry with this id; None if this is the first import."""

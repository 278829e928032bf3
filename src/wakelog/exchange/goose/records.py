"""Records of Goose in one shape, whatever they were stored in: the message of an export.

    {"id", "role", "created", "content": [{"type", …}], "metadata": {"userVisible", "agentVisible", "inference"}}

Rows of the database and lines of a legacy file are brought into it by `sources.py`.
A session is identified by its id and the time of its start: the id is the day and a number that begins at 1 on every
machine (`20260301_1`). Ids of legacy files, which have the time in them, are unique by themselves.
A message is identified by its role, its time and what it says, not by its id: when Goose takes over a legacy file it
gives the messages random ids, and the file stays beside the database. Forks, exports and the rewriting of a session at
a compaction keep these three.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, JsonRecord, Record, SourceLine, json_records
from wakelog.exchange.sessions import timestamp_of
from wakelog.log.content import JsonObject
from wakelog.log.timestamps import iso_timestamp, parse_ms

TOOL = "goose"
NOTE_TYPE = "wakelog.customType"
"""The key in `_meta` of a text that says which kind of note a written message was."""
IS_PROMPT = "wakelog.isPrompt"
"""The key in `_meta` of a text that says that a written message is no command, though it looks like one."""
RESULT_META = "wakelog.result"
"""The key in `_meta` of a tool result that holds what Goose has no field for."""
FIELDS = f"{TOOL}:fields"
"""The type of the `custom` entry behind a message that has its fields without a counterpart."""
TIME_MAX = 1 << 47
_OWN_ID = re.compile(r"msg_(.*_)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|msg_.*_\d+")
# Goose removes these invisible characters from texts that it reads.
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_NUMBERED = re.compile(r"\d{8}_\d{1,5}")
_CALL_TYPES = ("toolRequest", "toolResponse", "frontendToolRequest", "toolConfirmationRequest")


class StoredMessage(msgspec.Struct, frozen=True):
    """One message: the record, and its visible fields checked. `content` is None if it is not a list of objects."""

    record: JsonObject
    role: str
    created: int
    content: list[JsonObject] | None
    user_visible: bool
    agent_visible: bool

    @property
    def is_text(self) -> bool:
        """Whether the message holds nothing but text."""
        return bool(self.content) and all(isinstance(text_of(item), str) for item in self.content or ())

    @property
    def text(self) -> str:
        """The texts of the message."""
        return "\n".join(text_of(item) or "" for item in self.content or () if text_of(item) is not None)

    @property
    def timestamp(self) -> str:
        """When the message was made; empty if it does not say so."""
        return timestamp_of(self.created) if self.created else ""


def stored_message(record: JsonObject) -> StoredMessage:
    """Return a record as a message. A message without metadata is seen by the person and by the model."""
    metadata = object_of(record.get("metadata"))
    content = record.get("content")
    is_list = isinstance(content, list) and all(isinstance(item, dict) for item in content)
    return StoredMessage(
        record=record,
        role=string_of(record.get("role")),
        created=count_of(record.get("created")),
        content=content if is_list else None,
        user_visible=metadata.get("userVisible") is not False,
        agent_visible=metadata.get("agentVisible") is not False,
    )


def text_of(item: Mapping[str, Any]) -> str | None:
    """Return the text of an item of content; None if it is of another type."""
    match item:
        case {"type": "text", "text": str(text)}:
            return text
    return None


def identity(message: StoredMessage) -> str:
    """Return what identifies a message, whichever file or database it is read from."""
    content = message.record.get("content")
    said = [_said(item) for item in content] if isinstance(content, list) else [content]
    parts = [message.role, message.record.get("created"), [each for each in said if each is not None]]
    encoded = json.dumps(parts, sort_keys=True, ensure_ascii=True).encode()
    return hashlib.sha256(encoded).hexdigest()[:32]


def _said(item: Any) -> Any:
    """Return what an item says, in a form that all versions of Goose keep; None for one that Goose drops."""
    match item:
        case {"type": "text", "text": str(text)}:
            return ["text", _TAGS.sub("", text)]
        case {"type": "thinking", "thinking": str(text)} | {"type": "reasoning", "text": str(text)}:
            return ["thinking", text]
        case {"type": "conversationCompacted"}:
            return None
        case {"type": str(kind), "id": str(call_id)} if kind in _CALL_TYPES:
            return [kind, call_id]
    return item


def session_name(own_id: str, created_at: object) -> str:
    """Return what identifies a session: its id, and the time of its start if the id is a day and a number."""
    began = time_ms(created_at)
    return f"{own_id}@{iso_timestamp(began)[:19]}Z" if began and _NUMBERED.fullmatch(own_id) else own_id


def request_id(message: StoredMessage) -> str | None:
    """Return the id that the provider gave a reply; None if Goose made the id."""
    own = string_of(message.record.get("id"))
    return own if own and not _OWN_ID.fullmatch(own) else None


# ── values of any JSON ───────────────────────────────────────────────────────────────────────────


def object_of(value: object) -> JsonObject:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def string_of(value: object) -> str:
    """Return a text; an empty one for any other value."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Return a number that is not negative; 0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < TIME_MAX:
        return 0
    return int(value)


def without(value: Mapping[str, Any], *names: str) -> JsonObject:
    """Return the fields of an object that are not named and not null."""
    return {key: each for key, each in value.items() if key not in names and each is not None}


def time_ms(value: object) -> int:
    """Return a time of a session as milliseconds since 1970: SQL or ISO text, or a number; 0 if it is none."""
    text = timestamp_of(value) if not isinstance(value, str) else value
    found = parse_ms(text)
    return found if found is not None and 0 <= found < 1 << 48 else 0


def decoded(value: object, place: str, line: int = 1) -> Any:
    """Return the JSON value of a column, or a `BadRecord` that names the place."""
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    if not isinstance(raw, bytes):
        return BadRecord(line, 0, 0, f"{place}: no text that can be read")
    if len(raw) > LINE_BYTES_MAX:
        return BadRecord(line, 0, len(raw), f"{place}: longer than {LINE_BYTES_MAX // 1_048_576} MB")
    # `json_records` takes objects only, and has the limits that keep a hostile value from taking all memory.
    wrapped = b'{"value":' + raw + b"}"
    found: list[JsonRecord] = list(json_records([SourceLine(line, 0, wrapped, len(wrapped))]))
    if len(found) == 1 and isinstance(found[0], Record) and list(found[0].value) == ["value"]:
        return found[0].value["value"]
    bad = next((each for each in found if isinstance(each, BadRecord)), None)
    return BadRecord(line, 0, len(raw), f"{place}: {'not JSON' if bad is None else bad.reason}")

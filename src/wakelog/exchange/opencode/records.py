"""Records of OpenCode in one shape, whatever they were stored in, and values of any JSON read without surprises.

The V1 JSON of messages and parts is that shape: the database, the file tree, exports and events hold the same objects.
Rows of the newer `session_message` table are turned into it where they mean the same.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from wakelog.exchange.chains import without
from wakelog.exchange.records import BadRecord, JsonRecord, Record, SourceLine, json_records
from wakelog.exchange.sessions import ImportedItem, timestamp_of
from wakelog.log.content import JsonObject

TOOL = "opencode"
_TIME_MAX = 10**14
_NUMBER_MAX = 1 << 53


class StoredPart(msgspec.Struct):
    """One part of a message and the number of records that it was made of (events repeat a part)."""

    id: str
    value: JsonObject
    records: int = 1


class StoredMessage(msgspec.Struct):
    """One message. `kind` is the type of a `session_message` row that has no V1 counterpart, else empty."""

    id: str
    info: JsonObject
    parts: list[StoredPart]
    records: int = 1
    kind: str = ""
    created: object = None
    """The time of its row, for a message that does not say itself when it was made."""
    is_new: bool = False
    """Whether it is a row of `session_message`, of which a revert keeps the message that it names."""
    is_removed: bool = False
    """Whether OpenCode deleted the message; only events still hold it."""


class Rename(msgspec.Struct, frozen=True):
    """A new title, after so many messages."""

    after: int
    title: str
    timestamp: str


class StoredSession(msgspec.Struct, kw_only=True):
    """One session as stored. `messages` may be read once; `BadRecord` and `SkippedRecords` pass through it."""

    id: str
    info: JsonObject
    messages: Iterable["StoredMessage | ImportedItem"]
    started_of: Callable[[str], int | None]
    """Returns when another session of the same source began; None if there is no such session."""
    parent_call: str = ""
    records: int = 1
    is_live: bool = False
    """Whether OpenCode may be writing it: its last reply is then taken only as far as it is final."""
    cwd: str = ""
    """The folder that a reply names, for a session whose record does not say it."""
    renames: list[Rename] = []


def object_of(value: object) -> JsonObject:
    """Return a JSON object; an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return a JSON array; an empty one for any other value."""
    return value if isinstance(value, list) else []


def text_of(value: object, default: str = "") -> str:
    """Return a text; `default` for any other value."""
    return value if isinstance(value, str) else default


def number_of(value: object) -> float:
    """Return a number that is not negative; 0 for any other value."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _NUMBER_MAX:
        return value
    return 0


def time_text(value: object, default: str = "") -> str:
    """Return a time as a timestamp; `default` if it is none."""
    if isinstance(value, int | float) and not 0 < value < _TIME_MAX:
        return default
    return timestamp_of(value, default)


def started_ms(info: JsonObject) -> int:
    """Return when a session began by its own record; 0 if it does not say so."""
    return int(number_of(object_of(info.get("time")).get("created")))


def decoded(raw: bytes, place: str) -> Record | BadRecord:
    """Return the one JSON object of a document or a column; a `BadRecord` that names the place if it is not one."""
    found: list[JsonRecord] = list(json_records([SourceLine(1, 0, raw, len(raw))]))
    if len(found) == 1 and isinstance(found[0], Record):
        return found[0]
    bad = next((each for each in found if isinstance(each, BadRecord)), None)
    reason = "several JSON values" if found else "empty"
    return BadRecord(1, 0, len(raw), f"{place}: {reason if bad is None else bad.reason}")


def message_of(info: JsonObject, session: str, place: str) -> StoredMessage:
    """Return a message without its parts. `place` is its id where it has none itself."""
    own = text_of(info.get("id")) or place
    return StoredMessage(own, {**info, "id": own, "sessionID": session}, [])


def part_of(value: JsonObject, message: StoredMessage, place: str) -> StoredPart:
    """Return a part of a message. `place` is its id where it has none itself."""
    own = text_of(value.get("id")) or place
    session = message.info["sessionID"]
    return StoredPart(own, {**value, "id": own, "sessionID": session, "messageID": message.id})


# ── rows of the table session_message ────────────────────────────────────────────────────────────


def message_of_row(row_id: str, kind: str, data: JsonObject, session: str) -> StoredMessage:
    """Return a `session_message` row as a V1 message; `kind` is left where V1 has no such message."""
    match kind:
        case "user":
            parts = [{"type": "text", "text": data.get("text")}, *_file_parts(data.get("files"))]
            info = {**data, "role": "user"}
        case "synthetic" | "system":
            parts = [{"type": "text", "text": data.get("text"), "synthetic": True, "kind": kind}]
            info = {**data, "role": "user"}
        case "assistant":
            parts = [_content_part(item) for item in list_of(data.get("content"))]
            model = object_of(data.get("model"))
            info = {**data, "role": "assistant", "modelID": model.get("id"), "providerID": model.get("providerID")}
        case _:
            info = {**data, "id": row_id, "sessionID": session, "type": kind}
            return StoredMessage(row_id, info, [], kind=kind or "message", is_new=True)
    info.pop("content", None)
    message = StoredMessage(row_id, {**info, "id": row_id, "sessionID": session}, [], is_new=True)
    for at, part in enumerate(parts):
        message.parts.append(StoredPart(f"{row_id}:{at}", part, records=0))
    return message


def _file_parts(files: object) -> list[JsonObject]:
    found = [object_of(file) for file in list_of(files)]
    return [{**without(file, "uri"), "type": "file", "url": file.get("uri")} for file in found]


def _content_part(item: Any) -> JsonObject:
    """Return an element of the content of an assistant row as a V1 part."""
    match item:
        case {"type": "reasoning"}:
            return {**without(item, "providerMetadata"), "metadata": item.get("providerMetadata")}
        case {"type": "tool", "state": dict(state)}:
            time = object_of(item.get("time"))
            provider = object_of(item.get("provider"))
            times = {"start": time.get("ran"), "end": time.get("completed")}
            v1_state = {**state, "metadata": state.get("structured"), "time": times, **_outcome(state)}
            known = {"callID": item.get("id"), "tool": item.get("name"), "state": v1_state}
            rest = {"metadata": object_of(provider.get("metadata")), "provider": without(provider, "metadata") or None}
            return {**without(item, "name"), **known, **rest}
        case dict():
            return item
        case _:
            return {"type": "unknown", "value": item}


def _outcome(state: JsonObject) -> JsonObject:
    content = [object_of(each) for each in list_of(state.get("content"))]
    found: JsonObject = {
        "output": "\n".join(text_of(each.get("text")) for each in content if each.get("type") == "text"),
        "attachments": _file_parts([each for each in content if each.get("type") == "file"]),
    }
    if isinstance(state.get("error"), dict):
        found["error"] = text_of(state["error"].get("message"))
    if isinstance(state.get("input"), str):
        found["input"] = _parsed_input(state["input"])
    return found


def _parsed_input(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def cwd_of(messages: Iterable["StoredMessage | ImportedItem"]) -> str:
    """Return the folder that the first reply was made in; empty if none says so."""
    found = (object_of(message.info.get("path")) for message in messages if isinstance(message, StoredMessage))
    return next((cwd for path in found if (cwd := text_of(path.get("cwd")))), "")


def numbered(values: Iterable[Any]) -> Iterator[tuple[int, JsonObject]]:
    """Yield values with their places; what is no object stands as one that holds it."""
    for at, value in enumerate(values):
        yield at, value if isinstance(value, dict) else {"type": "unknown", "value": value}

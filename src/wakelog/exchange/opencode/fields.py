"""Fields of OpenCode's records that have no counterpart here. They are kept in an entry behind their message or result.

Left out are ids and times (entries have their own), what OpenCode computes from the rest (the `summary` of a person's
message, sums of tokens), and in the data of a tool what repeats its output or its input: the names of such fields are
in `repeated`. What a session says again with every message (`STATED`) is kept where it changes.
"""

from collections.abc import Iterable
from typing import Any

from wakelog.exchange.chains import without
from wakelog.exchange.opencode.parts import media_of, unbound
from wakelog.exchange.opencode.records import StoredMessage, StoredPart, list_of, number_of, object_of
from wakelog.log.content import JsonObject

STATED = ("agent", "mode", "path", "model")
_ENVELOPE = ("id", "sessionID", "messageID", "type", "role", "time")
_USER = ("summary", "text", "files")
_REPLY = ("parentID", "modelID", "providerID", "finish", "error", "tokens", "cost", "summary")
_PARTS = {
    "text": ("text", "synthetic", "ignored", "kind", "metadata"),
    "reasoning": ("text", "metadata"),
    "tool": ("callID", "tool", "state", "metadata"),
    "file": ("mime", "url"),
    "step-start": (),
    "step-finish": ("reason", "tokens", "cost"),
}
_STATE = ("status", "input", "raw", "output", "error", "time", "attachments", "metadata", "content", "structured")
_REPEATED_CHARS_MIN = 80


def user_fields(message: StoredMessage, parts: Iterable[StoredPart]) -> JsonObject:
    """Return the fields of a person's message that these parts of it became entries of."""
    rest = without(message.info, *_ENVELOPE, *_USER)
    return _with_parts(rest, {part.id: _user_part(part.value) for part in parts})


def _user_part(value: JsonObject) -> JsonObject:
    return {**_part_fields(value), **without({"metadata": value.get("metadata") or None})}


def reply_fields(message: StoredMessage, parts: Iterable[StoredPart]) -> JsonObject:
    """Return the fields of a message of the model that these parts of it became entries of."""
    info = message.info
    rest = without(info, *_ENVELOPE, *_REPLY)
    if info.get("model") and "modelID" in info:
        rest.pop("model", None)
    if error := _error_fields(object_of(info.get("error"))):
        rest["error"] = error
    if reasoning := number_of(object_of(info.get("tokens")).get("reasoning")):
        rest["tokens"] = {"reasoning": reasoning}
    return _with_parts(rest, {part.id: _reply_part(part.value) for part in parts})


def _error_fields(error: JsonObject) -> JsonObject:
    """Return the details of an error: the fields of the message of a fault are in the entry about it."""
    return {**without(error, "name", "type", "message", "data"), **without(object_of(error.get("data")), *_FAULT)}


_FAULT = ("message", "isRetryable")


def _reply_part(value: JsonObject) -> JsonObject:
    rest = _part_fields(value)
    if value.get("type") in ("text", "reasoning", "tool") and (metadata := unbound(value)):
        rest["metadata"] = metadata
    state = object_of(value.get("state"))
    if value.get("type") == "tool" and state.get("status") in ("pending", "running"):
        rest |= result_fields(state)
    return rest


def _part_fields(value: JsonObject) -> JsonObject:
    known = _PARTS.get(str(value.get("type")))
    return {} if known is None else without(value, *_ENVELOPE, *known)


def _with_parts(rest: JsonObject, parts: dict[str, JsonObject]) -> JsonObject:
    found = {part_id: fields for part_id, fields in parts.items() if fields}
    return {**rest, "parts": found} if found else rest


def result_fields(state: JsonObject) -> JsonObject:
    """Return the fields of the state of a tool that its call and its result lack: its title, data and files."""
    rest = without(state, *_STATE)
    if not rest.get("title"):
        rest.pop("title", None)
    metadata, repeated = _metadata(state)
    files = {str(at): fields for at, file in enumerate(list_of(state.get("attachments"))) if (fields := _file(file))}
    found = {"metadata": metadata, "repeated": repeated, "attachments": files}
    return {**rest, **{name: value for name, value in found.items() if value}}


def _metadata(state: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the data of a tool, and the names of those which repeat its output, or the input of the call."""
    given, metadata = object_of(state.get("input")), object_of(state.get("metadata"))
    is_error = state.get("status") == "error"
    output = metadata.get("output") if is_error and metadata.get("interrupted") is True else state.get("output")
    kept: JsonObject = {}
    repeated: list[str] = []
    for name, value in without(metadata).items():
        is_mapped = name == "truncated" or (name == "interrupted" and (is_error or value is False))
        if value == "" or (is_mapped and isinstance(value, bool)):
            continue
        if _repeats(value, output) or (name in given and given[name] == value):
            repeated.append(name)
        else:
            kept[name] = value
    return kept, repeated


def _repeats(value: Any, output: Any) -> bool:
    """Return whether a value is the output of a tool, or the beginning or the end of a long one."""
    if not isinstance(value, str) or not isinstance(output, str):
        return False
    is_part = len(value) >= _REPEATED_CHARS_MIN and (output.startswith(value) or output.endswith(value))
    return value == output or is_part


def _file(file: Any) -> Any:
    """Return the fields of a file that the media in a result lack; the whole file if it is no media."""
    return file if media_of(object_of(file)) is None else without(file, *_ENVELOPE, *_PARTS["file"])

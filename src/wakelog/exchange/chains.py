"""Entries of a linear session, one below the other: ids, parents, tool calls and their results.

For readers of formats without a tree. An id derives from the key that the reader gives; a key that occurs twice, which
only a damaged source has, is numbered. Only ids are kept, no records.
"""

import hashlib
import itertools
import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide.assembly import with_unique_call_ids
from wakelog.exchange.records import (
    BadRecord,
    Record,
    SourceLine,
    decode_document,
    is_too_deep,
    json_records,
)
from wakelog.exchange.sessions import ImportedEntry, entry_id
from wakelog.log.content import AnyPart, Image, JsonObject, Reply, Text, ToolCall, UnknownPart
from wakelog.log.entry import Custom, KnownBody, Message, Node
from wakelog.log.ids import IdTable

_KIND_CHARS = 60
_COUNT_MAX = 1 << 53


class OpenCall(msgspec.Struct, frozen=True):
    """A tool call that a result may name: its reply, its id there, and the name of the tool."""

    reply_id: str
    call_id: str
    name: str


class OpenCalls:
    """Tool calls without a result, by the ids that results name. Ids repeat: those of the last reply with one count."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[OpenCall]] = {}

    def open(self, body: KnownBody, reply_id: str) -> KnownBody:
        """Remember the calls of a reply, and return it with an id of its own for each; other entries as they are."""
        if not isinstance(body, Message) or not isinstance(body.message, Reply):
            return body
        reply = body.message
        unique = with_unique_call_ids(reply.parts)
        found: dict[str, deque[OpenCall]] = {}
        for given, call in zip(reply.parts, unique, strict=True):
            if isinstance(given, ToolCall) and isinstance(call, ToolCall):
                found.setdefault(given.id, deque()).append(OpenCall(reply_id, call.id, call.name))
        self._calls.update(found)
        return msgspec.structs.replace(body, message=msgspec.structs.replace(reply, content=unique))

    def take(self, call_id: object) -> OpenCall | None:
        """Return the first open call with an id, which a result answers now; None if there is none."""
        calls = self._calls.get(call_id) if isinstance(call_id, str) else None
        return calls.popleft() if calls else None


class EntryChain:
    """Places entries below each other and remembers the tool calls that results refer to."""

    def __init__(self, tool: str, session: str) -> None:
        self.tool = tool
        self.session = session
        self.tip: str | None = None
        """The last node, which the next one goes under; None before the first."""
        self._used = IdTable()
        self._repeats: Counter[str] = Counter()
        self._contents: Counter[bytes] = Counter()
        self._calls = OpenCalls()

    def content_key(self, record: Any, scope: str = "") -> str:
        """Return what identifies a record without an id: its session, its content, and the number of equal ones."""
        raw = json.dumps([scope, record], sort_keys=True).encode("utf-8", "surrogatepass")
        content = hashlib.sha256(raw).digest()[:16]
        self._contents[content] += 1
        return f"{self.session}:{content.hex()}:{self._contents[content]}"

    def add(
        self,
        body: KnownBody,
        key: str,
        timestamp: str,
        *,
        records: int = 0,
        is_verbatim: bool = False,
        parent: str | None = None,
    ) -> ImportedEntry:
        """Return an entry below the last node, or about the entry `parent`. A node becomes the last one."""
        identity = self._new_id(key)
        placed = msgspec.structs.replace(
            self._calls.open(body, identity),
            id=identity,
            parent_id=self.tip if parent is None else parent,
            timestamp=timestamp,
        )
        if isinstance(placed, Node):
            self.tip = placed.id
        return ImportedEntry(placed, records=records, is_verbatim=is_verbatim)

    def verbatim(self, kind: object, record: Any, key: str, timestamp: str, *, records: int = 1) -> ImportedEntry:
        """Return a record without a counterpart as a `custom` entry that holds it unchanged."""
        name = kind[:_KIND_CHARS] if isinstance(kind, str) and kind else "unknown"
        body = Custom(custom_type=f"{self.tool}:{name}", data=record)
        return self.add(body, key, timestamp, records=records, is_verbatim=True)

    def fields(self, rest: Mapping[str, Any], key: str, timestamp: str) -> list[ImportedEntry]:
        """Return the fields of a record without a counterpart, as an entry behind it; nothing if there are none."""
        if not rest:
            return []
        return [self.add(Custom(custom_type=f"{self.tool}:fields", data=dict(rest)), f"{key}:fields", timestamp)]

    def _new_id(self, key: str) -> str:
        found = entry_id(self.tool, key)
        while found in self._used:
            self._repeats[key] += 1
            found = entry_id(self.tool, f"{key}#{self._repeats[key] + 1}")
        self._used.add_ids([found])
        return found

    def call(self, call_id: object) -> OpenCall | None:
        """Return the open call that a result names, and take it as answered; None if there is none."""
        return self._calls.take(call_id)


def json_cell(cell: object, place: int) -> Any:
    """Return the JSON object in a cell of a database, or in a file; a `BadRecord` if it is anything else."""
    raw = cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else cell
    if not isinstance(raw, bytes):
        return BadRecord(place, 0, 0, "not JSON: no text")
    found = list(itertools.islice(json_records([SourceLine(place, 0, raw, len(raw))]), 2))
    match found:
        case [Record(value=value)]:
            return value
        case [BadRecord() as bad]:
            return bad
    return BadRecord(place, 0, len(raw), "not JSON: empty" if not found else "more than one JSON value")


# ── values of records ────────────────────────────────────────────────────────────────────────────


def text_of(value: object) -> str:
    """Return a value that is a text; else an empty one."""
    return value if isinstance(value, str) else ""


def object_of(value: object) -> JsonObject:
    """Return a value that is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def count_of(value: object) -> int | None:
    """Return a value that is a number of something; None if it is absent, negative or not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _COUNT_MAX:
        return None
    return int(value)


def without(record: Mapping[str, Any], *known: str) -> JsonObject:
    """Return the fields of a record except known ones and empty ones."""
    return {key: value for key, value in record.items() if key not in known and value is not None}


def json_text(value: Any) -> str:
    """Return a value as text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def output_parts(value: Any) -> tuple[AnyPart, ...]:
    """Return the output of a tool, which may be any JSON value, as text; nothing if there is none."""
    return () if value is None or value == "" else (Text(text=json_text(value)),)


def part_fields(content: Sequence[Any], known: Mapping[str, Sequence[str]]) -> JsonObject:
    """Return the fields of parts without a counterpart, by the number of the part.

    `known` has the fields that were mapped, by the type of the part. Parts of other types are kept whole elsewhere.
    """
    rest: JsonObject = {}
    for number, part in enumerate(content):
        kind = text_of(object_of(part).get("type"))
        fields = without(part, "type", *known[kind]) if kind in known else {}
        if fields:
            rest[str(number)] = fields
    return rest


def call_fields(calls: Any) -> JsonObject:
    """Return the fields of the calls of a reply in Chat Completions that no part has, by the number of the call."""
    rest: JsonObject = {}
    for number, call in enumerate(calls if isinstance(calls, list) else ()):
        kind = next((kind for kind in ("function", "custom") if _is_named(call, kind)), None)
        if kind is None:
            continue
        known = ("id", kind, *(("type",) if call.get("type") == kind else ()))
        fields = {key: value for key, value in call.items() if key not in known and value is not None}
        given = {key: value for key, value in call[kind].items() if key not in ("name", "arguments", "input")}
        if fields or given:
            rest[str(number)] = fields | ({kind: given} if given else {})
    return rest


def _is_named(call: Any, kind: str) -> bool:
    named = call.get(kind) if isinstance(call, dict) else None
    return isinstance(named, dict) and isinstance(named.get("name"), str)


def has_known_part(parts: Sequence[AnyPart]) -> bool:
    """Return whether one of the parts is of a known type."""
    return any(not isinstance(part, UnknownPart) for part in parts)


def image_of(url: str) -> Image | None:
    """Return an image that is inside its address (`data:image/png;base64,…`); None for any other address."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        return None
    return Image(mime_type=head.removeprefix("data:").removesuffix(";base64"), data=data)


def tool_call(call_id: str, name: str, arguments: Any, bound: JsonObject | None = None) -> ToolCall:
    """Return a tool call; arguments given as a text of JSON are decoded."""
    given = decoded_arguments(arguments) if isinstance(arguments, str) else arguments
    return ToolCall(id=call_id, name=name, input=given, bound=bound)


def decoded_arguments(text: str) -> JsonObject | str:
    """Return the object that a text of JSON holds; the text if it holds anything else, or what no entry can hold."""
    value = decode_document(text.encode("utf-8", "surrogatepass"))
    return value if isinstance(value, dict) and not is_too_deep(value) else text

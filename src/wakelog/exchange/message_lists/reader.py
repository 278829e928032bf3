"""Plain lists of messages, as programs keep them for the APIs of OpenAI and Anthropic.

A file is a JSON document: a list of messages, a request with `messages` or `input`, or a list of such requests. Or it
has a message, a request or a list on each line. Each list is a session.

Nothing in it has an id or a time. A session is identified by its messages up to the first one of the user, an entry by
its message and all before it (`entries.py`). That means: importing a grown list adds what is new. Lists that begin with
the same prompt are one session with a branch for each, wherever they come from. A list whose beginning was changed or
left out is another session.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from wakelog.exchange.message_lists.entries import ListReader
from wakelog.exchange.message_lists.shapes import (
    ANTHROPIC,
    LIST_FIELDS,
    OPENAI,
    api_of,
    digest,
    is_message_list,
    without_cache_marks,
)
from wakelog.exchange.records import BadRecord, JsonRecord, Record, SourceFile, SourceLine, json_records
from wakelog.exchange.sessions import ForeignSession, ImportedItem, SessionOrigin
from wakelog.log.content import JsonObject

__all__ = ["ANTHROPIC", "OPENAI", "TOOL", "is_message_list", "read_sessions"]

TOOL = "messages"
"""The name of the reader. The origin of a session says which API its list is for."""
# Messages before the first one of the user, and the one behind it.
_HEAD_MAX = 50
# A document with more values than this would take many times its size in memory.
_COMMAS_MAX = 2_000_000


class _List(msgspec.Struct, frozen=True):
    """The messages of one list, and the other fields of its request."""

    records: Iterable[JsonRecord]
    fields: JsonObject = {}
    before: tuple[BadRecord, ...] = ()


def read_sessions(source: SourceFile) -> Iterator[ForeignSession]:
    """Yield the sessions of a file. Each must be read before the next is taken."""
    for found in _lists(source):
        session = _session(source.path, found)
        if session is not None:
            yield session


def _session(path: str, found: _List) -> ForeignSession | None:
    records = iter(found.records)
    head = list(_until_user(records))
    behind = list(itertools.islice(records, 1))
    values = [without_cache_marks(record.value) for record in head if isinstance(record, Record)]
    if not values:
        return None
    name = ""
    for value in values:
        name = digest(name, value)
    follows = [record.value for record in behind if isinstance(record, Record)]
    tool = api_of(found.fields, [*values, *follows])
    model = found.fields.get("model")
    model = model if isinstance(model, str) else None
    fields = {key: value for key, value in found.fields.items() if key not in LIST_FIELDS}
    items = ListReader(tool, name, model).read(fields, itertools.chain(head, behind, records))
    return ForeignSession(
        origin=SessionOrigin(tool=tool, id=name, path=path),
        items=_with_bad(found.before, items),
        started_ms=0,
        agent=tool,
        model=model,
    )


def _with_bad(bad: Sequence[BadRecord], items: Iterator[ImportedItem]) -> Iterator[ImportedItem]:
    yield from bad
    yield from items


def _until_user(records: Iterator[JsonRecord]) -> Iterator[JsonRecord]:
    """Yield the records up to the first message of the user."""
    for record in itertools.islice(records, _HEAD_MAX):
        yield record
        if isinstance(record, Record) and record.value.get("role") == "user":
            return


# ── lists in a file ──────────────────────────────────────────────────────────────────────────────


def _lists(source: SourceFile) -> Iterator[_List]:
    """Yield the lists of a file: of a document if the first line is not JSON, and it is one; else of the lines."""
    lines = (line for line in source.lines() if line.raw is None or line.raw.strip())
    kinds = (_kind(line.raw) for line in itertools.islice(lines, _HEAD_MAX))
    kind = next(kinds, None)
    if kind is None:
        document = list(_document(source))
        if document:
            yield from document
            return
        kind = next((kind for kind in kinds if kind is not None), None)
    if kind == "list":
        yield from _lists_of_lines(source)
    else:
        yield _List(json_records(source.lines()))


def _kind(raw: bytes | None) -> Literal["list", "message"] | None:
    """Return whether a line is a list or a request with one, or another JSON object; None if it is neither."""
    value = _outer(raw or b"")
    if isinstance(value, list):
        return "list"
    return None if value is None else "message" if _list_field(value) is None else "list"


def _outer(raw: bytes) -> list[msgspec.Raw] | dict[str, msgspec.Raw] | None:
    """Return a list or an object with its values not decoded; None if a text is neither, or has too many values."""
    if raw.count(b",") > _COMMAS_MAX:
        return None
    try:
        return msgspec.json.decode(raw, type=list[msgspec.Raw] | dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _list_field(request: dict[str, msgspec.Raw]) -> str | None:
    """Return the name of the field with the messages; None for an object that is a message itself, or anything else."""
    is_message = "role" in request
    return next((name for name in LIST_FIELDS if not is_message and _is_list(request.get(name))), None)


def _is_list(raw: msgspec.Raw | None) -> bool:
    return raw is not None and bytes(raw)[:1] == b"["


def _document(source: SourceFile) -> Iterator[_List]:
    """Yield the lists of a document. Its messages are decoded one at a time."""
    raw = source.content()
    return _lists_of(SourceLine(1, 0, raw, len(raw)))


def _lists_of_lines(source: SourceFile) -> Iterator[_List]:
    """Yield a list for each line; a line without one is counted with the next."""
    bad: list[BadRecord] = []
    for line in source.lines():
        if line.raw is not None and not line.raw.strip():
            continue
        lists = list(_lists_of(line))
        if not lists:
            bad.append(BadRecord(line.number, line.offset, line.size, "no list of messages"))
        for found in lists:
            yield msgspec.structs.replace(found, before=(*bad, *found.before))
            bad = []


def _lists_of(line: SourceLine) -> Iterator[_List]:
    """Yield the lists of one JSON value: a list of messages, a request, or a list of requests."""
    value = _outer(line.raw or b"")
    if value is None:
        return
    if isinstance(value, dict):
        yield from _request(value)
        return
    first = _outer(bytes(value[0])) if value else None
    if not isinstance(first, dict) or _list_field(first) is None:
        yield _List(_raw_records(value))
        return
    for number, raw in enumerate(value, 1):
        yield from _lists_of(SourceLine(number, 0, bytes(raw), len(bytes(raw))))


def _request(request: dict[str, msgspec.Raw]) -> Iterator[_List]:
    name = _list_field(request)
    if name is None:
        if "role" in request:
            yield _List(_raw_records([msgspec.Raw(msgspec.json.encode(request))]))
        return
    messages = _outer(bytes(request[name]))
    others = msgspec.Raw(msgspec.json.encode({key: raw for key, raw in request.items() if key != name}))
    bad: tuple[BadRecord, ...] = ()
    fields: JsonObject = {}
    for record in _raw_records([others]):
        if isinstance(record, BadRecord):
            bad = (record,)
        else:
            fields = record.value
    # Which field it was says for which API it is.
    marked = {**fields, **({name: None} if name == "input" else {})}
    yield _List(_raw_records(messages if isinstance(messages, list) else []), marked, bad)


def _raw_records(messages: Sequence[msgspec.Raw]) -> Iterator[JsonRecord]:
    """Yield the messages of a document; their number stands for the line."""
    return json_records(
        SourceLine(number, 0, bytes(message), len(bytes(message))) for number, message in enumerate(messages, 1)
    )

"""Plain lists of messages, as programs keep them for the APIs of OpenAI and Anthropic.

A file is a JSON document: a list of messages, a request with `messages` or `input`, or a list of such requests. Or it
has a message, a request or a list on each line. Each list is a session; lists that begin alike are one.

Nothing in it has an id or a time. A session is identified by its messages up to the first one of the user, an entry by
its message and all before it (`entries.py`). That means: importing a grown list adds what is new. Lists that begin with
the same prompt are one session with a branch for each, wherever they come from. A list whose beginning was changed or
left out is another session.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from wakelog.exchange.message_lists.entries import ListReader
from wakelog.exchange.message_lists.shapes import (
    ANTHROPIC,
    LIST_FIELDS,
    OPENAI,
    RESPONSES_REQUEST,
    TOOL,
    api_of,
    digest,
    is_message_list,
    without_cache_marks,
)
from wakelog.exchange.records import LINE_BYTES_MAX, BadRecord, JsonRecord, Record, SourceFile, SourceLine, json_records
from wakelog.exchange.sessions import ForeignSession, ImportedEntry, ImportedItem, SessionOrigin
from wakelog.log.content import JsonObject
from wakelog.log.ids import IdTable

__all__ = ["ANTHROPIC", "OPENAI", "TAKES_KNOWN_ENTRIES", "TOOL", "is_message_list", "read_sessions"]

TAKES_KNOWN_ENTRIES = True
IsKnown: TypeAlias = Callable[[str], bool]
# Messages before the first one of the user, and the one behind it.
_HEAD_MAX = 50
# A document with more values than this would take many times its size in memory.
_COMMAS_MAX = 2_000_000
# So many bytes of lists are held, so that those of one session are read together.
_HELD_BYTES_MAX = LINE_BYTES_MAX


class _List(msgspec.Struct):
    """The messages of one list, and the other fields of its request."""

    name: str
    """The id of its session."""
    head: list[JsonRecord]
    """The messages up to the first one of the user, and the one behind it."""
    others: Iterator[JsonRecord]
    fields: JsonObject
    size: int
    bad: list[BadRecord] = []
    """What could not be read in front of it, and at the end of the file."""


def read_sessions(source: SourceFile, is_known: IsKnown | None = None) -> Iterator[ForeignSession]:
    """Yield the sessions of a file. Each must be read before the next is taken.

    `is_known` says which entries are stored. With it, a reply that was imported before it was complete stays as it is.
    """
    for lists in _by_session(_lists(source)):
        api, model = _api(lists[0]), _model(lists[0])
        yield ForeignSession(
            origin=SessionOrigin(tool=TOOL, id=lists[0].name, path=source.path),
            items=_items(lists, is_known),
            started_ms=0,
            agent=api,
            model=model,
        )


def _items(lists: Sequence[_List], is_known: IsKnown | None) -> Iterator[ImportedItem]:
    """Yield the entries of the lists of one session."""
    given = IdTable()

    def is_there(entry: str) -> bool:
        return entry in given or (is_known is not None and is_known(entry))

    for each in lists:
        yield from each.bad
        kind = RESPONSES_REQUEST if "input" in each.fields else "request"
        fields = {key: value for key, value in each.fields.items() if key not in LIST_FIELDS}
        reader = ListReader(_api(each), each.name, _model(each), is_there)
        made: list[str] = []
        for item in reader.read(fields, itertools.chain(each.head, each.others), kind=kind):
            if isinstance(item, ImportedEntry) and len(lists) > 1:
                made.append(item.body.id)
            yield item
        given.add_ids(made)


def _api(found: _List) -> str:
    return api_of(found.fields, [record.value for record in found.head if isinstance(record, Record)])


def _model(found: _List) -> str | None:
    model = found.fields.get("model")
    return model if isinstance(model, str) else None


def _by_session(found: Iterable[_List | BadRecord]) -> Iterator[list[_List]]:
    """Yield the lists of each session together. What cannot be read goes to the next list, or to the last one."""
    held: dict[str, list[_List]] = {}
    bad: list[BadRecord] = []
    last, size = None, 0
    for each in found:
        if isinstance(each, BadRecord):
            bad.append(each)
            continue
        if held and size + each.size > _HELD_BYTES_MAX:
            yield from held.values()
            held, size = {}, 0
        last, size = each, size + each.size
        last.bad, bad = [*bad, *last.bad], []
        held.setdefault(each.name, []).append(each)
    if last is not None:
        last.bad += bad
    yield from held.values()


def _list_of(
    records: Iterable[JsonRecord], size: int, fields: JsonObject | None = None, bad: Sequence[BadRecord] = ()
) -> _List | None:
    """Return a list of messages; None if there is no message at its beginning."""
    left = iter(records)
    head = list(_until_user(left))
    values = [without_cache_marks(record.value) for record in head if isinstance(record, Record)]
    if not values:
        return None
    name = ""
    for value in values:
        name = digest(name, value)
    return _List(name, [*head, *itertools.islice(left, 1)], left, fields or {}, size, [*bad])


def _until_user(records: Iterator[JsonRecord]) -> Iterator[JsonRecord]:
    """Yield the records up to the first message of the user."""
    for record in itertools.islice(records, _HEAD_MAX):
        yield record
        if isinstance(record, Record) and record.value.get("role") == "user":
            return


# ── lists in a file ──────────────────────────────────────────────────────────────────────────────


def _lists(source: SourceFile) -> Iterator[_List | BadRecord]:
    """Yield the lists of a file: of a document if the first line is not JSON, and it is one; else of the lines."""
    lines = (line for line in source.lines() if line.raw is None or line.raw.strip())
    kinds = (_kind(line.raw) for line in itertools.islice(lines, _HEAD_MAX))
    kind = next(kinds, None)
    if kind is None:
        document = list(_document(source))
        if any(isinstance(found, _List) for found in document):
            yield from document
            return
        kind = next((kind for kind in kinds if kind is not None), None)
    if kind == "list":
        for line in source.lines():
            if line.raw is None or line.raw.strip():
                yield from _lists_of(line)
    elif (found := _list_of(json_records(source.lines()), 0)) is not None:
        yield found


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


def _document(source: SourceFile) -> Iterator[_List | BadRecord]:
    """Yield the lists of a document. Its messages are decoded one at a time."""
    raw = source.content()
    return _lists_of(SourceLine(1, 0, raw, len(raw)))


def _lists_of(line: SourceLine) -> Iterator[_List | BadRecord]:
    """Yield the lists of one JSON value: a list of messages, a request, or a list of requests."""
    value = _outer(line.raw or b"")
    first = _outer(bytes(value[0])) if isinstance(value, list) and value else None
    if isinstance(value, list) and isinstance(first, dict) and _list_field(first) is not None:
        for number, raw in enumerate(value, 1):
            yield from _lists_of(SourceLine(number, 0, bytes(raw), len(bytes(raw))))
        return
    found = _request(value, line.size) if isinstance(value, dict) else _list_of(_raw_records(value or ()), line.size)
    yield found or BadRecord(line.number, line.offset, line.size, "no list of messages")


def _request(request: dict[str, msgspec.Raw], size: int) -> _List | None:
    name = _list_field(request)
    if name is None:
        is_message = "role" in request
        return _list_of(_raw_records([msgspec.Raw(msgspec.json.encode(request))]), size) if is_message else None
    messages = _outer(bytes(request[name]))
    others = msgspec.Raw(msgspec.json.encode({key: raw for key, raw in request.items() if key != name}))
    bad: list[BadRecord] = []
    fields: JsonObject = {}
    for record in _raw_records([others]):
        if isinstance(record, BadRecord):
            bad.append(record)
        else:
            fields = record.value
    # Which field it was says for which API it is.
    marked = {**fields, **({name: None} if name == "input" else {})}
    return _list_of(_raw_records(messages if isinstance(messages, list) else []), size, marked, bad)


def _raw_records(messages: Sequence[msgspec.Raw]) -> Iterator[JsonRecord]:
    """Yield the messages of a document; their number stands for the line."""
    return json_records(
        SourceLine(number, 0, bytes(message), len(bytes(message))) for number, message in enumerate(messages, 1)
    )

"""Blob references in entries: which entry refers to which blob, and for what. Pure.

A reference is an object with a digest and a size (`BlobRef`) in any place: in a field of a known type, in a part or
value that this version does not know, or in an entry of an unknown type.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from wakelog.log.content import Audio, BlobRef, Image, Text, ToolResult
from wakelog.log.digest import is_digest
from wakelog.log.entry import Entry
from wakelog.log.needs import references_in

_UNKNOWN = "something that this version of wakelog does not know"
_MEANT = {
    "system": "the instructions of the model",
    "tools": "the declarations of the tools",
    "injected": "a text that was added to the request",
}


class Reference(msgspec.Struct, frozen=True):
    """One reference from an entry to a blob. `what` names the content that is lost if the blob is lost."""

    seq: int
    type: str
    line: int
    offset: int
    digest: str
    bytes: int
    what: str


def references(entry: Entry) -> Iterator[Reference]:
    """Yield every reference of an entry, each blob once."""
    if b"sha256:" not in entry.raw:
        return
    known = {(ref.digest, ref.bytes): what for ref, what in _found(entry.value, "", None)}
    # The typed value skips unknown keys; the bytes contain them.
    unknown = dict.fromkeys(references_in(entry.raw), _UNKNOWN)
    for (digest, size), what in (unknown | known).items():
        yield Reference(entry.seq, entry.type, entry.line, entry.offset, digest, size, what)


def _found(value: Any, key: str, owner: Any) -> Iterator[tuple[BlobRef, str]]:
    """Yield the references inside a value, each with its purpose. `key` and `owner` locate the value."""
    match value:
        case BlobRef():
            if is_digest(value.digest):
                yield value, _meant(key, owner)
        case msgspec.Struct():
            for field in value.__struct_fields__:
                yield from _found(getattr(value, field), field, value)
        case dict():
            for name, inner in value.items():
                yield from _found(inner, name, value)
        case list() | tuple():
            for inner in value:
                yield from _found(inner, key, owner)


def _meant(key: str, owner: Any) -> str:
    if isinstance(owner, ToolResult):
        return f"the whole output of the tool {owner.tool_name}, of which the entry itself holds a part"
    match owner:
        case Image():
            return "an image"
        case Audio():
            return "a recording"
        case Text():
            return "the whole of a text, of which the entry itself holds a part"
    return _MEANT.get(key, _UNKNOWN)

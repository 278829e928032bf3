"""References from a log to blobs and other sessions: what each entry needs, and what a copy must include.

Pure. A reference is an object with a digest and a size (`BlobRef`) in any place: in a field of a known type, in a part
or value that this version does not know, in an entry of an unknown type, or in a damaged line, because these may still
refer to a blob. Most lines need nothing and are only searched, not decoded.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from wakelog.log.content import Audio, BlobRef, Image, Text, ToolResult
from wakelog.log.entry import Entry, SessionHeader, SessionRenamed, Spawned
from wakelog.log.ids import DIGEST_CHARS, digests_in, is_digest, is_id
from wakelog.log.lines import EntryReader, Line

_RELEVANT_TYPES = (b'"spawned"', b'"session_renamed"')
# Not every digest belongs to a blob. A digest followed by a size is a reference to a blob; nothing else has that form.
_BLOB_REFERENCE = re.compile(rb'"digest"\s*:\s*"(sha256:[0-9a-f]{64})"\s*,\s*"bytes"\s*:\s*([0-9]{1,15})\b')
_BLOB_REFERENCE_BYTES = DIGEST_CHARS + 64


class LogReferences:
    """The references in the lines fed so far.

    `digests` maps each digest to the size of the log up to the end of the line that first contains it, `blobs` maps
    those that are certain to be references to blobs to their sizes. `parent` is the session that a fork reads its
    history from, `children` are the sessions of subagents. `title` is None if no title was set.
    """

    def __init__(self) -> None:
        self.size = 0
        self.parent: str | None = None
        self.children: list[str] = []
        self.title: str | None = None
        self.digests: dict[str, int] = {}
        self.blobs: dict[str, int] = {}
        self._previous_slice = b""

    def add(self, line: Line) -> None:
        """Process the next line."""
        is_first = self.size == 0
        self.size += len(line.raw) + line.ended
        raw = self._previous_slice + line.raw
        if b"sha256:" in raw:
            for digest in digests_in(raw):
                self.digests.setdefault(digest, self.size)
            for digest, size in blob_references_in(raw):
                self.blobs.setdefault(digest, size)
        # A line over the size limit comes in slices, and a reference may span two of them.
        self._previous_slice = b"" if line.ended else raw[-_BLOB_REFERENCE_BYTES:]
        if is_first or (line.whole and any(word in raw for word in _RELEVANT_TYPES)):
            self._add_entries(line)

    def _add_entries(self, line: Line) -> None:
        for entry in EntryReader().feed(line):
            match entry.value:
                case SessionHeader(parent=origin, title=title):
                    self.title = title
                    self.parent = origin.session if origin and origin.kind == "fork" and is_id(origin.session) else None
                case SessionRenamed(title=title):
                    self.title = title
                case Spawned(child_session=child) if is_id(child) and child not in self.children:
                    self.children.append(child)


def blob_references_in(raw: bytes) -> list[tuple[str, int]]:
    """Return every blob reference found in bytes: its digest and the size it must have."""
    return [(digest.decode(), int(size)) for digest, size in _BLOB_REFERENCE.findall(raw)]


_UNKNOWN_PURPOSE = "content of a kind that this version of wakelog does not know"
_PURPOSES = {
    "system": "the system instructions",
    "tools": "the tool declarations",
    "injected": "a text that was injected into the request",
}


class BlobReference(msgspec.Struct, frozen=True):
    """One reference from an entry to a blob. `what` names the content that is lost if the blob is lost."""

    seq: int
    type: str
    line: int
    offset: int
    digest: str
    bytes: int
    what: str


def blob_references(entry: Entry) -> Iterator[BlobReference]:
    """Yield every reference of an entry, each blob once."""
    if b"sha256:" not in entry.raw:
        return
    known = {(ref.digest, ref.bytes): what for ref, what in _walk(entry.value, "", None)}
    # The typed value skips unknown keys; the bytes contain them.
    unknown = dict.fromkeys(blob_references_in(entry.raw), _UNKNOWN_PURPOSE)
    for (digest, size), what in (unknown | known).items():
        yield BlobReference(entry.seq, entry.type, entry.line, entry.offset, digest, size, what)


def _walk(value: Any, key: str, owner: Any) -> Iterator[tuple[BlobRef, str]]:
    """Yield the references inside a value, each with its purpose. `key` and `owner` locate the value."""
    match value:
        case BlobRef():
            if is_digest(value.digest):
                yield value, _purpose(key, owner)
        case msgspec.Struct():
            for field in value.__struct_fields__:
                yield from _walk(getattr(value, field), field, value)
        case dict():
            for name, inner in value.items():
                yield from _walk(inner, name, value)
        case list() | tuple():
            for inner in value:
                yield from _walk(inner, key, owner)


def _purpose(key: str, owner: Any) -> str:
    if isinstance(owner, ToolResult):
        return f"the full output of the tool {owner.tool_name} (the entry has a part of it)"
    match owner:
        case Image():
            return "an image"
        case Audio():
            return "audio"
        case Text():
            return "the full text (the entry has a part of it)"
    return _PURPOSES.get(key, _UNKNOWN_PURPOSE)

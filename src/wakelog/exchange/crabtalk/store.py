"""The binary files of crabtalk: its store (`store.crmem`), and the memory of older versions (`memory.db`).

Both begin with `CRMEM` and version 1. All numbers are little-endian, and nothing is aligned.
The store is a log of records, `op column key value`, of which the newest for a key counts. A snapshot of the keys is
among the records, at the place that the header names; what precedes it is not scanned, because older snapshots may be
in there. A record that a crash has cut off ends the file; crabtalk overwrites it.
The memory of older versions is a list of named texts. Of both files only what belongs to sessions is read: keys of
sessions, and the texts that their compactions name.
"""

import struct
from collections.abc import Iterator

import msgspec

from wakelog.errors import UsageError
from wakelog.exchange.chains import json_cell, object_of
from wakelog.exchange.records import BadRecord

MAGIC = b"CRMEM\0"
FILE_BYTES_MAX = 128 << 20
KEYS_MAX = 500_000
"""A store with more keys of sessions and memories than this would take many times its size in memory."""
SESSIONS, MEMORY = 1, 2
_VERSION = 1
_STORE_HEADER, _MEMORY_HEADER = 32, 16
_RECORD_HEAD = 10
_PUT, _DELETE = 0, 1


def is_store(head: bytes, size: int) -> bool:
    """Return whether the first bytes of a file are those of a store. `size` is the size of the file."""
    if len(head) < _STORE_HEADER or not _has_known_version(head):
        return False
    index_at, index_size = struct.unpack_from("<QQ", head, 16)
    # The memory of older versions has other numbers there: a counter from 1, and the number of its texts.
    return (index_at, index_size) == (0, 0) or (index_at >= _STORE_HEADER and index_at + index_size <= size)


def is_memory(head: bytes, size: int) -> bool:
    """Return whether the first bytes of a file are those of the memory of an older version."""
    return len(head) >= _MEMORY_HEADER and _has_known_version(head) and not is_store(head, size)


def _has_known_version(head: bytes) -> bool:
    version, flags = struct.unpack_from("<IH", head, len(MAGIC))
    return head.startswith(MAGIC) and (version, flags) == (_VERSION, 0)


class _Place(msgspec.Struct, frozen=True, gc=False):
    """Where the value of a record is, and where the record ends."""

    start: int
    end: int


class CrabStore:
    """The newest values of a store by key, and what could not be read."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._places: dict[int, dict[bytes, _Place]] = {SESSIONS: {}, MEMORY: {}}
        self.bad: list[tuple[bytes, BadRecord]] = []
        """What could not be read, with the key of the record if that is known."""
        self._replay(self._load_snapshot())

    def keys(self, column: int) -> Iterator[bytes]:
        """Yield the keys of a column in ascending order."""
        return iter(sorted(self._places[column]))

    def value(self, column: int, key: bytes) -> bytes | None:
        """Return the value of a key."""
        place = self._places[column].get(key)
        return self._raw[place.start : place.end] if place is not None else None

    def place(self, column: int, key: bytes) -> int:
        """Return where the value of a key is in the file."""
        return self._places[column][key].start

    def _put(self, column: int, key: bytes, place: _Place) -> None:
        self._places[column][key] = place
        _check_keys(sum(map(len, self._places.values())))

    def _load_snapshot(self) -> int:
        """Read the snapshot that the header names, and return where the records behind it begin."""
        index_at, index_size = struct.unpack_from("<QQ", self._raw, 16)
        if not index_size:
            return _STORE_HEADER
        found = _snapshot(self._raw[index_at : index_at + index_size])
        if found is None:
            self.bad.append((b"", BadRecord(0, index_at, index_size, "the snapshot of the keys cannot be read")))
            return _STORE_HEADER
        for column, key, offset in found:
            record = _record(self._raw, offset)
            if record is None or record[:3] != (_PUT, column, key):
                self.bad.append((key, BadRecord(0, offset, 0, "the record that the snapshot names is not there")))
            else:
                self._put(column, key, record[3])
        return int(index_at + index_size)

    def _replay(self, at: int) -> None:
        """Apply the records from a place to the end of the file."""
        while at < len(self._raw):
            record = _record(self._raw, at)
            if record is None or record[0] not in (_PUT, _DELETE):
                reason = "unknown record, so what follows cannot be read" if record else "the last record is cut off"
                self.bad.append((_torn_key(self._raw, at), BadRecord(0, at, len(self._raw) - at, reason)))
                return
            operation, column, key, place = record
            if column in self._places and operation == _DELETE:
                self._places[column].pop(key, None)
            elif column in self._places:
                self._put(column, key, place)
            at = place.end


def _record(raw: bytes, at: int) -> tuple[int, int, bytes, _Place] | None:
    """Return the operation, column, key and value of the record at a place; None if the file ends before it does."""
    if at + _RECORD_HEAD > len(raw):
        return None
    operation, column, key_size = struct.unpack_from("<BBI", raw, at)
    key_end = at + 6 + key_size
    if key_end + 4 > len(raw):
        return None
    (value_size,) = struct.unpack_from("<I", raw, key_end)
    start = key_end + 4
    if start + value_size > len(raw):
        return None
    return operation, column, raw[at + 6 : key_end], _Place(start, start + value_size)


def _torn_key(raw: bytes, at: int) -> bytes:
    """Return the key of a record that is cut off; empty if the key is cut off, too."""
    if at + 6 > len(raw) or raw[at] not in (_PUT, _DELETE):
        return b""
    (key_size,) = struct.unpack_from("<I", raw, at + 2)
    return raw[at + 6 : at + 6 + key_size] if at + 6 + key_size <= len(raw) else b""


def _check_keys(count: int) -> None:
    if count > KEYS_MAX:
        raise UsageError(f"the store has more than {KEYS_MAX:,} keys")


def _snapshot(raw: bytes) -> list[tuple[int, bytes, int]] | None:
    """Return the column, key and offset of each record of sessions and memories; None if the snapshot is damaged."""
    if len(raw) < 4:
        return None
    (count,) = struct.unpack_from("<I", raw)
    found, at = [], 4
    for _ in range(count):
        if at + 5 > len(raw):
            return None
        column, size = struct.unpack_from("<BI", raw, at)
        end = at + 5 + size
        if end + 8 > len(raw):
            return None
        (offset,) = struct.unpack_from("<Q", raw, end)
        at = end + 8
        if column in (SESSIONS, MEMORY):
            found.append((column, raw[end - size : end], offset))
            _check_keys(len(found))
    return found


# ── texts of compactions ─────────────────────────────────────────────────────────────────────────


def stored_archive(store: CrabStore, realm: str, name: str) -> str | None:
    """Return the text that a compaction of a session in a store names."""
    value = store.value(MEMORY, f"{realm}/memory/{name}".encode())
    content = object_of(json_cell(value, 0)).get("content") if value is not None else None
    return content if isinstance(content, str) else None


def memory_archive(raw: bytes, name: str) -> str | None:
    """Return a text of the memory of an older version; None if it is not there, or cannot be read."""
    if not is_memory(raw[:_STORE_HEADER], len(raw)):
        return None
    wanted = name.encode("utf-8", "surrogatepass")
    try:
        (count,) = struct.unpack_from("<I", raw, _MEMORY_HEADER + 8)
        at = _MEMORY_HEADER + 12
        for _ in range(count):
            own_name, at = _text(raw, at + 20)
            content, at = _text(raw, at)
            (aliases,) = struct.unpack_from("<I", raw, at)
            at += 4
            if own_name == wanted:
                return content.decode("utf-8", "replace")
            for _ in range(aliases):
                _, at = _text(raw, at)
    except struct.error:
        return None
    return None


def _text(raw: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from("<I", raw, at)
    if at + 4 + size > len(raw):
        raise struct.error("the text is cut off")
    return raw[at + 4 : at + 4 + size], at + 4 + size

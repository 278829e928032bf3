"""External sorting of entries: any number of them, in sorted runs in an unnamed temporary file."""

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, TypeAlias

import msgspec

from wakelog.log.codec import Undecodable, decode
from wakelog.log.entry import Body, Entry

Key: TypeAlias = tuple[int, ...]
RUN_ENTRIES = 1_000
RUN_BYTES = 2 * 1024 * 1024
"""A run that is sorted in memory has at most `RUN_ENTRIES` entries and ends when its lines reach `RUN_BYTES`."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """An entry in the file, without its value, which is decoded from the bytes again."""

    key: Key
    raw: bytes
    seq: int
    offset: int
    line: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Kept).decode


def in_order(entries: Iterable[tuple[Key, Entry]]) -> Iterator[Entry]:
    """Yield the entries in the order of their keys, which must be distinct. At most one run is in memory."""
    entries = iter(entries)
    with tempfile.TemporaryFile() as file:
        runs: list[tuple[int, int]] = []
        while run := _next_run(entries):
            runs.append(_write(file, run))
        for kept in heapq.merge(*(_read(file, start, end) for start, end in runs), key=lambda kept: kept.key):
            yield Entry(kept.raw, _value(kept.raw), kept.seq, kept.offset, kept.line)


def _next_run(entries: Iterator[tuple[Key, Entry]]) -> list[tuple[Key, Entry]]:
    run, size = [], 0
    for keyed in islice(entries, RUN_ENTRIES):
        run.append(keyed)
        size += len(keyed[1].raw)
        if size >= RUN_BYTES:
            break
    return sorted(run, key=_key)


def _key(keyed: tuple[Key, Entry]) -> Key:
    return keyed[0]


def _write(file: IO[bytes], run: list[tuple[Key, Entry]]) -> tuple[int, int]:
    start = file.tell()
    for key, entry in run:
        kept = _encode(_Kept(key, entry.raw, entry.seq, entry.offset, entry.line))
        file.write(len(kept).to_bytes(8, "little") + kept)
    return start, file.tell()


def _read(file: IO[bytes], at: int, end: int) -> Iterator[_Kept]:
    while at < end:
        file.seek(at)
        size = int.from_bytes(file.read(8), "little")
        yield _decode(file.read(size))
        at += 8 + size


def _value(raw: bytes) -> Body:
    try:
        return decode(raw)
    except Undecodable as error:
        # A line whose body cannot be decoded is still an entry if its envelope can.
        if error.envelope is None:
            raise
        return error.envelope

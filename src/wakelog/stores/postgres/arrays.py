"""Array parameters: encode columns of values in PostgreSQL's binary array format.

psycopg would inspect every value of a list to find its type, and would choose another type, and with it another
prepared statement, whenever a number gets longer. The list types here fix the element type.
"""

import struct
from collections.abc import Iterable
from typing import Any, ClassVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format

_TEXT, _BIGINT, _BYTEA = (25, 1009), (20, 1016), (17, 1001)
_NULL = struct.pack("!i", -1)


class Texts(list[str | None]):
    """A `text[]`."""


class Bigints(list[int | None]):
    """A `bigint[]`."""


class Byteas(list[bytes | None]):
    """A `bytea[]`."""


def _array(element: int, values: Iterable[bytes | None], length: int) -> bytes:
    if not length:
        return struct.pack("!iiI", 0, 0, element)
    items = (_NULL if value is None else struct.pack("!i", len(value)) + value for value in values)
    return struct.pack("!iiIii", 1, 1, element, length, 1) + b"".join(items)


class _Column(Dumper):
    format = Format.BINARY
    element: ClassVar[int]

    def dump(self, obj: Any) -> bytes:
        return _array(self.element, self.values(obj), len(obj))

    def values(self, obj: Iterable[bytes | None]) -> Iterable[bytes | None]:
        return obj


class _TextColumn(_Column):
    element, oid = _TEXT

    def values(self, obj: Iterable[Any]) -> Iterable[bytes | None]:
        return (None if value is None else value.encode() for value in obj)


class _BigintColumn(_Column):
    element, oid = _BIGINT

    def values(self, obj: Iterable[Any]) -> Iterable[bytes | None]:
        return (None if value is None else struct.pack("!q", value) for value in obj)


class _ByteaColumn(_Column):
    element, oid = _BYTEA


for _kind, _dumper in ((Texts, _TextColumn), (Bigints, _BigintColumn), (Byteas, _ByteaColumn)):
    # Registered globally, but only for these types, so other users of psycopg in this process are not affected.
    psycopg.adapters.register_dumper(_kind, _dumper)

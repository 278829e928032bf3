"""Pagination cursors: the position of a row or hit in its sort order, as an opaque string.

A string that is not a cursor of the expected kind raises `UsageError`. The row or hit that a cursor was taken from may
have been removed: the next page begins after its position.
"""

import binascii
from typing import Annotated, TypeVar

import msgspec

from wakelog.errors import UsageError
from wakelog.stores.catalog.query import as_text

_SAFE = bytes.maketrans(b"+/", b"-_")
_UNSAFE = bytes.maketrans(b"-_", b"+/")
_CURSOR_MAX_CHARS = 1_000

Number = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class RowPlace(msgspec.Struct, frozen=True, array_like=True, tag="row"):
    """The position of a row. Rows are ordered by time of last change, newest first, then by name."""

    updated_ms: Number
    name: str


class HitPlace(msgspec.Struct, frozen=True, array_like=True, tag="hit", order=True):
    """The position of a hit. Hits are ordered by rank (lower is better), then newest first, then by name and place.

    `query` is the `query_mark` of the search; a position is only valid within the same search.
    """

    query: Number
    rank: float
    age_ms: Number
    name: str
    place: Number


_Place = TypeVar("_Place", RowPlace, HitPlace)


def written(place: RowPlace | HitPlace) -> str:
    """Return the cursor of a position."""
    raw = binascii.b2a_base64(msgspec.json.encode(place), newline=False)
    return raw.rstrip(b"=").translate(_SAFE).decode()


def read(cursor: str, kind: type[_Place]) -> _Place:
    """Return the position that a cursor encodes; raise `UsageError` if it is not a cursor of this kind."""
    try:
        raw = cursor[:_CURSOR_MAX_CHARS].encode("ascii").translate(_UNSAFE)
        place = msgspec.json.decode(binascii.a2b_base64(raw + b"=" * (-len(raw) % 4)), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise UsageError(
            f"{cursor[:60]!r} is not a cursor of this list", hint="take the `cursor` of the last one you have"
        ) from None
    return msgspec.structs.replace(place, name=as_text(place.name))


def query_mark(query: str) -> int:
    """Return the checksum of a query (CRC-32), stored in its cursors."""
    return binascii.crc32(as_text(query).encode())

"""Where a page ends and the next one begins: the place of a row or a hit in its order, as one word.

A cursor means nothing to whoever carries it. It is checked on the way in: what is no cursor of the kind that is
asked for is a `UsageError`. What it names need not be there any more: the next page begins behind its place.
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
    """The order of rows: the last changed first, then by name."""

    updated_ms: Number
    name: str


class HitPlace(msgspec.Struct, frozen=True, array_like=True, tag="hit", order=True):
    """The order of hits: the best first (by a rank that grows as they get worse), then the newest, then by place.

    `query` tells which search it was: a place in one says nothing about another.
    """

    query: Number
    rank: float
    age_ms: Number
    name: str
    place: Number


_Place = TypeVar("_Place", RowPlace, HitPlace)


def written(place: RowPlace | HitPlace) -> str:
    """The cursor of a place."""
    raw = binascii.b2a_base64(msgspec.json.encode(place), newline=False)
    return raw.rstrip(b"=").translate(_SAFE).decode()


def read(cursor: str, kind: type[_Place]) -> _Place:
    """The place that a cursor names, or `UsageError`."""
    try:
        raw = cursor[:_CURSOR_MAX_CHARS].encode("ascii").translate(_UNSAFE)
        place = msgspec.json.decode(binascii.a2b_base64(raw + b"=" * (-len(raw) % 4)), type=kind)
    except (ValueError, msgspec.MsgspecError):
        raise UsageError(
            f"{cursor[:60]!r} is not a cursor of this list", hint="take the `cursor` of the last one you have"
        ) from None
    return msgspec.structs.replace(place, name=as_text(place.name))


def query_mark(query: str) -> int:
    """What tells one query from another."""
    return binascii.crc32(as_text(query).encode())

"""Parse search queries and pagination cursors, the two inputs of a catalog that come from users.

    word  "a phrase"  prefix*  -not  -"not this"
    agent:NAME  sender:NAME  cwd:FOLDER  tool:NAME  type:TYPE  since:2026-11-01  since:2d  -agent:"a name"

All terms must match, in any order; terms after a minus must not match. Pure: the caller passes the current time
for relative values such as `since:2d`. Rule: user input reaches a database only as a bound value or inside quotes, so
operators and column names of a query language have no effect.
A cursor is the position of a row or hit in its sort order, as an opaque string. A string that is not a cursor of the
expected kind raises `UsageError`. The row or hit that a cursor was taken from may have been removed: the next page
begins after its position.
"""

import binascii
import re
from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

import msgspec

from wakelog.decoding import convert, decoder_of
from wakelog.errors import BadQuery, UsageError
from wakelog.log.timestamps import iso_timestamp, parse_ms

FieldName = Literal["agent", "sender", "cwd", "tool", "type", "since"]
QUERY_MAX_CHARS = 2_000
TERMS_MAX = 64
_TERM = re.compile(
    r"(?P<minus>-?)(?:"
    r'(?P<field>agent|sender|cwd|tool|type|since):(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s"]*))'
    r'|"(?P<phrase>[^"]*)"(?P<open>\*?)'
    r'|(?P<word>[^\s"]+))'
    r'|(?P<stray>")'
)
_RELATIVE_TIME = re.compile(r"([0-9]{1,6})([smhdw])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_QUERY_HINT = 'use words, "a phrase", prefix*, -not and agent: sender: cwd: tool: type: since:'
_SINCE_HINT = "use a day, a time or an age: since:2026-11-01, since:2026-11-01T09:30:00Z, since:2d"


class Term(msgspec.Struct, frozen=True):
    """A word, phrase or prefix that the text must contain, or must not contain (`without`)."""

    text: str
    prefix: bool = False
    without: bool = False


class Field(msgspec.Struct, frozen=True):
    """A condition on the entry or its session; negated by `without`."""

    name: FieldName
    value: str
    without: bool = False


class Query(msgspec.Struct, frozen=True):
    """A parsed query. Without wanted terms it selects the newest entries that satisfy the rest."""

    terms: tuple[Term, ...] = ()
    fields: tuple[Field, ...] = ()

    @property
    def wanted(self) -> tuple[Term, ...]:
        """The terms that the text must contain."""
        return tuple(term for term in self.terms if not term.without)

    @property
    def unwanted(self) -> tuple[Term, ...]:
        """The terms that the text must not contain."""
        return tuple(term for term in self.terms if term.without)


def parse_query(query: str) -> Query:
    """Parse a query or raise `BadQuery`. Terms without a letter or digit are ignored."""
    if len(query) > QUERY_MAX_CHARS:
        raise BadQuery(f"the query is longer than {QUERY_MAX_CHARS:,} characters", hint="search for fewer words")
    found = [_parse_part(match) for match in _TERM.finditer(storable_text(query))]
    terms = tuple(part for part in found if isinstance(part, Term) and _has_letter_or_digit(part))
    fields = tuple(part for part in found if isinstance(part, Field))
    if len(terms) + len(fields) > TERMS_MAX:
        raise BadQuery(f"the query has more than {TERMS_MAX} words", hint="search for fewer words")
    if not terms and not fields:
        raise BadQuery("the query has no word to search for", hint=_QUERY_HINT)
    if all(term.without for term in terms) and all(field.without for field in fields):
        raise BadQuery("the query only has excluded words", hint="add a word to search for")
    return Query(terms, fields)


def resolve_folders(query: str, whole: Callable[[str], str]) -> str:
    """Return the query with each relative `cwd:` folder replaced by `whole(folder)`; only the caller can resolve it."""

    def replaced(found: re.Match[str]) -> str:
        folder = found["quoted"] or found["value"] or ""
        if found["field"] != "cwd" or not folder.strip() or folder.startswith("/"):
            return found[0]
        named = whole(folder)
        if '"' in named:
            raise BadQuery(f"the folder {named} cannot be used in a query", hint="its path has a quote; remove `cwd:`")
        return f'{found["minus"]}cwd:"{named}"'

    return _TERM.sub(replaced, query)


def storable_text(typed: str) -> str:
    """Return `typed` in a form every database can store: invalid Unicode becomes "?", NUL a space."""
    return typed.encode("utf-8", "replace").decode().replace("\0", " ")


def values_to_bind(field: Field, now_ms: int) -> tuple[str | int, ...]:
    """Return the values to bind for the database condition of a field."""
    match field.name:
        case "cwd":
            # The folder itself, and the prefix of the paths below it.
            return field.value.rstrip("/") or "/", field.value.rstrip("/") + "/"
        case "tool":
            return (encode_names([field.value]),)
        case "since":
            return (_since_ms(field.value, now_ms),)
    return (field.value,)


def encode_names(names: list[str]) -> str:
    """Encode names as one text, each between two newlines, so that a whole name can be found as a substring."""
    return "".join(f"\n{storable_text(name).replace(chr(10), ' ')}\n" for name in names)


# ── parsing of terms ─────────────────────────────────────────────────────────────────────────────


def _parse_part(found: re.Match[str]) -> Term | Field:
    without = bool(found["minus"])
    if found["stray"] or (found["value"] == "" and found.string[found.end() :].startswith('"')):
        raise BadQuery("the query has an unclosed quote", hint=_QUERY_HINT)
    if found["field"] is not None:
        return _parse_field(found["field"], found["quoted"] or found["value"] or "", without=without)
    if found["phrase"] is not None:
        return Term(found["phrase"], bool(found["open"]), without)
    return Term(found["word"].removesuffix("*"), found["word"].endswith("*"), without)


def _parse_field(name: str, value: str, *, without: bool) -> Field:
    if not value.strip():
        raise BadQuery(f"`{name}:` needs a value", hint=f'write {name}:VALUE, or "{name}:" to search for it')
    field = convert({"name": name, "value": value, "without": without}, Field)
    if field.name == "since":
        _since_ms(value, 0)
    return field


def _since_ms(value: str, now_ms: int) -> int:
    """Return the time that a `since:` value names, in milliseconds since 1970; raise `BadQuery` if it is invalid."""
    span = _RELATIVE_TIME.fullmatch(value)
    if span:
        return now_ms - int(span[1]) * _UNIT_MS[span[2]]
    day_ms = parse_ms(f"{value}T00:00:00Z")
    moment_ms = parse_ms(value) if day_ms is None else day_ms
    # `parse_ms` reads a day that does not exist (31 February) as one of the next month.
    if moment_ms is None or (day_ms is not None and iso_timestamp(day_ms)[:10] != value):
        raise BadQuery(f"not a time for `since:`: {value[:40]!r}", hint=_SINCE_HINT)
    return moment_ms


def _has_letter_or_digit(term: Term) -> bool:
    return any(char.isalnum() for char in term.text)


_TO_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_CURSOR_MAX_CHARS = 1_000
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class RowPosition(msgspec.Struct, frozen=True, array_like=True, tag="row"):
    """The position of a row. Rows are ordered by time of last change, newest first, then by name."""

    updated_ms: Int64
    name: str


class HitPosition(msgspec.Struct, frozen=True, array_like=True, tag="hit", order=True):
    """The position of a hit. Hits are ordered by rank (lower is better), then newest first, then by name and place.

    `query` is the `query_checksum` of the search; a position is only valid within the same search.
    """

    query: Int64
    rank: float
    age_ms: Int64
    name: str
    place: Int64


_Position = TypeVar("_Position", RowPosition, HitPosition)


def encode_cursor(place: RowPosition | HitPosition) -> str:
    """Return the cursor of a position."""
    raw = binascii.b2a_base64(msgspec.json.encode(place), newline=False)
    return raw.rstrip(b"=").translate(_TO_URL_SAFE).decode()


def decode_cursor(cursor: str, kind: type[_Position]) -> _Position:
    """Return the position that a cursor encodes; raise `UsageError` if it is not a cursor of this kind."""
    try:
        raw = cursor[:_CURSOR_MAX_CHARS].encode("ascii").translate(_FROM_URL_SAFE)
        place = decoder_of(kind).decode(binascii.a2b_base64(raw + b"=" * (-len(raw) % 4)))
    except (ValueError, msgspec.MsgspecError):
        raise UsageError(
            f"{cursor[:60]!r} is not a cursor of this list", hint="use the `cursor` of the last row"
        ) from None
    return msgspec.structs.replace(place, name=storable_text(place.name))


def query_checksum(query: str) -> int:
    """Return the checksum of a query (CRC-32), stored in its cursors."""
    return binascii.crc32(storable_text(query).encode())

"""Encoding and decoding of entries as JSON lines.

Writing: `encode` returns the line without seq and h; the store adds both (`seal.py`).
Reading: `decode` returns the typed value or raises with a reason; the caller keeps the bytes in both cases.
Unknown data is preserved: an entry of an unknown type is an `UnknownBody`, an unknown content part is an `UnknownPart`,
and an older format version is upcast in the value only. Valid JSON that the JSON library rejects (a lone surrogate
escape, a number that is too large) is replaced in a copy of the bytes before decoding; stored bytes never change.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from wakelog.decoding import build_decoder, convert
from wakelog.errors import UsageError
from wakelog.log.content import AnyPart, Content, JsonObject, Part, Reply
from wakelog.log.entry import (
    ANNOTATION_TYPES,
    FORMAT_VERSION,
    NODE_TYPES,
    Body,
    KnownBody,
    Message,
    SessionHeader,
    UnknownBody,
)
from wakelog.log.ids import ID_PATTERN, is_id

LINE_MAX_BYTES = 16 * 1024 * 1024
# The store adds v and seq in front and the seal at the end.
_BODY_MAX_BYTES = LINE_MAX_BYTES - 1024
# The rest of an entry (ids, error, usage) takes less than 1 MiB.
_CONTENT_MAX_BYTES = 15 * 1024 * 1024
# Nesting limit of a line. The JSON library is limited only by the remaining stack, so that without this limit a line
# could be readable in one place and not in another.
NESTING_MAX = 256
# Limit on lists and objects in a line: each takes twenty times the memory of its two bytes.
BRACKETS_MAX = 250_000
_LARGE_BYTES = 1024 * 1024
# A shorter line cannot exceed the nesting limit.
_SHORT_BYTES = 2 * NESTING_MAX
_FIRST_VERSION = 1
Upcaster: TypeAlias = Callable[[JsonObject], JsonObject]
# Version n → function that converts a line's plain JSON object to version n + 1. Empty: version 1 is the newest.
UPCASTERS: Mapping[int, Upcaster] = {}
_encoder = msgspec.json.Encoder()
_plain_decoder = msgspec.json.Decoder()
_matches_id_pattern = ID_PATTERN.fullmatch
_PART_TYPES = frozenset(str(part.__struct_config__.tag) for part in Part.__subclasses__())
_NOT_ENCODABLE = (UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError)
# Invalid UTF-8 in a type tag makes the JSON library raise UnicodeDecodeError.
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError)
# A bracket, or a string without escapes (they are removed before); an unterminated string extends to the end.
_TOKEN = re.compile(rb'[\[\]{}]|"[^"]*"?')
_DEPTH_STEP = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}
# Part of the JSON library's message for a number that is valid JSON but too large for it.
_OUT_OF_RANGE = "out of range"


class LineEnvelope(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that identify any entry, as far as the line has them."""

    id: str
    parent_id: str | None = None
    type: str = ""
    timestamp: str = ""


_envelope_decoder = build_decoder(LineEnvelope)


class _Origin(msgspec.Struct, frozen=True):
    kind: str = "fork"


class SessionIdentity(msgspec.Struct, frozen=True):
    """Identity and origin in the first line of a session, readable in any format version."""

    type: str
    agent: str = ""
    sender: str = ""
    parent: _Origin | None = None

    @property
    def origin(self) -> str | None:
        """How the session was made from another one (`fork`, `subagent`, `import`); None if it was not."""
        return self.parent.kind if self.parent is not None else None

    def is_of(self, agent: str, sender: str) -> bool:
        """Return whether the session has exactly this identity."""
        return (self.agent, self.sender) == (agent, sender)


_identity_decoder = build_decoder(SessionIdentity)


class Undecodable(Exception):
    """A line that is not an entry, or one of which only the envelope could be read."""

    def __init__(self, reason: str, envelope: UnknownBody | None = None, *, newer: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.envelope = envelope
        self.newer = newer


def encode(value: KnownBody) -> bytes:
    """Return the line of a stamped body, without seq and h.

    `UsageError` if it cannot be written: not JSON, nested too deep, or too long for one line.
    """
    line = _encoded(value)
    if excess := _exceeded_limit(line):
        raise UsageError(f"a {value.type} entry cannot be written: it is {excess}")
    if len(line) > _BODY_MAX_BYTES:
        raise UsageError(
            f"a {value.type} entry of {len(line):,} bytes is too long for one line", hint=_hint_on_length(value)
        )
    return line


def _hint_on_length(value: KnownBody) -> str:
    """Return what to do about an entry that is too long: only texts and media can be in blobs."""
    calls = value.message.tool_calls if isinstance(value, Message) and isinstance(value.message, Reply) else ()
    sizes = {len(_encoded(Message(message=Reply(content=(call,))))): call for call in calls}
    if not sizes or max(sizes) <= _BODY_MAX_BYTES // 2:
        return "put large content into a blob and name it"
    call = sizes[max(sizes)]
    named = f"the input of the tool call {call.name} ({call.id})"
    return f"{named} must be in the line; let the tool take such content from a file, or in several calls"


def fits_line(value: KnownBody) -> bool:
    """Return whether the line of a stamped body is within the size limit."""
    return len(_encoded(value)) <= _BODY_MAX_BYTES


def fits_entry(content: Content) -> bool:
    """Return whether an entry with this content can be written: JSON can express it and one line can hold it."""
    try:
        raw = _encoder.encode({"message": {"content": content}})
    except _NOT_ENCODABLE:
        return False
    return len(raw) <= _CONTENT_MAX_BYTES and not _exceeded_limit(raw)


def exceeds_json_limits(raw: bytes) -> bool:
    """Return whether JSON is nested deeper, or has more lists and objects, than a line may have."""
    return bool(_exceeded_limit(raw))


def count_brackets(part: bytes) -> tuple[int, bool]:
    """Return the number of lists and objects in a JSON content part, and whether it is nested too deep for an entry."""
    raw = b'{"message":{"content":[' + part + b"]}}"
    tokens = _TOKEN.finditer(raw.replace(b"\\\\", b"").replace(b'\\"', b""))
    steps = list(filter(None, (_DEPTH_STEP.get(token[0], 0) for token in tokens)))
    return steps.count(1), max(itertools.accumulate(steps)) > NESTING_MAX


def _encoded(value: KnownBody) -> bytes:
    try:
        return _encoder.encode(value)
    except _NOT_ENCODABLE as error:
        raise UsageError(f"a {value.type} entry cannot be written as JSON: {error}") from error


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces: equal values give equal bytes. Used for digests."""
    return msgspec.json.encode(value, order="sorted")


def envelope_of(line: bytes) -> LineEnvelope | None:
    """Return the envelope of an encoded line, whatever else it holds; None if it cannot be read."""
    try:
        return _envelope_decoder.decode(line)
    except msgspec.ValidationError:
        return None
    except _NOT_JSON as error:
        readable = _repaired(line, error)
        return envelope_of(readable) if readable != line else None
    except RecursionError:
        return None


def decode_identity(line: bytes) -> SessionIdentity | None:
    """Return the identity in the first line of a session; None if the line is not a readable session header."""
    try:
        header = _identity_decoder.decode(line)
    except msgspec.ValidationError:
        return None
    except _NOT_JSON as error:
        readable = _repaired(line, error)
        return decode_identity(readable) if readable != line else None
    except RecursionError:
        return None
    return header if header.type == "session" else None


def id_of(line: bytes) -> str | None:
    """Return the id in an encoded line; None if it cannot be read."""
    envelope = envelope_of(line)
    return envelope.id if envelope is not None else None


def to_plain(value: Any) -> Any:
    """Return a typed value as plain dicts and lists, with the JSON names."""
    return msgspec.to_builtins(value)


def edit_line(raw: bytes, changes: JsonObject, *, without: tuple[str, ...] = ()) -> bytes:
    """Return a line with some keys changed or removed. All others keep their order and their value's bytes."""
    written = {key: _encoder.encode(value) for key, value in changes.items()}
    line: dict[bytes, bytes] = {}
    met = set()
    for key, value in object_members(raw):
        name = _plain_decoder.decode(repair_json(key, clamp_numbers=False))
        met.add(name)
        if name not in without:
            line[key] = written.get(name, value)
    line |= {_encoder.encode(name): value for name, value in written.items() if name not in met}
    return b"{%b}" % b",".join(b"%b:%b" % member for member in line.items())


@functools.cache
def _body_decoder() -> Callable[[bytes], KnownBody]:
    """Return the decoder of known entries. Created on first use: that takes longer than listing sessions should."""
    return build_decoder(KnownBody).decode


def decode(raw: bytes, newest: int = FORMAT_VERSION, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Body:
    """Return the typed value of one line (without LF); raise `Undecodable`. `newest` is the current format version."""
    if len(raw) > _LARGE_BYTES and (excess := _exceeded_limit(raw)):
        # Checked before decoding, which would take the memory that the check is meant to save.
        raise Undecodable(excess)
    try:
        value = _body_decoder()(raw)
    except _NOT_JSON:
        return decode_slow_path(raw, newest, upcasters)
    except RecursionError:
        raise Undecodable("nested too deep") from None
    # Fast path: a line that passes these cheap checks needs no further ones.
    if (
        _matches_id_pattern(value.id) is None
        or (value.v != newest and (value.v is not None or newest != _FIRST_VERSION))
        or (_has_many_brackets(raw) and _exceeded_limit(raw))
        or (type(value) is SessionHeader and value.version not in (None, newest))
    ):
        return decode_slow_path(raw, newest, upcasters)
    return value


def decode_slow_path(raw: bytes, newest: int, upcasters: Mapping[int, Upcaster]) -> Body:
    """Decode step by step, with a reason for each failure: the slow path for lines that `decode` does not accept."""
    line = _decode_object(raw)
    try:
        envelope = convert(line, UnknownBody)
    except msgspec.ValidationError as error:
        raise Undecodable(f"not an entry: {error}") from None
    if not is_id(envelope.id):
        raise Undecodable("not an entry: its id is outside the grammar")
    version = _format_version(line, envelope)
    if version > newest:
        reason = f"written in format {version}; this wakelog reads up to {newest}"
        raise Undecodable(reason, envelope, newer=version)
    for older in range(version, newest):
        line = upcasters[older](line)
    if line["type"] not in NODE_TYPES and line["type"] not in ANNOTATION_TYPES:
        return envelope
    try:
        return convert(_with_unknown_parts(line), KnownBody)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise Undecodable(f"{envelope.type}: {error}", envelope) from None


def _decode_object(raw: bytes) -> JsonObject:
    if excess := _exceeded_limit(raw):
        raise Undecodable(excess)
    try:
        line = _plain_decoder.decode(raw)
    except _NOT_JSON as error:
        readable = _repaired(raw, error)
        if readable == raw:
            raise Undecodable(f"not JSON: {error}") from None
        return _decode_object(readable)
    except RecursionError:
        raise Undecodable("nested too deep") from None
    if not isinstance(line, dict):
        raise Undecodable("not an entry: not an object")
    return line


def _exceeded_limit(raw: bytes) -> str:
    """Return which limit a line's JSON exceeds, or "". Lines that are short or have few brackets exceed none."""
    if not _has_many_brackets(raw):
        return ""
    depth = count = 0
    for token in _TOKEN.finditer(raw.replace(b"\\\\", b"").replace(b'\\"', b"")):
        step = _DEPTH_STEP.get(token[0], 0)
        depth, count = depth + step, count + (step > 0)
        if depth > NESTING_MAX:
            return f"nested deeper than {NESTING_MAX} levels"
        if count > BRACKETS_MAX:
            return f"made of more than {BRACKETS_MAX:,} lists and objects"
    return ""


def _has_many_brackets(raw: bytes) -> bool:
    """Return whether a line could exceed the nesting limit. Removing a few bytes is faster than counting all."""
    if len(raw) < _SHORT_BYTES:
        return False
    count = NESTING_MAX + 1
    return 2 * len(raw) - len(raw.replace(b"[", b"", count)) - len(raw.replace(b"{", b"", count)) > NESTING_MAX


def _format_version(line: JsonObject, envelope: UnknownBody) -> int:
    """Return the format version of a line; 1 where it has none. `Undecodable` for a version below 1."""
    version = line.get("version") if envelope.type == "session" else None
    versions = [_FIRST_VERSION if envelope.v is None else envelope.v, *([version] if isinstance(version, int) else [])]
    if min(versions) < _FIRST_VERSION:
        reason = f"written in format {min(versions)}, which does not exist; the first format is {_FIRST_VERSION}"
        raise Undecodable(reason, envelope)
    return max(versions)


def _repaired(raw: bytes, error: Exception) -> bytes:
    """Return `raw` with valid JSON that the library rejects replaced; `raw` itself if there is none."""
    return repair_json(raw, clamp_numbers=_OUT_OF_RANGE in str(error))


def _with_unknown_parts(line: JsonObject) -> JsonObject:
    """Return the line with every content part that cannot be decoded wrapped as an unknown part."""
    line = dict(line)
    if isinstance(line.get("message"), dict):
        line["message"] = _with_unknown_parts(line["message"])
    if isinstance(line.get("content"), list):
        line["content"] = [part if _is_part(part) else {"type": "unknown", "part": part} for part in line["content"]]
    return line


def _is_part(part: Any) -> bool:
    if not isinstance(part, dict) or part.get("type") not in _PART_TYPES:
        return False
    try:
        convert(part, AnyPart)
    except msgspec.ValidationError:
        return False
    return True


BOM = b"\xef\xbb\xbf"
# The library reads integers of up to this many characters, and other numbers up to the largest double.
_INTEGER_CHARS_MAX = 4300
_LARGEST = b"1.7976931348623157e308"
# Matches every escape, so that `u` after an escaped backslash is not taken for one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# An unterminated string extends to the end of the line. Possessive quantifiers keep the time linear for any input.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_STRING_OR_NUMBER = re.compile(_STRING + rb"|(-?+[0-9]++(\.[0-9]++)?+([eE][+-]?+[0-9]++)?+)", re.DOTALL)
_STRING_OR_SIGN = re.compile(_STRING + rb"|[\[\]{},:]", re.DOTALL)


def repair_json(raw: bytes, *, clamp_numbers: bool) -> bytes:
    """Return `raw` without byte order mark and lone surrogates; `clamp_numbers`: and without too large numbers."""
    raw = _without_lone_surrogates(raw.removeprefix(BOM))
    return _STRING_OR_NUMBER.sub(_clamped_number, raw) if clamp_numbers else raw


def _without_lone_surrogates(raw: bytes) -> bytes:
    if b"\\ud" not in raw and b"\\uD" not in raw:
        return raw
    # Both escapes have the same length, so they are replaced in place: one copy, however many there are.
    whole = bytearray(raw)
    for found in _ESCAPE.finditer(raw):
        if found[1]:
            whole[found.start() : found.end()] = b"\\ufffd"
    return bytes(whole)


def _clamped_number(found: re.Match[bytes]) -> bytes:
    number = found[1]
    if number is None or abs(float(number)) != float("inf"):
        return found[0]
    is_integer = found[2] is None and found[3] is None
    if is_integer and len(number) <= _INTEGER_CHARS_MAX:
        return number
    return b"-" + _LARGEST if number.startswith(b"-") else _LARGEST


def object_members(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a JSON object as bytes, in order. The line must be a valid object."""
    depth, start, key = 0, raw.index(b"{") + 1, b""
    for token in _STRING_OR_SIGN.finditer(raw):
        sign = token[0]
        if depth == 1 and sign == b":":
            key, start = raw[start : token.start()].strip(), token.end()
        elif depth == 1 and sign in (b",", b"}"):
            if key:
                yield key, raw[start : token.start()].strip()
            key, start = b"", token.end()
        depth += (sign in (b"{", b"[")) - (sign in (b"}", b"]"))

"""Parser for event streams of model servers: bytes to server-sent events, events to JSON, text to tool-call input.

Lines end at LF, CR or CRLF, found in the bytes: text may hold other characters that count as line ends elsewhere.
An event without its final empty line is not delivered.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from wakelog.decoding import convert, decoder_of

_Shape = TypeVar("_Shape")
# A CR at the end of the data may be half of a CRLF, and waits.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)


class EventParser:
    """Incremental parser: takes bytes, yields the `data` of each event."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the events that these bytes complete."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._lines.append(value.removeprefix(b" "))
            elif not line and self._lines:
                whole, self._lines = b"\n".join(self._lines), []
                if whole:
                    yield whole


def decode_event(event: bytes, shape: type[_Shape]) -> _Shape:
    """Return the content of an event, or raise `ValueError`. Keys that `shape` does not know are ignored."""
    try:
        return decoder_of(shape).decode(event)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_with_surrogates(event, shape)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _decode_with_surrogates(event: bytes, shape: type[_Shape]) -> _Shape:
    """Decode JSON with lone surrogates, which some servers write and no store accepts; each is replaced."""
    try:
        return convert(_replace_surrogates(json.loads(event)), shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _replace_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_replace_surrogates(key): _replace_surrogates(inner) for key, inner in value.items()}
        case list():
            return [_replace_surrogates(inner) for inner in value]
    return value


# A log accepts lines of a few hundred levels, and an input is only a part of one.
_LEVELS_MAX = 100


def parse_tool_input(text: str) -> Any:
    """Return the input that a JSON text holds, or raise `ValueError`. Empty text is a call without input: `{}`."""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not _is_nested_within(value, _LEVELS_MAX):
        raise ValueError("nested too deep")
    return value


def _is_nested_within(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_nested_within(each, levels - 1) for each in inner)

"""Server-sent events from bytes, however they were cut on the way, and the JSON in them.

Lines end at LF, CR or CRLF, seen on bytes only: a text may well hold other signs that some call the end of a line. An
event that was never ended has not been sent.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

_Shape = TypeVar("_Shape")
# A CR that nothing follows yet may be half of a CRLF, and waits.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)


class Events:
    """A stream of bytes as the `data` of its events."""

    def __init__(self) -> None:
        self._rest = b""
        self._lines: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that are complete with these bytes."""
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._lines.append(value.removeprefix(b" "))
            elif not line and self._lines:
                whole, self._lines = b"\n".join(self._lines), []
                if whole:
                    yield whole


def decoded(event: bytes, shape: type[_Shape]) -> _Shape:
    """What an event holds, or `ValueError`. Keys that the shape does not know are of no interest."""
    try:
        return msgspec.json.decode(event, type=shape)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decoded_patiently(event, shape)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _decoded_patiently(event: bytes, shape: type[_Shape]) -> _Shape:
    """Half a surrogate pair is JSON to some who write it, and no text to anybody who stores it."""
    try:
        return msgspec.convert(_mended(json.loads(event)), shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {_mended(key): _mended(inner) for key, inner in value.items()}
        case list():
            return [_mended(inner) for inner in value]
    return value

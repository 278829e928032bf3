"""Decode JSON, and convert plain values, to structs: decoders are built by one thread at a time.

msgspec describes a struct when the first decoder of it is built, and publishes the description before its fields are
complete. A second thread that builds a decoder of the same struct at that moment uses the incomplete description, and
the process ends with SIGSEGV. Building under one lock prevents that; decoding needs no lock. A fork waits for the lock,
so that no child process inherits an incomplete description.
"""

import os
import threading
from typing import Any, TypeVar, overload

import msgspec

_Kind = TypeVar("_Kind")
_building = threading.RLock()
_decoders: dict[Any, "msgspec.json.Decoder[Any]"] = {}
os.register_at_fork(before=_building.acquire, after_in_parent=_building.release, after_in_child=_building.release)


@overload
def build_decoder(kind: type[_Kind]) -> "msgspec.json.Decoder[_Kind]": ...
@overload
def build_decoder(kind: Any) -> "msgspec.json.Decoder[Any]": ...
def build_decoder(kind: Any) -> "msgspec.json.Decoder[Any]":
    """Return a new JSON decoder. Afterwards any thread may use `msgspec` with this type."""
    with _building:
        return msgspec.json.Decoder(kind)


@overload
def decoder_of(kind: type[_Kind]) -> "msgspec.json.Decoder[_Kind]": ...
@overload
def decoder_of(kind: Any) -> "msgspec.json.Decoder[Any]": ...
def decoder_of(kind: Any) -> "msgspec.json.Decoder[Any]":
    """Return the JSON decoder of a type, built on first use and kept: for types that exist as long as the process."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = build_decoder(kind)
    return decoder


@overload
def convert(value: object, kind: type[_Kind]) -> _Kind: ...
@overload
def convert(value: object, kind: Any) -> Any: ...
def convert(value: object, kind: Any) -> Any:
    """Return a plain value as a value of a type; `msgspec.ValidationError` if it does not fit."""
    decoder_of(kind)
    return msgspec.convert(value, kind)

"""Introspection of the structs of `values` as a tree of tables and leaves, and wording for messages about them.

Pure. No function here knows a file; `reading` walks a document along these types.
"""

import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from wakelog.config.values import Path

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CLOSE = 0.6
_SHOWN_CHARS = 40


def keys_of(kind: Any) -> Mapping[str, Any]:
    """Return the keys of a table and their types; empty for a table that accepts any key."""
    return _fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else {}


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def each_of(kind: Any) -> Any:
    """Return the value type of a table that accepts any key; None for other types."""
    return get_args(kind)[1] if get_origin(kind) is dict else None


def is_table(kind: Any) -> bool:
    """Whether a type is a table."""
    return bool(keys_of(kind)) or each_of(kind) is not None


def misfit(value: Any, kind: Any) -> str:
    """Return what a value must be, in words; empty if it fits."""
    if kind is Any:
        return "" if _is_json(value) else words_for(kind)
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        return words_for(kind)
    return ""


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_json(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_is_json(inner) for inner in value)
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 2**63)


def words_for(kind: Any) -> str:
    """Return the words that follow "must be"."""
    if get_origin(kind) is Annotated:
        found = [meta.description for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta)]
        return found[0] or "" if found else words_for(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return one_of(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return one_of(words_for(inner) for inner in get_args(kind) if inner is not type(None))
    return "a table" if is_table(kind) else "what JSON can hold: no dates, no infinite numbers"


def is_kin(value: Any, kind: Any) -> bool:
    """Whether a value that does not fit has at least the right basic type: a string, a list, a table."""
    if get_origin(kind) is tuple:
        return isinstance(value, list)
    if get_origin(kind) in (Annotated, Union, UnionType):
        return any(is_kin(value, inner) for inner in get_args(kind))
    if is_table(kind):
        return isinstance(value, dict)
    return kind is Any or kind is type(value) or (type(value) is int and kind is float)


def choices_of(kind: Any) -> tuple[str, ...]:
    """Return the allowed values of a type with a fixed set of them, otherwise empty."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(word for inner in get_args(kind) for word in choices_of(inner))


def one_of(words: Iterable[str]) -> str:
    """Return `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the most similar word; empty if none is similar."""
    found = difflib.get_close_matches(word[:200], list(words), 1, _CLOSE)
    return found[0] if found else ""


def dotted(path: Path) -> str:
    """Return a path as written in a TOML file: `prices."openai:o9".input`."""
    return ".".join(key if _BARE.fullmatch(key) else quoted(key) for key in path)


def quoted(text: str) -> str:
    """Return a text in quotes, as JSON and TOML write it."""
    return msgspec.json.encode(text.encode(errors="replace").decode()).decode()


def word_for(value: Any) -> str:
    """Return the name of a value's type, without its content."""
    words = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a table"}
    return words.get(type(value), "a date or time")


def clipped(text: str) -> str:
    """Return a text shortened for a message."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"

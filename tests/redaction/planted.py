"""Entries with a secret in one place each: every string of every type, found by walking the types.

A field that is added to a type is found without being listed: only `EXEMPT` of `wakelog.redaction.entries` leaves
one out.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from wakelog.log.entry import Annotation, Node
from wakelog.redaction.entries import EXEMPT

TYPES = (*Node.__subclasses__(), *Annotation.__subclasses__())


def planted(kind: type[msgspec.Struct], secret: str) -> list[tuple[str, Any]]:
    """Return the values of a type that contain the secret in one place, each with the path of that place."""
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return list(_structs(info, secret))


def _structs(info: inspect.StructType, secret: str) -> Iterator[tuple[str, Any]]:
    exempt = {name for base, names in EXEMPT.items() if issubclass(info.cls, base) for name in names}
    needed = {field.name: _filler(field.type) for field in info.fields if field.required}
    for field in info.fields:
        for path, value in _values(field.type, secret) if field.name not in exempt else ():
            yield f"{info.cls.__name__}.{field.name}{path}", info.cls(**{**needed, field.name: value})


def _values(info: inspect.Type, secret: str) -> Iterator[tuple[str, Any]]:
    """Yield one value of a type for each place in it that can contain a string."""
    match info:
        case inspect.StrType():
            yield "", secret
        case inspect.AnyType():
            yield "", secret
            yield from _objects(secret)
        case inspect.DictType():
            yield from _objects(secret)
        case inspect.UnionType():
            for each in info.types:
                yield from _values(each, secret)
        case inspect.VarTupleType():
            for path, value in _values(info.item_type, secret):
                yield f"[]{'/' if path else ''}{path}", (value,)
        case inspect.StructType():
            for path, value in _structs(info, secret):
                yield f"/{path}", value
        case inspect.IntType() | inspect.BoolType() | inspect.NoneType() | inspect.LiteralType():
            pass
        case _:
            raise AssertionError(f"say here how a {info} is planted")


def _objects(secret: str) -> Iterator[tuple[str, Any]]:
    yield "{value}", {"a": secret}
    yield "{key}", {secret: 1}
    yield "{deep}", {"a": [{"b": [secret]}, 1]}


def _filler(info: inspect.Type) -> Any:
    """Return a harmless value of a type."""
    match info:
        case inspect.StrType():
            return "x"
        case inspect.IntType():
            return 0
        case inspect.UnionType():
            return _filler(info.types[0])
        case inspect.StructType():
            return info.cls(**{field.name: _filler(field.type) for field in info.fields if field.required})
    raise AssertionError(f"say here what a harmless {info} is")

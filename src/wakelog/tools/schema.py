"""Tool descriptions: derives a JSON schema and the meaning of arguments from a typed function.

Rule 1: msgspec does the work. The parameters become one struct; the schema for the model and the validation of its
arguments both come from that struct, so they cannot disagree.
Rule 2: a function that cannot be described is a mistake of its author: `UsageError` when it is made a tool.
Rule 3: arguments that do not fit are a mistake of the model: one clear line, which becomes the call's outcome.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from wakelog.errors import UsageError
from wakelog.ports import Invocation

_MUTABLE = (list, dict, set)
_ARGUMENT = re.compile(r"(\w+)(?: \([^)]*\))?: +(.*)")


class Described(msgspec.Struct, frozen=True):
    """A function as described to a model. `call_parameter` names the parameter for the invocation, if there is one."""

    description: str
    schema: Mapping[str, Any]
    shape: type[msgspec.Struct]
    call_parameter: str | None = None

    def arguments(self, given: Any) -> dict[str, Any]:
        """Return a model's arguments as the function takes them; `UsageError` in one line if they do not fit."""
        try:
            return msgspec.structs.asdict(msgspec.convert(given, self.shape))
        except msgspec.ValidationError as error:
            raise UsageError(f"bad arguments: {' '.join(str(error).split())}") from None


def describe(function: Callable[..., Any]) -> Described:
    """Read a function's signature and docstring."""
    types = _types(function)
    parameters = [_checked(function, found, types) for found in inspect.signature(function).parameters.values()]
    calls = [found.name for found in parameters if types[found.name] is Invocation]
    if len(calls) > 1:
        raise UsageError(f"{function.__name__} takes the invocation twice", hint="one parameter is enough")
    description, meanings = _docstring(function)
    fields = [_field(found, types[found.name]) for found in parameters if found.name not in calls]
    shape, schema = _shape(function, fields)
    for name, meaning in meanings.items():
        if name in schema["properties"]:
            schema["properties"][name].setdefault("description", meaning)
    return Described(description, schema, shape, *calls)


# ── signature ────────────────────────────────────────────────────────────────────────────────────


def _types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations, with names resolved."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        hint = "use names that its module knows"
        raise UsageError(f"the types of {function.__name__} cannot be read: {error}", hint=hint) from error


def _checked(function: Callable[..., Any], found: inspect.Parameter, types: dict[str, Any]) -> inspect.Parameter:
    """Return a parameter if it can be passed by name and has a type; `UsageError` otherwise."""
    if found.kind in (found.VAR_POSITIONAL, found.VAR_KEYWORD, found.POSITIONAL_ONLY):
        hint = "a model gives arguments by name: write each one out"
        raise UsageError(f"{function.__name__} cannot be a tool: its parameter {found}", hint=hint)
    if found.name not in types:
        hint = f"write `{found.name}: str`, or whatever it is"
        raise UsageError(f"the parameter {found.name} of {function.__name__} has no type", hint=hint)
    return found


def _field(found: inspect.Parameter, kind: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    """Return a parameter as a struct field. A mutable default is copied for each call."""
    default = found.default
    if default is found.empty:
        return found.name, kind
    if isinstance(default, _MUTABLE):
        return found.name, kind, msgspec.field(default_factory=default.copy)
    return found.name, kind, default


def _shape(function: Callable[..., Any], fields: list[Any]) -> tuple[type[msgspec.Struct], dict[str, Any]]:
    """Return the struct of the arguments and its schema, with named types under `$defs`."""
    title = function.__name__
    try:
        shape = msgspec.defstruct(title, fields, kw_only=True, forbid_unknown_fields=True)
        (reference,), named = msgspec.json.schema_components((shape,), ref_template="#/$defs/{name}")
    except TypeError as error:
        hint = "use str, int, float, bool, list, dict, Literal, unions with None, TypedDict or a msgspec Struct"
        raise UsageError(f"{title} cannot be described to a model: {error}", hint=hint) from error
    schema = named.pop(reference["$ref"].removeprefix("#/$defs/"))
    del schema["title"]
    return shape, schema | ({"$defs": named} if named else {})


# ── docstring ────────────────────────────────────────────────────────────────────────────────────


def _docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """Return the first paragraph on one line, and the description of each parameter in the `Args:` section."""
    text = inspect.getdoc(function) or ""
    first, _, _ = text.partition("\n\n")
    _, _, section = f"\n{text}\n".partition("\nArgs:\n")
    return " ".join(first.split()), _meanings(section)


def _meanings(section: str) -> dict[str, str]:
    """Parse `name: text` lines; one indented further continues the one before, an empty or unindented one ends them."""
    meanings: dict[str, str] = {}
    name, margin = "", 0
    for line in section.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent == 0:
            break
        margin = margin or indent
        found = _ARGUMENT.fullmatch(line.strip()) if indent <= margin else None
        if found:
            name, meanings[found[1]] = found[1], found[2]
        elif name:
            meanings[name] += " " + line.strip()
    return meanings

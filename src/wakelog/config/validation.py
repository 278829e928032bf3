"""Validate single settings: types, names of providers and tools, secrets; and wording for messages. Pure.

The structs of `schema` are inspected as a tree of tables and leaves. No function here knows a file; `parsing` walks a
document along these types. A value that looks like a secret is never part of a message.
"""

import difflib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from wakelog.config.schema import Path
from wakelog.decoding import convert
from wakelog.hooks import HOOK_NAMES
from wakelog.redaction.redactor import redact_value
from wakelog.tools import BUILTIN_NAMES
from wakelog.tools.subagent import SUBAGENT_NAME

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SIMILARITY_MIN = 0.6
_SHOWN_CHARS = 40


def table_keys(kind: Any) -> Mapping[str, Any]:
    """Return the keys of a table and their types; empty for a table that accepts any key."""
    return _fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else {}


@functools.cache
def _fields(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def table_value_type(kind: Any) -> Any:
    """Return the value type of a table that accepts any key; None for other types."""
    return get_args(kind)[1] if get_origin(kind) is dict else None


def is_table(kind: Any) -> bool:
    """Return whether a type is a table."""
    return bool(table_keys(kind)) or table_value_type(kind) is not None


def type_mismatch(value: Any, kind: Any) -> str:
    """Return what a value must be, in words; empty if it fits."""
    if kind is Any:
        return "" if _is_json(value) else describe_type(kind)
    try:
        convert(value, kind)
    except msgspec.ValidationError:
        return describe_type(kind)
    return ""


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_json(inner) for inner in value.values())
    if isinstance(value, list):
        return all(_is_json(inner) for inner in value)
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 2**63)


def describe_type(kind: Any) -> str:
    """Return the words that follow "must be"."""
    if get_origin(kind) is Annotated:
        descriptions = [meta.description for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta)]
        return descriptions[0] or "" if descriptions else describe_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return join_with_or(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return join_with_or(describe_type(inner) for inner in get_args(kind) if inner is not type(None))
    return "a table" if is_table(kind) else "a JSON value (no dates, no infinite numbers)"


def has_basic_type(value: Any, kind: Any) -> bool:
    """Return whether a value that does not fit has at least the right basic type: a string, a list, a table."""
    if get_origin(kind) is tuple:
        return isinstance(value, list)
    if get_origin(kind) in (Annotated, Union, UnionType):
        return any(has_basic_type(value, inner) for inner in get_args(kind))
    if is_table(kind):
        return isinstance(value, dict)
    return kind is Any or kind is type(value) or (type(value) is int and kind is float)


def allowed_values(kind: Any) -> tuple[str, ...]:
    """Return the allowed values of a type with a fixed set of them, otherwise empty."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(word for inner in get_args(kind) for word in allowed_values(inner))


def join_with_or(words: Iterable[str]) -> str:
    """Return `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the most similar word; empty if none is similar."""
    close = difflib.get_close_matches(word[:200], list(words), 1, _SIMILARITY_MIN)
    return close[0] if close else ""


def dotted(path: Path) -> str:
    """Return a path as written in a TOML file: `prices."openai:o9".input`."""
    return ".".join(key if _BARE_KEY.fullmatch(key) else quoted(key) for key in path)


def quoted(text: str) -> str:
    """Return a text in quotes, as JSON and TOML write it."""
    return msgspec.json.encode(text.encode(errors="replace").decode()).decode()


def describe_value(value: Any) -> str:
    """Return the name of a value's type, without its content."""
    words = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a table"}
    return words.get(type(value), "a date or time")


def shortened(text: str) -> str:
    """Return a text shortened for a message."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


TOOL_NAMES = (*BUILTIN_NAMES, SUBAGENT_NAME)
KEY_VARIABLES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openai-chat": "OPENAI_API_KEY",
}
"""The providers that have keys, and the usual environment variable of each."""
ADDRESS_VARIABLES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
}
"""The usual environment variable for the base URL of each provider."""
PROVIDERS = (*KEY_VARIABLES, "scripted", "demo")
_TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class NameProblem(msgspec.Struct, frozen=True):
    """A rejected name: what is wrong, what to do, and its index if it is in a list."""

    message: str
    hint: str = ""
    at: int | None = None


def check_name(path: Path, key: str) -> NameProblem | None:
    """Return what is wrong with the name of a table, None if nothing is."""
    match path:
        case ("providers",) if key not in KEY_VARIABLES:
            message = f"provider {quoted(shortened(key))} has no address or key to configure"
            return NameProblem(message, did_you_mean(key, tuple(KEY_VARIABLES)))
        case ("prices",):
            return (
                check_value(("model",), key) if ":" in key else NameProblem("the name of a price must be PROVIDER:NAME")
            )
        case ("agents",) | ("mcp",) | ("agents", _, "hooks") if not _TABLE_NAME.fullmatch(key):
            return NameProblem(
                f"{quoted(shortened(key))} is not a valid name", "use at most 64 letters, digits, - and _"
            )
    return None


def check_value(path: Path, value: Any) -> NameProblem | None:
    """Return the first unknown name or invalid value in a setting, None if there is none."""
    match path:
        case ("model",) | ("agents", _, "model"):
            return _unknown_name("unknown provider", value.partition(":")[0], PROVIDERS)
        case ("agents", _, "tools"):
            return _first_problem(_unknown_name("unknown tool", name, TOOL_NAMES) for name in value)
        case ("agents", _, "hooks", name) if isinstance(value, bool):
            return _unknown_name("unknown built-in hook", name, HOOK_NAMES)
        case (_, _, "command" | "key_command") | ("agents", _, "hooks", _) if not _names_program(value):
            return NameProblem("the command has no program: its first element is missing or empty")
        case ("trust", "projects"):
            return _first_problem(_relative_folder(folder) for folder in value)
    return None


def _names_program(value: Any) -> bool:
    words = value["command"] if isinstance(value, dict) else value
    return bool(words and words[0])


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """Return a hint: the nearest word as a question, or all words."""
    near = nearest(word, words)
    return f"did you mean {near}?" if near else f"use one of {', '.join(words)}"


def _unknown_name(what: str, name: str, names: Sequence[str]) -> NameProblem | None:
    return None if name in names else NameProblem(f"{what} {quoted(shortened(name))}", did_you_mean(name, names))


def _relative_folder(folder: str) -> NameProblem | None:
    if folder.startswith(("/", "~")):
        return None
    return NameProblem(f"{quoted(shortened(folder))} is not an absolute path", "begin it with / or ~")


def _first_problem(problems: Iterable[NameProblem | None]) -> NameProblem | None:
    """Return the first problem, with its index in the list."""
    indexed = ((at, each) for at, each in enumerate(problems) if each is not None)
    return next((msgspec.structs.replace(each, at=at) for at, each in indexed), None)


HINT_FOR_SECRETS = (
    "name the variable that holds it (key_env, bearer_env, env), or a program that prints it (key_command)"
)
_SECRET_KEY = re.compile(
    r"(?:\w+_)?(?:api_?key|key|secret|password|passwd|token|bearer|authorization|auth|credentials?)", re.IGNORECASE
)
# Wider than the redaction of logs: ordinary configuration has nothing like these, and a miss costs more here.
_SECRET_VALUE = re.compile(
    r"\b(?:sk|pk|rk|gsk|hf|npm|glpat|gh[pousr]|xox[abpors]|github_pat)[-_][A-Za-z0-9_-]{16,}"
    r"|\bBearer\s+[A-Za-z0-9._~+/-]{16,}"
    r"|://[^/\s:@]*:[^/\s@]+@"
    r"|[?&](?:password|api_?key|token|access_token|secret)=[^&\s]"
)
# Similarity to a known key from which an unknown key is a typo and not a secret: `max_token`.
_TYPO_SIMILARITY = 0.85


def is_secret_name(key: str, near: str) -> bool:
    """Return whether an unknown key is named like a secret and is not a typo of `near`, the nearest known key."""
    if not _SECRET_KEY.fullmatch(key):
        return False
    return not near or difflib.SequenceMatcher(None, key, near).ratio() < _TYPO_SIMILARITY


def holds_secret(value: Any) -> bool:
    """Return whether a value, or anything in it, has the shape of a secret."""
    return any(_SECRET_VALUE.search(text) for text in _texts(value)) or bool(redact_value(value, "keys")[1])


def _texts(value: Any) -> Iterator[str]:
    """Yield every string in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in (*value, *(value.values() if isinstance(value, dict) else ())):
            yield from _texts(inner)

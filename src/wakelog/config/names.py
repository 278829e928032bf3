"""Checks of names in settings: providers, tools, hooks and folders, and the grammar of table names. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.config.shape import clipped, nearest, quoted
from wakelog.config.values import Path
from wakelog.hooks import HOOK_NAMES
from wakelog.tools.builtin import BUILTIN_NAMES
from wakelog.tools.subagent import SUBAGENT_NAME

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
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class NameProblem(msgspec.Struct, frozen=True):
    """A rejected name: what is wrong, what to do, and its index if it is in a list."""

    message: str
    hint: str = ""
    at: int | None = None


def bad_name(path: Path, key: str) -> NameProblem | None:
    """Return what is wrong with the name of a table, None if nothing is."""
    match path:
        case ("providers",) if key not in KEY_VARIABLES:
            message = f"no provider called {quoted(clipped(key))} has an address or a key"
            return NameProblem(message, did_you_mean(key, tuple(KEY_VARIABLES)))
        case ("prices",):
            return check_value(("model",), key) if ":" in key else NameProblem("a price is that of PROVIDER:NAME")
        case ("agents",) | ("mcp",) | ("agents", _, "hooks") if not _NAME.fullmatch(key):
            return NameProblem(f"{quoted(clipped(key))} is no name", "use letters, digits, - and _, 64 at most")
    return None


def check_value(path: Path, value: Any) -> NameProblem | None:
    """Return the first unknown name or invalid value in a setting, None if there is none."""
    match path:
        case ("model",) | ("agents", _, "model"):
            return _unknown("there is no provider", value.partition(":")[0], PROVIDERS)
        case ("agents", _, "tools"):
            return _first(_unknown("there is no tool", name, TOOL_NAMES) for name in value)
        case ("agents", _, "hooks", name) if isinstance(value, bool):
            return _unknown("no hook that ships is called", name, HOOK_NAMES)
        case (_, _, "command" | "key_command") | ("agents", _, "hooks", _) if not _names_program(value):
            return NameProblem("the first word of a command is the program, and here it is empty")
        case ("trust", "projects"):
            return _first(_loose(folder) for folder in value)
    return None


def _names_program(value: Any) -> bool:
    words = value["command"] if isinstance(value, dict) else value
    return bool(words and words[0])


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """Return a hint: the nearest word as a question, or all words."""
    near = nearest(word, words)
    return f"did you mean {near}?" if near else f"there are {', '.join(words)}"


def _unknown(what: str, name: str, names: Sequence[str]) -> NameProblem | None:
    return None if name in names else NameProblem(f"{what} {quoted(clipped(name))}", did_you_mean(name, names))


def _loose(folder: str) -> NameProblem | None:
    if folder.startswith(("/", "~")):
        return None
    return NameProblem(f"{quoted(clipped(folder))} is no whole path", "begin it with / or ~")


def _first(found: Iterable[NameProblem | None]) -> NameProblem | None:
    """Return the first problem, with its index in the list."""
    wrong = ((at, each) for at, each in enumerate(found) if each is not None)
    return next((msgspec.structs.replace(each, at=at) for at, each in wrong), None)

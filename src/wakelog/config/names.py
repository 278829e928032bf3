"""Names that must name something: providers, tools, hooks, folders; and the grammar of those that people give. Pure."""

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
"""Which providers have keys, and where each key usually is."""
ADDRESS_VARIABLES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
}
"""Where the address of each usually is."""
PROVIDERS = (*KEY_VARIABLES, "scripted", "demo")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class Strange(msgspec.Struct, frozen=True):
    """A name that will not do: what is wrong, what to do, and its place in the list it stands in."""

    message: str
    hint: str = ""
    at: int | None = None


def bad_name(path: Path, key: str) -> Strange | None:
    """What is wrong with the name of a table, if anything is."""
    match path:
        case ("providers",) if key not in KEY_VARIABLES:
            message = f"no provider called {quoted(clipped(key))} has an address or a key"
            return Strange(message, did_you_mean(key, tuple(KEY_VARIABLES)))
        case ("prices",):
            return stranger(("model",), key) if ":" in key else Strange("a price is that of PROVIDER:NAME")
        case ("agents",) | ("mcp",) | ("agents", _, "hooks") if not _NAME.fullmatch(key):
            return Strange(f"{quoted(clipped(key))} is no name", "use letters, digits, - and _, 64 at most")
    return None


def stranger(path: Path, value: Any) -> Strange | None:
    """The first name in a value that nothing has, if there is one."""
    match path:
        case ("model",) | ("agents", _, "model"):
            return _unknown("there is no provider", value.partition(":")[0], PROVIDERS)
        case ("agents", _, "tools"):
            return _first(_unknown("there is no tool", name, TOOL_NAMES) for name in value)
        case ("agents", _, "hooks", name) if isinstance(value, bool):
            return _unknown("no hook that ships is called", name, HOOK_NAMES)
        case (_, _, "command" | "key_command") | ("agents", _, "hooks", _) if not _names_program(value):
            return Strange("the first word of a command is the program, and here it is empty")
        case ("trust", "projects"):
            return _first(_loose(folder) for folder in value)
    return None


def _names_program(value: Any) -> bool:
    words = value["command"] if isinstance(value, dict) else value
    return bool(words and words[0])


def did_you_mean(word: str, words: Sequence[str]) -> str:
    """The nearest of some words as a question, or all of them."""
    near = nearest(word, words)
    return f"did you mean {near}?" if near else f"there are {', '.join(words)}"


def _unknown(what: str, name: str, names: Sequence[str]) -> Strange | None:
    return None if name in names else Strange(f"{what} {quoted(clipped(name))}", did_you_mean(name, names))


def _loose(folder: str) -> Strange | None:
    if folder.startswith(("/", "~")):
        return None
    return Strange(f"{quoted(clipped(folder))} is no whole path", "begin it with / or ~")


def _first(found: Iterable[Strange | None]) -> Strange | None:
    """The first that is wrong, with its place in the list."""
    wrong = ((at, each) for at, each in enumerate(found) if each is not None)
    return next((msgspec.structs.replace(each, at=at) for at, each in wrong), None)

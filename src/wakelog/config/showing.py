"""List all configuration values in force, one row per value, with the place each comes from. Pure.

Values that are not configured are shown with the place "default"; values that were left out come last, marked as such.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from wakelog.config.plans import policy_of
from wakelog.config.values import AgentConfig, Loaded, Path, Place
from wakelog.hooks import HOOK_NAMES

# agents · NAME · extra · KEY
_DEPTH = 3


class Row(msgspec.Struct, frozen=True):
    """One value. `taken` is False if an untrusted project set it and it was left out."""

    path: Path
    value: Any
    place: Place
    taken: bool = True


def rows(loaded: Loaded) -> Iterator[Row]:
    """Yield all values in the order of the keys, then those that were left out."""
    for path, value in _leaves(loaded.config, ()):
        yield Row(path, value, loaded.place_of(*path))
    for notice in loaded.notices:
        yield from (Row(held.path, held.value, held.place, taken=False) for held in notice.held if held.value != {})


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    # A hook and a key of `extra` are shown as a whole, whatever they contain.
    table = _keys(value) if len(path) <= _DEPTH else None
    if table is not None:
        for key, inner in table.items():
            yield from _leaves(inner, (*path, key))
    elif value is not None:
        yield path, msgspec.to_builtins(value)


def _keys(value: Any) -> dict[str, Any] | None:
    """Return a table as a dict; None for a value that is not a table."""
    if isinstance(value, AgentConfig):
        return _in_force(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return value if isinstance(value, dict) else None


def _in_force(agent: AgentConfig) -> dict[str, Any]:
    """Return an agent with its defaults in force; `system` is left out if its text comes from `system_file`."""
    said = msgspec.structs.asdict(agent)
    if agent.system_file is not None:
        del said["system"]
    hooks = {name: agent.hooks.get(name, True) for name in HOOK_NAMES} | agent.hooks
    return said | {"approvals": policy_of(agent).approvals, "hooks": hooks}

"""Everything that is in force, one row a value, with the place it comes from. Pure.

What nobody said is shown as the default that it is; what was left out stands behind, and says so.
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
    """One value. Not `taken`: an untrusted project said it, and it is left out."""

    path: Path
    value: Any
    place: Place
    taken: bool = True


def rows(loaded: Loaded) -> Iterator[Row]:
    """All values in the order of the keys, then what was left out."""
    for path, value in _leaves(loaded.config, ()):
        yield Row(path, value, loaded.place_of(*path))
    for notice in loaded.notices:
        yield from (Row(held.path, held.value, held.place, taken=False) for held in notice.held if held.value != {})


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    # A hook and a key of `extra` are shown whole, whatever they hold.
    table = _keys(value) if len(path) <= _DEPTH else None
    if table is not None:
        for key, inner in table.items():
            yield from _leaves(inner, (*path, key))
    elif value is not None:
        yield path, msgspec.to_builtins(value)


def _keys(value: Any) -> dict[str, Any] | None:
    """A table as its keys; None for what is none."""
    if isinstance(value, AgentConfig):
        return _in_force(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return value if isinstance(value, dict) else None


def _in_force(agent: AgentConfig) -> dict[str, Any]:
    """An agent with what holds for it unsaid; the text of a file is shown as the file."""
    said = msgspec.structs.asdict(agent)
    if agent.system_file is not None:
        del said["system"]
    hooks = {name: agent.hooks.get(name, True) for name in HOOK_NAMES} | agent.hooks
    return said | {"approvals": policy_of(agent).approvals, "hooks": hooks}

"""The tools that ship, by name, made for one working directory.

Only the list lives here; each tool is in the file of its kind. The order is part of what a model is told,
so it never depends on anything but the names asked for.
"""

from collections.abc import Callable, Iterable

from wakelog.errors import UsageError
from wakelog.ports import Tool
from wakelog.tools.changes import edit_tool, write_tool
from wakelog.tools.files import list_tool, read_tool
from wakelog.tools.grep import grep_tool
from wakelog.tools.places import Workplace
from wakelog.tools.shell import shell_tool

_MAKERS: dict[str, Callable[[Workplace], Tool]] = {
    "read": read_tool,
    "list": list_tool,
    "grep": grep_tool,
    "write": write_tool,
    "edit": edit_tool,
    "shell": shell_tool,
}
BUILTIN_NAMES = tuple(_MAKERS)


def builtin_tools(cwd: str, names: Iterable[str] | None = None, *, confined: bool = True) -> tuple[Tool, ...]:
    """The tools of these names (all of them by default), working in `cwd`.

    Confined, the file tools refuse every path that leads out of `cwd`, through links too. This keeps a
    mistaken agent in its folder; it is no sandbox, and the shell is not held by it.
    """
    wanted = BUILTIN_NAMES if names is None else tuple(names)
    for name in wanted:
        if name not in _MAKERS:
            raise UsageError(f"no built-in tool is called {name!r}", hint=f"there are {', '.join(BUILTIN_NAMES)}")
    place = Workplace(cwd, confined=confined)
    return tuple(_MAKERS[name](place) for name in wanted)

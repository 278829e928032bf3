"""Registry of the built-in tools, created by name for one working directory.

Each tool is implemented in a module of its kind. The order of the tools is part of the model's context, so it depends
only on the requested names.
"""

from collections.abc import Callable, Iterable

from wakelog.errors import UsageError
from wakelog.ports import Tool
from wakelog.tools.changes import edit_tool, write_tool
from wakelog.tools.files import list_tool, read_tool
from wakelog.tools.grep import grep_tool
from wakelog.tools.places import WorkingDirectory
from wakelog.tools.shell import shell_tool

_MAKERS: dict[str, Callable[[WorkingDirectory], Tool]] = {
    "read": read_tool,
    "list": list_tool,
    "grep": grep_tool,
    "write": write_tool,
    "edit": edit_tool,
    "shell": shell_tool,
}
BUILTIN_NAMES = tuple(_MAKERS)


def builtin_tools(cwd: str, names: Iterable[str] | None = None, *, confined: bool = True) -> tuple[Tool, ...]:
    """Return the built-in tools with these names (default: all), working in `cwd`.

    If `confined`, the file tools refuse every path that leads out of `cwd`, symbolic links included. This guards
    against mistakes of an agent; it is not a sandbox, and it does not restrict the shell.
    """
    wanted = BUILTIN_NAMES if names is None else tuple(names)
    for name in wanted:
        if name not in _MAKERS:
            raise UsageError(f"no built-in tool is called {name!r}", hint=f"there are {', '.join(BUILTIN_NAMES)}")
    place = WorkingDirectory(cwd, confined=confined)
    return tuple(_MAKERS[name](place) for name in wanted)

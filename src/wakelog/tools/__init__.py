"""Tools for agents: the `tool` decorator, the six built-in tools by name, and the sub-agent tool.

Rule 1: a tool raises nothing for external failures; it returns a `ToolOutcome`. Exceptions report mistakes of the
tool's author, before the tool starts.
Rule 2: every tool declares with `replay` what may happen to a call whose outcome is unknown; the default is the
safest value, `never`.
Rule 3: tools depend on the ports only and know nothing of sessions, stores or turns. The runtime writes the log.
Rule 4: the order of the built-in tools is part of the model's context, so it depends only on the requested names.
"""

from collections.abc import Callable, Iterable

from wakelog.errors import UsageError
from wakelog.ports.runtime import Tool
from wakelog.tools.commands import grep_tool, shell_tool
from wakelog.tools.file_changes import edit_tool, write_tool
from wakelog.tools.files import WorkingDirectory, list_tool, read_tool
from wakelog.tools.function_tool import FunctionTool, as_tools, tool
from wakelog.tools.subagent import SubagentTool

__all__ = ["BUILTIN_NAMES", "FunctionTool", "SubagentTool", "as_tools", "builtin_tools", "tool"]

_FACTORIES: dict[str, Callable[[WorkingDirectory], Tool]] = {
    "read": read_tool,
    "list": list_tool,
    "grep": grep_tool,
    "write": write_tool,
    "edit": edit_tool,
    "shell": shell_tool,
}
BUILTIN_NAMES = tuple(_FACTORIES)


def builtin_tools(cwd: str, names: Iterable[str] | None = None, *, confined: bool = True) -> tuple[Tool, ...]:
    """Return the built-in tools with these names (default: all), working in `cwd`.

    If `confined`, the file tools refuse every path that leads out of `cwd`, symbolic links included. This guards
    against mistakes of an agent; it is not a sandbox, and it does not restrict the shell.
    """
    wanted = BUILTIN_NAMES if names is None else tuple(names)
    for name in wanted:
        if name not in _FACTORIES:
            raise UsageError(f"unknown built-in tool {name!r}", hint=f"use one of {', '.join(BUILTIN_NAMES)}")
    place = WorkingDirectory(cwd, confined=confined)
    return tuple(_FACTORIES[name](place) for name in wanted)

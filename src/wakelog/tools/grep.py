"""The `grep` tool: regular expressions over files. It is safe to run again.

The search runs in its own process (`grep_program.py`): a regular expression can run forever and block every thread of
its process, and a process can be stopped.
"""

import json
import sys
from typing import Any

from wakelog.errors import UsageError
from wakelog.ports import Outcome
from wakelog.processes.command import run_command
from wakelog.tools import grep_program
from wakelog.tools.function_tool import FunctionTool, tool
from wakelog.tools.places import WorkingDirectory, shown

GREP_HITS = 200
_TIMEOUT_S = 60.0


def grep_tool(place: WorkingDirectory) -> FunctionTool:
    """Create the `grep` tool, which finds matching lines."""

    @tool(replay="safe")
    async def grep(pattern: str, path: str = ".", glob: str | None = None) -> Outcome:
        """Finds the lines that match a regular expression, as `file:line: text`. Binary files and .git are left out.

        Args:
            pattern: A regular expression as Python writes them; (?i) in front ignores case.
            path: A file, or a folder that is searched with all below it; the working directory by default.
            glob: Only files whose name matches, such as *.py; with a slash, whose path matches, such as src/*.py.
        """
        root = place.find(path)
        wanted = {"pattern": pattern, "root": root, "glob": glob, "hits": GREP_HITS, "shown": _prefix(place, root)}
        return await _searched(wanted, place.cwd)

    return grep


def _prefix(place: WorkingDirectory, root: str) -> str:
    """Return the displayed path of the search root; empty for the working directory."""
    return "" if root == place.find(".") else place.show(root)


async def _searched(wanted: dict[str, Any], cwd: str) -> Outcome:
    argv = [sys.executable, "-I", "-S", grep_program.__file__, json.dumps(wanted)]
    try:
        ended = await run_command(argv, cwd=cwd, timeout_s=_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot search: {error}") from error
    if ended.timed_out:
        hint = "narrow the path or simplify the pattern"
        raise UsageError(f"the search for {shown(wanted['pattern'])} took longer than {_TIMEOUT_S:g} s: {hint}")
    return Outcome(ended.output.removesuffix("\n"), is_error=(ended.how, ended.number) != ("exited", 0))

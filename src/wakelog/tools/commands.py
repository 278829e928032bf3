"""The tools `shell` and `grep`, which run in a process of their own.

The effects of a `shell` command are unknown, so its `replay` is `never`: a call that started and has no result is
reported as unknown. A command has no input, and its output is shown live. A time limit, a cancellation or the end
of the runtime's process ends every process that it started. After a normal end only processes in a session of their
own stay, and the result names them.
`grep` is safe to run again. The search is a program (`grep_program.py`), because a regular expression can run
forever and block every thread of its process, and a process can be stopped.
"""

import json
import sys
from typing import Annotated, Any

import msgspec

from wakelog.errors import UsageError
from wakelog.ports.runtime import ToolInvocation, ToolOutcome
from wakelog.processes.command import CommandResult, run_command
from wakelog.tools import grep_program
from wakelog.tools.files import WorkingDirectory, printable_name
from wakelog.tools.function_tool import FunctionTool, tool

_SHELL = "/bin/sh"


def shell_tool(directory: WorkingDirectory) -> FunctionTool:
    """Create the `shell` tool, which runs a command line."""

    @tool(replay="never")
    async def shell(
        command: str, call: ToolInvocation, timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 120
    ) -> ToolOutcome:
        """Runs a command with /bin/sh in the working directory and gives what it prints, errors included.

        Args:
            command: The command line. It has no input. What it leaves in the background ends with it, unless it was
                started with setsid.
            timeout_s: After so many seconds it is stopped.
        """
        try:
            ended = await run_command([_SHELL, "-c", command], cwd=directory.cwd, timeout_s=timeout_s, show=call.show)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot start the command: {error}") from error
        return _shell_outcome(ended, timeout_s)

    return shell


def _shell_outcome(ended: CommandResult, timeout_s: float) -> ToolOutcome:
    """Return the output, followed by bracketed notes on a failure and on processes that are still running."""
    failure = _failure_note(ended, timeout_s)
    notes = [f"[{note}]" for note in (failure, _remaining_note(ended)) if note]
    between = "" if not ended.output or ended.output.endswith("\n") else "\n"
    text = f"{ended.output}{between if notes else ''}" + "\n".join(notes)
    return ToolOutcome(text or "[no output]", is_error=bool(failure))


def _failure_note(ended: CommandResult, timeout_s: float) -> str:
    if ended.how == "lost":
        lost = "the command's supervisor was killed: how the command ended is not known"
        return f"{lost}; {ended.warning}" if ended.warning else lost
    if ended.warning:
        return ended.warning
    if ended.timed_out:
        return f"stopped: the command took longer than {timeout_s:g} s"
    if ended.how == "signalled":
        return f"killed by signal {ended.number}"
    return f"exit status {ended.number}" if ended.number else ""


def _remaining_note(ended: CommandResult) -> str:
    """Return a note on processes that outlive a command that ended by itself; empty if there are none."""
    if ended.how not in ("exited", "signalled"):
        return ""
    if ended.remaining:
        return f"still running after the command ended: {'; '.join(ended.remaining)}"
    return "" if ended.is_complete else "processes that the command started may still be running"


GREP_HITS = 200
_GREP_TIMEOUT_S = 60.0


def grep_tool(directory: WorkingDirectory) -> FunctionTool:
    """Create the `grep` tool, which finds matching lines."""

    @tool(replay="safe")
    async def grep(pattern: str, path: str = ".", glob: str | None = None) -> ToolOutcome:
        """Finds the lines that match a regular expression, as `file:line: text`. Binary files and .git are left out.

        Args:
            pattern: A regular expression as Python writes them; (?i) in front ignores case.
            path: A file, or a folder that is searched with all below it; the working directory by default.
            glob: Only files whose name matches, such as *.py; with a slash, whose path matches, such as src/*.py.
        """
        root = directory.resolve(path)
        search = {
            "pattern": pattern,
            "root": root,
            "glob": glob,
            "hits": GREP_HITS,
            "shown": _displayed_root(directory, root),
        }
        return await _run_search(search, directory.cwd)

    return grep


def _displayed_root(place: WorkingDirectory, root: str) -> str:
    """Return the displayed path of the search root; empty for the working directory."""
    return "" if root == place.resolve(".") else place.display_path(root)


async def _run_search(search: dict[str, Any], cwd: str) -> ToolOutcome:
    argv = [sys.executable, "-I", "-S", grep_program.__file__, json.dumps(search)]
    try:
        ended = await run_command(argv, cwd=cwd, timeout_s=_GREP_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot search: {error}") from error
    if ended.timed_out:
        hint = "narrow the path or simplify the pattern"
        raise UsageError(
            f"the search for {printable_name(search['pattern'])} took longer than {_GREP_TIMEOUT_S:g} s: {hint}"
        )
    return ToolOutcome(ended.output.removesuffix("\n"), is_error=(ended.how, ended.number) != ("exited", 0))

"""The `shell` tool: runs any command line, and is therefore never run twice.

The effects of a command are unknown, so its `replay` is `never`: a call that started and has no result is reported as
unknown. A command has no input, and its output is shown live. A time limit, a cancellation or the end of the runtime's
process ends every process that it started. After a normal end only processes in a session of their own stay, and the
result names them.
"""

from typing import Annotated

import msgspec

from wakelog.errors import UsageError
from wakelog.ports import Invocation, Outcome
from wakelog.processes.command import Ended, run_command
from wakelog.tools.function_tool import FunctionTool, tool
from wakelog.tools.places import WorkingDirectory

_SHELL = "/bin/sh"


def shell_tool(place: WorkingDirectory) -> FunctionTool:
    """Create the `shell` tool, which runs a command line."""

    @tool(replay="never")
    async def shell(command: str, call: Invocation, timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 120) -> Outcome:
        """Runs a command with /bin/sh in the working directory and gives what it prints, errors included.

        Args:
            command: The command line. It has no input. What it leaves in the background ends with it, unless it was
                started with setsid.
            timeout_s: After so many seconds it is stopped.
        """
        try:
            ended = await run_command([_SHELL, "-c", command], cwd=place.cwd, timeout_s=timeout_s, show=call.show)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot start the command: {error}") from error
        return _outcome(ended, timeout_s)

    return shell


def _outcome(ended: Ended, timeout_s: float) -> Outcome:
    """Return the output, followed by bracketed notes on a failure and on processes that are still running."""
    failure = _failure(ended, timeout_s)
    notes = [f"[{note}]" for note in (failure, _left(ended)) if note]
    between = "" if not ended.output or ended.output.endswith("\n") else "\n"
    text = f"{ended.output}{between if notes else ''}" + "\n".join(notes)
    return Outcome(text or "[no output]", is_error=bool(failure))


def _failure(ended: Ended, timeout_s: float) -> str:
    if ended.how == "lost":
        lost = "the command's supervisor was killed: how the command ended is not known"
        return f"{lost}; {ended.doubt}" if ended.doubt else lost
    if ended.doubt:
        return ended.doubt
    if ended.timed_out:
        return f"stopped: the command took longer than {timeout_s:g} s"
    if ended.how == "signalled":
        return f"killed by signal {ended.number}"
    return f"exit status {ended.number}" if ended.number else ""


def _left(ended: Ended) -> str:
    """Return a note on processes that outlive a command that ended by itself; empty if there are none."""
    if ended.how not in ("exited", "signalled"):
        return ""
    if ended.left:
        return f"still running after the command ended: {'; '.join(ended.left)}"
    return "" if ended.is_clear else "processes that the command started may still be running"

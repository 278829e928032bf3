"""The `shell` tool: any command at all, and therefore never run twice.

Nothing is known about what a command does, so its replay word is `never`: begun and without a result, its
outcome is unknown and said to be. It has no input, its output is shown as it comes, and nothing in its
process group outlives the call, the turn or the harness.
"""

from typing import Annotated

import msgspec

from wakelog.errors import UsageError
from wakelog.ports import Invocation, Outcome
from wakelog.tools.command import Ended, run_command
from wakelog.tools.function_tool import FunctionTool, tool
from wakelog.tools.places import Workplace

_SHELL = "/bin/sh"


def shell_tool(place: Workplace) -> FunctionTool:
    """`shell`: a command line."""

    @tool(replay="never")
    async def shell(command: str, call: Invocation, timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 120) -> Outcome:
        """Runs a command with /bin/sh in the working directory and gives what it prints, errors included.

        Args:
            command: The command line. It has no input, and what it leaves in the background ends with it.
            timeout_s: After so many seconds it is stopped.
        """
        try:
            ended = await run_command([_SHELL, "-c", command], cwd=place.cwd, timeout_s=timeout_s, show=call.show)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot start the command: {error}") from error
        return _outcome(ended, timeout_s)

    return shell


def _outcome(ended: Ended, timeout_s: float) -> Outcome:
    """What was printed, and in brackets below it all that was not as it should be."""
    note = _note(ended, timeout_s)
    if not note:
        return Outcome(ended.output or "[no output]")
    between = "" if not ended.output or ended.output.endswith("\n") else "\n"
    return Outcome(f"{ended.output}{between}[{note}]", is_error=True)


def _note(ended: Ended, timeout_s: float) -> str:
    if ended.how == "remains":
        return "stopping the command did not work: it may still be running"
    if ended.timed_out:
        return f"stopped: the command took longer than {timeout_s:g} s"
    if ended.how == "lost":
        return "the command's supervisor was killed: how the command ended is not known"
    if ended.how == "signalled":
        return f"killed by signal {ended.number}"
    return f"exit status {ended.number}" if ended.number else ""

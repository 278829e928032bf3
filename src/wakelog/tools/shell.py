"""The `shell` tool: any command at all, and therefore never run twice.

Nothing is known about what a command does, so its replay word is `never`: begun and without a result, its
outcome is unknown and said to be. It has no input and its output is shown as it comes. Every process that it started
ends with a time limit, a cancel or the end of the harness. After a normal end only processes in a session of their own
stay, and the result names them.
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
    """The output, and in brackets below it how the command ended if it did not end well, and what it left running."""
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
    """Processes that outlive a command that ended by itself."""
    if ended.how not in ("exited", "signalled"):
        return ""
    if ended.left:
        return f"still running after the command ended: {'; '.join(ended.left)}"
    return "" if ended.is_clear else "processes that the command started may still be running"

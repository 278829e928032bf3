"""The command hook: runs a program before each run and shows its output to the model.

The program gets the data of the run in environment variables and nothing on its input, and runs without a shell. It
runs like a command of the `shell` tool (`processes/command.py`): every process that it started is ended when its time
is up, when the run is cancelled and when the harness is killed. Output beyond the limit is cut off, with a note.
"""

import os
from collections.abc import Sequence
from typing import Self

import msgspec

from wakelog.decide.policy import HookTerms
from wakelog.errors import Damaged
from wakelog.ports import RunInfo
from wakelog.processes.command import run_command

_TIMEOUT_S = 10.0
_TEXT_MAX_BYTES = 32 * 1024


class _Options(msgspec.Struct, frozen=True, rename="camel"):
    command: tuple[str, ...]
    timeout_s: float = _TIMEOUT_S


class CommandHook:
    """See `ports.Hook`."""

    def __init__(self, name: str, command: Sequence[str], timeout_s: float = _TIMEOUT_S) -> None:
        self.name = name
        self._command = tuple(command)
        self._timeout_s = timeout_s

    @classmethod
    def of(cls, terms: HookTerms) -> Self:
        """Create the hook from its options in the log; `Damaged` if they cannot be read."""
        try:
            options = msgspec.convert(terms.options, _Options)
        except msgspec.ValidationError as error:
            raise Damaged(f"the hook {terms.name!r} in the policy cannot be read: {error}") from None
        return cls(terms.name, options.command, options.timeout_s)

    async def before_run(self, occasion: RunInfo) -> str:
        """See `ports.Hook`. Raises if the program fails or does not end in time."""
        env = {**os.environ, **_told(occasion)}
        ended = await run_command(
            self._command, cwd=occasion.cwd, timeout_s=self._timeout_s, env=env, with_errors=False
        )
        if ended.doubt:
            raise RuntimeError(ended.doubt)
        if ended.timed_out:
            raise TimeoutError(f"it did not end within {self._timeout_s:g} s")
        if ended.how == "lost":
            raise RuntimeError("its supervisor was killed")
        if ended.number:
            raise RuntimeError(f"it ended with {-ended.number if ended.how == 'signalled' else ended.number}")
        return _bounded(ended.output)


def _bounded(text: str) -> str:
    """Return the output, up to the limit."""
    content = text.encode()
    if len(content) <= _TEXT_MAX_BYTES:
        return text.strip()
    return content[:_TEXT_MAX_BYTES].decode(errors="ignore") + f"\n[cut off after {_TEXT_MAX_BYTES:,} bytes]"


def _told(occasion: RunInfo) -> dict[str, str]:
    return {
        "WAKELOG_SESSION": occasion.session,
        "WAKELOG_AGENT": occasion.agent,
        "WAKELOG_SENDER": occasion.sender,
        # The system limits the bytes of a variable; with a longer one the program could not be started.
        "WAKELOG_PROMPT": occasion.prompt.replace("\0", " ").encode()[:_TEXT_MAX_BYTES].decode(errors="ignore"),
    }

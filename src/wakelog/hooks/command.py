"""A program that is run before each run: what it prints is shown to the model.

It is told of the run by its environment, gets nothing on its input and runs without a shell. It runs like a command of
the `shell` tool (`tools/command.py`): every process that it started is ended when its time is up, when the run is
cancelled and when the harness is killed. Output beyond the bound is cut off, with a note.
"""

import os
from collections.abc import Sequence
from typing import Self

import msgspec

from wakelog.decide.policy import HookTerms
from wakelog.errors import Damaged
from wakelog.ports import Occasion
from wakelog.tools.command import run_command

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
        """From what the log says."""
        try:
            options = msgspec.convert(terms.options, _Options)
        except msgspec.ValidationError as error:
            raise Damaged(f"the hook {terms.name!r} in the policy cannot be read: {error}") from None
        return cls(terms.name, options.command, options.timeout_s)

    async def before_run(self, occasion: Occasion) -> str:
        """See `ports.Hook`. A program that fails or does not end says so by an error."""
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
    """The output, up to the bound."""
    content = text.encode()
    if len(content) <= _TEXT_MAX_BYTES:
        return text.strip()
    return content[:_TEXT_MAX_BYTES].decode(errors="ignore") + f"\n[cut off after {_TEXT_MAX_BYTES:,} bytes]"


def _told(occasion: Occasion) -> dict[str, str]:
    return {
        "WAKELOG_SESSION": occasion.session,
        "WAKELOG_AGENT": occasion.agent,
        "WAKELOG_SENDER": occasion.sender,
        # A variable has a bound, in bytes; a program that could not be started would know nothing at all.
        "WAKELOG_PROMPT": occasion.prompt.replace("\0", " ").encode()[:_TEXT_MAX_BYTES].decode(errors="ignore"),
    }

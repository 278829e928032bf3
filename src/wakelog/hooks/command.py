"""A program that is run before each run: what it prints is shown to the model.

It is told of the run by its environment, gets nothing on its input, runs without a shell, and is killed with all it
has started when its time is up. What it prints beyond the bound is cut off, and said to be.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from typing import Self

import msgspec

from wakelog.errors import Damaged
from wakelog.ports import Occasion
from wakelog.turn.policy import HookTerms

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
        process = await asyncio.create_subprocess_exec(
            *self._command,
            cwd=occasion.cwd or None,
            env={**os.environ, **_told(occasion)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                text = await _printed(process)
                code = await process.wait()
        except TimeoutError:
            raise TimeoutError(f"it did not end within {self._timeout_s:g} s") from None
        finally:
            await _end(process)
        if code:
            raise RuntimeError(f"it ended with {code}")
        return text


async def _printed(process: asyncio.subprocess.Process) -> str:
    """What a program prints, up to the bound; it may go on, but nobody keeps the rest."""
    assert process.stdout is not None
    kept = b""
    while piece := await process.stdout.read(_TEXT_MAX_BYTES):
        kept = (kept + piece)[: _TEXT_MAX_BYTES + 1]
    if len(kept) <= _TEXT_MAX_BYTES:
        return kept.decode(errors="replace").strip()
    return kept[:_TEXT_MAX_BYTES].decode(errors="ignore") + f"\n[cut off after {_TEXT_MAX_BYTES:,} bytes]"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills whatever is left of it, and waits until it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _told(occasion: Occasion) -> dict[str, str]:
    return {
        "WAKELOG_SESSION": occasion.session,
        "WAKELOG_AGENT": occasion.agent,
        "WAKELOG_SENDER": occasion.sender,
        # A variable has a bound, in bytes; a program that could not be started would know nothing at all.
        "WAKELOG_PROMPT": occasion.prompt.replace("\0", " ").encode()[:_TEXT_MAX_BYTES].decode(errors="ignore"),
    }

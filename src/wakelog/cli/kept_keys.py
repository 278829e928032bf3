"""Keys that a program prints: it is run once in a process, and once more when what it printed was refused.

A password manager may ask a person each time, and an agent asks its model hundreds of times in a turn: so a key is
kept, in this process alone, for as long as it is accepted. Many keys expire within the hour: so one that was kept and
is refused is worth another try, with a fresh one; a fresh one that is refused is not.
"""

import contextlib
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.cli.behind import behind
from wakelog.errors import UsageError
from wakelog.log.deltas import Delta, Faulted
from wakelog.ports import Provider, Request
from wakelog.runtime.checks import check_askable


class KeptKeys:
    """Keys by the words of the program that printed them. One is run at a time: two would ask one person at once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], str | None] = {}
        self._turn = threading.Lock()

    def has(self, words: Sequence[str]) -> bool:
        """Whether a key is kept."""
        return tuple(words) in self._keys

    def get(self, words: Sequence[str], look_up: Callable[[], str | None]) -> str | None:
        """The key that is kept, or that is looked up now. Whoever has one does not wait for somebody else's."""
        if self.has(words):
            return self._keys[tuple(words)]
        with self._turn:
            if not self.has(words):
                self._keys[tuple(words)] = look_up()
            return self._keys[tuple(words)]

    def forget(self, words: Sequence[str]) -> None:
        """Whoever asks next gets a fresh one."""
        self._keys.pop(tuple(words), None)


KEPT = KeptKeys()
"""Those of this process."""


class ByCommand:
    """A provider whose key a program prints. See `ports.Provider`.

    `keyless` is the provider as it is known without a key, `open_it` opens it with one. A key that is yet to be printed
    is waited for in a thread: the program may ask a person, and everybody else in the loop goes on meanwhile.
    """

    def __init__(self, keyless: Provider, words: Sequence[str], open_it: Callable[[], Provider]) -> None:
        self.name = keyless.name
        self.can_resume = keyless.can_resume
        self.needs_reasoning_back = getattr(keyless, "needs_reasoning_back", False)
        self._words = tuple(words)
        self._open = open_it

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """See `ports.CheckedProvider`. Without a key at hand nothing can be checked: the program is not run for it."""
        if KEPT.has(self._words):
            check_askable(lambda _, __: self._open(), self.name, model, params)

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """See `ports.Provider`. With a key at hand, what cannot be asked at all is said at once."""
        if KEPT.has(self._words):
            return self._watched(self._open().stream(request), was_kept=True)
        return self._in_time(request)

    async def _in_time(self, request: Request) -> AsyncIterator[Delta]:
        try:
            opened = await behind(self._open)
            asked = opened.stream(request)
        except UsageError as error:
            # With a key at hand it is the request that is at fault.
            kind = "bad_request" if KEPT.has(self._words) else "auth"
            yield Faulted(kind, "; ".join(filter(None, (error.message, error.hint))), retryable=False)
            return
        async with contextlib.aclosing(self._watched(asked, was_kept=False)) as reply:
            async for delta in reply:
                yield delta

    async def _watched(self, reply: AsyncIterator[Delta], *, was_kept: bool) -> AsyncGenerator[Delta, None]:
        try:
            async for delta in reply:
                if isinstance(delta, Faulted) and delta.kind == "auth":
                    KEPT.forget(self._words)
                    yield msgspec.structs.replace(delta, retryable=was_kept)
                else:
                    yield delta
        finally:
            # Whoever hangs up here hangs up there.
            if isinstance(reply, AsyncGenerator):
                await reply.aclose()

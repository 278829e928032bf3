"""Keys that a program prints: it is run once in a process, and once more when what it printed was refused.

A password manager may ask a person each time, and an agent asks its model hundreds of times in a turn: so a key is
kept, in this process alone, for as long as it is accepted. Many keys expire within the hour: so one that was kept and
is refused is worth another try, with a fresh one; a fresh one that is refused is not.
"""

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import msgspec

from wakelog.ports import Provider, Request
from wakelog.turn.deltas import Delta, Faulted


class KeptKeys:
    """Keys by the words of the program that printed them. One is run at a time: two would ask one person at once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], str | None] = {}
        self._turn = threading.Lock()

    def has(self, words: Sequence[str]) -> bool:
        """Whether a key is kept."""
        return tuple(words) in self._keys

    def get(self, words: Sequence[str], look_up: Callable[[], str | None]) -> str | None:
        """The key that is kept, or that is looked up now."""
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
    """A provider whose key a program prints. See `ports.Provider`."""

    def __init__(self, provider: Provider, words: Sequence[str], *, was_kept: bool) -> None:
        self.name = provider.name
        self.can_resume = provider.can_resume
        self._provider = provider
        self._words = tuple(words)
        self._was_kept = was_kept

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """See `ports.Provider`. What cannot be asked at all is said at once."""
        return self._watched(self._provider.stream(request))

    async def _watched(self, reply: AsyncIterator[Delta]) -> AsyncIterator[Delta]:
        try:
            async for delta in reply:
                if isinstance(delta, Faulted) and delta.kind == "auth":
                    KEPT.forget(self._words)
                    yield msgspec.structs.replace(delta, retryable=self._was_kept)
                else:
                    yield delta
        finally:
            # Whoever hangs up here hangs up there.
            if isinstance(reply, AsyncGenerator):
                await reply.aclose()

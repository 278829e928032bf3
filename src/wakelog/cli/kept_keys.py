"""Cache for keys that a key command prints: it runs once per process, and again after its key was refused.

A password manager may ask a person each time, and a turn may make hundreds of model calls; so a key is cached, in this
process only, while it is accepted. Many keys expire within an hour; so a cached key that is refused is worth one retry
with a fresh one. A fresh key that is refused is not retried.
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


class KeyCache:
    """Cached keys by key command. One command runs at a time, because two would prompt the same person at once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], str | None] = {}
        self._turn = threading.Lock()

    def has(self, words: Sequence[str]) -> bool:
        """Return whether a key is cached."""
        return tuple(words) in self._keys

    def get(self, words: Sequence[str], look_up: Callable[[], str | None]) -> str | None:
        """Return the cached key, or the result of `look_up`. A cached key is returned without waiting for the lock."""
        if self.has(words):
            return self._keys[tuple(words)]
        with self._turn:
            if not self.has(words):
                self._keys[tuple(words)] = look_up()
            return self._keys[tuple(words)]

    def forget(self, words: Sequence[str]) -> None:
        """Remove the cached key; the next `get` looks it up again."""
        self._keys.pop(tuple(words), None)


KEPT = KeyCache()
"""The cache of this process."""


class KeyCommandProvider:
    """A provider with a key that a key command prints. See `ports.Provider`.

    `keyless` is the provider opened without a key, `open_it` opens it with one. A key that is not cached yet is looked
    up in a daemon thread: the command may ask a person, and the event loop is not blocked.
    """

    def __init__(self, keyless: Provider, words: Sequence[str], open_it: Callable[[], Provider]) -> None:
        self.name = keyless.name
        self.can_resume = keyless.can_resume
        self.needs_reasoning_back = getattr(keyless, "needs_reasoning_back", False)
        self._words = tuple(words)
        self._open = open_it

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """See `ports.CheckedProvider`. Without a cached key nothing is checked; the key command is not run for it."""
        if KEPT.has(self._words):
            check_askable(lambda _, __: self._open(), self.name, model, params)

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        """See `ports.Provider`. With a cached key, an impossible request raises at once."""
        if KEPT.has(self._words):
            return self._watched(self._open().stream(request), was_kept=True)
        return self._in_time(request)

    async def _in_time(self, request: Request) -> AsyncIterator[Delta]:
        try:
            opened = await behind(self._open)
            asked = opened.stream(request)
        except UsageError as error:
            # If a key is cached, the request is at fault, not the key.
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
            # Closing this generator closes the provider's.
            if isinstance(reply, AsyncGenerator):
                await reply.aclose()

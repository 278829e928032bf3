"""Models as front ends use them: open a provider with its configured key and address, and check that it can be used.

Rule 1 (law 2, the log is the only state): configuration is read when a session begins. After that only the provider's
key, and the address it may be sent to, come from configuration.
Rule 2: a key is passed to its provider only; it is not in the environment of tools.
Rule 3: the output of a key command is cached in this process while the key is accepted, because a password manager may
ask a person each time. A cached key that is refused is looked up once more; a fresh key that is refused is not.
"""

import contextlib
import functools
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.app.event_loop import run_in_daemon_thread
from wakelog.config import Config, ProviderConfig, key_for, load_config, run_key_command
from wakelog.config.validation import ADDRESS_VARIABLES, KEY_VARIABLES
from wakelog.errors import UsageError
from wakelog.log.content import Delta, Faulted
from wakelog.ports.runtime import ModelRequest, Provider
from wakelog.projections.branch_state import branch_state
from wakelog.providers import format_model, is_installed, open_provider
from wakelog.runtime.checks import check_files, check_model, check_provider, needs_model
from wakelog.runtime.interface import Runtime
from wakelog.runtime.wake import next_decision
from wakelog.session import Session

# ── models ───────────────────────────────────────────────────────────────────────────────────────


class ModelChoice(msgspec.Struct, frozen=True):
    """A model that is about to be used, with its parameters."""

    provider: str
    model: str
    params: Mapping[str, Any] = {}
    resume: bool = False
    """Whether the model must be able to continue an interrupted reply."""

    @property
    def spelled(self) -> str:
        """Return the model as users write it."""
        return format_model(self.provider, self.model)


def open_configured_provider(provider: str, model: str) -> Provider:
    """Return a provider with its configured key and address."""
    config = load_config("", os.environ).require_valid() if provider in KEY_VARIABLES else Config()
    configured = config.providers.get(provider)
    if configured is None:
        return open_provider(provider, model)
    environ = _provider_environment(provider, _provider_key(provider, config), configured.base_url)
    return open_provider(provider, model, environ, key_source=_key_origin(provider, configured))


def open_provider_lazily(provider: str, model: str) -> Provider:
    """Like `open_configured_provider`, for use in an event loop: a key command runs later and does not block it."""
    config = load_config("", os.environ).require_valid() if provider in KEY_VARIABLES else Config()
    command = config.providers.get(provider, ProviderConfig()).key_command
    if command is None:
        return open_configured_provider(provider, model)
    return KeyCommandProvider(
        open_provider(provider, model), command, functools.partial(open_configured_provider, provider, model)
    )


def _provider_key(provider: str, config: Config) -> str | None:
    """Return the key of a provider, or None. The output of a key command is cached."""
    command = config.providers.get(provider, ProviderConfig()).key_command

    def look_up() -> str | None:
        return key_for(provider, config, os.environ, run_key_command)

    return look_up() if command is None else KEY_CACHE.get(command, look_up)


def _key_origin(provider: str, configured: ProviderConfig) -> str:
    """Return a description of the key's origin; empty if it is the provider's usual variable."""
    if configured.key_command is not None:
        return f"the key that the key_command of {provider} printed"
    return f"the key in {configured.key_env}" if configured.key_env is not None else ""


def _provider_environment(provider: str, key: str | None, address: str | None) -> Mapping[str, str]:
    """Return the environment for this provider, with its configured key and address where they are known."""
    own = {KEY_VARIABLES[provider]: key, ADDRESS_VARIABLES[provider]: address}
    return {**os.environ, **{variable: value for variable, value in own.items() if value}}


async def prepare_model(runtime: Runtime, session: Session) -> None:
    """Look up the key and load the provider of a session that has work to do, before its lease is taken.

    Runs in a daemon thread, because a key command may wait for a person. A `UsageError` is raised only if the next
    step is a model call, so that nothing is written; otherwise the later model call raises it.
    """
    check_files(session)
    decision = next_decision(runtime, session)
    if decision is None or runtime.store.held(session.name) is not None:
        # There is nothing to do, or another worker does it; `wake` reports which.
        return
    try:
        await run_in_daemon_thread(lambda: check_session_model(session))
    except UsageError:
        if needs_model(decision):
            raise


def check_session_model(session: Session) -> None:
    """Raise `UsageError` if the model of a session cannot be used. Blocks while a key command runs."""
    check_model(open_configured_provider, session.name, branch_state(session.branch()))


def check_model_choice(meant: ModelChoice) -> None:
    """Raise `UsageError` if a model cannot be used: no key, untrusted endpoint, unsupported parameters or resume."""
    check_provider(open_configured_provider, meant.provider, meant.model, meant.params)
    if meant.resume and not open_configured_provider(meant.provider, meant.model).can_resume:
        raise UsageError(f"{meant.spelled} cannot continue an interrupted reply", hint="leave --resume out")


def check_model_quickly(meant: ModelChoice) -> None:
    """Like `check_model_choice`, but skip a provider that loads slowly if it has a key or a configured address.

    A key command runs now: it may ask a person, on a terminal that a renderer is about to take over.
    """
    if not _is_probably_usable(meant):
        check_model_choice(meant)


def _is_probably_usable(meant: ModelChoice) -> bool:
    provider = meant.provider
    if not loads_slowly(provider) or meant.resume or meant.model == provider or not is_installed(provider):
        return False
    config = load_config("", os.environ).require_valid()
    named = config.providers.get(provider, ProviderConfig()).base_url or os.environ.get(ADDRESS_VARIABLES[provider])
    return bool(_provider_key(provider, config) or meant.params.get("endpoint") or named)


def loads_slowly(provider: str) -> bool:
    """Return whether the client of a provider is slow to load."""
    return provider in KEY_VARIABLES


class KeyCache:
    """Cached keys by key command. One command runs at a time, because two would prompt the same person at once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], str | None] = {}
        self._lock = threading.Lock()

    def has(self, command: Sequence[str]) -> bool:
        """Return whether a key is cached."""
        return tuple(command) in self._keys

    def get(self, command: Sequence[str], look_up: Callable[[], str | None]) -> str | None:
        """Return the cached key, or the result of `look_up`. A cached key is returned without waiting for the lock."""
        if self.has(command):
            return self._keys[tuple(command)]
        with self._lock:
            if not self.has(command):
                self._keys[tuple(command)] = look_up()
            return self._keys[tuple(command)]

    def forget(self, command: Sequence[str]) -> None:
        """Remove the cached key; the next `get` looks it up again."""
        self._keys.pop(tuple(command), None)


KEY_CACHE = KeyCache()
"""The cache of this process."""


class KeyCommandProvider:
    """A provider with a key that a key command prints. See `ports.Provider`.

    `keyless` is the provider opened without a key, `open_it` opens it with one. A key that is not cached yet is looked
    up in a daemon thread: the command may ask a person, and the event loop is not blocked.
    """

    def __init__(self, keyless: Provider, command: Sequence[str], open_it: Callable[[], Provider]) -> None:
        self.name = keyless.name
        self.can_resume = keyless.can_resume
        self.needs_reasoning_back = getattr(keyless, "needs_reasoning_back", False)
        self._command = tuple(command)
        self._open = open_it

    def check(self, model: str, params: Mapping[str, Any]) -> None:
        """See `ports.CheckedProvider`. Without a cached key nothing is checked; the key command is not run for it."""
        if KEY_CACHE.has(self._command):
            check_provider(lambda _, __: self._open(), self.name, model, params)

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """See `ports.Provider`. With a cached key, an impossible request raises at once."""
        if KEY_CACHE.has(self._command):
            return self._forget_refused_keys(self._open().stream(request), was_kept=True)
        return self._stream_with_new_key(request)

    async def _stream_with_new_key(self, request: ModelRequest) -> AsyncIterator[Delta]:
        try:
            opened = await run_in_daemon_thread(self._open)
            deltas = opened.stream(request)
        except UsageError as error:
            # If a key is cached, the request is at fault, not the key.
            kind = "bad_request" if KEY_CACHE.has(self._command) else "auth"
            yield Faulted(kind, "; ".join(filter(None, (error.message, error.hint))), retryable=False)
            return
        async with contextlib.aclosing(self._forget_refused_keys(deltas, was_kept=False)) as reply:
            async for delta in reply:
                yield delta

    async def _forget_refused_keys(self, reply: AsyncIterator[Delta], *, was_kept: bool) -> AsyncGenerator[Delta, None]:
        try:
            async for delta in reply:
                if isinstance(delta, Faulted) and delta.kind == "auth":
                    KEY_CACHE.forget(self._command)
                    yield msgspec.structs.replace(delta, retryable=was_kept)
                else:
                    yield delta
        finally:
            # Closing this generator closes the provider's.
            if isinstance(reply, AsyncGenerator):
                await reply.aclose()

"""Configuration as commands use it: defaults for new sessions, and the keys and addresses of model providers.

Rule 1 (law 2, the log is the only state): the settings of a session are in its log. Configuration is read when a
session begins. After that only the provider's key, and the address it may be sent to, come from configuration.
Rule 2: a key is passed to its provider only; it is not in the environment of tools.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.cli.behind import behind
from wakelog.cli.failures import note
from wakelog.cli.kept_keys import KEPT, KeyCommandProvider
from wakelog.cli.lock_waits import lock_wait
from wakelog.cli.places import opened_store
from wakelog.config import Config, ProviderConfig, key_for, load_config, run_key_command
from wakelog.config.names import ADDRESS_VARIABLES, KEY_VARIABLES
from wakelog.errors import UsageError
from wakelog.ports import Catalog, Channel, Provider, Store
from wakelog.projections.state import branch_state
from wakelog.providers import is_installed, open_provider, spelled
from wakelog.runtime.checks import check_askable, check_custody, check_model, needs_model
from wakelog.runtime.live import live_world
from wakelog.runtime.wake import next_decision
from wakelog.runtime.world import World
from wakelog.session import Session
from wakelog.stores import open_catalog
from wakelog.tools.mcp import Servers


def configured(cwd: str, *, model: str, quiet: bool = False) -> Config:
    """Return the configuration of a folder with the requested model. Prints what was left out, unless `quiet`."""
    loaded = load_config(cwd, os.environ, {"--model": model})
    for notice in () if quiet else loaded.notices:
        note(notice.message)
    return loaded.sound()


def world_for(
    store: Store, *, url: str | None = None, channels: Sequence[Channel] = (), servers: Servers | None = None
) -> World:
    """Return the runtime of a command: models with configured keys, and the store's catalog for the memory hook."""
    catalog = functools.partial(_opened_catalog, url) if url is not None else None
    return live_world(store, channels=channels, provider=open_in_time, catalog=catalog, servers=servers)


@contextlib.contextmanager
def _opened_catalog(url: str) -> Iterator[Catalog]:
    """Open a store's catalog for one use, on its own connection, apart from the worker that runs a session."""
    store = opened_store(url)
    catalog = open_catalog(url, store, lock_wait=lock_wait())
    try:
        yield catalog
    finally:
        catalog.close()
        store.close()


# ── models ───────────────────────────────────────────────────────────────────────────────────────


class Meant(msgspec.Struct, frozen=True):
    """A model that is about to be used, with its parameters."""

    provider: str
    model: str
    params: Mapping[str, Any] = {}
    resume: bool = False
    """Whether the model must be able to continue an interrupted reply."""

    @property
    def spelled(self) -> str:
        """Return the model as users write it."""
        return spelled(self.provider, self.model)


def open_configured(provider: str, model: str) -> Provider:
    """Return a provider with its configured key and address."""
    config = load_config("", os.environ).sound() if provider in KEY_VARIABLES else Config()
    said = config.providers.get(provider)
    if said is None:
        return open_provider(provider, model)
    environ = _environ(provider, _key(provider, config), said.base_url)
    return open_provider(provider, model, environ, key_from=_key_from(provider, said))


def open_in_time(provider: str, model: str) -> Provider:
    """Like `open_configured`, for use inside an event loop: a key command runs later and does not block the loop."""
    config = load_config("", os.environ).sound() if provider in KEY_VARIABLES else Config()
    words = config.providers.get(provider, ProviderConfig()).key_command
    if words is None:
        return open_configured(provider, model)
    return KeyCommandProvider(
        open_provider(provider, model), words, functools.partial(open_configured, provider, model)
    )


def _key(provider: str, config: Config) -> str | None:
    """Return the key of a provider, or None. The output of a key command is cached."""
    words = config.providers.get(provider, ProviderConfig()).key_command

    def look_up() -> str | None:
        return key_for(provider, config, os.environ, run_key_command)

    return look_up() if words is None else KEPT.get(words, look_up)


def _key_from(provider: str, said: ProviderConfig) -> str:
    """Return a description of the key's origin; empty if it is the provider's usual variable."""
    if said.key_command is not None:
        return f"the key that the key_command of {provider} printed"
    return f"the key in {said.key_env}" if said.key_env is not None else ""


def _environ(provider: str, key: str | None, address: str | None) -> Mapping[str, str]:
    """Return the environment for this provider, with its configured key and address where they are known."""
    own = {KEY_VARIABLES[provider]: key, ADDRESS_VARIABLES[provider]: address}
    return {**os.environ, **{variable: value for variable, value in own.items() if value}}


async def prepare_model(world: World, session: Session) -> None:
    """Look up the key and load the provider of a session that has work to do, before its lease is taken.

    Runs in a daemon thread, because a key command may wait for a person. A `UsageError` is raised only if the next
    step is a model call, so that nothing is written; otherwise the later model call raises it.
    """
    check_custody(session)
    decision = next_decision(world, session)
    if decision is None or world.store.held(session.name) is not None:
        # There is nothing to do, or another worker does it; `wake` reports which.
        return
    try:
        await behind(lambda: check_session(session))
    except UsageError:
        if needs_model(decision):
            raise


def check_session(session: Session) -> None:
    """Raise `UsageError` if the model of a session cannot be used. Blocks while a key command runs."""
    check_model(open_configured, session.name, branch_state(session.branch()))


def check_meant(meant: Meant) -> None:
    """Raise `UsageError` if a model cannot be used: no key, untrusted endpoint, unsupported parameters or resume."""
    check_askable(open_configured, meant.provider, meant.model, meant.params)
    if meant.resume and not open_configured(meant.provider, meant.model).can_resume:
        raise UsageError(f"{meant.spelled} cannot go on with a reply that was cut", hint="leave --resume out")


def check_likely(meant: Meant) -> None:
    """Like `check_meant`, but skip a provider that loads slowly if it has a key or a configured address.

    A key command runs now: it may ask a person, on a terminal that a renderer is about to take over.
    """
    if not _is_likely(meant):
        check_meant(meant)


def _is_likely(meant: Meant) -> bool:
    provider = meant.provider
    if not is_slow(provider) or meant.resume or meant.model == provider or not is_installed(provider):
        return False
    config = load_config("", os.environ).sound()
    named = config.providers.get(provider, ProviderConfig()).base_url or os.environ.get(ADDRESS_VARIABLES[provider])
    return bool(_key(provider, config) or meant.params.get("endpoint") or named)


def is_slow(provider: str) -> bool:
    """Return whether the client of a provider is slow to load."""
    return provider in KEY_VARIABLES

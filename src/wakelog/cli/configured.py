"""The configuration as commands use it: for the sessions they begin, and for the keys that models need.

Rule 1 (law 2): what a session works with stands in its log. Configuration is read when a session begins, and after
that for one thing only, which never stands in a log: the key of a provider, and where that key may be sent.
Rule 2: a key is handed to its provider and to nobody else; the environment that tools run in does not get it.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.cli.behind import behind
from wakelog.cli.failures import note
from wakelog.cli.kept_keys import KEPT, ByCommand
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
from wakelog.runtime.wake import what_next
from wakelog.runtime.world import World
from wakelog.session import Session
from wakelog.stores import open_catalog
from wakelog.tools.mcp import Servers


def configured(cwd: str, *, model: str, quiet: bool = False) -> Config:
    """What holds in a folder, with the model that was asked for; what was left out of it is said, unless `quiet`."""
    loaded = load_config(cwd, os.environ, {"--model": model})
    for notice in () if quiet else loaded.notices:
        note(notice.message)
    return loaded.sound()


def world_for(
    store: Store, *, url: str | None = None, channels: Sequence[Channel] = (), servers: Servers | None = None
) -> World:
    """The world of a command: models with the keys that are configured, and the catalog of the store for memory."""
    catalog = functools.partial(_opened_catalog, url) if url is not None else None
    return live_world(store, channels=channels, provider=open_in_time, catalog=catalog, servers=servers)


@contextlib.contextmanager
def _opened_catalog(url: str) -> Iterator[Catalog]:
    """The catalog of a store, opened for one look: it shares nothing with whoever runs a session meanwhile."""
    store = opened_store(url)
    catalog = open_catalog(url, store, lock_wait=lock_wait())
    try:
        yield catalog
    finally:
        catalog.close()
        store.close()


# ── models ───────────────────────────────────────────────────────────────────────────────────────


class Meant(msgspec.Struct, frozen=True):
    """A model that is to be asked, and how."""

    provider: str
    model: str
    params: Mapping[str, Any] = {}
    resume: bool = False
    """Whether it is to go on with a reply that was cut."""

    @property
    def spelled(self) -> str:
        """As people write it."""
        return spelled(self.provider, self.model)


def open_configured(provider: str, model: str) -> Provider:
    """A provider with the key and the address that are configured for it."""
    config = load_config("", os.environ).sound() if provider in KEY_VARIABLES else Config()
    said = config.providers.get(provider)
    if said is None:
        return open_provider(provider, model)
    environ = _environ(provider, _key(provider, config), said.base_url)
    return open_provider(provider, model, environ, key_from=_key_from(provider, said))


def open_in_time(provider: str, model: str) -> Provider:
    """The same for those inside an event loop: a program that has yet to print a key is waited for beside all else."""
    config = load_config("", os.environ).sound() if provider in KEY_VARIABLES else Config()
    words = config.providers.get(provider, ProviderConfig()).key_command
    if words is None:
        return open_configured(provider, model)
    return ByCommand(open_provider(provider, model), words, functools.partial(open_configured, provider, model))


def _key(provider: str, config: Config) -> str | None:
    """The key of a provider, if there is one; one that a program printed is kept."""
    words = config.providers.get(provider, ProviderConfig()).key_command

    def look_up() -> str | None:
        return key_for(provider, config, os.environ, run_key_command)

    return look_up() if words is None else KEPT.get(words, look_up)


def _key_from(provider: str, said: ProviderConfig) -> str:
    """The key in words, by where it came from; empty if that is its usual variable."""
    if said.key_command is not None:
        return f"the key that the key_command of {provider} printed"
    return f"the key in {said.key_env}" if said.key_env is not None else ""


def _environ(provider: str, key: str | None, address: str | None) -> Mapping[str, str]:
    """The environment as this provider sees it: its own key and address, where they are known from elsewhere."""
    own = {KEY_VARIABLES[provider]: key, ADDRESS_VARIABLES[provider]: address}
    return {**os.environ, **{variable: value for variable, value in own.items() if value}}


async def be_ready(world: World, session: Session) -> None:
    """Before a session that has something to do is held: looks up its key, and loads what speaks to its provider.

    In a thread of its own: a program that prints a key may wait for a person, and nothing else waits with it. What goes
    wrong is said here if the model is to be asked at once, so that nothing is written; else by whoever comes to ask it.
    """
    check_custody(session)
    decision = what_next(world, session)
    if decision is None or world.store.held(session.name) is not None:
        # There is nothing to do, or another worker does it: `wake` says so.
        return
    try:
        await behind(lambda: check_session(session))
    except UsageError:
        if needs_model(decision):
            raise


def check_session(session: Session) -> None:
    """`UsageError` if the model of a session cannot be asked. Blocks while a program prints its key."""
    check_model(open_configured, session.name, branch_state(session.branch()))


def check_meant(meant: Meant) -> None:
    """`UsageError` if a model could not even be asked: no key, an address nobody named, settings it does not have."""
    check_askable(open_configured, meant.provider, meant.model, meant.params)
    if meant.resume and not open_configured(meant.provider, meant.model).can_resume:
        raise UsageError(f"{meant.spelled} cannot go on with a reply that was cut", hint="leave --resume out")


def check_likely(meant: Meant) -> None:
    """The same where it is quick: what loads for seconds is left for later if there is a key, or another address.

    A program that prints the key is run now: it may ask a person, on a terminal that somebody else is about to take.
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
    """Whether what speaks to a provider takes a while to load."""
    return provider in KEY_VARIABLES

"""The configuration as commands use it: for the sessions they begin, and for the keys that models need.

Rule 1 (law 2): what a session works with stands in its log. Configuration is read when a session begins, and after
that for one thing only, which never stands in a log: the key of a provider, and where that key may be sent.
Rule 2: a key is handed to its provider and to nobody else; the environment that tools run in does not get it.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wakelog.cli.failures import note
from wakelog.cli.places import Place
from wakelog.config import Config, key_for, load_config, run_key_command
from wakelog.config.names import ADDRESS_VARIABLES, KEY_VARIABLES
from wakelog.errors import UsageError
from wakelog.live import live_world
from wakelog.ports import Channel, Provider, Request, Store, Tool
from wakelog.providers import open_provider
from wakelog.tools.mcp import Servers, mcp_tools, server_of
from wakelog.world import World


def configured(cwd: str, *, model: str | None = None) -> Config:
    """What holds in a folder, with the model that was asked for; what was left out of it is said."""
    loaded = load_config(cwd or os.getcwd(), os.environ, {"--model": model} if model else {})
    for notice in loaded.notices:
        note(notice.message)
    return loaded.sound()


def world_for(store: Store, *, url: str | None = None, channels: Sequence[Channel] = ()) -> World:
    """The world of a command: models with the keys that are configured, and the catalog of the store for memory."""
    catalog = (lambda: Place(url).catalog) if url is not None else None
    return live_world(store, channels=channels, provider=open_configured, catalog=catalog)


def open_configured(provider: str, model: str) -> Provider:
    """A provider with the key and the address that are configured for it."""
    return open_provider(provider, model, _environ(provider))


def check_askable(provider: str, model: str, params: Mapping[str, Any]) -> None:
    """`UsageError` if a model could not even be asked: no key, an address nobody named, settings it does not have.

    The reply is made and thrown away before anybody is asked for it.
    """
    if provider in KEY_VARIABLES:
        open_configured(provider, model).stream(Request(model=model, messages=(), params=params))


def _environ(provider: str) -> Mapping[str, str]:
    """The environment as this provider sees it: its own key, from wherever the configuration says."""
    if provider not in KEY_VARIABLES:
        return os.environ
    config = load_config(os.getcwd(), os.environ).sound()
    said = config.providers.get(provider)
    if said is None:
        return os.environ
    key = key_for(provider, config, os.environ, run_key_command)
    own = {KEY_VARIABLES[provider]: key, ADDRESS_VARIABLES[provider]: said.base_url}
    return {**os.environ, **{variable: value for variable, value in own.items() if value}}


def tools_of(servers: Sequence[Mapping[str, Any]], cwd: str) -> tuple[Tool, ...]:
    """The tools of MCP servers, asked now. One that cannot be asked is named, and the session begins without it."""
    if not servers:
        return ()
    with ThreadPoolExecutor(1, "wakelog-mcp") as apart:
        # Whoever calls may be inside an event loop already.
        declared = apart.submit(asyncio.run, _listed(servers, cwd)).result()
    return tuple(mcp_tools(declared, Servers(), cwd).values())


async def _listed(servers: Sequence[Mapping[str, Any]], cwd: str) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = []
    async with Servers(notice=note) as alive:
        for value in servers:
            try:
                declared += await alive.list_tools(server_of(value), cwd)
            except UsageError as error:
                note(f"{error.message}; the session begins without its tools")
    return declared

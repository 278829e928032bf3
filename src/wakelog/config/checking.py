"""Checks across all configuration layers: names of agents, servers and tools that are not defined. Pure."""

import itertools
from collections.abc import Iterable, Iterator

from wakelog.config.names import TOOL_NAMES
from wakelog.config.nesting import Settings, config_of
from wakelog.config.reading import MISTAKES_MAX
from wakelog.config.shape import clipped, keys_of, nearest, quoted
from wakelog.config.values import DEFAULT_AGENT, AgentConfig, Config, McpConfig, Mistake, Setting

_NAMES_TOLD = 20
_OF_SERVERS = keys_of(McpConfig)


def inconsistencies(settings: Settings, misread: Iterable[Mistake] = ()) -> tuple[Mistake, ...]:
    """Return a mistake per undefined name and per unusable server, at most `MISTAKES_MAX`.

    A server with a key in `misread` is skipped, so that one mistake is not reported twice.
    """
    half_read = {path[:2] for path in (mistake.path for mistake in misread) if path[2:] and path[2] in _OF_SERVERS}
    config = config_of(settings)
    found = itertools.chain(
        _default_agent(settings),
        *(_agent(settings, config, name) for name in config.agents),
        *(_server(settings, config.mcp[name], name) for name in config.mcp if ("mcp", name) not in half_read),
    )
    return tuple(itertools.islice(found, MISTAKES_MAX))


def _default_agent(settings: Settings) -> Iterator[Mistake]:
    """Check that the default agent is configured. Only an option may name an agent that is not."""
    chosen = settings.get(("agent",))
    if chosen is None or chosen.place.kind == "option" or chosen.value == DEFAULT_AGENT:
        return
    names = [path[1] for path in settings if path[0] == "agents" and len(path) == 2]
    if chosen.value not in names:
        yield _nobody(chosen, "agent", chosen.value, names)


def _agent(settings: Settings, config: Config, name: str) -> Iterator[Mistake]:
    agent: AgentConfig = config.agents[name]
    for server in agent.mcp:
        if server not in config.mcp:
            yield _nobody(settings["agents", name, "mcp"], "server", server, list(config.mcp))
    for tool in agent.approvals if not agent.mcp else ():
        # The tools of an MCP server are unknown until it is queried; without a server only the built-in tools exist.
        if tool not in TOOL_NAMES:
            yield _nobody(settings["agents", name, "approvals", tool], "tool", tool, list(TOOL_NAMES))


def _server(settings: Settings, server: McpConfig, name: str) -> Iterator[Mistake]:
    said = settings["mcp", name]
    if server.command is None and server.url is None:
        yield Mistake(said.place, f"the server {name} has neither a command nor a url", path=said.path)
    if server.url is None and server.bearer_env is not None:
        place, message = settings["mcp", name, "bearer_env"].place, f"the server {name} is a program: it has no bearer"
        yield Mistake(place, message, "hand the variable through with env", path=said.path)
    for key in ("env", "cwd") if server.url is not None else ():
        if ("mcp", name, key) in settings:
            message = f"the server {name} is elsewhere: {key} means nothing there"
            place, hint = settings["mcp", name, key].place, "leave it out; bearer_env names its key"
            yield Mistake(place, message, hint, path=said.path)


def _nobody(said: Setting, what: str, name: str, names: list[str]) -> Mistake:
    near = nearest(name, names)
    there = (
        f"there are {', '.join(map(clipped, names[:_NAMES_TOLD]))}"
        if len(names) > 1
        else f"there is {names[0]}"
        if names
        else ""
    )
    hint = f"did you mean {near}?" if near else there or f"no {what} is configured"
    return Mistake(said.place, f"there is no {what} {quoted(clipped(name))}", hint, path=said.path)

"""Merge configuration layers: the user's file, the project's files from the outside in, variables, options. Pure.

Each layer overrides the layers before it, key by key; lists are replaced as a whole. Variables and options override all
files, including the models of single agents. The merged settings are checked for names of agents, servers and tools
that are not defined.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from wakelog.config.parsing import EXCLUSIVE_KEYS, MISTAKES_MAX, ParsedFile
from wakelog.config.schema import (
    DEFAULT,
    DEFAULT_AGENT,
    AgentConfig,
    Config,
    LoadedConfig,
    McpConfig,
    Mistake,
    Notice,
    Path,
    Place,
    Setting,
    SettingsByPath,
    Source,
    build_config,
)
from wakelog.config.trust import EarlierSettings, is_allowed, untrusted_notice
from wakelog.config.validation import TOOL_NAMES, describe_type, nearest, quoted, shortened, table_keys, type_mismatch

_NAMES_SHOWN = 20
_SERVER_KEYS = table_keys(McpConfig)


def find_inconsistencies(settings: SettingsByPath, misread: Iterable[Mistake] = ()) -> tuple[Mistake, ...]:
    """Return a mistake per undefined name and per unusable server, at most `MISTAKES_MAX`.

    A server with a key in `misread` is skipped, so that one mistake is not reported twice.
    """
    half_read = {path[:2] for path in (mistake.path for mistake in misread) if path[2:] and path[2] in _SERVER_KEYS}
    config = build_config(settings)
    found = itertools.chain(
        _check_default_agent(settings),
        *(_check_agent(settings, config, name) for name in config.agents),
        *(_check_server(settings, config.mcp[name], name) for name in config.mcp if ("mcp", name) not in half_read),
    )
    return tuple(itertools.islice(found, MISTAKES_MAX))


def _check_default_agent(settings: SettingsByPath) -> Iterator[Mistake]:
    """Check that the default agent is configured. Only an option may name an agent that is not."""
    chosen = settings.get(("agent",))
    if chosen is None or chosen.place.kind == "option" or chosen.value == DEFAULT_AGENT:
        return
    names = [path[1] for path in settings if path[0] == "agents" and len(path) == 2]
    if chosen.value not in names:
        yield _undefined(chosen, "agent", chosen.value, names)


def _check_agent(settings: SettingsByPath, config: Config, name: str) -> Iterator[Mistake]:
    agent: AgentConfig = config.agents[name]
    for server in agent.mcp:
        if server not in config.mcp:
            yield _undefined(settings["agents", name, "mcp"], "server", server, list(config.mcp))
    for tool in agent.approvals:
        if tool not in TOOL_NAMES and not _may_be_of_server(tool, agent.mcp):
            names = [*TOOL_NAMES, *(f"mcp__{server}__TOOL" for server in agent.mcp)]
            yield _undefined(settings["agents", name, "approvals", tool], "tool", tool, names)


def _may_be_of_server(tool: str, servers: Iterable[str]) -> bool:
    """Return whether a tool may belong to one of these MCP servers; which tools they have is known when they run."""
    from wakelog.tools.mcp.conversion import may_be_tool_of  # noqa: PLC0415 - few configurations need it

    return any(may_be_tool_of(server, tool) for server in servers)


def _check_server(settings: SettingsByPath, server: McpConfig, name: str) -> Iterator[Mistake]:
    table = settings["mcp", name]
    if server.command is None and server.url is None:
        yield Mistake(table.place, f"server {name} has neither command nor url", "set one of them", path=table.path)
    if server.url is None and server.bearer_env is not None:
        place, message = (
            settings["mcp", name, "bearer_env"].place,
            f"bearer_env has no effect: server {name} is a program",
        )
        yield Mistake(place, message, "pass the variable with env", path=table.path)
    for key in ("env", "cwd") if server.url is not None else ():
        if ("mcp", name, key) in settings:
            message = f"{key} has no effect: server {name} is a url"
            place, hint = (
                settings["mcp", name, key].place,
                "remove it; bearer_env names the variable that holds its key",
            )
            yield Mistake(place, message, hint, path=table.path)


def _undefined(setting: Setting, what: str, name: str, names: list[str]) -> Mistake:
    near = nearest(name, names)
    choices = (
        f"use one of {', '.join(map(shortened, names[:_NAMES_SHOWN]))}"
        if len(names) > 1
        else f"use {names[0]}"
        if names
        else ""
    )
    hint = f"did you mean {near}?" if near else choices or f"no {what} is configured"
    return Mistake(setting.place, f"unknown {what} {quoted(shortened(name))}", hint, path=setting.path)


VARIABLES: Mapping[str, str] = {
    "WAKELOG_MODEL": "model",
    "WAKELOG_AGENT": "agent",
    "WAKELOG_STORE": "store",
    "WAKELOG_REDACT": "redact",
}
OPTIONS: Mapping[str, str] = {"--model": "model", "--agent": "agent", "--store": "store"}
# Values that the variable accepted when the setting was a boolean.
_FORMER_REDACT_VALUES = {
    **dict.fromkeys(("1", "true", "yes", "on"), "keys"),
    **dict.fromkeys(("0", "false", "no"), "off"),
}


class Layer(msgspec.Struct, frozen=True):
    """One file and its content."""

    source: Source
    reading: ParsedFile


def merge_layers(
    layers: Sequence[Layer],
    environ: Mapping[str, str],
    options: Mapping[str, str],
    *,
    user_file: str,
    real: Callable[[str], str] = os.path.normpath,
) -> LoadedConfig:
    """Return the merged configuration with the places of values, mistakes and notices. `real` resolves symlinks."""
    merged = _Merge(user_file, real)
    for layer in layers:
        merged.take_file(layer)
    outside_files = parse_variables_and_options(environ, options)
    merged.take(outside_files.settings)
    settings = _with_default_models(merged.settings)
    sources = tuple(layer.source for layer in layers)
    misread = [*(mistake for layer in layers for mistake in layer.reading.mistakes), *outside_files.mistakes]
    return LoadedConfig(
        config=build_config(settings),
        places={path: setting.place for path, setting in settings.items()},
        mistakes=sort_mistakes(sources, *misread, *find_inconsistencies(settings, misread)),
        notices=tuple(merged.notices),
        sources=sources,
    )


def sort_mistakes(sources: Sequence[Source], *mistakes: Mistake) -> tuple[Mistake, ...]:
    """Return mistakes ordered by file and line; those of variables and options last."""
    order = {source.path: number for number, source in enumerate(sources)}
    return tuple(sorted(mistakes, key=lambda each: (order.get(each.place.name, len(order)), each.place.line)))


class _Merge:
    """The settings merged so far."""

    def __init__(self, user_file: str, real: Callable[[str], str]) -> None:
        self.settings: dict[Path, Setting] = {}
        self.notices: list[Notice] = []
        self._user_file = user_file
        self._real = real
        self._untrusted: set[str] = set()

    def take_file(self, layer: Layer) -> None:
        """Merge a file: all settings if it is trusted, otherwise those that an untrusted file may set."""
        settings, source = layer.reading.settings, layer.source
        if source.trusted:
            self.take(settings)
            return
        self._untrusted.add(source.path)
        before = EarlierSettings(self.settings, self._untrusted)
        held = {
            setting.path: setting for setting in settings if not is_allowed(setting, before, source.root, self._real)
        }
        self.take(setting for setting in settings if setting.path not in held)
        if held:
            self.notices.append(untrusted_notice(source, tuple(held.values()), self._user_file))

    def take(self, settings: Iterable[Setting]) -> None:
        """Merge settings; each replaces its previous value and its excluded counterpart."""
        for setting in settings:
            for path in self._replaced(setting):
                self.settings.pop(path, None)
            if len(setting.path) > 2 or setting.value != {} or setting.path not in self.settings:
                self.settings[setting.path] = setting

    def _replaced(self, setting: Setting) -> list[Path]:
        if setting.path == ("model",) and setting.place.kind != "file":
            return [path for path in self.settings if path[0] == "agents" and path[2:] == ("model",)]
        rival = EXCLUSIVE_KEYS.get(setting.path[-1]) if len(setting.path) == 3 else None
        return [(*setting.path[:-1], rival)] if rival is not None else []


def parse_variables_and_options(environ: Mapping[str, str], options: Mapping[str, str]) -> ParsedFile:
    """Return the settings of variables and options. Empty ones are ignored."""
    results = [
        *(
            _parse_value(Place("variable", name), key, environ[name])
            for name, key in VARIABLES.items()
            if environ.get(name)
        ),
        *(
            _parse_value(Place("option", name), key, options[name])
            for name, key in OPTIONS.items()
            if options.get(name)
        ),
    ]
    return ParsedFile(
        tuple(each for each in results if isinstance(each, Setting)),
        tuple(each for each in results if isinstance(each, Mistake)),
    )


def _parse_value(place: Place, key: str, text: str) -> Setting | Mistake:
    value = _FORMER_REDACT_VALUES.get(text.lower(), text.lower()) if key == "redact" else text
    kind = table_keys(Config)[key]
    if type_mismatch(value, kind):
        return Mistake(place, f"{key} must be {describe_type(kind)}", path=(key,))
    return Setting((key,), value, place)


def _with_default_models(settings: Mapping[Path, Setting]) -> dict[Path, Setting]:
    """Add the default agent to the agents, and the general model (or None) to each agent without one."""
    chosen = settings.get(("agent",), Setting(("agent",), DEFAULT_AGENT, DEFAULT))
    model = settings.get(("model",), Setting(("model",), None, DEFAULT))
    names = dict.fromkeys((*(path[1] for path in settings if path[0] == "agents"), chosen.value))
    paths: list[Path] = [("agents", name, "model") for name in names]
    return {**{path: Setting(path, model.value, model.place) for path in paths}, **settings}

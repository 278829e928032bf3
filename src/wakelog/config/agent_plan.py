"""Convert configuration to the parts of an agent: policy, provider parameters, MCP servers; list values in force. Pure.

Only configured values become parameters: a default added here would be one more value that can change under a session.
In the list, values that are not configured have the place "default"; values that were left out come last, marked so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.config.schema import (
    AgentConfig,
    Config,
    HookCommand,
    HookSetting,
    LoadedConfig,
    McpConfig,
    Path,
    Place,
    ProviderConfig,
)
from wakelog.decide.policy import Approval, HookSettings, Policy, Price, redact_mode
from wakelog.hooks import HOOK_NAMES
from wakelog.providers import split_model

# Read-only tools run without approval where the others ask.
_READ_ONLY_TOOLS: Mapping[str, Approval] = {"read": "auto", "list": "auto", "grep": "auto"}


class AgentPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The complete configuration of one agent."""

    name: str
    model: str | None
    system: str
    tools: tuple[str, ...] | None
    params: dict[str, Any]
    policy: Policy
    servers: tuple[dict[str, Any], ...]


def plan_agent(config: Config, name: str) -> AgentPlan:
    """Return the plan of the agent of that name; an agent that is not configured has the defaults."""
    agent = config.agents.get(name, AgentConfig())
    model = agent.model or config.model
    price = config.prices.get(model or "")
    known = [{"name": each, "description": other.description or ""} for each, other in config.agents.items()]
    return AgentPlan(
        name=name,
        model=model,
        system=agent.system or "",
        tools=agent.tools,
        params=provider_params(agent, config.providers.get(split_model(model)[0]) if model else None),
        policy=msgspec.structs.replace(
            agent_policy(agent, price=price.exact if price is not None else None, known=known),
            redact=redact_mode(config.redact),
        ),
        servers=tuple(server_declaration(each, config.mcp[each]) for each in agent.mcp if each in config.mcp),
    )


def agent_policy(agent: AgentConfig, *, price: Price | None = None, known: Sequence[Mapping[str, str]] = ()) -> Policy:
    """Return the policy. `known` are the agents listed by the `agents` hook."""
    read_only = _READ_ONLY_TOOLS if agent.approval == "ask" else {}
    return Policy(
        approval=agent.approval,
        approvals={**read_only, **agent.approvals},
        strategy=agent.strategy,
        compact_at=agent.compact_at,
        keep=agent.keep,
        unknown=agent.unknown,
        reasoning=agent.reasoning,
        instructions=agent.instructions,
        hooks=tuple(
            _hook(name, setting, known) for name, setting in _hook_settings(agent).items() if setting is not False
        ),
        price=price,
    )


def _hook_settings(agent: AgentConfig) -> dict[str, HookSetting]:
    """Return the built-in hooks with their defaults, then the user's own in the order of the file.

    `memory` is off unless it is switched on: it gives texts of other sessions to the model.
    """
    return {name: agent.hooks.get(name, name != "memory") for name in HOOK_NAMES} | agent.hooks


def _hook(name: str, setting: HookSetting, known: Sequence[Mapping[str, str]]) -> HookSettings:
    if isinstance(setting, HookCommand):
        return HookSettings(name=name, options={"command": list(setting.command), "timeoutS": setting.timeout})
    if isinstance(setting, tuple):
        return _hook(name, HookCommand(command=setting), known)
    return HookSettings(name=name, options={"agents": [dict(each) for each in known]} if name == "agents" else {})


def provider_params(agent: AgentConfig, provider: ProviderConfig | None = None) -> dict[str, Any]:
    """Return the parameters for the provider, with the keys of `Request.params`."""
    params = {
        "maxTokens": agent.max_tokens,
        "temperature": agent.temperature,
        "effort": agent.effort,
        "thinking": agent.thinking,
        "media": agent.media,
        "endpoint": provider.base_url if provider is not None else None,
        "extra": dict(agent.extra) or None,
    }
    return {key: value for key, value in params.items() if value is not None}


def server_declaration(name: str, server: McpConfig) -> dict[str, Any]:
    """Return a server as a plain value without secrets, as the log records it."""
    declaration = {
        "name": name,
        "command": list(server.command) if server.command is not None else None,
        "url": server.url,
        "env": list(server.env),
        "bearerEnv": server.bearer_env,
        "cwd": server.cwd,
        "trusted": server.trusted,
        "timeoutS": server.timeout,
    }
    return {key: value for key, value in declaration.items() if value is not None}


# agents · NAME · extra · KEY
_DEPTH_MAX = 3


class ShownValue(msgspec.Struct, frozen=True):
    """One value. `taken` is False if an untrusted project set it and it was left out."""

    path: Path
    value: Any
    place: Place
    taken: bool = True


def shown_values(loaded: LoadedConfig) -> Iterator[ShownValue]:
    """Yield all values in the order of the keys, then those that were left out."""
    for path, value in _leaves(loaded.config, ()):
        yield ShownValue(path, value, loaded.place_of(*path))
    for notice in loaded.notices:
        yield from (
            ShownValue(held.path, held.value, held.place, taken=False) for held in notice.held if held.value != {}
        )


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    # A hook and a key of `extra` are shown as a whole, whatever they contain.
    table = _as_table(value) if len(path) <= _DEPTH_MAX else None
    if table is not None:
        for key, inner in table.items():
            yield from _leaves(inner, (*path, key))
    elif value is not None:
        yield path, msgspec.to_builtins(value)


def _as_table(value: Any) -> dict[str, Any] | None:
    """Return a table as a dict; None for a value that is not a table."""
    if isinstance(value, AgentConfig):
        return _with_defaults(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    return value if isinstance(value, dict) else None


def _with_defaults(agent: AgentConfig) -> dict[str, Any]:
    """Return an agent with its defaults in force; `system` is left out if its text comes from `system_file`."""
    table = msgspec.structs.asdict(agent)
    if agent.system_file is not None:
        del table["system"]
    return table | {"approvals": agent_policy(agent).approvals, "hooks": _hook_settings(agent)}

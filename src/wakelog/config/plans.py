"""Convert configuration to the parts of an agent: policy, provider parameters and MCP servers. Pure.

Only configured values become parameters: a default added here would be one more value that can change under a session.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.config.values import AgentConfig, Config, HookCommand, HookSetting, McpConfig, ProviderConfig
from wakelog.decide.policy import Approval, HookTerms, Policy, Price, redact_word
from wakelog.hooks import HOOK_NAMES
from wakelog.providers import split_model

# Read-only tools run without approval where the others ask.
_ONLY_LOOK: Mapping[str, Approval] = {"read": "auto", "list": "auto", "grep": "auto"}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The complete configuration of one agent."""

    name: str
    model: str | None
    system: str
    tools: tuple[str, ...] | None
    params: dict[str, Any]
    policy: Policy
    servers: tuple[dict[str, Any], ...]


def plan_of(config: Config, name: str) -> Plan:
    """Return the plan of the agent of that name; an agent that is not configured has the defaults."""
    agent = config.agents.get(name, AgentConfig())
    model = agent.model or config.model
    price = config.prices.get(model or "")
    known = [{"name": each, "description": other.description or ""} for each, other in config.agents.items()]
    return Plan(
        name=name,
        model=model,
        system=agent.system or "",
        tools=agent.tools,
        params=params_of(agent, config.providers.get(split_model(model)[0]) if model else None),
        policy=msgspec.structs.replace(
            policy_of(agent, price=price.exact if price is not None else None, known=known),
            redact=redact_word(config.redact),
        ),
        servers=tuple(server_of(each, config.mcp[each]) for each in agent.mcp if each in config.mcp),
    )


def policy_of(agent: AgentConfig, *, price: Price | None = None, known: Sequence[Mapping[str, str]] = ()) -> Policy:
    """Return the policy. `known` are the agents listed by the `agents` hook."""
    looks = _ONLY_LOOK if agent.approval == "ask" else {}
    return Policy(
        approval=agent.approval,
        approvals={**looks, **agent.approvals},
        strategy=agent.strategy,
        compact_at=agent.compact_at,
        keep=agent.keep,
        unknown=agent.unknown,
        reasoning=agent.reasoning,
        instructions=agent.instructions,
        hooks=tuple(_hook(name, said, known) for name, said in _hooks(agent).items() if said is not False),
        price=price,
    )


def _hooks(agent: AgentConfig) -> dict[str, HookSetting]:
    """Return the built-in hooks, each on unless switched off, then the user's own in the order of the file."""
    return {name: agent.hooks.get(name, True) for name in HOOK_NAMES} | agent.hooks


def _hook(name: str, said: HookSetting, known: Sequence[Mapping[str, str]]) -> HookTerms:
    if isinstance(said, HookCommand):
        return HookTerms(name=name, options={"command": list(said.command), "timeoutS": said.timeout})
    if isinstance(said, tuple):
        return _hook(name, HookCommand(command=said), known)
    return HookTerms(name=name, options={"agents": [dict(each) for each in known]} if name == "agents" else {})


def params_of(agent: AgentConfig, provider: ProviderConfig | None = None) -> dict[str, Any]:
    """Return the parameters for the provider, with the keys of `Request.params`."""
    said = {
        "maxTokens": agent.max_tokens,
        "temperature": agent.temperature,
        "effort": agent.effort,
        "thinking": agent.thinking,
        "media": agent.media,
        "endpoint": provider.base_url if provider is not None else None,
        "extra": dict(agent.extra) or None,
    }
    return {key: value for key, value in said.items() if value is not None}


def server_of(name: str, server: McpConfig) -> dict[str, Any]:
    """Return a server as a plain value without secrets, as the log records it."""
    said = {
        "name": name,
        "command": list(server.command) if server.command is not None else None,
        "url": server.url,
        "env": list(server.env),
        "bearerEnv": server.bearer_env,
        "cwd": server.cwd,
        "trusted": server.trusted,
        "timeoutS": server.timeout,
    }
    return {key: value for key, value in said.items() if value is not None}

"""Settings of a session: combine configuration and overrides, and write the result as a `context` entry.

Rule 1 (law 2, the log is the only state): settings in force are in the log. A new session begins with all of them; in
an existing one, settings that were not given stay, and if nothing changes nothing is written.
Rule 2: the tools of a library user run without approval by default; at a command line read-only tools run at once, and
all others ask first.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from wakelog.app.agent import Agent, check_model_policy
from wakelog.app.event_loop import EventLoopRunner, ListedTools
from wakelog.app.models import ModelChoice, check_model_choice, check_model_quickly, open_configured_provider
from wakelog.app.notices import notify
from wakelog.config import AgentPlan, Config, load_config, plan_agent
from wakelog.config.schema import DEFAULT_AGENT
from wakelog.config.validation import TOOL_NAMES, quoted
from wakelog.decide.decisions import Decision
from wakelog.decide.policy import Approval, Policy, policy_in_force, stored_policy
from wakelog.errors import Conflict, UsageError
from wakelog.log.codec import canonical_json
from wakelog.log.entry import ContextEntry, ModelChange
from wakelog.ports.runtime import Tool
from wakelog.ports.stores import Store
from wakelog.projections.branch_state import IMPORTED_SETTING, BranchState, branch_state
from wakelog.providers import check_provider_name, format_model, split_model
from wakelog.redaction.entries import redact_entry
from wakelog.redaction.redactor import redact, redact_value
from wakelog.runtime.checks import check_files, check_store_files, needs_model
from wakelog.runtime.context_entry import (
    ABSENT_SERVERS,
    Instructions,
    ModelInForce,
    absent_servers,
    absent_servers_item,
    store_declarations,
    store_instructions,
    tool_declaration,
    with_environment,
    with_policy,
)
from wakelog.runtime.model_request import blob_text, declared_tools
from wakelog.runtime.tool_declarations import ToolDeclarations
from wakelog.session import Session
from wakelog.tools import BUILTIN_NAMES, builtin_tools
from wakelog.tools.mcp import ServerPool, mcp_tools
from wakelog.tools.subagent import SubagentProfile, SubagentTool, declared_profiles

_MODEL_HINT = (
    "set ANTHROPIC_API_KEY and use --model anthropic:NAME (or OPENAI_API_KEY and openai:NAME), or try --model demo"
)


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Settings given on the command line; None (or False) where not given."""

    model: str | None = None
    system: str | None = None
    tools: str | None = None
    yes: bool = False
    compact_at: int | None = None
    strategy: str | None = None
    unknown: str | None = None
    reasoning: str | None = None
    redact: str | None = None
    resume: bool = False

    def policy(self, before: Policy) -> Policy:
        """Return the policy `before` with these settings applied."""
        approval = _without_questions(before.approval)
        by_tool = {tool: _without_questions(how) for tool, how in before.approvals.items()}
        changes: dict[str, Any] = {
            "compact_at": self.compact_at,
            "strategy": self.strategy,
            "unknown": self.unknown,
            "reasoning": self.reasoning,
            "redact": self.redact,
            "cut": "resume" if self.resume else None,
            "approval": approval if self.yes else None,
            "approvals": {tool: how for tool, how in by_tool.items() if how != approval} if self.yes else None,
        }
        return msgspec.structs.replace(before, **{key: value for key, value in changes.items() if value is not None})


def _without_questions(how: Approval) -> Approval:
    """Return the approval mode without questions: `ask` becomes `auto`; other modes stay."""
    return "auto" if how == "ask" else how


def checked_model(
    overrides: Overrides, session: Session | None = None, *, cwd: str = "", agent: str | None = None
) -> ModelChoice:
    """Return the model for a session or a new one, after a quick check that it can be used. Writes nothing."""
    _tool_names(overrides)
    found = model_for(overrides, session, cwd=cwd, agent=agent)
    check_model_quickly(found)
    return found


def model_for(
    overrides: Overrides, session: Session | None = None, *, cwd: str = "", agent: str | None = None
) -> ModelChoice:
    """Return the model for a session or a new one, without checking it."""
    if session is None:
        return _plan_new_session(overrides, agent=agent, cwd=cwd, quiet=True)[0]
    state = branch_state(session.branch())
    if state.context is None:
        return _plan_unconfigured_session(session, state, overrides, quiet=True)[0]
    provider, model = _parse_model(overrides.model or _model_in_force(session, state))
    return ModelChoice(provider, model, _adapt_to_model(state.context, state, provider, model).params, overrides.resume)


# ── new sessions ─────────────────────────────────────────────────────────────────────────────────


ListTools: TypeAlias = Callable[[Sequence[Mapping[str, Any]], str], ListedTools]
"""Returns the tools of MCP servers, given the servers' configuration values and the session's folder."""


def begin_session(
    store: Store, overrides: Overrides, *, agent: str | None, sender: str, cwd: str, list_tools: ListTools
) -> Session:
    """Create a session with all its settings, from configuration and command line, so that it can be woken anywhere."""
    check_store_files(store)
    model, plan = _plan_new_session(overrides, agent=agent, cwd=cwd)
    check_model_choice(model)
    return _build_agent(overrides, plan, cwd, list_tools).begin(store, sender=sender, cwd=cwd)


def servers_to_ask(
    overrides: Overrides, session: Session | None, *, agent: str | None, cwd: str
) -> Sequence[Mapping[str, Any]]:
    """Return the MCP servers to ask for tools now: all for a new session, else those that were absent before."""
    if session is None:
        return _plan_new_session(overrides, agent=agent, cwd=cwd, quiet=True)[1].servers
    state = branch_state(session.branch())
    if state.context is not None:
        return absent_servers(state.context.environment)
    return _plan_unconfigured_session(session, state, overrides, quiet=True)[1].servers


ModelAndPlan: TypeAlias = tuple[ModelChoice, AgentPlan]
"""The model, and all other configured settings."""


def _plan_new_session(
    overrides: Overrides, *, agent: str | None, cwd: str, model: str = "", quiet: bool = False
) -> ModelAndPlan:
    """Return the model and the configured settings of a new session. `model` is the model that its log names."""
    provider, name = _parse_model(overrides.model or model or _default_model(cwd, agent))
    config = config_for_model(cwd, model=f"{provider}:{name}", quiet=quiet)
    plan = plan_agent(config, agent or config.agent)
    if config.agents and plan.name not in (*config.agents, DEFAULT_AGENT) and not quiet:
        notify(f"agent {quoted(plan.name)} has no configuration; using defaults")
    return ModelChoice(provider, name, plan.params, overrides.resume), plan


def _plan_unconfigured_session(
    session: Session, state: BranchState, overrides: Overrides, *, quiet: bool = False
) -> ModelAndPlan:
    """Like `_plan_new_session`, for an existing session that has no settings yet: never run here, or imported.

    An imported session continues with its model if that is configured here, else with the configured one, which is
    said in a notice. An agent of that name that is not configured is the default agent.
    """
    header = session.tree.header
    agent, recorded = header.agent or None, f"{state.provider}:{state.model}" if state.provider and state.model else ""
    if IMPORTED_SETTING not in state.settings:
        return _plan_new_session(overrides, agent=agent, cwd=header.cwd, model=recorded, quiet=quiet)
    if agent not in load_config(header.cwd, os.environ).require_valid().agents:
        agent = None
    if overrides.model is not None or (recorded and _is_configured(recorded)):
        return _plan_new_session(overrides, agent=agent, cwd=header.cwd, model=recorded, quiet=quiet)
    choice, plan = _plan_new_session(overrides, agent=agent, cwd=header.cwd, quiet=quiet)
    if state.model is not None and not quiet:
        named = quoted(format_model(state.provider, state.model))
        notify(f"the model {named} is not configured here: {session.name} continues with {choice.spelled}")
    return choice, plan


def _is_configured(model: str) -> bool:
    """Return whether a model can be called with the configuration of this machine."""
    try:
        check_model_quickly(ModelChoice(*_parse_model(model)))
    except UsageError:
        return False
    return True


def _build_agent(overrides: Overrides, plan: AgentPlan, cwd: str, list_tools: ListTools) -> Agent:
    shipped = _make_tools(_tool_names(overrides, plan.tools), cwd, _subagent_profiles(overrides, plan, cwd))
    found = list_tools(plan.servers, cwd)
    return Agent(
        model=plan.model or "",
        name=plan.name,
        system=plan.system if overrides.system is None else overrides.system,
        tools=(*shipped, *found.tools),
        absent=found.absent,
        params=plan.params,
        policy=overrides.policy(plan.policy),
    )


def _subagent_profiles(overrides: Overrides, plan: AgentPlan, cwd: str) -> dict[str, SubagentProfile]:
    """Return the other configured agents that this agent can start as sub-agents, with their initial settings."""
    options = {"--model": plan.model} if overrides.model is not None and plan.model is not None else {}
    config = load_config(cwd, os.environ, options).require_valid()
    return {name: _subagent_profile(plan_agent(config, name), overrides) for name in config.agents if name != plan.name}


def _subagent_profile(plan: AgentPlan, overrides: Overrides) -> SubagentProfile:
    policy = Overrides(yes=overrides.yes).policy(plan.policy)
    return SubagentProfile(
        model=plan.model,
        system=redact(plan.system, policy.redact).text,
        tools=tuple(
            dict(tool_declaration(tool)) for tool in _make_tools(TOOL_NAMES if plan.tools is None else plan.tools, "")
        ),
        servers=tuple(server["name"] for server in plan.servers),
        params=plan.params,
        policy=stored_policy(policy),
    )


def _default_model(cwd: str, agent: str | None) -> str:
    """Return the configured model. `UsageError` if there is none; there is no built-in default."""
    found = _configured_model(cwd, agent)
    if found is None:
        raise UsageError("no model is set", hint=_MODEL_HINT)
    return found


def _configured_model(cwd: str, agent: str | None) -> str | None:
    config = load_config(cwd, os.environ).require_valid()
    return plan_agent(config, agent or config.agent).model


# ── existing sessions ────────────────────────────────────────────────────────────────────────────


def apply_settings(session: Session, overrides: Overrides, list_tools: ListTools) -> None:
    """Append changed settings to a session, after checking that its model can be used.

    `Conflict` if settings change while the session is being run.
    """
    if overrides == Overrides() and session.store.held(session.name) is not None:
        # No settings were given, and the process that runs the session uses those it began with.
        return
    check_files(session)
    state = branch_state(session.branch())
    if state.context is None:
        model_choice, plan = _plan_unconfigured_session(session, state, overrides)
        check_model_choice(model_choice)
        _check_not_running(session)
        _build_agent(overrides, plan, session.tree.header.cwd, list_tools).enter(session)
        return
    provider, model = _parse_model(overrides.model or _model_in_force(session, state))
    context = _adapt_to_model(_apply_overrides(session, state.context, overrides), state, provider, model)
    check_model_choice(ModelChoice(provider, model, context.params, overrides.resume))
    check_model_policy(provider, model, policy_in_force(context), context.params)
    context = _with_known_approvals(session, _add_reachable_servers(session, context, list_tools), overrides)
    in_force = ModelInForce.of(open_configured_provider, provider, model)
    context = with_environment(context, cwd=session.tree.header.cwd, model=in_force)
    # Redacted before the comparison with the log, so that an unchanged entry is not written again.
    context = redact_entry(context, rule=policy_in_force(context).redact)
    if (provider, model) != (state.provider, state.model):
        _check_not_running(session)
        session.append(ModelChange(model=model, provider=provider))
    if canonical_json(context) != canonical_json(state.context.without_envelope):
        _check_not_running(session)
        session.append(context)


def _with_known_approvals(session: Session, context: ContextEntry, overrides: Overrides) -> ContextEntry:
    """Return the settings. If they ask about a tool that does not exist, the configuration says which tools ask.

    Nothing else can correct a name in the log of a session. `UsageError` if the configuration has such a name too.
    """
    tools, policy, header = ToolDeclarations(session.store.blobs), policy_in_force(context), session.tree.header
    error = tools.approvals_error(context, policy)
    if error is None:
        return context
    config = load_config(header.cwd, os.environ).require_valid()
    configured = overrides.policy(plan_agent(config, header.agent or config.agent).policy)
    policy = msgspec.structs.replace(policy, approval=configured.approval, approvals=configured.approvals)
    error_in_config = tools.approvals_error(context, policy)
    if error_in_config is not None:
        raise error_in_config
    notify(f"{error.message}; the session now has the approvals of the configuration")
    return with_policy(context, policy)


def configure_if_never_run(session: Session, decision: Decision | None) -> None:
    """Append the configured settings of its agent to a session that has none and is about to call a model.

    `new`, `append` and `import` make such a session. Another one that names a model has all it needs, and keeps it.
    """
    state, header = branch_state(session.branch()), session.tree.header
    has_own_model = state.model is not None and IMPORTED_SETTING not in state.settings
    if state.context is not None or has_own_model or decision is None or not needs_model(decision):
        return
    if _configured_model(header.cwd, header.agent or None) is not None:
        with EventLoopRunner() as loop:
            apply_settings(session, Overrides(), loop.list_tools)


def _model_in_force(session: Session, state: BranchState) -> str:
    """Return the model in force according to the log, else the configured one."""
    if state.provider and state.model:
        return f"{state.provider}:{state.model}"
    header = session.tree.header
    return _default_model(header.cwd, header.agent or None)


def _check_not_running(session: Session) -> None:
    if session.store.held(session.name) is not None:
        raise Conflict(
            f"{session.name} is being run: its settings cannot be changed now",
            hint="without the options the message waits in its queue",
        )


def _adapt_to_model(context: ContextEntry, state: BranchState, provider: str, model: str) -> ContextEntry:
    """Return the settings for a model: another model gets its own price, another provider its own endpoint."""
    if (provider, model) == (state.provider, state.model):
        return context
    config = load_config("", os.environ).require_valid()
    price = config.prices.get(f"{provider}:{model}")
    exact = price.exact if price is not None else None
    context = with_policy(context, msgspec.structs.replace(policy_in_force(context), price=exact))
    if provider == state.provider:
        return context
    configured = config.providers.get(provider)
    params = {**context.params, "endpoint": configured.base_url if configured is not None else None}
    return msgspec.structs.replace(context, params={key: value for key, value in params.items() if value is not None})


def _apply_overrides(session: Session, before: ContextEntry, overrides: Overrides) -> ContextEntry:
    """Return the settings in force with the given changes, and with the current instruction files."""
    context, policy = before.without_envelope, overrides.policy(policy_in_force(before))
    blobs = session.store.blobs
    if overrides.tools is not None:
        declared = declared_tools(blobs, context.tools, before.id)
        shipped = _make_tools(_tool_names(overrides), "", declared_profiles(declared))
        tools = (*shipped, *mcp_tools(declared, ServerPool()).values())
        left_out = {tool.get("name") for tool in declared} - {tool.name for tool in tools} - {*TOOL_NAMES}
        kept = {tool: how for tool, how in policy.approvals.items() if tool not in left_out}
        policy = msgspec.structs.replace(policy, approvals=kept)
        context = msgspec.structs.replace(
            context, tools=store_declarations(session.store, tools, session.known_secrets, redacts=policy.redacts)
        )
    if overrides.system is not None or policy.instructions:
        own = Instructions(sources=context.sources).system_part(blob_text(blobs, context.system, before.id))
        system, sources = store_instructions(
            blobs,
            session.tree.header.cwd,
            own if overrides.system is None else overrides.system,
            policy,
            session.known_secrets,
        )
        context = msgspec.structs.replace(context, system=system, sources=sources)
    return with_policy(context, policy)


def _add_reachable_servers(session: Session, context: ContextEntry, list_tools: ListTools) -> ContextEntry:
    """Return the context entry with the tools of servers that are reachable now; unchanged if there are none."""
    absent = absent_servers(context.environment)
    found = list_tools(absent, session.tree.header.cwd) if absent else ListedTools()
    if len(found.absent) == len(absent):
        return context
    blobs, redacts = session.store.blobs, policy_in_force(context).redacts
    before = declared_tools(blobs, context.tools, context.id)
    names = {tool.get("name") for tool in before}
    new: Any = [dict(tool_declaration(tool)) for tool in found.tools if tool.name not in names]
    declarations = [*before, *(redact_value(new, "keys", session.known_secrets)[0] if redacts else new)]
    others = {key: value for key, value in context.environment.items() if key != ABSENT_SERVERS}
    return msgspec.structs.replace(
        context,
        tools=blobs.put(canonical_json(declarations), "application/json") if declarations else None,
        environment={**others, **absent_servers_item(found.absent, redacts=redacts)},
    )


# ── models and tools ─────────────────────────────────────────────────────────────────────────────


def _parse_model(text: str) -> tuple[str, str]:
    """Return provider and model name. The path of a script is made absolute, so that it works in any folder."""
    provider, model = split_model(text)
    check_provider_name(provider)
    return provider, os.path.abspath(os.path.expanduser(model)) if provider == "scripted" else model


def _tool_names(overrides: Overrides, configured: Sequence[str] | None = None) -> Sequence[str]:
    """Return the given tool names, else the configured ones, else all. `UsageError` for an unknown name."""
    if overrides.tools is None:
        return TOOL_NAMES if configured is None else configured
    names = (
        () if overrides.tools == "none" else tuple(dict.fromkeys(name.strip() for name in overrides.tools.split(",")))
    )
    for name in names:
        if name not in TOOL_NAMES:
            raise UsageError(f"unknown tool {name!r}", hint=f"use {', '.join(TOOL_NAMES)}, or `none`")
    return names


def _make_tools(
    names: Sequence[str], cwd: str, others: Mapping[str, SubagentProfile] | None = None
) -> tuple[Tool, ...]:
    """Return the tools of these names; the sub-agent tool gets the `others`."""
    shipped = {tool.name: tool for tool in builtin_tools(cwd, [name for name in names if name in BUILTIN_NAMES])}
    return tuple(shipped.get(name, SubagentTool(others)) for name in names)


def config_for_model(cwd: str, *, model: str, quiet: bool = False) -> Config:
    """Return the configuration of a folder with the requested model. Prints what was left out, unless `quiet`."""
    loaded = load_config(cwd, os.environ, {"--model": model})
    for notice in () if quiet else loaded.notices:
        notify(notice.message)
    return loaded.require_valid()

"""Settings of the command line, and how they get into a log: only what was given changes.

Rule 1 (law 2, the log is the only state): settings in force are in the log. A new session begins with all of them; in
an existing one, settings that were not given stay, and if nothing changes nothing is written.
Rule 2: the tools of a library user run without approval by default; at a command line read-only tools run at once, and
all others ask first.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from wakelog.agent import ABSENT, Agent, absence, check_model_policy, store_declarations, told
from wakelog.cli.configured import Meant, check_likely, check_meant, configured
from wakelog.cli.failures import note
from wakelog.cli.serving import Found
from wakelog.config import Plan, load_config, plan_of
from wakelog.config.names import TOOL_NAMES
from wakelog.config.shape import quoted
from wakelog.config.values import DEFAULT_AGENT
from wakelog.decide.policy import Approval, Policy, policy_in_force, policy_written
from wakelog.errors import Conflict, UsageError
from wakelog.instructions import Instructions, store_instructions
from wakelog.log.codec import canonical
from wakelog.log.entry import ContextEntry, ModelChange
from wakelog.ports import Store, Tool
from wakelog.projections.state import BranchState, branch_state
from wakelog.providers import check_known, split_model
from wakelog.redaction.redactor import redact, redact_value
from wakelog.runtime.checks import check_custody, check_store_custody
from wakelog.runtime.model_request import declared_tools, text_of
from wakelog.session import Session
from wakelog.tools import BUILTIN_NAMES, builtin_tools
from wakelog.tools.mcp import Servers, mcp_tools
from wakelog.tools.subagent import SubagentProfile, SubAgentTool, others_in

_HOW_TO_NAME_ONE = (
    "set ANTHROPIC_API_KEY and say --model anthropic:NAME (or OPENAI_API_KEY and openai:NAME), or try --model demo"
)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
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
        approval = _unasked(before.approval)
        by_tool = {tool: _unasked(how) for tool, how in before.approvals.items()}
        said: dict[str, Any] = {
            "compact_at": self.compact_at,
            "strategy": self.strategy,
            "unknown": self.unknown,
            "reasoning": self.reasoning,
            "redact": self.redact,
            "cut": "resume" if self.resume else None,
            "approval": approval if self.yes else None,
            "approvals": {tool: how for tool, how in by_tool.items() if how != approval} if self.yes else None,
        }
        return msgspec.structs.replace(before, **{key: value for key, value in said.items() if value is not None})


def _unasked(how: Approval) -> Approval:
    """Return the approval mode without questions: `ask` becomes `auto`; other modes stay."""
    return "auto" if how == "ask" else how


def checked(terms: Terms, session: Session | None = None, *, cwd: str = "", agent: str | None = None) -> Meant:
    """Return the model for a session or a new one, after a quick check that it can be used. Writes nothing."""
    _tool_names(terms)
    found = meant(terms, session, cwd=cwd, agent=agent)
    check_likely(found)
    return found


def meant(terms: Terms, session: Session | None = None, *, cwd: str = "", agent: str | None = None) -> Meant:
    """Return the model for a session or a new one, without checking it."""
    if session is None:
        return _plan(terms, agent=agent, cwd=cwd, quiet=True)[0]
    state = branch_state(session.branch())
    if state.context is None:
        return _plan_of_session(session, state, terms, quiet=True)[0]
    provider, model = _named(terms.model or _said(session, state))
    return Meant(provider, model, _for_model(state.context, state, provider, model).params, terms.resume)


# ── new sessions ─────────────────────────────────────────────────────────────────────────────────


Served: TypeAlias = Callable[[Sequence[Mapping[str, Any]], str], Found]
"""Returns the tools of MCP servers, given the servers' configuration values and the session's folder."""


def begin(store: Store, terms: Terms, *, agent: str | None, sender: str, cwd: str, served: Served) -> Session:
    """Create a session with all its settings, from configuration and command line, so that it can be woken anywhere."""
    check_store_custody(store)
    model, plan = _plan(terms, agent=agent, cwd=cwd)
    check_meant(model)
    return _made(terms, plan, cwd, served).begin(store, sender=sender, cwd=cwd)


def servers_for(terms: Terms, session: Session | None, *, agent: str | None, cwd: str) -> Sequence[Mapping[str, Any]]:
    """Return the MCP servers to ask for tools now: all for a new session, else those that were absent before."""
    if session is None:
        return _plan(terms, agent=agent, cwd=cwd, quiet=True)[1].servers
    state = branch_state(session.branch())
    if state.context is not None:
        return _absent(state.context)
    return _plan_of_session(session, state, terms, quiet=True)[1].servers


Planned: TypeAlias = tuple[Meant, Plan]
"""The model, and all other configured settings."""


def _plan(terms: Terms, *, agent: str | None, cwd: str, model: str = "", quiet: bool = False) -> Planned:
    """Return the model and the configured settings of a new session. `model` is the model that its log names."""
    provider, name = _named(terms.model or model or _default_model(cwd, agent))
    config = configured(cwd, model=f"{provider}:{name}", quiet=quiet)
    plan = plan_of(config, agent or config.agent)
    if config.agents and plan.name not in (*config.agents, DEFAULT_AGENT) and not quiet:
        note(f"no agent {quoted(plan.name)} is configured: it works with what holds for all")
    return Meant(provider, name, plan.params, terms.resume), plan


def _plan_of_session(session: Session, state: BranchState, terms: Terms, *, quiet: bool = False) -> Planned:
    """Like `_plan`, for an existing session that was never run and has no settings yet."""
    card = session.tree.card
    model = f"{state.provider}:{state.model}" if state.provider and state.model else ""
    return _plan(terms, agent=card.agent or None, cwd=card.cwd, model=model, quiet=quiet)


def _made(terms: Terms, plan: Plan, cwd: str, served: Served) -> Agent:
    shipped = _tools(_tool_names(terms, plan.tools), cwd, _others(terms, plan, cwd))
    found = served(plan.servers, cwd)
    return Agent(
        model=plan.model or "",
        name=plan.name,
        system=plan.system if terms.system is None else terms.system,
        tools=(*shipped, *found.tools),
        absent=found.absent,
        params=plan.params,
        policy=terms.policy(plan.policy),
    )


def _others(terms: Terms, plan: Plan, cwd: str) -> dict[str, SubagentProfile]:
    """Return the other configured agents that this agent can start as sub-agents, with their initial settings."""
    options = {"--model": plan.model} if terms.model is not None and plan.model is not None else {}
    config = load_config(cwd, os.environ, options).sound()
    return {name: _other(plan_of(config, name), terms) for name in config.agents if name != plan.name}


def _other(plan: Plan, terms: Terms) -> SubagentProfile:
    policy = Terms(yes=terms.yes).policy(plan.policy)
    return SubagentProfile(
        model=plan.model,
        system=redact(plan.system, policy.redact).text,
        tools=tuple(dict(told(tool)) for tool in _tools(TOOL_NAMES if plan.tools is None else plan.tools, "")),
        servers=tuple(server["name"] for server in plan.servers),
        params=plan.params,
        policy=policy_written(policy),
    )


def _default_model(cwd: str, agent: str | None) -> str:
    """Return the configured model. `UsageError` if there is none; there is no built-in default."""
    config = load_config(cwd, os.environ).sound()
    found = plan_of(config, agent or config.agent).model
    if found is None:
        raise UsageError("no model is named", hint=_HOW_TO_NAME_ONE)
    return found


# ── existing sessions ────────────────────────────────────────────────────────────────────────────


def agree(session: Session, terms: Terms, served: Served) -> None:
    """Append changed settings to a session, after checking that its model can be used.

    `Conflict` if settings change while the session is being run.
    """
    if terms == Terms() and session.store.held(session.name) is not None:
        # No settings were given, and the process that runs the session uses those it began with.
        return
    check_custody(session)
    state = branch_state(session.branch())
    if state.context is None:
        begun, plan = _plan_of_session(session, state, terms)
        check_meant(begun)
        _check_free(session)
        _made(terms, plan, session.tree.card.cwd, served).enter(session)
        return
    provider, model = _named(terms.model or _said(session, state))
    record = _for_model(_changed(session, state.context, terms), state, provider, model)
    check_meant(Meant(provider, model, record.params, terms.resume))
    check_model_policy(provider, model, policy_in_force(record), record.params)
    record = _with_servers(session, record, served)
    if (provider, model) != (state.provider, state.model):
        _check_free(session)
        session.append(ModelChange(model=model, provider=provider))
    if canonical(record) != canonical(state.context.bare):
        _check_free(session)
        session.append(record)


def _said(session: Session, state: BranchState) -> str:
    """Return the model in force according to the log, else the configured one."""
    if state.provider and state.model:
        return f"{state.provider}:{state.model}"
    card = session.tree.card
    return _default_model(card.cwd, card.agent or None)


def _check_free(session: Session) -> None:
    if session.store.held(session.name) is not None:
        raise Conflict(
            f"{session.name} is being run: what it works with cannot be changed now",
            hint="leave the options out, and the message waits in its queue",
        )


def _for_model(record: ContextEntry, state: BranchState, provider: str, model: str) -> ContextEntry:
    """Return the settings for a model: another model gets its own price, another provider its own endpoint."""
    if (provider, model) == (state.provider, state.model):
        return record
    config = load_config("", os.environ).sound()
    price = config.prices.get(f"{provider}:{model}")
    exact = price.exact if price is not None else None
    record = _with_policy(record, msgspec.structs.replace(policy_in_force(record), price=exact))
    if provider == state.provider:
        return record
    said = config.providers.get(provider)
    params = {**record.params, "endpoint": said.base_url if said is not None else None}
    return msgspec.structs.replace(record, params={key: value for key, value in params.items() if value is not None})


def _changed(session: Session, before: ContextEntry, terms: Terms) -> ContextEntry:
    """Return the settings in force with the given changes, and with the current instruction files."""
    record, policy = before.bare, terms.policy(policy_in_force(before))
    blobs = session.store.blobs
    if terms.tools is not None:
        declared = declared_tools(blobs, record.tools)
        shipped = _tools(_tool_names(terms), "", others_in(declared))
        tools = (*shipped, *mcp_tools(declared, Servers()).values())
        record = msgspec.structs.replace(record, tools=store_declarations(session.store, tools, redacts=policy.redacts))
    if terms.system is not None or policy.instructions:
        own = Instructions(sources=record.sources).system_part(text_of(blobs, record.system))
        system, sources = store_instructions(
            blobs, session.tree.card.cwd, own if terms.system is None else terms.system, policy
        )
        record = msgspec.structs.replace(record, system=system, sources=sources)
    return _with_policy(record, policy)


def _absent(record: ContextEntry) -> list[Mapping[str, Any]]:
    """Return the MCP servers that the log records as absent."""
    values = record.environment.get(ABSENT)
    named = values if isinstance(values, list | tuple) else ()
    return [value for value in named if isinstance(value, Mapping) and isinstance(value.get("name"), str)]


def _with_servers(session: Session, record: ContextEntry, served: Served) -> ContextEntry:
    """Return the record with the tools of servers that are reachable now; unchanged if there are none."""
    absent = _absent(record)
    found = served(absent, session.tree.card.cwd) if absent else Found()
    if len(found.absent) == len(absent):
        return record
    blobs, redacts = session.store.blobs, policy_in_force(record).redacts
    before = declared_tools(blobs, record.tools)
    names = {tool.get("name") for tool in before}
    new: Any = [dict(told(tool)) for tool in found.tools if tool.name not in names]
    told_now = [*before, *(redact_value(new, "keys")[0] if redacts else new)]
    others = {key: value for key, value in record.environment.items() if key != ABSENT}
    return msgspec.structs.replace(
        record,
        tools=blobs.put(canonical(told_now), "application/json") if told_now else None,
        environment={**others, **absence(found.absent, redacts=redacts)},
    )


def _with_policy(record: ContextEntry, policy: Policy) -> ContextEntry:
    """Return the record with another policy; unchanged if the policy is the same."""
    if policy == policy_in_force(record):
        return record
    environment = {**record.environment, "approvalPolicy": policy.approval}
    return msgspec.structs.replace(record, policy=policy_written(policy), environment=environment)


def allow_always(session: Session, tool: str) -> None:
    """Let a tool run without approval from now on, if it needed approval before."""
    if policy_in_force(branch_state(session.branch()).context).approval_of(tool) == "ask":
        _approve(session, tool, "auto")


def ask_again(session: Session, tool: str) -> None:
    """Make a tool ask for approval from now on. `UsageError` if the session has no such tool."""
    names = [str(declared.get("name", "")) for declared in _declared(session)]
    if tool not in names:
        raise UsageError(f"no tool is called {tool!r} here", hint=f"there are {', '.join(names)}" if names else "")
    _approve(session, tool, "ask")


def unasked(session: Session) -> list[str]:
    """Return the tools that run without approval."""
    policy = policy_in_force(branch_state(session.branch()).context)
    names = [str(declared.get("name", "")) for declared in _declared(session)]
    return [name for name in names if policy.approval_of(name) == "auto"]


def _declared(session: Session) -> Sequence[Mapping[str, Any]]:
    record = branch_state(session.branch()).context
    return declared_tools(session.store.blobs, record.tools) if record is not None else ()


def _approve(session: Session, tool: str, how: Approval) -> None:
    record = branch_state(session.branch()).context or ContextEntry()
    policy = policy_in_force(record)
    if policy.approval_of(tool) != how:
        approvals = {**policy.approvals, tool: how}
        session.append(_with_policy(record.bare, msgspec.structs.replace(policy, approvals=approvals)))


# ── models and tools ─────────────────────────────────────────────────────────────────────────────


def _named(text: str) -> tuple[str, str]:
    """Return provider and model name. The path of a script is made absolute, so that it works in any folder."""
    provider, model = split_model(text)
    check_known(provider)
    return provider, os.path.abspath(os.path.expanduser(model)) if provider == "scripted" else model


def _tool_names(terms: Terms, configured: Sequence[str] | None = None) -> Sequence[str]:
    """Return the given tool names, else the configured ones, else all. `UsageError` for an unknown name."""
    if terms.tools is None:
        return TOOL_NAMES if configured is None else configured
    names = () if terms.tools == "none" else tuple(dict.fromkeys(name.strip() for name in terms.tools.split(",")))
    for name in names:
        if name not in TOOL_NAMES:
            raise UsageError(f"no tool is called {name!r}", hint=f"there are {', '.join(TOOL_NAMES)}, or `none`")
    return names


def _tools(names: Sequence[str], cwd: str, others: Mapping[str, SubagentProfile] | None = None) -> tuple[Tool, ...]:
    """Return the tools of these names; the sub-agent tool gets the `others`."""
    shipped = {tool.name: tool for tool in builtin_tools(cwd, [name for name in names if name in BUILTIN_NAMES])}
    return tuple(shipped.get(name, SubAgentTool(others)) for name in names)

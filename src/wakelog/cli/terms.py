"""What a command line asks of an agent, and how that gets into a log: only what is said changes.

Rule 1 (law 2): what is in force stands in the log. A new session begins with everything; in one that is there
already, what was not said stays as it is, and where nothing new was said nothing is written.
Rule 2: a program's own tools run unless it says otherwise; at a command line what only looks runs at once, and
everything else asks first.
"""

import os
from typing import Any

import msgspec

from wakelog.acts.requests import text_of
from wakelog.agent import Agent, tools_told
from wakelog.cli.configured import check_askable, configured, open_configured, tools_of
from wakelog.config import ASKS_FIRST, load_config, plan_of
from wakelog.errors import Conflict, UsageError
from wakelog.instructions import Instructions, load_instructions, user_instructions
from wakelog.log.codec import canonical
from wakelog.log.entry import ContextRecord, ModelChange
from wakelog.ports import Store, Tool
from wakelog.providers import split_model
from wakelog.session import Session
from wakelog.tools import BUILTIN_NAMES, builtin_tools
from wakelog.tools.subagent import SUBAGENT_NAME, SubAgentTool
from wakelog.turn.policy import Policy, policy_in_force, policy_written
from wakelog.turn.redaction import redact
from wakelog.views.state import branch_state

_HOW_TO_NAME_ONE = (
    "set ANTHROPIC_API_KEY and say --model anthropic:NAME (or OPENAI_API_KEY and openai:NAME), or try --model demo"
)
TOOL_NAMES = (*BUILTIN_NAMES, SUBAGENT_NAME)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What was said; None where nothing was."""

    model: str | None = None
    system: str | None = None
    tools: str | None = None
    yes: bool = False
    compact_at: int | None = None
    strategy: str | None = None
    unknown: str | None = None
    resume: bool = False

    def policy(self, before: Policy) -> Policy:
        """The agreements, on top of those before."""
        said: dict[str, Any] = {
            "compact_at": self.compact_at,
            "strategy": self.strategy,
            "unknown": self.unknown,
            "cut": "resume" if self.resume else None,
            "approval": "auto" if self.yes else None,
            "approvals": {} if self.yes else None,
        }
        return msgspec.structs.replace(before, **{key: value for key, value in said.items() if value is not None})


def checked(terms: Terms, session: Session | None = None, *, cwd: str = "", agent: str | None = None) -> str:
    """The model that would answer, in a session or in a new one, and that it can be asked at all; writes nothing."""
    _tools(terms.tools, "")
    in_force = _in_force(session) if session is not None else ""
    provider, model = _known(terms.model or in_force or _default_model(cwd, agent), resume=terms.resume)
    if session is None:
        config = load_config(cwd or os.getcwd(), os.environ, {"--model": f"{provider}:{model}"}).sound()
        params = plan_of(config, agent or config.agent).params
    else:
        context = branch_state(session.branch()).context
        params = _at_its_endpoint(context, provider, in_force.partition(":")[0]).params if context is not None else {}
    check_askable(provider, model, params)
    return f"{provider}:{model}"


def _in_force(session: Session) -> str:
    state = branch_state(session.branch())
    return f"{state.provider}:{state.model}" if state.provider and state.model else _default_model("")


def begin(store: Store, terms: Terms, *, agent: str | None, sender: str, cwd: str) -> Session:
    """A new session, with everything it needs to be woken anywhere: as it is configured, and as was said."""
    provider, model = _known(terms.model or _default_model(cwd, agent), resume=terms.resume)
    config = configured(cwd, model=f"{provider}:{model}")
    plan = plan_of(config, agent or config.agent)
    check_askable(provider, model, plan.params)
    names = terms.tools if terms.tools is not None or plan.tools is None else ",".join(plan.tools) or "none"
    made = Agent(
        model=f"{provider}:{model}",
        name=plan.name,
        system=plan.system if terms.system is None else terms.system,
        tools=(*_tools(names, cwd), *tools_of(plan.servers, cwd)),
        params=plan.params,
        policy=terms.policy(plan.policy),
        instructions=plan.instructions,
    )
    return made.begin(store, sender=sender, cwd=cwd)


def agree(session: Session, terms: Terms) -> None:
    """Writes into a session what is new; checks that its model can be asked at all."""
    state = branch_state(session.branch())
    provider, model = _known(terms.model or _in_force(session), resume=terms.resume)
    record = _at_its_endpoint(_changed(session, state.context, terms), provider, state.provider)
    check_askable(provider, model, record.params)
    if (provider, model) != (state.provider, state.model):
        _change(session, ModelChange(model=model, provider=provider))
    if state.context is None or canonical(record) != canonical(_bare(state.context)):
        _change(session, record)


def _at_its_endpoint(record: ContextRecord, provider: str, before: str | None) -> ContextRecord:
    """A model of another provider is asked where that one is."""
    if provider == before or "endpoint" not in record.params:
        return record
    params = {key: value for key, value in record.params.items() if key != "endpoint"}
    said = load_config(os.getcwd(), os.environ).sound().providers.get(provider)
    more = {"endpoint": said.base_url} if said is not None and said.base_url else {}
    return msgspec.structs.replace(record, params={**params, **more})


def allow_always(session: Session, tool: str) -> None:
    """From here on a tool runs without being asked about."""
    record = branch_state(session.branch()).context or ContextRecord()
    policy = policy_in_force(record)
    if policy.approval_of(tool) != "auto":
        approvals = {**policy.approvals, tool: "auto"}
        policy = msgspec.structs.replace(policy, approvals=approvals)
        session.append(msgspec.structs.replace(_bare(record), policy=policy_written(policy)))


def _change(session: Session, body: ContextRecord | ModelChange) -> None:
    if session.store.held(session.name) is not None:
        raise Conflict(
            f"{session.name} is being run: what it works with cannot be changed now",
            hint="leave the options out, and the message waits in its queue",
        )
    session.append(body)


def _changed(session: Session, before: ContextRecord | None, terms: Terms) -> ContextRecord:
    record = _bare(before or ContextRecord())
    policy = terms.policy(policy_in_force(before) if before is not None else ASKS_FIRST)
    if terms.tools is not None or before is None:
        record = msgspec.structs.replace(record, tools=tools_told(session.store, _tools(terms.tools, "")))
    if terms.system is not None or record.sources:
        record = _instructed(session, record, terms.system, is_redacted=policy.redact)
    if before is not None and policy == policy_in_force(before):
        return record
    environment = {**record.environment, "approvalPolicy": policy.approval}
    return msgspec.structs.replace(record, policy=policy_written(policy), environment=environment)


def _instructed(session: Session, record: ContextRecord, said: str | None, *, is_redacted: bool) -> ContextRecord:
    """The instructions: what was said now or stood there, and the files as they are now, if they were read before."""
    store = session.store
    before = Instructions(sources=record.sources)
    own = said if said is not None else before.own_words(text_of(store.blobs, record.system))
    cwd = str(record.environment.get("cwd") or os.getcwd())
    loaded = load_instructions(cwd, user_file=user_instructions(os.environ)) if record.sources else before
    system = loaded.behind(own)
    system = redact(system).text if is_redacted else system
    blob = store.blobs.put(system.encode(), "text/plain") if system else None
    return msgspec.structs.replace(record, system=blob, sources=loaded.sources)


def _bare(record: ContextRecord) -> ContextRecord:
    """A record without its envelope: what it says, not where it stands."""
    return msgspec.structs.replace(record, id="", parent_id=None, timestamp="", turn_id=None, v=None, seq=None)


def _default_model(cwd: str, agent: str | None = None) -> str:
    """The model that is configured; there is none that would be right for everybody."""
    config = load_config(cwd or os.getcwd(), os.environ).sound()
    found = plan_of(config, agent or config.agent).model
    if found is None:
        raise UsageError("no model is named", hint=_HOW_TO_NAME_ONE)
    return found


def _known(text: str, *, resume: bool) -> tuple[str, str]:
    """A model that can be asked, before anything is written; a script by its whole path, so that any folder will do."""
    provider, model = split_model(text)
    if provider == "scripted":
        model = os.path.abspath(os.path.expanduser(model))
    opened = open_configured(provider, model)
    if resume and not opened.can_resume:
        raise UsageError(f"{text} cannot go on with a reply that was cut", hint="leave --resume out")
    return provider, model


def _tools(names: str | None, cwd: str) -> tuple[Tool, ...]:
    """The tools of these names, separated by commas; all of them by default."""
    if names is None:
        wanted = TOOL_NAMES
    else:
        wanted = () if names == "none" else tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in wanted:
        if name not in TOOL_NAMES:
            raise UsageError(f"no tool is called {name!r}", hint=f"there are {', '.join(TOOL_NAMES)}, or `none`")
    shipped = {tool.name: tool for tool in builtin_tools(cwd, [name for name in wanted if name in BUILTIN_NAMES])}
    return tuple(shipped.get(name, SubAgentTool()) for name in wanted)

"""Subagents as sessions of the same store: create the child, write its settings and prompt, wake it, cancel it.

The child's log is its receipt: it is woken like any session, and its last reply is the result.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from wakelog.decide import wording
from wakelog.decide.decisions import Await, Idle
from wakelog.decide.policy import Approval, Policy, policy_in_force, redact_mode
from wakelog.errors import Conflict, NotFound, Untrusted, WakelogError
from wakelog.log.codec import canonical_json
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import ContextEntry, Failed, Message, Origin, Queued
from wakelog.log.tree import Branch
from wakelog.ports.runtime import ToolOutcome
from wakelog.ports.stores import Blobs
from wakelog.runtime.checks import check_files, check_provider
from wakelog.runtime.context_entry import ModelInForce, absent_servers, build_context_entry, with_environment
from wakelog.runtime.interface import Runtime, SubagentTask
from wakelog.runtime.model_request import declared_tools
from wakelog.runtime.step import decide_now
from wakelog.runtime.wake import WakeReport, check_first_decision, is_waiting, wake
from wakelog.session import Session
from wakelog.tools.mcp.conversion import may_be_tool_of
from wakelog.tools.subagent import SUBAGENT_NAME, SubagentProfile


async def run_subagent(runtime: Runtime, task: SubagentTask) -> ToolOutcome | None:
    """See `Runtime.run_subagent`. Creates the child and writes its task where that is not done yet, then wakes it."""
    child = Session.create(
        runtime.store,
        agent=task.agent,
        sender=task.sender,
        cwd=task.cwd,
        model=task.model,
        provider=task.provider,
        parent=Origin(session=task.parent_session, entry=task.reply_id, kind="subagent"),
        session_id=task.child_session,
        clock=runtime.clock,
        redact=policy_in_force(task.context).redact,
    )
    _write_settings_and_prompt(child, task, runtime)
    try:
        report = await wake(runtime.with_changes(channels={}), child.name)
    except Conflict:
        return None
    return None if isinstance(report.decision, Await) else _child_outcome(child.branch(), report)


def _write_settings_and_prompt(child: Session, task: SubagentTask, runtime: Runtime) -> None:
    """Append the settings and the prompt of a child, each only if it has none yet."""
    nodes = child.branch().nodes
    if task.context is not None and not any(isinstance(node.value, ContextEntry) for node in nodes):
        settings = _child_settings(task.context)
        if task.profile is not None:
            settings = _other_agent_settings(task.profile, settings, child, runtime.store.blobs)
        model = ModelInForce.of(runtime.open_provider, task.provider or "", task.model or "")
        child.append(with_environment(settings, cwd=task.cwd, model=model))
    if not any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in nodes):
        child.append(Message(message=Prompt(content=(Text(text=task.prompt),))))


def _child_settings(context: ContextEntry) -> ContextEntry:
    """Return the parent's settings for its child, with one subagent level less."""
    depth = context.policy.get("children")
    policy = {**context.policy, "children": depth - 1 if isinstance(depth, int) else 0}
    if "redact" in policy:
        policy["redact"] = redact_mode(policy["redact"])
    return msgspec.structs.replace(context.without_envelope, policy=policy)


def _other_agent_settings(other: SubagentProfile, sender: ContextEntry, child: Session, blobs: Blobs) -> ContextEntry:
    """Return the settings of another agent as declared in the parent's log, with the levels of the parent's child."""
    depth = policy_in_force(sender).children
    tools = _tools_of_other_agent(other, declared_tools(blobs, sender.tools, sender.id))
    policy = policy_in_force(ContextEntry(policy=other.policy))
    policy = msgspec.structs.replace(policy, children=depth, approvals=_approvals(other, policy, tools, sender))
    settings = build_context_entry(
        blobs,
        cwd=child.tree.header.cwd,
        system=other.system,
        tools=blobs.put(canonical_json(tools), "application/json") if tools else None,
        params=_params_of_other_agent(other, sender.params),
        policy=policy,
        known=child.known_secrets,
    )
    return msgspec.structs.replace(settings, environment=sender.environment)


def _params_of_other_agent(other: SubagentProfile, sender: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of another agent. Without its own model it uses the parent's, at the same endpoint."""
    endpoint = {"endpoint": sender["endpoint"]} if other.model is None and "endpoint" in sender else {}
    return {**endpoint, **other.params}


def _tools_of_other_agent(other: SubagentProfile, sender: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tools of another agent: its own (`agent` as the parent has it), and the parent's of shared servers."""
    same = {tool.get("name"): tool for tool in sender if tool.get("name") == SUBAGENT_NAME}
    own = [same.get(tool.get("name"), tool) for tool in other.tools]
    return [*own, *(tool for tool in sender if _server_name(tool) in other.servers)]


def _approvals(
    other: SubagentProfile, policy: Policy, tools: Sequence[Mapping[str, Any]], sender: ContextEntry
) -> dict[str, Approval]:
    """Return the approvals of another agent, without those for tools of servers that the parent does not have."""
    known = {*map(_server_name, tools), *(server["name"] for server in absent_servers(sender.environment))}
    missing = [server for server in other.servers if server not in known]
    return {
        name: how
        for name, how in policy.approvals.items()
        if not any(may_be_tool_of(server, name) for server in missing)
    }


def _server_name(tool: Mapping[str, Any]) -> Any:
    """Return the name of the MCP server that a declared tool comes from; None if there is none."""
    origin = tool.get("from")
    server = origin.get("mcp") if isinstance(origin, Mapping) else None
    return server.get("name") if isinstance(server, Mapping) else None


def _child_outcome(branch: Branch, report: WakeReport) -> ToolOutcome:
    """Return the outcome of an idle child: its last reply, or how it failed."""
    if isinstance(report.decision, Idle) and report.decision.outcome != "done":
        faults = [node.value for node in branch.nodes if isinstance(node.value, Failed)]
        message = faults[-1].error.message if faults and faults[-1].error else report.decision.outcome
        return ToolOutcome(wording.CHILD_FAILED.format(message=message), is_error=True)
    return ToolOutcome(report.text or wording.CHILD_WITHOUT_REPLY, is_error=not report.text)


def is_subagent_blocked(runtime: Runtime, child: str) -> bool:
    """See `Runtime.is_subagent_blocked`. Writes nothing; False if the child does not exist."""
    session = _open_child(runtime, child)
    if session is None:
        return False
    if runtime.store.held(session.name) is not None:
        return True
    return is_waiting(runtime.with_changes(channels={}), session)


def subagent_error(runtime: Runtime, task: SubagentTask) -> WakelogError | None:
    """See `Runtime.subagent_error`. Checks the child's next step, or, before it exists, the model that it would get."""
    inner = runtime.with_changes(channels={})
    try:
        if task.child_session and (child := _open_child(runtime, task.child_session)) is not None:
            check_files(child)
            if runtime.store.held(child.name) is None:
                check_first_decision(inner, child, decide_now(inner, child))
        elif task.model:
            check_provider(runtime.open_provider, task.provider or "", task.model, _new_child_params(task))
    except WakelogError as error:
        return error
    return None


def _new_child_params(task: SubagentTask) -> Mapping[str, Any]:
    """Return the parameters that a new child begins with."""
    sender = task.context.params if task.context is not None else {}
    return sender if task.profile is None else _params_of_other_agent(task.profile, sender)


def _open_child(runtime: Runtime, child: str) -> Session | None:
    try:
        return Session(runtime.store, child, clock=runtime.clock)
    except NotFound:
        return None


async def cancel_subagent(runtime: Runtime, child: str) -> None:
    """See `Runtime.cancel_subagent`. Runs the child until it is idle; does nothing if the child does not exist."""
    session = _open_child(runtime, child)
    if session is None:
        return
    session.append(Queued(mode="cancel"))
    try:
        await wake(runtime.with_changes(channels={}), session.name)
    except (Conflict, Untrusted):
        # A worker that holds the child sees the cancel; a child that may not run here has nothing to stop.
        return

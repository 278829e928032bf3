"""The live runtime: system clock, real models and tools, and subagents as sessions of the same store."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from wakelog.clock import SystemClock
from wakelog.decide import wording as words
from wakelog.decide.clip import storable
from wakelog.decide.decisions import Await, Rest
from wakelog.decide.policy import HookTerms, policy_in_force, policy_written, redact_word
from wakelog.decide.redacted import holds_mark
from wakelog.errors import Conflict, NotFound, Unavailable, Untrusted, UsageError, WakelogError
from wakelog.hooks import OpenCatalog, open_hook
from wakelog.instructions import store_instructions
from wakelog.log.codec import canonical
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import ContextEntry, Failed, Message, Origin, Queued
from wakelog.log.lines import Reader
from wakelog.log.tree import Branch
from wakelog.ports import Blobs, Channel, Clock, Hook, Outcome, RunInfo, Store, Tool
from wakelog.providers import open_provider
from wakelog.redaction.redactor import redact
from wakelog.runtime.checks import check_askable, check_custody
from wakelog.runtime.model_request import declared_tools
from wakelog.runtime.step import decided
from wakelog.runtime.wake import Report, check_first, is_waiting, wake
from wakelog.runtime.world import LEASE_S, OpenProvider, SubagentTask, World
from wakelog.session import Session
from wakelog.stores.retrying import without_retries
from wakelog.tools import as_tools, builtin_tools
from wakelog.tools.mcp import Servers, mcp_tools
from wakelog.tools.subagent import SUBAGENT_NAME, SubagentProfile, SubAgentTool

_LOOK_S = 0.05


def live_world(
    store: Store,
    *,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    channels: Sequence[Channel] = (),
    hooks: Sequence[Hook] = (),
    servers: Servers | None = None,
    catalog: OpenCatalog | None = None,
    provider: OpenProvider = open_provider,
    clock: Clock | None = None,
    holder: str | None = None,
    lease_s: float = LEASE_S,
) -> World:
    """Return the runtime of a real process. `tools` and `hooks` extend the built-in ones and override equal names.

    The `memory` hook searches the `catalog`, which is opened for each search in a separate thread. MCP servers run as
    long as a wake; to keep them longer, pass `servers` and enter them around it.
    """
    given = {tool.name: tool for tool in as_tools(tools)}
    shared = Servers() if servers is None else servers

    def at_hand(cwd: str, declared: Sequence[Mapping[str, Any]]) -> Mapping[str, Tool]:
        shipped = (*builtin_tools(cwd or os.getcwd()), SubAgentTool())
        return {**{tool.name: tool for tool in shipped}, **mcp_tools(declared, shared, cwd), **given}

    return World(
        store=store,
        clock=clock or SystemClock(),
        holder=holder or f"{socket.gethostname()}:{os.getpid()}",
        provider=provider,
        tools=at_hand,
        cancelled=watch_for_cancel,
        news=watch_for_news,
        pause=_pause,
        send=send,
        stuck=stuck,
        recall=recall,
        obstacle=obstacle,
        alive=lambda: shared,
        inject=Injection({hook.name: hook for hook in hooks}, catalog).texts,
        channels={_named(channel): channel for channel in channels},
        lease_s=lease_s,
    )


def _named(channel: Channel) -> str:
    """Return the name of a channel; `UsageError` for a name that would be redacted in the log."""
    if redact(channel.name).hits:
        raise UsageError(
            "the name of a channel has the shape of a secret, and names are written into the log",
            hint="give the channel another name",
        )
    return channel.name


async def _pause(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


class Injection:
    """Texts of hooks before a run. Hooks run once per turn, so that all its requests end in the same text."""

    def __init__(self, given: Mapping[str, Hook], catalog: OpenCatalog | None) -> None:
        self._given = given
        self._catalog = catalog
        self._told: dict[str, tuple[str, tuple[str, ...]]] = {}

    async def texts(self, terms: Sequence[HookTerms], occasion: RunInfo) -> tuple[str, ...]:
        """Return the texts in the order of the hooks, without empty ones."""
        turn, told = self._told.get(occasion.session, ("", ()))
        if turn != occasion.turn_id or not turn:
            said = [await self._text(each, occasion) for each in terms]
            told = tuple(text for text in said if text)
            self._told[occasion.session] = (occasion.turn_id, told)
        return told

    async def _text(self, terms: HookTerms, occasion: RunInfo) -> str:
        if holds_mark(terms.options):
            return words.HOOK_FAILED.format(name=terms.name, why=words.HOOK_REDACTED)
        return await _said(open_hook(terms, self._given, self._catalog), occasion)


async def _said(hook: Hook, occasion: RunInfo) -> str:
    try:
        return storable(await hook.before_run(occasion))
    except Exception as error:  # noqa: BLE001 - a hook may be any code, and raise anything
        return words.HOOK_FAILED.format(name=hook.name, why=storable(str(error)) or type(error).__name__)


async def watch_for_cancel(session: Session, seq: int) -> Queued:
    """Poll the log after `seq` until a cancel is appended; return it. Store outages are waited out without blocking."""
    store = without_retries(session.store)
    while True:
        reader = Reader(next_seq=seq + 1)
        with contextlib.suppress(Unavailable):
            for entry in reader.feed_all(store.load(session.name, after=seq)):
                seq = max(seq, entry.seq)
                if isinstance(entry.value, Queued) and entry.value.mode == "cancel":
                    return entry.value
        await asyncio.sleep(_LOOK_S)


async def watch_for_news(session: Session, seq: int) -> None:
    """Poll the log until any entry is appended after `seq`. Store outages are waited out without blocking."""
    store = without_retries(session.store)
    while True:
        with contextlib.suppress(Unavailable):
            if next(iter(store.load(session.name, after=seq)), None) is not None:
                return
        await asyncio.sleep(_LOOK_S)


# ── subagents ────────────────────────────────────────────────────────────────────────────────────


async def send(world: World, subagent_task: SubagentTask) -> Outcome | None:
    """See `World.send`. Creates the child and writes its task where that is not done yet, then wakes it."""
    child = Session.create(
        world.store,
        agent=subagent_task.agent,
        sender=subagent_task.sender,
        cwd=subagent_task.cwd,
        model=subagent_task.model,
        provider=subagent_task.provider,
        parent=Origin(session=subagent_task.parent, entry=subagent_task.reply_id, kind="subagent"),
        session_id=subagent_task.child,
        clock=world.clock,
        redact=policy_in_force(subagent_task.context).redact,
    )
    _brief(child, subagent_task, world.store.blobs)
    try:
        report = await wake(msgspec.structs.replace(world, channels={}), child.name)
    except Conflict:
        return None
    return None if isinstance(report.decision, Await) else _child_outcome(child.branch(), report)


def _brief(child: Session, subagent_task: SubagentTask, blobs: Blobs) -> None:
    """Append the settings and the prompt of a child, each only if it has none yet."""
    nodes = child.branch().nodes
    if subagent_task.context is not None and not any(isinstance(node.value, ContextEntry) for node in nodes):
        record = _child_settings(subagent_task.context)
        child.append(
            record
            if subagent_task.other is None
            else _other_agent_settings(subagent_task.other, record, subagent_task.cwd, blobs)
        )
    if not any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in nodes):
        child.append(Message(message=Prompt(content=(Text(text=subagent_task.prompt),))))


def _child_settings(record: ContextEntry) -> ContextEntry:
    """Return the parent's settings for its child, with one subagent level less."""
    depth = record.policy.get("children")
    policy = {**record.policy, "children": depth - 1 if isinstance(depth, int) else 0}
    if "redact" in policy:
        policy["redact"] = redact_word(policy["redact"])
    return msgspec.structs.replace(record.bare, policy=policy)


def _other_agent_settings(other: SubagentProfile, sender: ContextEntry, cwd: str, blobs: Blobs) -> ContextEntry:
    """Return the settings of another agent as declared in the parent's log, with the levels of the parent's child."""
    depth = policy_in_force(sender).children
    policy = msgspec.structs.replace(policy_in_force(ContextEntry(policy=other.policy)), children=depth)
    system, sources = store_instructions(blobs, cwd, other.system, policy)
    tools = _tools_of_another(other, declared_tools(blobs, sender.tools))
    return ContextEntry(
        sources=sources,
        environment={**sender.environment, "approvalPolicy": policy.approval},
        system=system,
        tools=blobs.put(canonical(tools), "application/json") if tools else None,
        params=dict(_params_of_another(other, sender.params)),
        policy=policy_written(policy),
    )


def _params_of_another(other: SubagentProfile, sender: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of another agent. Without its own model it uses the parent's, at the same endpoint."""
    endpoint = {"endpoint": sender["endpoint"]} if other.model is None and "endpoint" in sender else {}
    return {**endpoint, **other.params}


def _tools_of_another(other: SubagentProfile, sender: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tools of another agent: its own (`agent` as the parent has it), and the parent's of shared servers."""
    same = {tool.get("name"): tool for tool in sender if tool.get("name") == SUBAGENT_NAME}
    own = [same.get(tool.get("name"), tool) for tool in other.tools]
    return [*own, *(tool for tool in sender if _server(tool) in other.servers)]


def _server(tool: Mapping[str, Any]) -> Any:
    """Return the name of the MCP server that a declared tool comes from; None if there is none."""
    origin = tool.get("from")
    server = origin.get("mcp") if isinstance(origin, Mapping) else None
    return server.get("name") if isinstance(server, Mapping) else None


def _child_outcome(branch: Branch, report: Report) -> Outcome:
    """Return the outcome of a child at rest: its last reply, or how it failed."""
    if isinstance(report.decision, Rest) and report.decision.outcome != "done":
        faults = [node.value for node in branch.nodes if isinstance(node.value, Failed)]
        message = faults[-1].error.message if faults and faults[-1].error else report.decision.outcome
        return Outcome(words.CHILD_FAILED.format(message=message), is_error=True)
    return Outcome(report.text or words.CHILD_SILENT, is_error=not report.text)


def stuck(world: World, child: str) -> bool:
    """See `World.stuck`. Writes nothing; False if the child does not exist."""
    session = _child(world, child)
    if session is None:
        return False
    if world.store.held(session.name) is not None:
        return True
    return is_waiting(msgspec.structs.replace(world, channels={}), session)


def obstacle(world: World, subagent_task: SubagentTask) -> WakelogError | None:
    """See `World.obstacle`. Checks the child's next step, or, before it exists, the model that it would get."""
    inner = msgspec.structs.replace(world, channels={})
    try:
        if subagent_task.child and (child := _child(world, subagent_task.child)) is not None:
            check_custody(child)
            if world.store.held(child.name) is None:
                check_first(inner, child, decided(inner, child))
        elif subagent_task.model:
            check_askable(world.provider, subagent_task.provider or "", subagent_task.model, _params(subagent_task))
    except WakelogError as error:
        return error
    return None


def _params(subagent_task: SubagentTask) -> Mapping[str, Any]:
    """Return the parameters that a new child begins with."""
    sender = subagent_task.context.params if subagent_task.context is not None else {}
    return sender if subagent_task.other is None else _params_of_another(subagent_task.other, sender)


def _child(world: World, child: str) -> Session | None:
    try:
        return Session(world.store, child, clock=world.clock)
    except NotFound:
        return None


async def recall(world: World, child: str) -> None:
    """See `World.recall`. Runs the child until it is at rest; does nothing if the child does not exist."""
    session = _child(world, child)
    if session is None:
        return
    session.append(Queued(mode="cancel"))
    try:
        await wake(msgspec.structs.replace(world, channels={}), session.name)
    except (Conflict, Untrusted):
        # A worker that holds the child sees the cancel; a child that may not run here has nothing to stop.
        return

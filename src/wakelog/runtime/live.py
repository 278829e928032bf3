"""The live world: real time, real models, real tools, and sub-agents that are sessions of the same store."""

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
from wakelog.errors import Conflict, NotFound, Unavailable, Untrusted, UsageError, WakelogError
from wakelog.hooks import OpenCatalog, open_hook
from wakelog.instructions import instructed
from wakelog.log.codec import canonical
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import ContextRecord, Failed, Message, Origin, Queued
from wakelog.log.lines import Reader
from wakelog.log.tree import Branch
from wakelog.ports import Blobs, Channel, Clock, Hook, Occasion, Outcome, Store, Tool
from wakelog.providers import open_provider
from wakelog.redaction.entries import holds_mark
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
from wakelog.tools.subagent import SUBAGENT_NAME, OtherAgent, SubAgentTool

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
    """The real one. Tools and hooks handed in stand beside those that ship, and before them where names are the same.

    The `memory` hook looks things up in the `catalog`, which is opened for each look in a thread of its own. MCP
    servers live as long as a wake; whoever hands in `servers` and enters them keeps them for longer.
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
    """The name by which the log knows a channel; `UsageError` for one that the log would not keep as it is."""
    if redact(channel.name).hits:
        raise UsageError(
            "the name of a channel has the shape of a secret, and names are written into the log",
            hint="give the channel another name",
        )
    return channel.name


async def _pause(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


class Injection:
    """What hooks say before a run. A turn is told once, so that all its requests end in the same words."""

    def __init__(self, given: Mapping[str, Hook], catalog: OpenCatalog | None) -> None:
        self._given = given
        self._catalog = catalog
        self._told: dict[str, tuple[str, tuple[str, ...]]] = {}

    async def texts(self, terms: Sequence[HookTerms], occasion: Occasion) -> tuple[str, ...]:
        """The texts, in the order of the hooks; one that has nothing to say has none."""
        turn, told = self._told.get(occasion.session, ("", ()))
        if turn != occasion.turn_id or not turn:
            said = [await self._text(each, occasion) for each in terms]
            told = tuple(text for text in said if text)
            self._told[occasion.session] = (occasion.turn_id, told)
        return told

    async def _text(self, terms: HookTerms, occasion: Occasion) -> str:
        if holds_mark(terms.options):
            return words.HOOK_FAILED.format(name=terms.name, why=words.HOOK_REDACTED)
        return await _said(open_hook(terms, self._given, self._catalog), occasion)


async def _said(hook: Hook, occasion: Occasion) -> str:
    try:
        return storable(await hook.before_run(occasion))
    except Exception as error:  # noqa: BLE001 - a hook is the outside world, whatever it promised
        return words.HOOK_FAILED.format(name=hook.name, why=storable(str(error)) or type(error).__name__)


async def watch_for_cancel(session: Session, seq: int) -> Queued:
    """Looks at what is appended until it is a cancel. An outage of the store is waited out without blocking."""
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
    """Looks at the log until anything is appended behind a seq. An outage of the store is waited out."""
    store = without_retries(session.store)
    while True:
        with contextlib.suppress(Unavailable):
            if next(iter(store.load(session.name, after=seq)), None) is not None:
                return
        await asyncio.sleep(_LOOK_S)


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────────


async def send(world: World, subagent_task: SubagentTask) -> Outcome | None:
    """Makes the child if there is none yet, tells it its task if it has none yet, and wakes it."""
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
    return None if isinstance(report.decision, Await) else _came_to(child.branch(), report)


def _brief(child: Session, subagent_task: SubagentTask, blobs: Blobs) -> None:
    """What the child begins with; each part once, however often it is sent."""
    nodes = child.branch().nodes
    if subagent_task.context is not None and not any(isinstance(node.value, ContextRecord) for node in nodes):
        record = _handed_down(subagent_task.context)
        child.append(
            record
            if subagent_task.other is None
            else _of_another(subagent_task.other, record, subagent_task.cwd, blobs)
        )
    if not any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in nodes):
        child.append(Message(message=Prompt(content=(Text(text=subagent_task.prompt),))))


def _handed_down(record: ContextRecord) -> ContextRecord:
    """The parent's context, one generation less deep."""
    depth = record.policy.get("children")
    policy = {**record.policy, "children": depth - 1 if isinstance(depth, int) else 0}
    if "redact" in policy:
        policy["redact"] = redact_word(policy["redact"])
    return msgspec.structs.replace(record.bare, policy=policy)


def _of_another(other: OtherAgent, sender: ContextRecord, cwd: str, blobs: Blobs) -> ContextRecord:
    """The context of another agent, as its sender's log describes it: no deeper than the sender's own child may go."""
    depth = policy_in_force(sender).children
    policy = msgspec.structs.replace(policy_in_force(ContextRecord(policy=other.policy)), children=depth)
    system, sources = instructed(blobs, cwd, other.system, policy)
    tools = _tools_of_another(other, declared_tools(blobs, sender.tools))
    return ContextRecord(
        sources=sources,
        environment={**sender.environment, "approvalPolicy": policy.approval},
        system=system,
        tools=blobs.put(canonical(tools), "application/json") if tools else None,
        params=dict(_params_of_another(other, sender.params)),
        policy=policy_written(policy),
    )


def _params_of_another(other: OtherAgent, sender: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of another agent; one without a model of its own asks its sender's at its sender's address."""
    endpoint = {"endpoint": sender["endpoint"]} if other.model is None and "endpoint" in sender else {}
    return {**endpoint, **other.params}


def _tools_of_another(other: OtherAgent, sender: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Its own tools; whom it can send out, as its sender can; and what its sender has of servers that are its too."""
    same = {tool.get("name"): tool for tool in sender if tool.get("name") == SUBAGENT_NAME}
    own = [same.get(tool.get("name"), tool) for tool in other.tools]
    return [*own, *(tool for tool in sender if _server(tool) in other.servers)]


def _server(tool: Mapping[str, Any]) -> Any:
    """The name of the server that a declared tool comes from; None for one that comes from none."""
    origin = tool.get("from")
    server = origin.get("mcp") if isinstance(origin, Mapping) else None
    return server.get("name") if isinstance(server, Mapping) else None


def _came_to(branch: Branch, report: Report) -> Outcome:
    """The outcome of a child at rest: its last reply, or how it failed."""
    if isinstance(report.decision, Rest) and report.decision.outcome != "done":
        faults = [node.value for node in branch.nodes if isinstance(node.value, Failed)]
        message = faults[-1].error.message if faults and faults[-1].error else report.decision.outcome
        return Outcome(words.CHILD_FAILED.format(message=message), is_error=True)
    return Outcome(report.text or words.CHILD_SILENT, is_error=not report.text)


def stuck(world: World, child: str) -> bool:
    """Looks at a child without touching it."""
    session = _child(world, child)
    if session is None:
        return False
    if world.store.held(session.name) is not None:
        return True
    return is_waiting(msgspec.structs.replace(world, channels={}), session)


def obstacle(world: World, subagent_task: SubagentTask) -> WakelogError | None:
    """See `World.obstacle`: the child's own first step is checked; before it exists, the model that it would get."""
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
    """The parameters that a new child begins with."""
    sender = subagent_task.context.params if subagent_task.context is not None else {}
    return sender if subagent_task.other is None else _params_of_another(subagent_task.other, sender)


def _child(world: World, child: str) -> Session | None:
    try:
        return Session(world.store, child, clock=world.clock)
    except NotFound:
        return None


async def recall(world: World, child: str) -> None:
    """Cancels what a child is doing and lets it come to rest. A child that never came to be is gone already."""
    session = _child(world, child)
    if session is None:
        return
    session.append(Queued(mode="cancel"))
    try:
        await wake(msgspec.structs.replace(world, channels={}), session.name)
    except (Conflict, Untrusted):
        # The worker that holds it sees the cancel; a session that is not run here has nothing to end.
        return

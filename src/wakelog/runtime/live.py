"""The live runtime: system clock, real models, tools, hooks and channels of this process."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wakelog.clock import SystemClock
from wakelog.decide import wording as words
from wakelog.decide.open_tool_calls import has_redaction_mark
from wakelog.decide.policy import HookSettings
from wakelog.decide.wording import valid_utf8
from wakelog.errors import Unavailable, UsageError
from wakelog.hooks import OpenCatalog, open_hook
from wakelog.log.entry import Queued
from wakelog.log.lines import EntryReader
from wakelog.ports.runtime import Channel, Clock, Hook, HookContext, OpenProvider, Tool
from wakelog.ports.stores import Store
from wakelog.providers import open_provider
from wakelog.redaction.redactor import redact
from wakelog.runtime.interface import LEASE_S, Runtime
from wakelog.runtime.subagents import cancel_subagent, is_subagent_blocked, run_subagent, subagent_error
from wakelog.session import Session
from wakelog.stores.retrying import without_retries
from wakelog.tools import builtin_tools
from wakelog.tools.function_tool import as_tools
from wakelog.tools.mcp import ServerPool, mcp_tools
from wakelog.tools.subagent import SubagentTool

_POLL_S = 0.05


def live_runtime(
    store: Store,
    *,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    channels: Sequence[Channel] = (),
    hooks: Sequence[Hook] = (),
    servers: ServerPool | None = None,
    catalog: OpenCatalog | None = None,
    provider: OpenProvider = open_provider,
    clock: Clock | None = None,
    holder: str | None = None,
    lease_s: float = LEASE_S,
) -> Runtime:
    """Return the runtime of a real process. `tools` and `hooks` extend the built-in ones and override equal names.

    The `memory` hook searches the `catalog`, which is opened for each search in a separate thread. MCP servers run as
    long as a wake; to keep them longer, pass `servers` and enter them around it.
    """
    given = {tool.name: tool for tool in as_tools(tools)}
    shared = ServerPool() if servers is None else servers

    def at_hand(cwd: str, declared: Sequence[Mapping[str, Any]]) -> Mapping[str, Tool]:
        shipped = (*builtin_tools(cwd or os.getcwd()), SubagentTool())
        return {**{tool.name: tool for tool in shipped}, **mcp_tools(declared, shared, cwd), **given}

    return Runtime(
        store=store,
        clock=clock or SystemClock(),
        holder=holder or f"{socket.gethostname()}:{os.getpid()}",
        provider=provider,
        tools=at_hand,
        cancelled=wait_for_cancel,
        news=wait_for_entry,
        pause=_sleep,
        send=run_subagent,
        stuck=is_subagent_blocked,
        recall=cancel_subagent,
        obstacle=subagent_error,
        alive=lambda: shared,
        inject=HookRunner({hook.name: hook for hook in hooks}, catalog).texts,
        channels={_checked_channel_name(channel): channel for channel in channels},
        lease_s=lease_s,
    )


def _checked_channel_name(channel: Channel) -> str:
    """Return the name of a channel; `UsageError` for a name that would be redacted in the log."""
    if redact(channel.name).hits:
        raise UsageError(
            "the name of a channel has the shape of a secret, and names are written into the log",
            hint="give the channel another name",
        )
    return channel.name


async def _sleep(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


class HookRunner:
    """Texts of hooks before a run. Hooks run once per turn, so that all its requests end in the same text."""

    def __init__(self, given: Mapping[str, Hook], catalog: OpenCatalog | None) -> None:
        self._given = given
        self._catalog = catalog
        self._told: dict[str, tuple[str, tuple[str, ...]]] = {}

    async def texts(self, terms: Sequence[HookSettings], occasion: HookContext) -> tuple[str, ...]:
        """Return the texts in the order of the hooks, without empty ones."""
        turn, told = self._told.get(occasion.session, ("", ()))
        if turn != occasion.turn_id or not turn:
            said = [await self._text(each, occasion) for each in terms]
            told = tuple(text for text in said if text)
            self._told[occasion.session] = (occasion.turn_id, told)
        return told

    async def _text(self, terms: HookSettings, occasion: HookContext) -> str:
        if has_redaction_mark(terms.options):
            return words.HOOK_FAILED.format(name=terms.name, why=words.HOOK_REDACTED)
        return await _run_hook(open_hook(terms, self._given, self._catalog), occasion)


async def _run_hook(hook: Hook, occasion: HookContext) -> str:
    try:
        return valid_utf8(await hook.before_run(occasion))
    except Exception as error:  # noqa: BLE001 - a hook may be any code, and raise anything
        return words.HOOK_FAILED.format(name=hook.name, why=valid_utf8(str(error)) or type(error).__name__)


async def wait_for_cancel(session: Session, seq: int) -> Queued:
    """Poll the log after `seq` until a cancel is appended; return it. Store outages are waited out without blocking."""
    store = without_retries(session.store)
    while True:
        reader = EntryReader(next_seq=seq + 1)
        with contextlib.suppress(Unavailable):
            for entry in reader.feed_all(store.load(session.name, after=seq)):
                seq = max(seq, entry.seq)
                if isinstance(entry.value, Queued) and entry.value.mode == "cancel":
                    return entry.value
        await asyncio.sleep(_POLL_S)


async def wait_for_entry(session: Session, seq: int) -> None:
    """Poll the log until any entry is appended after `seq`. Store outages are waited out without blocking."""
    store = without_retries(session.store)
    while True:
        with contextlib.suppress(Unavailable):
            if next(iter(store.load(session.name, after=seq)), None) is not None:
                return
        await asyncio.sleep(_POLL_S)

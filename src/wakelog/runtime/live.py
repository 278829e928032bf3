"""The live runtime: system clock, real models, tools, hooks and channels of this process."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from wakelog.arguments import check_store
from wakelog.clock import SystemClock
from wakelog.decide import wording
from wakelog.decide.open_tool_calls import has_redaction_mark
from wakelog.decide.policy import HookSettings
from wakelog.decide.wording import valid_utf8
from wakelog.errors import UsageError, WakelogError
from wakelog.hooks import OpenCatalog, open_hook
from wakelog.log.entry import Entry, Queued
from wakelog.ports.runtime import Channel, Clock, Hook, HookContext, OpenProvider, Provider, Tool, ToolOutcome
from wakelog.ports.stores import Store
from wakelog.providers import open_provider
from wakelog.redaction.redactor import redact
from wakelog.runtime.interface import LEASE_S, Runtime, SubagentTask
from wakelog.runtime.subagents import cancel_subagent, is_subagent_blocked, run_subagent, subagent_error
from wakelog.runtime.waiting import wait_for_entry
from wakelog.session import Session
from wakelog.tools import builtin_tools
from wakelog.tools.function_tool import as_tools
from wakelog.tools.mcp import ServerPool, mcp_tools
from wakelog.tools.subagent import SubagentTool

# How long work runs before the log is watched for a request to cancel it.
_UNWATCHED_S = 0.02


class LiveRuntime(Runtime):
    """The runtime of a real process. `tools` and `hooks` extend the built-in ones and override equal names.

    The `memory` hook searches the `catalog`, which is opened for each search in a separate thread. MCP servers run as
    long as a wake; to keep them longer, pass `servers` and enter them around it.
    """

    def __init__(
        self,
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
    ) -> None:
        check_store(store)
        super().__init__(
            store,
            clock or SystemClock(),
            holder or f"{socket.gethostname()}:{os.getpid()}",
            channels={_checked_channel_name(channel): channel for channel in channels},
            lease_s=lease_s,
        )
        self._tools = {tool.name: tool for tool in as_tools(tools)}
        self._servers = ServerPool() if servers is None else servers
        self._open_provider = provider
        self._hooks = HookRunner({hook.name: hook for hook in hooks}, catalog)

    def open_provider(self, provider: str, model: str, /) -> Provider:
        """See `Runtime`."""
        return self._open_provider(provider, model)

    def tools(self, cwd: str, declarations: Sequence[Mapping[str, Any]], /) -> Mapping[str, Tool]:
        """See `Runtime`."""
        shipped = (*builtin_tools(cwd or os.getcwd()), SubagentTool())
        return {**{tool.name: tool for tool in shipped}, **mcp_tools(declarations, self._servers, cwd), **self._tools}

    async def hook_texts(self, hooks: Sequence[HookSettings], context: HookContext) -> tuple[str, ...]:
        """See `Runtime`."""
        return await self._hooks.texts(hooks, context)

    async def wait_for_cancel(self, session: Session, seq: int) -> Queued:
        """See `Runtime`. Store outages are waited out without blocking."""
        # Watching starts a thread, and many tool runs end sooner. A cancel made before is found by the first read.
        await asyncio.sleep(_UNWATCHED_S)
        entry = await wait_for_entry(session.store, session.name, after=seq, is_wanted=_is_cancel)
        assert isinstance(entry.value, Queued)
        return entry.value

    async def wait_for_entry(self, session: Session, seq: int) -> None:
        """See `Runtime`. Store outages are waited out without blocking."""
        await wait_for_entry(session.store, session.name, after=seq, is_wanted=lambda _: True)

    async def sleep(self, ms: int) -> None:
        """See `Runtime`."""
        await asyncio.sleep(ms / 1000)

    async def run_subagent(self, task: SubagentTask) -> ToolOutcome | None:
        """See `Runtime`."""
        return await run_subagent(self, task)

    def is_subagent_blocked(self, child: str) -> bool:
        """See `Runtime`."""
        return is_subagent_blocked(self, child)

    async def cancel_subagent(self, child: str) -> None:
        """See `Runtime`."""
        await cancel_subagent(self, child)

    def subagent_error(self, task: SubagentTask) -> WakelogError | None:
        """See `Runtime`."""
        return subagent_error(self, task)

    def resources(self) -> AbstractAsyncContextManager[object]:
        """Return the MCP servers: they end when the last wake leaves them."""
        return self._servers


def _is_cancel(entry: Entry) -> bool:
    return isinstance(entry.value, Queued) and entry.value.mode == "cancel"


def _checked_channel_name(channel: Channel) -> str:
    """Return the name of a channel; `UsageError` for a name that would be redacted in the log."""
    if not hasattr(channel, "name"):
        hint = "pass a channel object; see wakelog.ports.runtime.Channel"
        raise UsageError(f"not a channel: {type(channel).__name__}", hint=hint)
    if redact(channel.name, "strict").hits:
        raise UsageError(
            "a channel name looks like a secret, and channel names are written to the log",
            hint="give the channel another name",
        )
    return channel.name


class HookRunner:
    """Texts of hooks before a run. Hooks run once per turn, so that all its requests end in the same text."""

    def __init__(self, hooks: Mapping[str, Hook], catalog: OpenCatalog | None) -> None:
        self._hooks = hooks
        self._catalog = catalog
        self._texts_by_session: dict[str, tuple[str, tuple[str, ...]]] = {}

    async def texts(self, hooks: Sequence[HookSettings], context: HookContext) -> tuple[str, ...]:
        """Return the texts in the order of the hooks, without empty ones."""
        turn, known_texts = self._texts_by_session.get(context.session, ("", ()))
        if turn != context.turn_id or not turn:
            texts = [await self._text(each, context) for each in hooks]
            known_texts = tuple(text for text in texts if text)
            self._texts_by_session[context.session] = (context.turn_id, known_texts)
        return known_texts

    async def _text(self, hook: HookSettings, context: HookContext) -> str:
        if has_redaction_mark(hook.options):
            return wording.HOOK_FAILED.format(name=hook.name, why=wording.HOOK_REDACTED)
        return await _run_hook(open_hook(hook, self._hooks, self._catalog), context)


async def _run_hook(hook: Hook, context: HookContext) -> str:
    try:
        return valid_utf8(await hook.before_run(context))
    except Exception as error:  # noqa: BLE001 - a hook may be any code, and raise anything
        return wording.HOOK_FAILED.format(name=hook.name, why=valid_utf8(str(error)) or type(error).__name__)

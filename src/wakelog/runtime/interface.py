"""The `Runtime` interface: what a step may use besides the log (store, clock, models, tools, channels, cancellation).

`runtime/wake.py` uses nothing else. `runtime/live.py` implements it for a real process; `runtime/replay/` implements it
with answers from the log, so that replay drives the same steps (law 11: same log, same bytes).
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from wakelog.decide.policy import HookSettings
from wakelog.errors import WakelogError
from wakelog.log.entry import RULES_VERSION, ContextEntry, Queued
from wakelog.ports.runtime import Channel, Clock, HookContext, OpenProvider, Tool, ToolOutcome
from wakelog.ports.stores import Store
from wakelog.session import Session
from wakelog.stores.retrying import SYSTEM_UPTIME, Uptime
from wakelog.tools.subagent import SubagentProfile

LEASE_S = 30.0


class SubagentTask(msgspec.Struct, frozen=True):
    """What a subagent is started with: everything its session begins with."""

    child: str
    prompt: str
    parent: str
    reply_id: str
    tool_call_id: str
    agent: str
    sender: str
    cwd: str
    model: str | None
    provider: str | None
    context: ContextEntry | None
    """The settings of the parent. The child gets them with one subagent level less, unless `other` is set."""
    other: SubagentProfile | None = None


class Runtime(msgspec.Struct, frozen=True):
    """The runtime: everything a step may use besides the log itself."""

    store: Store
    clock: Clock
    holder: str
    provider: OpenProvider
    tools: Callable[[str, Sequence[Mapping[str, Any]]], Mapping[str, Tool]]
    """The tools available in a working folder, by name. Some, such as MCP tools, are built from their declarations."""
    cancelled: Callable[[Session, int], Awaitable[Queued]]
    """Waits for a cancel request that is appended after a seq, and returns it."""
    news: Callable[[Session, int], Awaitable[None]]
    """Waits until any entry is appended after a seq."""
    pause: Callable[[int], Awaitable[None]]
    """Waits a number of milliseconds."""
    send: Callable[["Runtime", SubagentTask], Awaitable[ToolOutcome | None]]
    """Runs a subagent until it is at rest and returns its outcome; None while it waits or another worker runs it."""
    stuck: Callable[["Runtime", str], bool]
    """Whether a subagent waits for input or another worker holds it, so that running it would do nothing."""
    recall: Callable[["Runtime", str], Awaitable[None]]
    """Cancels a subagent's turn."""
    inject: Callable[[Sequence[HookSettings], HookContext], Awaitable[tuple[str, ...]]]
    """The texts of the hooks for a run."""
    alive: Callable[[], AbstractAsyncContextManager[object]] = contextlib.nullcontext
    """Context of a wake: what tools started for themselves is ended when the last wake leaves it."""
    obstacle: Callable[["Runtime", SubagentTask], WakelogError | None] = lambda _, __: None
    """Why a subagent cannot take its next step here, such as a model without a key; None if no reason is known."""
    redacts: bool = True
    """Whether input from outside is redacted. False in replay: what is in a log has been redacted before."""
    channels: Mapping[str, Channel] = {}
    lease_s: float = LEASE_S
    uptime: Uptime = SYSTEM_UPTIME
    """The clock that measures the lease."""
    rules: int = RULES_VERSION
    """Version of the rules to decide and write by: the current one, except in replays of what an older one wrote."""

    @property
    def attached(self) -> frozenset[str]:
        """The names of the channels in reach."""
        return frozenset(self.channels)

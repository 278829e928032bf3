"""What a step may reach besides the log, as one value: storage, clock, models, tools, channels, and cancellation.

`runtime/wake.py` reaches the outside only through this value. `runtime/live.py` makes the real one; `replaying/` makes
one that answers from the log, so that replay drives the same steps (law 11: replay gives the same bytes).
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from wakelog.decide.policy import HookTerms
from wakelog.errors import WakelogError
from wakelog.log.entry import RULES, ContextRecord, Queued
from wakelog.ports import Channel, Clock, Occasion, Outcome, Provider, Store, Tool
from wakelog.session import Session
from wakelog.stores.retrying import SYSTEM_UPTIME, Uptime
from wakelog.tools.subagent import OtherAgent

LEASE_S = 30.0


class SubagentTask(msgspec.Struct, frozen=True):
    """What a sub-agent is sent out with: everything its session begins with."""

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
    context: ContextRecord | None
    """What its sender works with, and it too, one generation less deep; unless it is somebody else."""
    other: OtherAgent | None = None


class OpenProvider(Protocol):
    """Makes the provider of a name, for a model."""

    def __call__(self, provider: str, model: str, /) -> Provider:
        """The provider, or `UsageError`."""
        ...


class World(msgspec.Struct, frozen=True):
    """Everything a step may reach besides the log itself."""

    store: Store
    clock: Clock
    holder: str
    provider: OpenProvider
    tools: Callable[[str, Sequence[Mapping[str, Any]]], Mapping[str, Tool]]
    """The tools at hand in a working folder, by name; some can be made anew from how the model was told of them."""
    cancelled: Callable[[Session, int], Awaitable[Queued]]
    """Waits until a person asks to cancel, behind a seq."""
    news: Callable[[Session, int], Awaitable[None]]
    """Waits until anything is appended behind a seq."""
    pause: Callable[[int], Awaitable[None]]
    """Lets so many milliseconds go by."""
    send: Callable[["World", SubagentTask], Awaitable[Outcome | None]]
    """Lets a sub-agent go on until it rests, and gives what it came to; None while it waits for somebody."""
    stuck: Callable[["World", str], bool]
    """Whether a sub-agent waits for somebody, or is in other hands: there is then no use in sending it on."""
    recall: Callable[["World", str], Awaitable[None]]
    """Ends a sub-agent's turn."""
    inject: Callable[[Sequence[HookTerms], Occasion], Awaitable[tuple[str, ...]]]
    """What hooks have to say before a run, made fresh for it."""
    alive: Callable[[], AbstractAsyncContextManager[object]] = contextlib.nullcontext
    """Around a wake: what tools start for themselves is ended when the last who entered has left."""
    obstacle: Callable[["World", SubagentTask], WakelogError | None] = lambda _, __: None
    """Why a sub-agent cannot take its next step here, such as a model without a key; None if nothing is known."""
    redacts: bool = True
    """Whether what comes from outside is looked through for secrets; what comes from a log has been."""
    channels: Mapping[str, Channel] = {}
    lease_s: float = LEASE_S
    uptime: Uptime = SYSTEM_UPTIME
    """The clock that the lease is measured with."""
    rules: int = RULES
    """The rules to decide and write by: today's, except in a replay of what an older version wrote."""

    @property
    def attached(self) -> frozenset[str]:
        """The channels that can be reached from here."""
        return frozenset(self.channels)

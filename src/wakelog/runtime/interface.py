"""The `Runtime` interface: what a step may use besides the log (store, clock, models, tools, channels, cancellation).

`runtime/wake.py` uses nothing else. `runtime/live.py` implements it for a real process, `runtime/replay/`
with answers from the log, so that replay drives the same steps (law 11: same log, same bytes).
"""

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

import msgspec

from wakelog.decide.policy import HookSettings
from wakelog.errors import WakelogError
from wakelog.log.content import ContentDelta
from wakelog.log.entry import AnyAnnotation, AnyNode, ContextEntry, Entry, Queued
from wakelog.ports.runtime import Channel, Clock, HookContext, Provider, Tool, ToolOutcome
from wakelog.ports.stores import Store
from wakelog.redaction.known_values import NO_KNOWN_VALUES, KnownValues
from wakelog.session import Session
from wakelog.stores.retrying import SYSTEM_UPTIME, Uptime
from wakelog.tools.subagent import SubagentProfile

LEASE_S = 30.0
AnyBody = TypeVar("AnyBody", bound=AnyNode | AnyAnnotation)


class SubagentTask(msgspec.Struct, frozen=True):
    """What a subagent is started with: everything its session begins with."""

    child_session: str
    prompt: str
    parent_session: str
    reply_id: str
    tool_call_id: str
    agent: str
    sender: str
    cwd: str
    model: str | None
    provider: str | None
    context: ContextEntry | None
    """The settings of the parent. The child gets them with one subagent level less, unless `profile` is set."""
    profile: SubagentProfile | None = None


class RunObserver:
    """Is told what the steps of a run do, as they do it, in this process. This class ignores all of it.

    Everything told is in the log or in a journal already, so nothing is displayed that a crash could lose (law 5).
    """

    def on_entry(self, session: Session, entry: Entry) -> None:
        """A step has appended an entry."""

    def on_delta(self, session: Session, delta: ContentDelta) -> None:
        """The model's reply has grown by one piece."""

    def on_restart(self, session: Session) -> None:
        """The pieces of the current reply are void: the model call failed, and the next one begins anew."""


class Runtime(ABC):
    """Everything a step may use besides the log itself."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        holder: str,
        *,
        channels: Mapping[str, Channel],
        lease_s: float = LEASE_S,
        redacts_input: bool = True,
    ) -> None:
        self.store = store
        self.clock = clock
        self.holder = holder
        self.channels = channels
        self.lease_s = lease_s
        self.lease_clock: Uptime = SYSTEM_UPTIME
        self.observer = RunObserver()
        # False in replay: entries of a log were redacted before they were written.
        self.redacts_input = redacts_input
        self.known_secrets: KnownValues | None = None if redacts_input else NO_KNOWN_VALUES
        """The known values of sessions; None: what this process knows of each."""

    def with_changes(self, **changes: Any) -> Self:
        """Return a copy with other attributes. A function replaces the method of its name."""
        changed = copy.copy(self)
        changed.__dict__.update(changes)
        return changed

    @property
    def channel_names(self) -> frozenset[str]:
        """The names of the channels in reach."""
        return frozenset(self.channels)

    @abstractmethod
    def open_provider(self, provider: str, model: str, /) -> Provider:
        """Return the provider of a model; `UsageError` if there is none."""

    @abstractmethod
    def tools(self, cwd: str, declarations: Sequence[Mapping[str, Any]], /) -> Mapping[str, Tool]:
        """Return the tools available in a working folder, by name. MCP tools are built from their declarations."""

    @abstractmethod
    async def hook_texts(self, hooks: Sequence[HookSettings], context: HookContext) -> tuple[str, ...]:
        """Return the texts of the hooks for a run."""

    @abstractmethod
    async def wait_for_cancel(self, session: Session, seq: int) -> Queued:
        """Wait for a cancel request that is appended after a seq, and return it."""

    @abstractmethod
    async def wait_for_entry(self, session: Session, seq: int) -> None:
        """Wait until any entry is appended after a seq."""

    @abstractmethod
    async def sleep(self, ms: int) -> None:
        """Wait a number of milliseconds."""

    @abstractmethod
    async def run_subagent(self, task: SubagentTask) -> ToolOutcome | None:
        """Run a subagent until it is idle and return its outcome; None while it waits or another worker runs it."""

    @abstractmethod
    def is_subagent_blocked(self, child: str) -> bool:
        """Return whether a subagent waits for input or another worker holds it, so that running it does nothing."""

    @abstractmethod
    async def cancel_subagent(self, child: str) -> None:
        """Cancel the turn of a subagent."""

    def with_recorded_marks(self, body: AnyBody) -> AnyBody:
        """Return an entry that is about to be written; in replay, with the marks that the recorded entry has.

        Text that is taken from an earlier entry may hold a value that became known as a secret in between.
        """
        return body

    def subagent_error(self, task: SubagentTask) -> WakelogError | None:  # noqa: ARG002 - no reason is known here
        """Return why a subagent cannot take its next step here, such as a model without a key; None if unknown."""
        return None

    def resources(self) -> AbstractAsyncContextManager[object]:
        """Return the context of a wake. Processes that tools started are ended when the last wake leaves it."""
        return contextlib.nullcontext()

"""Decisions as values. `runtime/wake.py` carries them out."""

from typing import Literal, TypeAlias

import msgspec

from wakelog.log.content import ToolResult
from wakelog.log.entry import AttentionResolved, Queued
from wakelog.projections.losses import Losses
from wakelog.projections.pending import OpenCall


class Rest(msgspec.Struct, frozen=True, tag=True):
    """Nothing to do."""

    outcome: Literal["done", "cancelled", "failed", "terminated"] = "done"


class Await(msgspec.Struct, frozen=True, tag=True):
    """Wait until a question in `attention` is resolved or until `until_ms`; without both, for a sub-agent."""

    attention: tuple[str, ...] = ()
    until_ms: int | None = None


class Deliver(msgspec.Struct, frozen=True, tag=True):
    """Send an undelivered reply to a channel."""

    reply_id: str
    channel: str


class Settle(msgspec.Struct, frozen=True, tag=True):
    """Give an open tool call its result without running it."""

    call: OpenCall
    result: ToolResult


class Raise(msgspec.Struct, frozen=True, tag=True):
    """Ask a person about an open tool call."""

    call: OpenCall
    reason: Literal["approve", "unknown"]


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run the tools of these open tool calls concurrently; for a call with a child session, continue the child."""

    calls: tuple[OpenCall, ...]


class Inquire(msgspec.Struct, frozen=True, tag=True):
    """Ask a tool with receipts whether a started tool call has taken effect."""

    call: OpenCall


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancel the turn, as a queued entry requests."""

    queued: Queued


class TakeUp(msgspec.Struct, frozen=True, tag=True):
    """Append a queued message as a prompt."""

    queued: Queued


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Call the model for a reply, with a context built by `strategy`."""

    strategy: str = "full"


class RecoverReply(msgspec.Struct, frozen=True, tag=True):
    """Call the model again for an interrupted reply, under the same id. `window` is the context strategy."""

    reply_id: str
    strategy: Literal["replace", "resume"]
    window: str = "full"


class Compact(msgspec.Struct, frozen=True, tag=True):
    """Call the model for a summary of everything before `first_kept` (None: of everything), and compact."""

    first_kept: str | None
    trigger: str = "threshold"
    instructions: str = ""
    queued_id: str | None = None


class TellDamage(msgspec.Struct, frozen=True, tag=True):
    """Tell the model which parts of the log are lost, and which tools a lost reply had started."""

    losses: Losses
    answer: AttentionResolved | None = None
    """The decision of a person, if one was asked."""


class AskAboutDamage(msgspec.Struct, frozen=True, tag=True):
    """Ask a person about the tools that a lost reply may have started."""

    losses: Losses


class Fail(msgspec.Struct, frozen=True, tag=True):
    """End the turn, because it has reached a limit of the policy."""

    reason: Literal["steps", "faults"]
    message: str


Decision: TypeAlias = (
    Rest
    | Await
    | Deliver
    | Settle
    | Raise
    | Run
    | Inquire
    | Cancel
    | TakeUp
    | Ask
    | RecoverReply
    | Compact
    | TellDamage
    | AskAboutDamage
    | Fail
)

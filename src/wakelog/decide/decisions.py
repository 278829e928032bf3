"""Everything that can be decided, as values. What a decision does to the world is in `runtime/wake.py`, never here."""

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
    """Nothing to do until somebody has done something, or a time has come."""

    attention: tuple[str, ...] = ()
    until_ms: int | None = None


class Deliver(msgspec.Struct, frozen=True, tag=True):
    """Give a finished reply to a channel that is owed it."""

    reply_id: str
    channel: str


class Settle(msgspec.Struct, frozen=True, tag=True):
    """Give an open call its one result without running it."""

    call: OpenCall
    result: ToolResult


class Raise(msgspec.Struct, frozen=True, tag=True):
    """Ask a person about an open call."""

    call: OpenCall
    reason: Literal["approve", "unknown"]


class Run(msgspec.Struct, frozen=True, tag=True):
    """Run the tools of these open calls, side by side; a call that has a child lets the child go on."""

    calls: tuple[OpenCall, ...]


class Inquire(msgspec.Struct, frozen=True, tag=True):
    """Ask a tool with receipts whether it has done what it was begun for."""

    call: OpenCall


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """End the turn, as a person asked."""

    queued: Queued


class TakeUp(msgspec.Struct, frozen=True, tag=True):
    """Say what a person said while the agent was busy."""

    queued: Queued


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Call the model for a reply."""

    strategy: str = "full"


class Mend(msgspec.Struct, frozen=True, tag=True):
    """Call the model again for a reply that was cut off, under the same id."""

    reply_id: str
    strategy: Literal["replace", "resume"]
    window: str = "full"


class Compact(msgspec.Struct, frozen=True, tag=True):
    """Call the model for a summary of everything before an entry, and fold."""

    first_kept: str | None
    trigger: str = "threshold"
    instructions: str = ""
    queued_id: str | None = None


class TellDamage(msgspec.Struct, frozen=True, tag=True):
    """Tell the model which parts of the log are lost, and which tools a lost reply had started."""

    losses: Losses
    answer: AttentionResolved | None = None
    """What a person decided about it, where one was asked."""


class AskAboutDamage(msgspec.Struct, frozen=True, tag=True):
    """Ask a person about the tools that a lost reply may have started."""

    losses: Losses


class Fail(msgspec.Struct, frozen=True, tag=True):
    """End the turn: it has met one of its bounds."""

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
    | Mend
    | Compact
    | TellDamage
    | AskAboutDamage
    | Fail
)

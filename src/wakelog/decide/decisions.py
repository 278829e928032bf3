"""Input and output of `decide`: the snapshot of a session, and the decisions that `runtime/wake.py` carries out."""

from typing import Literal, Protocol, TypeAlias

import msgspec

from wakelog.decide.policy import Policy, policy_in_force
from wakelog.log.content import ToolResult
from wakelog.log.entry import AttentionResolved, ClosedAs, ContextEntry, Queued, UnknownOutcome
from wakelog.log.tree import Branch, Tree
from wakelog.projections.branch_state import BranchState, branch_state
from wakelog.projections.deliveries import PendingDeliveries, deliveries
from wakelog.projections.losses import Losses
from wakelog.projections.pending import OpenToolCall, Pending, pending
from wakelog.projections.queue import queue_at_head


class Idle(msgspec.Struct, frozen=True, tag=True):
    """Nothing to do."""

    outcome: Literal["done", "cancelled", "failed", "terminated"] = "done"


class Await(msgspec.Struct, frozen=True, tag=True):
    """Wait until a question in `attention` is resolved or until `until_ms`; without both, for a sub-agent."""

    attention: tuple[str, ...] = ()
    until_ms: int | None = None


class Deliver(msgspec.Struct, frozen=True, tag=True):
    """Send an undelivered reply to a channel, or close an interrupted one there."""

    reply_id: str
    channel: str
    interrupted: ClosedAs | None = None


class SettleToolCall(msgspec.Struct, frozen=True, tag=True):
    """Give an open tool call its result without running it."""

    open_call: OpenToolCall
    result: ToolResult


class AskPerson(msgspec.Struct, frozen=True, tag=True):
    """Ask a person about an open tool call."""

    open_call: OpenToolCall
    reason: Literal["approve", "unknown"]


class RunTools(msgspec.Struct, frozen=True, tag=True):
    """Run the tools of these open tool calls concurrently; for a call with a child session, continue the child."""

    open_calls: tuple[OpenToolCall, ...]


class CheckReceipt(msgspec.Struct, frozen=True, tag=True):
    """Ask a tool with receipts whether a started tool call has taken effect."""

    open_call: OpenToolCall


class CancelTurn(msgspec.Struct, frozen=True, tag=True):
    """Cancel the turn, as a queued entry requests."""

    queued: Queued


class TakeQueued(msgspec.Struct, frozen=True, tag=True):
    """Append a queued message as a prompt."""

    queued: Queued


class CallModel(msgspec.Struct, frozen=True, tag=True):
    """Call the model for a reply, with a context built by `strategy`."""

    strategy: str = "full"


class RecoverReply(msgspec.Struct, frozen=True, tag=True):
    """Call the model again for an interrupted reply, under the same id, with a context built by `context_strategy`."""

    reply_id: str
    strategy: Literal["replace", "resume"]
    context_strategy: str = "full"


class Compact(msgspec.Struct, frozen=True, tag=True):
    """Call the model for a summary of everything before `first_kept` (None: of everything), and compact."""

    first_kept: str | None
    trigger: str = "threshold"
    instructions: str = ""
    queued_id: str | None = None


class ReportDamage(msgspec.Struct, frozen=True, tag=True):
    """Tell the model which parts of the log are lost, and which tools a lost reply had started."""

    losses: Losses
    answer: AttentionResolved | None = None
    """The decision of a person, if one was asked."""


class ReportOutcomes(msgspec.Struct, frozen=True, tag=True):
    """Tell the model what people have answered about tool calls whose outcome was unknown."""

    answered: tuple[UnknownOutcome, ...]


class AskAboutDamage(msgspec.Struct, frozen=True, tag=True):
    """Ask a person about the tools that a lost reply may have started."""

    losses: Losses


class FailTurn(msgspec.Struct, frozen=True, tag=True):
    """End the turn, because it has reached a limit of the policy, or the approvals of the policy cannot be applied."""

    reason: Literal["steps", "faults", "approvals"]
    message: str


Decision: TypeAlias = (
    Idle
    | Await
    | Deliver
    | SettleToolCall
    | AskPerson
    | RunTools
    | CheckReceipt
    | CancelTurn
    | TakeQueued
    | CallModel
    | RecoverReply
    | Compact
    | ReportDamage
    | ReportOutcomes
    | AskAboutDamage
    | FailTurn
)


class DeclaredTools(Protocol):
    """What the rules ask about the tools in force, which are declared in a blob of the `context` entry."""

    def accepts_marks(self, context: ContextEntry | None, tool: str) -> bool:
        """Return whether a tool can be called with a redaction mark that the model quotes."""
        ...

    def approvals_fault(self, context: ContextEntry | None, policy: Policy) -> str:
        """Return why the approvals of a policy cannot be applied to the tools; empty if they can."""
        ...


class UndeclaredTools:
    """`DeclaredTools` where the declarations are not read: no tool accepts marks, and approvals are not checked."""

    def accepts_marks(self, context: ContextEntry | None, tool: str) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def approvals_fault(self, context: ContextEntry | None, policy: Policy) -> str:  # noqa: ARG002
        """Return an empty text."""
        return ""


UNDECLARED_TOOLS = UndeclaredTools()


class Snapshot(msgspec.Struct, frozen=True):
    """Input of the rules: tree, head branch with its state and open work, deliveries, policy, time, channels, tools."""

    tree: Tree
    branch: Branch
    state: BranchState
    pending: Pending
    deliveries: PendingDeliveries
    policy: Policy
    now_ms: int
    channels: frozenset[str]
    tools: DeclaredTools = UNDECLARED_TOOLS


def take_snapshot(
    tree: Tree,
    now_ms: int,
    channels: frozenset[str],
    *,
    new_worker: bool = False,
    tools: DeclaredTools = UNDECLARED_TOOLS,
) -> Snapshot:
    """Take a snapshot of the head branch for `decide()`. For a new worker, earlier send failures do not count."""
    branch = tree.branch()
    state = branch_state(branch)
    open_work = pending(branch, state)
    waiting = msgspec.structs.replace(
        open_work,
        queue=queue_at_head(tree, open_work.queue),
        interrupted=_not_followed(tree, branch, open_work.interrupted),
    )
    to_deliver = deliveries(tree).pending(waiting.interrupted)
    if new_worker:
        to_deliver = PendingDeliveries(to_deliver.undelivered)
    policy = policy_in_force(state.context)
    return Snapshot(tree, branch, state, waiting, to_deliver, policy, now_ms, channels, tools)


def _not_followed(tree: Tree, branch: Branch, call_id: str | None) -> str | None:
    """Return the interrupted model call, or None if a later node follows the tip: its outcome is on another branch."""
    call = tree.entry(call_id) if call_id is not None else None
    if call is None or branch.tip is None:
        return None
    followed = any(tree.nodes[child].seq > call.seq for child in tree.children(branch.tip.id))
    return None if followed else call_id

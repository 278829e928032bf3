"""What a row of the table may look at: the log, the policy in force, the time, and the channels in reach."""

import msgspec

from wakelog.log.entry import RULES, Queued
from wakelog.log.tree import Branch, Tree
from wakelog.turn.policy import Policy, policy_in_force
from wakelog.views.pending import Pending, pending
from wakelog.views.state import BranchState, branch_state, taken_up


class Sight(msgspec.Struct, frozen=True):
    """Everything there is to see at the head of a session."""

    tree: Tree
    branch: Branch
    state: BranchState
    open: Pending
    policy: Policy
    now_ms: int
    attached: frozenset[str]
    rules: int = RULES


def look(tree: Tree, now_ms: int, attached: frozenset[str], rules: int = RULES, *, new_worker: bool = False) -> Sight:
    """Takes a snapshot of the head branch for `decide()`; a new worker has failed to send nothing yet."""
    branch = tree.branch()
    state = branch_state(branch)
    if new_worker:
        state.send_failed = ()
    open_work = pending(branch, state)
    waiting = msgspec.structs.replace(
        open_work, queue=_not_said(tree, open_work.queue), cut=_not_followed(tree, branch, open_work.cut)
    )
    return Sight(tree, branch, state, waiting, policy_in_force(state.context), now_ms, attached, rules)


def _not_followed(tree: Tree, branch: Branch, cut: str | None) -> str | None:
    """The call whose reply never came: what came of one that was followed stands on another branch."""
    call = tree.entry(cut) if cut is not None else None
    if call is None or branch.tip is None:
        return None
    followed = any(tree.links[child].seq > call.seq for child in tree.children(branch.tip.id))
    return None if followed else cut


def _not_said(tree: Tree, queue: tuple[Queued, ...]) -> tuple[Queued, ...]:
    """What waits on this branch and was taken up on no other: a message is said once, however often one goes back."""
    said = taken_up(tree) if queue else set()
    return tuple(queued for queued in queue if queued.id not in said)

"""Snapshot of a session for the decision table: the log, the policy in force, the time, and attached channels."""

import msgspec

from wakelog.decide.policy import Policy, policy_in_force
from wakelog.log.entry import RULES
from wakelog.log.tree import Branch, Tree
from wakelog.projections.pending import Pending, pending
from wakelog.projections.queue import queue_at_head
from wakelog.projections.state import BranchState, branch_state


class Snapshot(msgspec.Struct, frozen=True):
    """Input of the rows: the tree, the head branch with its state and open work, policy, time and channels."""

    tree: Tree
    branch: Branch
    state: BranchState
    open: Pending
    policy: Policy
    now_ms: int
    attached: frozenset[str]
    rules: int = RULES


def look(
    tree: Tree, now_ms: int, attached: frozenset[str], rules: int = RULES, *, new_worker: bool = False
) -> Snapshot:
    """Take a snapshot of the head branch for `decide()`. For a new worker, earlier send failures do not count."""
    branch = tree.branch()
    state = branch_state(branch)
    if new_worker:
        state.send_failed = ()
    open_work = pending(branch, state)
    waiting = msgspec.structs.replace(
        open_work, queue=queue_at_head(tree, open_work.queue, rules), cut=_not_followed(tree, branch, open_work.cut)
    )
    return Snapshot(tree, branch, state, waiting, policy_in_force(state.context, rules), now_ms, attached, rules)


def _not_followed(tree: Tree, branch: Branch, cut: str | None) -> str | None:
    """Return the interrupted model call, or None if a later node follows the tip: its outcome is on another branch."""
    call = tree.entry(cut) if cut is not None else None
    if call is None or branch.tip is None:
        return None
    followed = any(tree.nodes[child].seq > call.seq for child in tree.children(branch.tip.id))
    return None if followed else cut

"""What a row of the table may look at: the log, the policy in force, the time, and the channels in reach."""

import msgspec

from wakelog.log.tree import Branch, Tree
from wakelog.turn.policy import Policy, policy_in_force
from wakelog.views.pending import Pending, pending
from wakelog.views.state import BranchState, branch_state


class Sight(msgspec.Struct, frozen=True):
    """Everything there is to see at the head of a session."""

    tree: Tree
    branch: Branch
    state: BranchState
    open: Pending
    policy: Policy
    now_ms: int
    attached: frozenset[str]


def look(tree: Tree, now_ms: int, attached: frozenset[str]) -> Sight:
    """Looks at the head."""
    branch = tree.branch()
    state = branch_state(branch)
    return Sight(tree, branch, state, pending(branch), policy_in_force(state.context), now_ms, attached)

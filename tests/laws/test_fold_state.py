"""Law 2: what a compaction carries is what anybody could have worked out from the entries before it."""

import msgspec
from hypothesis import HealthCheck, given, settings

from tests.laws.logs import STORIES, tell
from wakelog.log.entry import Compaction
from wakelog.log.tree import Tree
from wakelog.views.state import branch_state, session_state


def _without_state(entry):
    if not isinstance(entry.value, Compaction):
        return entry
    return msgspec.structs.replace(entry, value=msgspec.structs.replace(entry.value, state=None))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_carried_state_equals_the_fold(steps):
    """VIEW-8: title, model, settings, queue, debts, usage: the same with and without the carried state."""
    log = tell(steps).session.read()
    bare = Tree().add_all(_without_state(entry) for entry in log.entries)
    assert session_state(bare) == session_state(log.tree)
    for leaf in log.tree.leaves():
        assert branch_state(bare.branch(leaf)) == branch_state(log.tree.branch(leaf))

"""Law 2: the state that a compaction carries can be computed from the entries before it."""

import msgspec
from hypothesis import HealthCheck, given, settings

from tests.laws.logs import MIXED_STORIES, STORIES, tell
from wakelog.log.entry import Compaction
from wakelog.log.tree import Tree
from wakelog.projections.branch_state import branch_state
from wakelog.projections.deliveries import Deliveries
from wakelog.projections.queue import queue_at_head
from wakelog.projections.session_state import is_recorded, session_state


def _without_state(entry):
    if not isinstance(entry.value, Compaction):
        return entry
    return msgspec.structs.replace(entry, value=msgspec.structs.replace(entry.value, state=None))


def _bare(log):
    return Tree().add_all(_without_state(entry) for entry in log.entries)


def _session_views(tree):
    """The state of the session, with what is to be delivered: calls that nothing is delivered of are not carried."""
    state = session_state(tree)
    return msgspec.structs.replace(state, deliveries=Deliveries()), state.deliveries.pending(None)


def _branch_views(tree, leaf):
    """The state at the end of a branch, with the messages of the whole session and the branch's own requests."""
    state = branch_state(tree.branch(leaf))
    return msgspec.structs.replace(state, queue=queue_at_head(tree, state.queue))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_carried_state_equals_the_computed_state(steps):
    """VIEW-8: title, model, settings, queue, undelivered replies, usage, uptime: the same with and without it."""
    log = tell(steps).session.read()
    bare = _bare(log)
    assert _session_views(bare) == _session_views(log.tree)
    assert is_recorded(bare) == is_recorded(log.tree) == session_state(log.tree).recorded
    for leaf in log.tree.leaves():
        assert _branch_views(bare, leaf) == _branch_views(log.tree, leaf)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_carried_state_of_rules_1_equals_the_computed_state(steps):
    """VIEW-8 for versions before rules 2: each branch has a queue of its own, as replay needs it."""
    log = tell([("rules", 1), *steps]).session.read()
    bare = _bare(log)
    assert session_state(bare).uptime == session_state(log.tree).uptime
    for leaf in log.tree.leaves():
        assert branch_state(bare.branch(leaf)) == branch_state(log.tree.branch(leaf))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(MIXED_STORIES)
def test_the_queue_and_the_uptime_do_not_depend_on_the_version_that_compacted(steps):
    """RUN-22, ST-3: with compactions of rules 1, the queue and the uptime are those of the whole log."""
    log = tell(steps).session.read()
    bare = _bare(log)
    assert session_state(bare).uptime == session_state(log.tree).uptime
    assert is_recorded(log.tree) == session_state(log.tree).recorded
    for leaf in log.tree.leaves():
        assert _branch_views(bare, leaf) == _branch_views(log.tree, leaf)

"""Law 2: the overview that is computed from a stream is that of a tree, for any log."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, MIXED_STORIES, STORIES, bytes_of, damaged, store_of, tell
from wakelog import overviews
from wakelog.errors import WakelogError
from wakelog.forking import fork
from wakelog.overviews import read_overview
from wakelog.projections.overview import overview
from wakelog.reading import read_log
from wakelog.testing.builders import SessionBuilder

QUIET = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch):
    """So that entries out of order are merged from several runs."""
    monkeypatch.setattr(overviews, "RUN_ENTRIES", 5)


def _from_tree(store, session):
    log = read_log(store, session, verify=True)
    return overview(log.tree, damaged=bool(log.damage))


def _outcome(read, store, session):
    try:
        return read(store, session)
    except WakelogError as error:
        return type(error), error.message


def _agree(store, session):
    found = _outcome(read_overview, store, session)
    assert found == _outcome(_from_tree, store, session)
    return found


def test_a_streamed_overview_equals_that_of_the_tree():
    """Head moves, branches, compactions of both rules, odd annotations, and every kind of damage."""
    states: Counter[str] = Counter()

    @QUIET
    @given(STORIES | MIXED_STORIES, DAMAGE)
    def check(steps, hurts):
        found = _agree(store_of(damaged(bytes_of(tell(steps)), hurts)), "s")
        states[getattr(found, "state", "refused")] += 1

    check()
    assert {"damaged", "pending"} <= set(states), states


def test_a_streamed_overview_of_an_undamaged_log():
    """The same without damage, where the state of the head is known."""
    states: Counter[str] = Counter()

    @QUIET
    @given(STORIES | MIXED_STORIES)
    def check(steps):
        story = tell(steps)
        states[_agree(story.store, story.session.name).state] += 1

    check()
    assert {"pending", "dormant"} <= set(states), states
    assert len(states) >= 4, states


def test_a_streamed_overview_of_a_fork():
    """Forks of forks that continue, move their heads into inherited history, and whose first parent is damaged."""
    states: Counter[str] = Counter()

    @QUIET
    @given(STORIES, STORIES | st.just([]), DAMAGE | st.just([]), st.integers(0, 40), st.integers(0, 40))
    def check(steps, more, hurts, at, further):
        story = tell(steps)
        store, name = story.store, story.session.name
        child = _forked(story, at)
        tell(more, child)
        grandchild = _forked(child, further)
        grandchild.user("and then")
        store.replace(story.session.id, name, damaged(bytes_of(story), hurts))
        for session in (child.session.name, grandchild.session.name):
            states[getattr(_agree(store, session), "state", "refused")] += 1

    check()
    assert min(states["damaged"], states["pending"] + states["dormant"]) > 0, states


def _forked(story, at):
    nodes = list(story.session.read().tree.nodes)
    child = SessionBuilder(story.store)
    child.session = fork(story.session, nodes[at % len(nodes)])
    return child

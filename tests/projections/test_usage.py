"""Every model call is counted once, however many branches or sessions contain its reply."""

from hypothesis import HealthCheck, given, settings

from tests.laws.logs import STORIES, tell
from wakelog.forking import fork
from wakelog.log.content import Usage
from wakelog.projections.usage import UsageTotal, usage, usage_by_branch
from wakelog.testing.builders import SessionBuilder


def spent(tokens, cost=0):
    return Usage(input_tokens=tokens, cost_micros=cost)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_any_set_of_branches_costs_the_same(steps):
    """The sum over the branches of a tree is the sum of its calls, not a multiple of it."""
    tree = tell(steps).session.read().tree
    ledger = usage(tree.nodes.values())
    assert usage(node for leaf in tree.leaves() for node in tree.branch(leaf).nodes) == ledger
    assert sum(branch.exclusive.calls for branch in usage_by_branch(tree)) <= ledger.calls


def test_branches_and_what_only_they_contain():
    """The cost of a branch, and the part of it that no other branch contains."""
    story = SessionBuilder()
    prompt = story.user("go")
    shared = story.reply("shared", usage=spent(10, 1))
    story.reply("left", usage=spent(20, 2))
    story.reply("right", at=shared.id, usage=spent(40, 4))
    left, right = usage_by_branch(story.session.read().tree)
    assert (left.total.usage.input_tokens, left.exclusive.usage.input_tokens) == (30, 20)
    assert (right.total.usage.cost_micros, right.exclusive.usage.cost_micros) == (5, 4)
    assert usage(story.session.read().tree.branch(prompt.id).nodes) == UsageTotal()


def test_forked_sessions_share_their_past():
    """TREE-4: two sessions that share a call share its cost."""
    story = SessionBuilder()
    story.user("go")
    story.reply("once", usage=spent(100, 7))
    child = fork(story.session)
    nodes = [*story.session.read().tree.nodes.values(), *child.read().tree.nodes.values()]
    assert usage(nodes) == UsageTotal(1, spent(100, 7), known_cost_micros=7)


def test_an_unknown_price_is_unknown():
    """A sum of known and unknown costs is unknown, never too small."""
    story = SessionBuilder()
    story.reply("a", usage=spent(1, 5))
    story.reply("b", usage=Usage(input_tokens=1))
    assert usage(story.session.read().entries).usage.cost_micros is None

"""The tree: forks share, facts join, nothing readable is lost (TREE-1 to TREE-5)."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, store_of, tell
from wakelog.errors import NotFound
from wakelog.log.entry import Fact
from wakelog.reading import read_log
from wakelog.testing.builders import Story


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE)
def test_every_link_is_on_a_branch(steps, hurts):
    """TREE-1, law 9: every readable link is reached from the root, once, whatever happened to the file."""
    log = read_log(store_of(damaged(bytes_of(tell(steps)), hurts)), "s")
    tree = log.tree
    readable = {entry.id for entry in log.entries if entry.is_link}
    assert set(tree.links) == readable
    on_branches = {link.id for leaf in tree.leaves() for link in tree.branch(leaf).links}
    assert on_branches == readable
    for link in readable:
        path = [step.id for step in tree.branch(link).links]
        assert len(path) == len(set(path))
        assert path[-1] == link
        assert path[0] == tree.root or tree.parent(path[0]) is None


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_facts_belong_to_the_branches_of_their_link(steps):
    """DESIGN 3: a fact is on a branch exactly if its link is."""
    tree = tell(steps).session.read().tree
    for leaf in tree.leaves():
        branch = tree.branch(leaf)
        path = {link.id for link in branch.links}
        said = {fact.id for link in path for fact in tree.facts(link)}
        assert {fact.id for fact in branch.facts} == said
        assert all(isinstance(fact.value, Fact) for fact in branch.facts)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_appending_changes_no_old_branch(steps):
    """TREE-2: a branch read today holds the same links tomorrow."""
    story = tell([step for step in steps[: len(steps) // 2] if step[0] != "terminated"])
    tree = story.session.read().tree
    before = {leaf: [link.id for link in tree.branch(leaf).links] for leaf in tree.links}
    for link in list(tree.links):
        story.user("more", at=link)
    after = story.session.read().tree
    assert all([link.id for link in after.branch(leaf).links] == path for leaf, path in before.items())


def test_fork_copies_nothing():
    """TREE-2: two branches share their entries, not copies of them."""
    story = Story()
    first = story.user("A")
    story.reply("a")
    story.user("B", at=first.id)
    tree = story.session.read().tree
    left, right = (tree.branch(leaf).links for leaf in tree.leaves())
    assert left[1] is right[1]
    assert len(tree.children(first.id)) == 2


def test_asking_for_nothing():
    story = Story()
    with pytest.raises(NotFound):
        story.session.read().tree.branch("nobody")
    assert story.session.read().tree.entry("nobody") is None

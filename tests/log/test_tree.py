"""The tree: branches share entries, annotations belong to nodes, nothing readable is lost (TREE-1 to TREE-5)."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, store_of, tell
from wakelog.errors import NotFound
from wakelog.log.entry import Annotation
from wakelog.reading import read_log
from wakelog.testing.builders import SessionBuilder


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE)
def test_every_node_is_on_a_branch(steps, hurts):
    """TREE-1, law 9: every readable node is reached from the root, once, whatever happened to the file."""
    log = read_log(store_of(damaged(bytes_of(tell(steps)), hurts)), "s")
    tree = log.tree
    readable = {entry.id for entry in log.entries if entry.is_node}
    assert set(tree.nodes) == readable
    on_branches = {node.id for leaf in tree.leaves() for node in tree.branch(leaf).nodes}
    assert on_branches == readable
    for node in readable:
        path = [step.id for step in tree.branch(node).nodes]
        assert len(path) == len(set(path))
        assert path[-1] == node
        assert path[0] == tree.root or tree.parent(path[0]) is None


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_annotations_are_on_the_branches_of_their_node(steps):
    """TREE-1: an annotation is on a branch exactly if its node is."""
    tree = tell(steps).session.read().tree
    for leaf in tree.leaves():
        branch = tree.branch(leaf)
        path = {node.id for node in branch.nodes}
        said = {annotation.id for node in path for annotation in tree.annotations(node)}
        assert {annotation.id for annotation in branch.annotations} == said
        assert all(isinstance(annotation.value, Annotation) for annotation in branch.annotations)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES)
def test_appending_changes_no_old_branch(steps):
    """TREE-2: a branch has the same nodes after any append."""
    story = tell([step for step in steps[: len(steps) // 2] if step[0] != "terminated"])
    tree = story.session.read().tree
    before = {leaf: [node.id for node in tree.branch(leaf).nodes] for leaf in tree.nodes}
    for node in list(tree.nodes):
        story.user("more", at=node)
    after = story.session.read().tree
    assert all([node.id for node in after.branch(leaf).nodes] == path for leaf, path in before.items())


def test_a_fork_copies_nothing():
    """TREE-2: two branches share their entries, not copies of them."""
    story = SessionBuilder()
    first = story.user("A")
    story.reply("a")
    story.user("B", at=first.id)
    tree = story.session.read().tree
    left, right = (tree.branch(leaf).nodes for leaf in tree.leaves())
    assert left[1] is right[1]
    assert len(tree.children(first.id)) == 2


def test_an_unknown_entry_has_no_branch():
    story = SessionBuilder()
    with pytest.raises(NotFound):
        story.session.read().tree.branch("nobody")
    assert story.session.read().tree.entry("nobody") is None

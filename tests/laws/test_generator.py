"""The generator of random logs makes trees: straight lines would prove nothing."""

from collections import Counter
from itertools import pairwise

from hypothesis import HealthCheck, Phase, given, settings

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, store_of, tell
from wakelog.log.entry import Annotation, Compaction, Head
from wakelog.reading import read_log


def _features(log):
    tree = log.tree
    path = {node.id for node in tree.branch().nodes}
    nodes = [entry for entry in log.entries if entry.is_node]
    compactions = [entry for entry in nodes if isinstance(entry.value, Compaction)]
    yield "forks" if any(len(tree.children(node.id)) > 1 for node in nodes) else "straight"
    on_path = [entry.id in path for entry in nodes]
    if any(not a and b for a, b in pairwise(on_path)) and len(tree.leaves()) > 1:
        yield "interleaved"
    if any(isinstance(entry.value, Head) for entry in log.entries):
        yield "head moved"
    if len(compactions) > 1:
        yield "folded twice"
    if any(entry.id not in path for entry in compactions):
        yield "fold elsewhere"
    if any(
        isinstance(e.value, Annotation) and e.value.parent_id and e.value.parent_id not in path for e in log.entries
    ):
        yield "fact elsewhere"
    if log.damage:
        yield "damage"


def test_the_generator_makes_trees():
    """Of 300 random logs enough have forks, interleaving, compactions, odd annotations and damage."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=300,
        deadline=None,
        phases=[Phase.generate],
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(STORIES, DAMAGE)
    def sample(steps, hurts):
        seen["all"] += 1
        seen.update(_features(read_log(store_of(damaged(bytes_of(tell(steps)), hurts)), "s")))

    sample()
    for feature, least in [
        ("forks", 0.3),
        ("interleaved", 0.1),
        ("head moved", 0.3),
        ("folded twice", 0.1),
        ("fold elsewhere", 0.03),
        ("fact elsewhere", 0.1),
        ("damage", 0.3),
    ]:
        assert seen[feature] / seen["all"] >= least, (feature, dict(seen))

"""Laws 2 and 9: a scan of a log finds the same damage and the same history as a tree of the whole log."""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, store_of, tell
from wakelog.errors import WakelogError
from wakelog.forking import fork
from wakelog.log.ids import NO_NUMBER
from wakelog.reading import read_log
from wakelog.scanning import holes_before, path_entries, scan_log

QUIET = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def _read(store, session):
    log = read_log(store, session, verify=True)
    return log.damage, log.noted, len(log.entries), [entry.raw for entry in log.history]


def _scanned(store, session):
    seen = []
    scan = scan_log(store, session, lambda entry: seen.append(entry.raw))
    return scan.damage, scan.noted, scan.entries, seen


def _branch_of_tree(store, session):
    """The branch of the head: its nodes, their annotations, and the places where its entries may be lost."""
    tree = read_log(store, session, verify=True).tree
    if tree.head is None:
        return None
    branch = tree.branch()
    annotations = {annotation.id for annotation in (*branch.inherited_annotations, *branch.annotations)}
    return [node.raw for node in branch.nodes], annotations, branch.holes


def _branch_of_scan(store, session):
    scan = scan_log(store, session)
    if scan.outline.head == NO_NUMBER:
        return None
    path = scan.outline.path(scan.outline.head)
    entries = list(path_entries(store, scan, path))
    annotations = {entry.id for entry in entries if not entry.is_node}
    return [entry.raw for entry in entries if entry.is_node], annotations, holes_before(scan, path)


def _outcome(read, store, session):
    try:
        return read(store, session)
    except WakelogError as error:
        return type(error), error.message


def test_a_scan_equals_a_tree():
    """Every kind of damage, in any order."""
    kinds: Counter[str] = Counter()

    @QUIET
    @given(STORIES, DAMAGE)
    def check(steps, hurts):
        store = store_of(damaged(bytes_of(tell(steps)), hurts))
        found = _outcome(_scanned, store, "s")
        assert found == _outcome(_read, store, "s")
        assert _outcome(_branch_of_scan, store, "s") == _outcome(_branch_of_tree, store, "s")
        kinds.update(hurt.kind for hurt in found[0] if not isinstance(found[0], type))

    check()
    assert {"bridged", "repeated", "unreadable"} <= set(kinds), kinds


def test_a_scan_of_a_fork_equals_a_tree():
    """Forks of forks, with damage in the oldest log: the same damage, named with its session, and the same nodes."""
    seen: Counter[str] = Counter()

    @QUIET
    @given(STORIES, DAMAGE, st.integers(0, 40), st.integers(0, 3))
    def check(steps, hurts, at, back):
        story = tell(steps)
        store, name = story.store, story.session.name
        nodes = list(story.session.read().tree.nodes)
        child = fork(story.session, nodes[at % len(nodes)])
        child.say("and then")
        grandchild = fork(child, list(child.read().tree.nodes)[-1 - back % 2])
        store.replace(story.session.id, name, damaged(bytes_of(story), hurts))
        for session in (child.name, grandchild.name):
            found = _outcome(_scanned, store, session)
            assert found == _outcome(_read, store, session)
            assert _outcome(_branch_of_scan, store, session) == _outcome(_branch_of_tree, store, session)
            seen["damaged" if found[0] else "sound"] += 1

    check()
    assert min(seen["damaged"], seen["sound"]) > 0, seen

"""Law 2: the rows of a branch that is read in stretches equal those of the branch read as a whole (VIEW-3)."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, store_of, tell
from wakelog.app.export_formats import branch_rows
from wakelog.errors import WakelogError
from wakelog.forking import fork
from wakelog.journals import JournalTexts
from wakelog.log.content import Text
from wakelog.log.entry import Attention, AttentionResolved, Partial
from wakelog.projections.branch_state import branch_state, queue_of_branch
from wakelog.projections.transcript import transcript
from wakelog.reading import read_log
from wakelog.scanning import path_entries, scan_log
from wakelog.testing.builders import SessionBuilder

QUIET = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def whole(store, session, node, partials=()):
    branch = read_log(store, session, verify=True).tree.branch(node)
    return list(transcript(branch, partials, waiting=()))


def path_to(scan, node):
    """Return the path from the root to a node."""
    place = scan.outline.find(node)
    assert place is not None
    return scan.outline.path(place)


def streamed(store, session, node, stretch, partials=()):
    scan = scan_log(store, session)
    path = path_to(scan, node)
    return list(branch_rows(store, scan, path, JournalTexts(partials), stretch=stretch))


@QUIET
@example([*[("user", 0)] * 8, ("partial", 1), ("partial", 2)], [], 1, 2)  # one reply, at nodes of two stretches
@given(STORIES, DAMAGE, st.integers(1, 9), st.integers(0, 30))
def test_every_branch_reads_the_same(steps, hurts, stretch, at):
    """For any log, any damage and any end of a stretch."""
    store = store_of(damaged(bytes_of(tell(steps)), hurts))
    try:
        tree = read_log(store, "s", verify=True).tree
    except WakelogError:
        return
    if tree.nodes:
        node = list(tree.nodes)[at % len(tree.nodes)]
        assert streamed(store, "s", node, stretch) == whole(store, "s", node)


@QUIET
@given(STORIES, STORIES, st.integers(1, 9), st.integers(0, 30))
def test_forks_read_the_same(parent_steps, child_steps, stretch, at):
    """Inherited nodes, with labels of the parent and of the fork on them."""
    parent = tell(parent_steps)
    child = fork(parent.session)
    story = SessionBuilder(child.store)
    story.session = child
    tell(child_steps[:10], story)
    nodes = list(child.read().tree.nodes)
    child.label(nodes[at % len(nodes)], "here")
    for node in (nodes[at % len(nodes)], nodes[-1]):
        assert streamed(child.store, child.name, node, stretch) == whole(child.store, child.name, node)


def test_the_queue_is_the_same():
    """The queue of a branch that is not at the head."""
    seen: Counter[bool] = Counter()

    @QUIET
    @example([("user", 0), ("queued", 0)], 0)
    @example([("user", 0), ("fold_asked", 1)], 1)
    @given(STORIES, st.integers(0, 30))
    def check(steps, at):
        store = store_of(bytes_of(tell(steps)))
        tree, scan = read_log(store, "s").tree, scan_log(store, "s")
        node = list(tree.nodes)[at % len(tree.nodes)]
        entries = path_entries(store, scan, path_to(scan, node))
        expected = branch_state(tree.branch(node)).queue
        assert queue_of_branch(entries) == expected
        seen[bool(expected)] += 1

    check()
    assert seen[True], seen


@pytest.mark.parametrize("stretch", [1, 2, 3, 5, 100])
def test_late_annotations_are_shown_with_their_node(stretch):
    """A label, a result, an answer to a question and the text of a journal that come long after their node."""
    story = SessionBuilder()
    first = story.user("first")
    reply = story.reply("", calls=[("t1", "bash", {}), ("t2", "bash", {})])
    asked = story.session.append(Attention(reason="approval", reply_id=reply.id, tool_call_id="t2"))
    for number in range(7):
        story.user(f"in between {number}")
    story.result(reply, "t1", "late")
    story.session.label(first.id, "named late")
    story.session.append(AttentionResolved(attention_id=asked.id, decision="allow"))
    journal = Partial(id="j1", reply_id="lost", parent_id=first.id, content=(Text(text="half a reply"),))
    store, name, head = story.store, story.session.name, story.session.tree.head
    rows = streamed(store, name, head, stretch, (journal,))
    assert rows == whole(store, name, head, (journal,))
    by_kind = {row.kind: row for row in rows}
    assert by_kind["cut"].text == "half a reply"
    assert [row.status for row in rows if row.kind == "call"] == ["ok", "decided"]
    assert [row.labels for row in rows if row.labels] == [("named late",)]

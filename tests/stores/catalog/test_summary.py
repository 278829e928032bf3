"""Law 2: rows of logs that are streamed and never held completely: damaged ones.

Those that refer to old entries.
"""

import gc
import os
import tracemalloc
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, MIXED_STORIES, STORIES, bytes_of, damaged, store_of, tell
from tests.stores.catalog.rigs import Rig
from tests.stores.catalog.test_index import expected_row
from wakelog.forking import fork
from wakelog.log.codec import encode
from wakelog.log.content import Prompt
from wakelog.log.entry import Head, KnownBody, Label, Message
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.log.seal import SealChain
from wakelog.ports.stores import SessionStat
from wakelog.stores.catalog.indexing import Indexer
from wakelog.stores.catalog.summary import SEGMENT_ENTRIES, LogSummarizer, NeedsFullRead, StreamSummarizer
from wakelog.testing.builders import SessionBuilder

QUIET = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))


def row_of(fold):
    """The row of a log, and whether there is a bookmark."""
    for _ in fold.entries():
        pass
    row, mark = fold.summary()
    return row, mark is not None


def test_a_streamed_row_equals_that_of_the_tree():
    """Law 2: every field, for any log: head moves, branches, compactions of both rules, odd annotations, damage."""
    marked: Counter[bool] = Counter()

    @QUIET
    @given(STORIES | MIXED_STORIES, DAMAGE | st.just([]))
    def check(steps, hurts):
        store, stat = store_of(damaged(bytes_of(tell(steps)), hurts)), SessionStat("s", 1, 1)
        row, is_marked = row_of(StreamSummarizer(store, stat))
        assert row == row_of(LogSummarizer(store, stat, segment=1_000_000))[0]
        marked[is_marked] += 1

    check()
    assert min(marked[True], marked[False]) > 0, marked


@QUIET
@given(STORIES, STORIES | st.just([]), DAMAGE | st.just([]), st.integers(0, 40), st.integers(0, 40))
def test_a_streamed_row_of_a_fork_equals_that_of_the_tree(steps, more, hurts, at, further):
    """Law 2: forks of forks that continue and move their heads, with damage in the oldest log."""
    story = tell(steps)
    store, name = story.store, story.session.name
    child = _forked(story, at)
    tell(more, child)
    grandchild = _forked(child, further)
    grandchild.user("and then")
    store.replace(story.session.id, name, damaged(bytes_of(story), hurts))
    for session in (child.session.name, grandchild.session.name):
        row, _ = row_of(StreamSummarizer(store, SessionStat(session, 1, 1)))
        expected = expected_row(store, session)
        expected["prompt"] = expected["prompt"] or row.prompt
        assert {field: getattr(row, field) for field in expected} == expected


def _forked(story, at):
    nodes = list(story.session.read().tree.nodes)
    child = SessionBuilder(story.store)
    child.session = fork(story.session, nodes[at % len(nodes)])
    return child


@QUIET
@given(STORIES, DAMAGE | st.just([]), st.lists(st.integers(0, 30_000), max_size=6))
def test_continuing_from_a_streamed_bookmark_equals_a_rebuild(shared, steps, hurts, cuts):
    """Law 2: however much of a log was streamed, reading on gives the row of the whole."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Indexer, "_index_whole", _streamed)
        index_rig = Rig(shared / os.urandom(8).hex())
        raw = damaged(bytes_of(tell(steps)), hurts)
        for cut in sorted(cut % (len(raw) + 1) for cut in cuts):
            index_rig.write("crab_user_1", raw[: raw.rfind(b"\n", 0, cut) + 1])
            index_rig.index.refresh()
        index_rig.write("crab_user_1", raw)
        found = index_rig.answers()
    assert found == index_rig.fresh_answers()
    index_rig.index.close()


@pytest.mark.parametrize("under_way", ["a tool call", "a request", "nothing"])
def test_open_calls_are_kept_in_a_streamed_bookmark(index_rig, monkeypatch, under_way):
    """Law 2: a row that continues from a bookmark still counts the tool call or the model call that was open there."""
    monkeypatch.setattr(Indexer, "_index_whole", _streamed)
    story = index_rig.talk(3)
    if under_way == "a tool call":
        story.reply("reply", calls=[("t", "bash", {})])
    elif under_way == "a request":
        story.call("the-reply")
    index_rig.index.refresh()
    story.session.rename("title")
    read = index_rig.refreshed()
    assert (read < 5) == (under_way == "nothing")
    (row,) = index_rig.answers()["rows"]
    assert row.state == ("idle" if under_way == "nothing" else "interrupted")
    assert index_rig.answers() == index_rig.fresh_answers()


def _streamed(self, due, seen):
    return self._index_from_start(due, seen, StreamSummarizer(self._store, due.stat))


# ── memory ───────────────────────────────────────────────────────────────────────────────────────

UNUSUAL = ("a moved head", "damage", "entries out of order")


def long_log(folder, what, messages):
    """A index_rig with a long log that cannot be split into segments."""
    index_rig, ids, chain = Rig(folder), [f"id{number}" for number in range(messages + 1)], SealChain()
    bodies: list[KnownBody] = [SessionEntry(id="id0", agent="crab")]
    for parent, own in pairwise(ids):
        bodies.append(Message(id=own, parent_id=parent, message=Prompt(content="word " * 40)))
    if what == "a moved head":
        bodies.append(Head(id="moved", parent_id=ids[-1], target_id=ids[5]))
        bodies.append(Label(id="label", parent_id=ids[3], target_id=ids[3]))
    lines = [chain.seal(encode(body), seq) for seq, body in enumerate(bodies)]
    if what == "damage":
        lines.insert(100, b"\x00garbage")
    if what == "entries out of order":
        lines = [lines[0], *lines[-50:], *lines[1:-50]]
    index_rig.write("crab_user_1", b"".join(line + b"\n" for line in lines))
    return index_rig


def _peak(index_rig):
    """The peak memory while a log is streamed."""
    gc.collect()
    tracemalloc.start()
    row_of(StreamSummarizer(index_rig.store, SessionStat("crab_user_1", 1, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("what", UNUSUAL)
def test_the_memory_of_streaming_grows_by_the_outline_only(tmp_path, what):
    """LOG-16: each entry costs what the outline keeps of it. A tree without texts takes 600 bytes per entry."""
    small, large = long_log(tmp_path / "small", what, 8_000), long_log(tmp_path / "large", what, 14_000)
    _peak(small)
    assert _peak(large) - _peak(small) < 6_000 * 150


@pytest.mark.parametrize("what", UNUSUAL)
def test_a_log_without_segments_needs_a_full_read(tmp_path, what):
    """LOG-16: only few entries are held before segments are given up."""
    index_rig = long_log(tmp_path, what, 5_000)
    fold = LogSummarizer(index_rig.store, SessionStat("crab_user_1", 1, 1), segment=500)
    with pytest.raises(NeedsFullRead):
        row_of(fold)
    assert len(fold._entries) <= 4 * 500


@pytest.mark.parametrize("what", UNUSUAL)
def test_the_row_of_a_long_log_equals_that_of_the_tree(tmp_path, what):
    """Law 2: the index streams such a log by itself, and every field is a projection of the whole log."""
    index_rig = long_log(tmp_path, what, 5 * SEGMENT_ENTRIES)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogSummarizer, "_row", None)
        index_rig.index.refresh()
    (row,) = index_rig.index.rows()
    expected = expected_row(index_rig.store, "crab_user_1")
    assert {field: getattr(row, field) for field in expected} == expected
    assert index_rig.refreshed() == 0
    index_rig.index.close()

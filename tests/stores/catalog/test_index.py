"""The derived index: its row for a session, and its path; `test_catalogs.py` has the rest (law 2; ST-4)."""

import os

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, tell
from tests.stores.catalog.rigs import Rig
from wakelog.forking import fork
from wakelog.projections.overview import overview
from wakelog.projections.session_state import session_state
from wakelog.reading import read_log
from wakelog.stores.catalog.index import index_path
from wakelog.stores.catalog.summary import SEGMENT_ENTRIES, LogSummarizer


def expected_row(store, name):
    """A row as the projections of the whole log give it, computed without the index."""
    log = read_log(store, name)
    card = overview(log.tree, damaged=bool(log.damage))
    own = log.header.value if log.header else log.tree.header
    bodies = [entry.value for entry in log.entries]
    prompts = [" ".join(body.message.text.split()) for body in bodies if _is_prompt(body)]
    return {
        "name": name,
        "id": log.id,
        "agent": own.agent,
        "sender": own.sender,
        "number": own.number,
        "cwd": own.cwd,
        "title": card.title,
        "created": own.timestamp,
        "updated": bodies[-1].timestamp,
        "entries": card.entries,
        "messages": card.messages,
        "model": card.model,
        "archived": card.archived,
        "state": card.state,
        "damage": len(log.damage),
        "prompt": next(filter(None, prompts), "")[:200],
        "attached": session_state(log.tree).attached,
    }


def _is_prompt(body):
    return body.type == "message" and hasattr(body, "message") and type(body.message).__name__ == "Prompt"


# A digit in the last part of the seal of the fork's parent entry is changed, on a line with two records.
@example([("user", 0), ("fork_reply", 0), *[("user", 0)] * 8], [("glue", 1), ("flip", 1)], 1, 2)
@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE, st.integers(0, 40), st.sampled_from([2, 5, SEGMENT_ENTRIES]))
def test_the_row_of_a_fork_equals_the_projections_of_its_whole_history(shared, steps, hurts, at, segment):
    """Law 2: forks of forks, with a parent that continued, intact or damaged, read in segments of any size."""
    story = tell(steps)
    nodes = list(story.session.read().tree.nodes)
    child = fork(story.session, nodes[at % len(nodes)])
    child.say("and then")
    grandchild = fork(child)
    rig = Rig(shared / os.urandom(8).hex())
    rig.write(story.session.name, damaged(bytes_of(story), hurts))
    for session in (child, grandchild):
        rig.write(session.name, b"".join(line.bytes for line in session.store.load(session.name)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogSummarizer.__init__, "__kwdefaults__", {"segment": segment, "children": ()})
        rig.index.refresh()
    rows = {row.name: row for row in rig.index.rows(archived=None)}
    for name in (child.name, grandchild.name):
        expected = {**expected_row(rig.store, name), "prompt": rows[name].prompt}
        assert {field: getattr(rows[name], field) for field in expected} == expected
    rig.index.close()


@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE, st.sampled_from([2, 5, SEGMENT_ENTRIES]))
def test_a_row_equals_the_projections_of_the_whole_log(shared, steps, hurts, segment):
    """Law 2: every field of a row is a projection of the log, however small the segments it is read in."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogSummarizer.__init__, "__kwdefaults__", {"segment": segment, "children": ()})
        _check_row(shared, steps, hurts)


def test_a_compaction_that_keeps_everything_is_read_with_everything(shared):
    """Law 2: an open call is behind an older compaction, and the header, which a later one keeps from, before it."""
    steps = [*[("user", 0)] * 3, ("reply", 1), ("compact", None), *[("user", 0)] * 4, ("compact", 0)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LogSummarizer.__init__, "__kwdefaults__", {"segment": 2, "children": ()})
        _check_row(shared, steps, [])


def _check_row(shared, steps, hurts):
    rig = Rig(shared / os.urandom(8).hex())
    rig.write("crab_user_1", damaged(bytes_of(tell(steps)), hurts))
    rig.index.refresh()
    (row,) = rig.index.rows(archived=None)
    expected = expected_row(rig.store, "crab_user_1")
    assert {field: getattr(row, field) for field in expected} == expected
    assert row.size == os.path.getsize(rig.log("crab_user_1"))
    rig.index.close()


def test_the_path_of_the_index(monkeypatch, tmp_path):
    """One index per store, in the XDG cache, however the store is named."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = index_path("sessions")
    assert path == index_path(f"jsonl:{tmp_path}/sessions") == index_path(f"{tmp_path}/x/../sessions/")
    assert path != index_path("others")
    assert os.path.dirname(path) == str(tmp_path / "wakelog")
    assert path.endswith(".sqlite")
    assert index_path("memory:") == ":memory:"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert index_path("sessions").startswith(str(tmp_path / ".cache" / "wakelog"))

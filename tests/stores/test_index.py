"""The derived index: what it says of sessions, and what it finds (law 2; ST-4, ST-5)."""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, tell
from tests.stores.rigs import Rig
from wakelog.errors import BadQuery
from wakelog.log.entry import Custom
from wakelog.log.entry import Session as SessionEntry
from wakelog.reading import read_log
from wakelog.stores.index import Index, index_path
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import Story
from wakelog.views.overview import overview
from wakelog.views.state import session_state

# ── what a row says ──────────────────────────────────────────────────────────────────────────────


def expected_row(store, name):
    """A row as the views of the whole log give it, worked out without the index."""
    log = read_log(store, name)
    card = overview(log.tree, damaged=bool(log.damage))
    own = log.session.value if log.session else SessionEntry()
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
        "attached": session_state(log.tree).attached_at is not None,
    }


def _is_prompt(body):
    return body.type == "message" and hasattr(body, "message") and type(body.message).__name__ == "Prompt"


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE)
def test_a_row_is_what_the_views_of_the_whole_log_say(shared, steps, hurts):
    """Law 2: the index derives; every field of a row is a view of the log."""
    rig = Rig(shared / os.urandom(8).hex())
    rig.write("crab_user_1", damaged(bytes_of(tell(steps)), hurts))
    rig.index.refresh()
    (row,) = rig.index.rows(archived=None)
    expected = expected_row(rig.store, "crab_user_1")
    assert {field: getattr(row, field) for field in expected} == expected
    assert row.size == os.path.getsize(rig.log("crab_user_1"))
    rig.index.close()


def test_rows_are_listed_newest_first_and_filtered(rig):
    """ST-4: title and archive state come from appended entries, the latest wins; lists filter and count."""
    first = rig.talk(1, agent="crab").session
    second = rig.talk(2, agent="lobster").session
    third = rig.talk(3, agent="crab").session
    first.rename("Old")
    first.rename("New")
    second.archive()
    third.archive()
    third.archive(archived=False)
    rig.index.refresh()
    rows = rig.index.rows()
    assert [row.name for row in rows] == [third.name, first.name]
    assert [row.title for row in rows] == [None, "New"]
    assert [row.name for row in rig.index.rows(archived=True)] == [second.name]
    assert [row.name for row in rig.index.rows(archived=None, limit=2)] == [third.name, second.name]
    assert rig.index.count(archived=None, agent="crab", cwd="/repo") == 2
    assert rig.index.rows(agent="cr\udcffab") == rig.index.rows(sender="nobody") == []


def test_find_prefers_the_exact(rig):
    """A name or id that is there wins alone, also where others begin with it."""
    sessions = [rig.talk(1).session for _ in range(11)]
    rig.index.refresh()
    assert [row.id for row in rig.index.find("crab_user_1")] == [sessions[0].id]
    assert [row.name for row in rig.index.find(sessions[4].id)] == ["crab_user_5"]
    assert {row.name for row in rig.index.find("crab_user_1")} == {"crab_user_1"}
    assert {row.name for row in rig.index.find("crab_user")} == {session.name for session in sessions}
    assert rig.index.find("nothing") == rig.index.find("%") == rig.index.find("' OR 1=1 --") == []


# ── search ───────────────────────────────────────────────────────────────────────────────────────


def test_what_can_be_found(rig):
    """ST-5: prompts, replies, tool names and inputs, results, summaries, titles, custom content; not thinking."""
    story = rig.begin()
    said = story.user("fix the naïve parser\nplease")
    reply = story.reply("certainly", calls=[("t", "grep", {"deep": [{"pattern": "needle"}, 4711]})])
    result = story.result(reply, "t", "haystack\0search")
    summary = story.session.compact("we spoke of parsers")
    custom = story.session.append(Custom(custom_type="x", content="extension words"))
    title = story.session.rename("Parser week")
    rig.index.refresh()
    found = {
        "naive": said,
        "please": said,
        "certainly": reply,
        "grep": reply,
        "needle": reply,
        "4711": reply,
        "haystack": result,
        "search": result,
        "spoke": summary,
        "extension": custom,
        "week": title,
    }
    for word, entry in found.items():
        (hit,) = rig.index.search(word)
        assert (hit.session, hit.name, hit.entry, hit.type) == (story.session.id, "crab_user_1", entry.id, entry.type)
        assert hit.timestamp == entry.value.timestamp
        assert "«" in hit.excerpt
        assert "\n" not in hit.excerpt
    assert rig.index.search("naive")[0].excerpt == "fix the «naïve» parser please"
    assert rig.index.search("search")[0].excerpt == "haystack «search»"
    with pytest.raises(BadQuery):
        rig.index.search("-only")
    assert rig.index.search("parser", limit=0) == []


def test_equally_good_hits_stand_in_an_order_of_their_own(rig):
    """The order of hits does not tell in which order logs were met: newest first, then by name."""
    stories = random.Random(1).sample([rig.begin() for _ in range(12)], 12)
    for story in stories:
        story.user("the same words")
        rig.index.refresh()
    names = [story.session.name for story in reversed(stories)]
    for limit in (1, 2, 5, 11, 12, 13):
        assert [hit.name for hit in rig.index.search("same", limit=limit)] == names[:limit]
    assert rig.answers() == rig.fresh_answers()


def test_where_the_index_is(monkeypatch, tmp_path):
    """One index a store, in the XDG cache, whichever way the store is named."""
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


def test_a_store_in_memory_has_an_index_too():
    """Law 12: the index knows the port and nothing of files."""
    story = Story(MemoryStore())
    index = Index(story.store, ":memory:")
    story.user("prompt")
    index.refresh()
    story.reply("reply")
    index.refresh()
    assert [(row.messages, row.state) for row in index.rows()] == [(2, "rest")]
    assert len(index.search("reply")) == 1
    index.close()

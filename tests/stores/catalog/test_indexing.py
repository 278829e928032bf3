"""Laws 2 and 9: a refresh of the index reads new entries only, and the answers are those of a new index."""

import os
import random
import shutil
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, tell
from tests.stores.catalog.rigs import Rig
from wakelog.errors import StoreError
from wakelog.forking import fork
from wakelog.log.codec import encode
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import CarriedState, Compaction, DamageNote, Head, KnownBody, Label, Message, ModelChange
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder


def test_nothing_is_read_twice(index_rig):
    """ST-5: a second refresh reads no line at all; after one append it reads that and the tail, never the log."""
    story = index_rig.talk(200)
    assert index_rig.refreshed() == 801
    assert index_rig.refreshed() == 0
    story.user("one more")
    assert index_rig.refreshed() <= 3
    story.reply("and an answer", calls=[("t", "bash", {})] * 3)
    assert index_rig.refreshed() <= 4
    story.session.label(story.session.tree.root, "an old entry")
    assert index_rig.refreshed() <= 5
    assert index_rig.refreshed() == 0
    assert index_rig.answers() == index_rig.fresh_answers()


def test_a_growing_log_is_never_read_completely(index_rig):
    """ST-5: after each turn, reading continues near where it stopped."""
    story, read = index_rig.talk(50), []
    index_rig.refreshed()
    for turn in range(30):
        story.user(f"turn {turn}")
        reply = story.reply(calls=[("a", "bash", {}), ("b", "bash", {})])
        read.append(index_rig.refreshed())
        story.result(reply, "a")
        read.append(index_rig.refreshed())
        story.result(reply, "b")
        read.append(index_rig.refreshed())
    assert max(read) <= 8
    assert index_rig.answers() == index_rig.fresh_answers()


def test_a_changed_log_is_read_completely(index_rig):
    """Law 2: size and time are hints; where older bytes have changed, everything is read again."""
    story = index_rig.talk(20)
    index_rig.refreshed()
    raw = index_rig.read("crab_user_1")
    other = raw.replace(b"prompt 3", b"prompt X")
    for changed in (other, other + raw[-40:], raw[: len(raw) // 2], raw + raw, b""):
        index_rig.write("crab_user_1", changed)
        assert index_rig.answers() == index_rig.fresh_answers()
    index_rig.write("crab_user_1", raw)
    assert index_rig.answers() == index_rig.fresh_answers()
    assert [hit.entry for hit in index_rig.index.search('"prompt 3"')] == [story.session.read().entries[13].id]


@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE, st.lists(st.integers(0, 30_000), max_size=6))
def test_incremental_indexing_equals_a_rebuild(shared, steps, hurts, cuts):
    """Law 2: however a log grew, the index equals a new one."""
    index_rig = Rig(shared / os.urandom(8).hex())
    raw = damaged(bytes_of(tell(steps)), hurts)
    for cut in sorted(cut % (len(raw) + 1) for cut in cuts):
        # Mostly at the end of a line, as appends are; sometimes in the middle of one.
        index_rig.write("crab_user_1", raw[: cut if cut % 4 == 0 else raw.rfind(b"\n", 0, cut) + 1])
        index_rig.index.refresh()
    index_rig.write("crab_user_1", raw)
    assert index_rig.answers() == index_rig.fresh_answers()
    index_rig.index.close()


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_changes_equals_a_rebuild(tmp_path, seed):
    """Law 2, over many sessions: appends, forks, renames, archives, deleted logs and damage by hand."""
    chance, index_rig = random.Random(seed), Rig(tmp_path)
    stories = [index_rig.talk(2) for _ in range(3)]
    for _ in range(25):
        change(index_rig, chance, stories)
        if chance.random() < 0.6:
            assert index_rig.answers() == index_rig.fresh_answers()
    assert index_rig.answers() == index_rig.fresh_answers()
    index_rig.index.close()


def change(index_rig, chance, stories):
    """Make one random change to a store."""
    story = chance.choice(stories)
    what = chance.choice(["say", "say", "ask", "rename", "archive", "head", "fork", "new", "hurt", "vanish", "copy"])
    try:
        session = Session(index_rig.store, story.session.name, clock=story.session.clock)
        nodes = list(session.tree.nodes)
        match what:
            case "say":
                session.say(f"prompt {chance.random()}")
            case "ask":
                story.session = session
                story.reply("reply", calls=[("t", "bash", {})])
            case "rename":
                session.rename(f"title {chance.random()}")
            case "archive":
                session.archive(archived=chance.random() < 0.5)
            case "head":
                session.move_head(chance.choice(nodes))
            case "fork":
                stories.append(SessionBuilder(MemoryStore()))
                stories[-1].session = fork(session, chance.choice(nodes))
    except (StoreError, OSError, AssertionError, LookupError):
        return
    except Exception as error:
        if type(error).__name__ not in ("NotFound", "Damaged", "NewerFormat", "Conflict"):
            raise
        return
    path = index_rig.log(story.session.name)
    if what == "new":
        stories.append(index_rig.talk(1))
    elif what == "hurt" and os.path.exists(path):
        hurt = chance.choice(["garbage", "repeat", "flip", "drop", "cut", "glue", "foreign"])
        index_rig.write(story.session.name, damaged(index_rig.read(story.session.name), [(hurt, chance.randrange(60))]))
    elif what == "vanish" and len(stories) > 3:
        os.unlink(path)
        stories.remove(story)
    elif what == "copy":
        shutil.copyfile(path, index_rig.log(f"copy_user_{chance.randrange(3)}"))


UNUSUAL: dict[str, Callable[[list[str]], KnownBody]] = {
    "a repeated id": lambda ids: Message(id=ids[2], parent_id=ids[-1], message=Prompt(content="prompt")),
    "an unknown parent": lambda ids: Message(id="new", parent_id="nowhere", message=Prompt(content="prompt")),
    "an annotation of an unknown node": lambda ids: Label(
        id="new", parent_id="nowhere", target_id="nowhere", label="label"
    ),
    "no parent": lambda ids: Message(id="new", message=Prompt(content="prompt")),
    "an unknown head": lambda ids: Head(id="new", parent_id=ids[-1], target_id="nowhere"),
    "a second session entry": lambda ids: SessionEntry(id="new", parent_id=ids[-1], agent="other"),
    "a compaction with another head": lambda ids: Compaction(
        id="new", parent_id=ids[-1], summary="summary", state=CarriedState(head=ids[3], title="title")
    ),
}


@pytest.mark.parametrize("what", UNUSUAL)
def test_an_unusual_line_after_the_bookmark_is_checked_against_the_whole_log(index_rig, what):
    """Law 2: damage that shows only in the whole log is found from a bookmark too."""
    story = index_rig.talk(5)
    index_rig.index.refresh()
    log = story.session.read()
    body = UNUSUAL[what]([entry.id for entry in log.entries])
    index_rig.store.append(story.session.name, encode(body), after=log.next_seq - 1)
    (row,) = index_rig.answers()["rows"]
    assert row.damage == len(read_log(index_rig.store, row.name).damage)
    assert index_rig.answers() == index_rig.fresh_answers()


def test_an_open_model_call_is_kept_in_the_bookmark(index_rig):
    """Law 2: a reply whose call was indexed before it is undelivered to the channels of that call."""
    story = index_rig.talk(5)
    story.call("the-reply", channels=["terminal"])
    assert [row.state for row in index_rig.answers()["rows"]] == ["interrupted"]
    story.session.append(Message(id="the-reply", message=Reply(content="reply")))
    assert [row.state for row in index_rig.answers()["rows"]] == ["undelivered"]
    assert index_rig.answers() == index_rig.fresh_answers()


def test_a_head_on_a_branch_from_before_the_bookmark_is_followed(index_rig):
    """Law 2: a branch that leaves before the bookmark is read with everything before it."""
    story = index_rig.talk(5)
    story.session.append(ModelChange(model="other"))
    index_rig.index.refresh()
    old = story.session.read().entries[4].id
    story.session.move_head(story.user("from here", at=old).id)
    assert [(row.state, row.model) for row in index_rig.answers()["rows"]] == [("dormant", "example")]
    assert index_rig.answers() == index_rig.fresh_answers()


def test_damage_that_is_noted_later_is_no_longer_counted(index_rig):
    """Law 9: a note removes its damage from the list, also where the bookmark is between the two."""
    story = index_rig.talk(2)
    raw = index_rig.read("crab_user_1")
    index_rig.write("crab_user_1", raw + b"\x00garbage\n")
    session = Session(index_rig.store, "crab_user_1", clock=index_rig.clock)
    session.say("prompt")
    assert [row.damage for row in index_rig.answers()["rows"]] == [1]
    assert index_rig.index.is_damaged("crab_user_1")
    session.append(DamageNote(offset=len(raw), bytes=len(b"\x00garbage"), digest="sha256:0"))
    assert [row.damage for row in index_rig.answers()["rows"]] == [0]
    assert not index_rig.index.is_damaged("crab_user_1")
    assert not index_rig.index.is_damaged("\udcff")
    assert index_rig.answers() == index_rig.fresh_answers()
    assert story.session.name == "crab_user_1"


def test_the_row_of_a_fork_changes_with_its_parent(index_rig):
    """Law 2: inherited history is part of the row, so a parent that is deleted or restored shows there."""
    parent = index_rig.talk(3).session
    child = fork(parent)
    grandchild = fork(child)
    index_rig.index.refresh()
    raw = index_rig.read(parent.name)
    os.unlink(index_rig.log(parent.name))
    gone = index_rig.answers()
    assert {row.name for row in gone["rows"]} == {child.name, grandchild.name}
    assert [(row.damage, row.prompt) for row in gone["rows"] if row.name == child.name] == [(1, "")]
    assert gone == index_rig.fresh_answers()
    index_rig.write(parent.name, raw)
    assert {row.damage for row in index_rig.answers()["rows"]} == {0}
    assert all(row.prompt for row in index_rig.answers()["rows"])
    assert index_rig.answers() == index_rig.fresh_answers()


def test_a_growing_parent_does_not_cause_reads_of_its_forks(index_rig):
    """ST-5: appends to a parent cost its forks nothing."""
    parent = index_rig.talk(100).session
    for _ in range(5):
        fork(parent)
    index_rig.refreshed()
    parent.say("more")
    assert index_rig.refreshed() <= 3
    assert index_rig.answers() == index_rig.fresh_answers()


def test_a_log_that_cannot_be_opened_still_has_a_row(index_rig):
    """Law 9: damage is reported and the rest is served; when the log can be read again, it is."""
    index_rig.talk(1)
    index_rig.write("dots..in_it_1", b'{"type":"session","id":"x"}\n')
    rows = {row.name: row for row in index_rig.answers()["rows"]}
    assert (rows["dots..in_it_1"].state, rows["dots..in_it_1"].damage) == ("damaged", 1)
    assert rows["crab_user_1"].damage == 0
    assert index_rig.answers() == index_rig.fresh_answers()


def test_a_temporary_read_error_leaves_no_trace(index_rig):
    """Law 9: a disk that failed once and works again leaves no trace in the index."""
    index_rig.talk(2)
    index_rig.store.broken.add("crab_user_1")
    assert [(row.state, row.damage) for row in index_rig.answers()["rows"]] == [("damaged", 1)]
    index_rig.store.broken.clear()
    assert index_rig.answers() == index_rig.fresh_answers()
    index_rig.store.broken.add("crab_user_1")
    assert index_rig.answers() == index_rig.fresh_answers()

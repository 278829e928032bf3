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


def test_nothing_is_read_twice(rig):
    """ST-5: a second refresh reads no line at all; after one append it reads that and the tail, never the log."""
    story = rig.talk(200)
    assert rig.refreshed() == 801
    assert rig.refreshed() == 0
    story.user("one more")
    assert rig.refreshed() <= 3
    story.reply("and an answer", calls=[("t", "bash", {})] * 3)
    assert rig.refreshed() <= 4
    story.session.label(story.session.tree.root, "an old entry")
    assert rig.refreshed() <= 5
    assert rig.refreshed() == 0
    assert rig.answers() == rig.fresh_answers()


def test_a_growing_log_is_never_read_completely(rig):
    """ST-5: after each turn, reading continues near where it stopped."""
    story, read = rig.talk(50), []
    rig.refreshed()
    for turn in range(30):
        story.user(f"turn {turn}")
        reply = story.reply(calls=[("a", "bash", {}), ("b", "bash", {})])
        read.append(rig.refreshed())
        story.result(reply, "a")
        read.append(rig.refreshed())
        story.result(reply, "b")
        read.append(rig.refreshed())
    assert max(read) <= 8
    assert rig.answers() == rig.fresh_answers()


def test_a_changed_log_is_read_completely(rig):
    """Law 2: size and time are hints; where older bytes have changed, everything is read again."""
    story = rig.talk(20)
    rig.refreshed()
    raw = rig.read("crab_user_1")
    other = raw.replace(b"prompt 3", b"prompt X")
    for changed in (other, other + raw[-40:], raw[: len(raw) // 2], raw + raw, b""):
        rig.write("crab_user_1", changed)
        assert rig.answers() == rig.fresh_answers()
    rig.write("crab_user_1", raw)
    assert rig.answers() == rig.fresh_answers()
    assert [hit.entry for hit in rig.index.search('"prompt 3"')] == [story.session.read().entries[13].id]


@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE, st.lists(st.integers(0, 30_000), max_size=6))
def test_incremental_indexing_equals_a_rebuild(shared, steps, hurts, cuts):
    """Law 2: however a log grew, the index equals a new one."""
    rig = Rig(shared / os.urandom(8).hex())
    raw = damaged(bytes_of(tell(steps)), hurts)
    for cut in sorted(cut % (len(raw) + 1) for cut in cuts):
        # Mostly at the end of a line, as appends are; sometimes in the middle of one.
        rig.write("crab_user_1", raw[: cut if cut % 4 == 0 else raw.rfind(b"\n", 0, cut) + 1])
        rig.index.refresh()
    rig.write("crab_user_1", raw)
    assert rig.answers() == rig.fresh_answers()
    rig.index.close()


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_changes_equals_a_rebuild(tmp_path, seed):
    """Law 2, over many sessions: appends, forks, renames, archives, deleted logs and damage by hand."""
    chance, rig = random.Random(seed), Rig(tmp_path)
    stories = [rig.talk(2) for _ in range(3)]
    for _ in range(25):
        change(rig, chance, stories)
        if chance.random() < 0.6:
            assert rig.answers() == rig.fresh_answers()
    assert rig.answers() == rig.fresh_answers()
    rig.index.close()


def change(rig, chance, stories):
    """Make one random change to a store."""
    story = chance.choice(stories)
    what = chance.choice(["say", "say", "ask", "rename", "archive", "head", "fork", "new", "hurt", "vanish", "copy"])
    try:
        session = Session(rig.store, story.session.name, clock=story.session.clock)
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
    path = rig.log(story.session.name)
    if what == "new":
        stories.append(rig.talk(1))
    elif what == "hurt" and os.path.exists(path):
        hurt = chance.choice(["garbage", "repeat", "flip", "drop", "cut", "glue", "foreign"])
        rig.write(story.session.name, damaged(rig.read(story.session.name), [(hurt, chance.randrange(60))]))
    elif what == "vanish" and len(stories) > 3:
        os.unlink(path)
        stories.remove(story)
    elif what == "copy":
        shutil.copyfile(path, rig.log(f"copy_user_{chance.randrange(3)}"))


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
def test_an_unusual_line_after_the_bookmark_is_checked_against_the_whole_log(rig, what):
    """Law 2: damage that shows only in the whole log is found from a bookmark too."""
    story = rig.talk(5)
    rig.index.refresh()
    log = story.session.read()
    body = UNUSUAL[what]([entry.id for entry in log.entries])
    rig.store.append(story.session.name, encode(body), after=log.next_seq - 1)
    (row,) = rig.answers()["rows"]
    assert row.damage == len(read_log(rig.store, row.name).damage)
    assert rig.answers() == rig.fresh_answers()


def test_an_open_model_call_is_kept_in_the_bookmark(rig):
    """Law 2: a reply whose call was indexed before it is undelivered to the channels of that call."""
    story = rig.talk(5)
    story.call("the-reply", channels=["terminal"])
    assert [row.state for row in rig.answers()["rows"]] == ["interrupted"]
    story.session.append(Message(id="the-reply", message=Reply(content="reply")))
    assert [row.state for row in rig.answers()["rows"]] == ["undelivered"]
    assert rig.answers() == rig.fresh_answers()


def test_a_head_on_a_branch_from_before_the_bookmark_is_followed(rig):
    """Law 2: a branch that leaves before the bookmark is read with everything before it."""
    story = rig.talk(5)
    story.session.append(ModelChange(model="other"))
    rig.index.refresh()
    old = story.session.read().entries[4].id
    story.session.move_head(story.user("from here", at=old).id)
    assert [(row.state, row.model) for row in rig.answers()["rows"]] == [("dormant", "example")]
    assert rig.answers() == rig.fresh_answers()


def test_damage_that_is_noted_later_is_no_longer_counted(rig):
    """Law 9: a note removes its damage from the list, also where the bookmark is between the two."""
    story = rig.talk(2)
    raw = rig.read("crab_user_1")
    rig.write("crab_user_1", raw + b"\x00garbage\n")
    session = Session(rig.store, "crab_user_1", clock=rig.clock)
    session.say("prompt")
    assert [row.damage for row in rig.answers()["rows"]] == [1]
    assert rig.index.is_damaged("crab_user_1")
    session.append(DamageNote(offset=len(raw), bytes=len(b"\x00garbage"), digest="sha256:0"))
    assert [row.damage for row in rig.answers()["rows"]] == [0]
    assert not rig.index.is_damaged("crab_user_1")
    assert not rig.index.is_damaged("\udcff")
    assert rig.answers() == rig.fresh_answers()
    assert story.session.name == "crab_user_1"


def test_the_row_of_a_fork_changes_with_its_parent(rig):
    """Law 2: inherited history is part of the row, so a parent that is deleted or restored shows there."""
    parent = rig.talk(3).session
    child = fork(parent)
    grandchild = fork(child)
    rig.index.refresh()
    raw = rig.read(parent.name)
    os.unlink(rig.log(parent.name))
    gone = rig.answers()
    assert {row.name for row in gone["rows"]} == {child.name, grandchild.name}
    assert [(row.damage, row.prompt) for row in gone["rows"] if row.name == child.name] == [(1, "")]
    assert gone == rig.fresh_answers()
    rig.write(parent.name, raw)
    assert {row.damage for row in rig.answers()["rows"]} == {0}
    assert all(row.prompt for row in rig.answers()["rows"])
    assert rig.answers() == rig.fresh_answers()


def test_a_growing_parent_does_not_cause_reads_of_its_forks(rig):
    """ST-5: appends to a parent cost its forks nothing."""
    parent = rig.talk(100).session
    for _ in range(5):
        fork(parent)
    rig.refreshed()
    parent.say("more")
    assert rig.refreshed() <= 3
    assert rig.answers() == rig.fresh_answers()


def test_a_log_that_cannot_be_opened_still_has_a_row(rig):
    """Law 9: damage is reported and the rest is served; when the log can be read again, it is."""
    rig.talk(1)
    rig.write("dots..in_it_1", b'{"type":"session","id":"x"}\n')
    rows = {row.name: row for row in rig.answers()["rows"]}
    assert (rows["dots..in_it_1"].state, rows["dots..in_it_1"].damage) == ("damaged", 1)
    assert rows["crab_user_1"].damage == 0
    assert rig.answers() == rig.fresh_answers()


def test_a_temporary_read_error_leaves_no_trace(rig):
    """Law 9: a disk that failed once and works again leaves no trace in the index."""
    rig.talk(2)
    rig.store.broken.add("crab_user_1")
    assert [(row.state, row.damage) for row in rig.answers()["rows"]] == [("damaged", 1)]
    rig.store.broken.clear()
    assert rig.answers() == rig.fresh_answers()
    rig.store.broken.add("crab_user_1")
    assert rig.answers() == rig.fresh_answers()

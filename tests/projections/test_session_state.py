"""RUN-15: a fork or a move of the head is not a request to run."""

import pytest

from wakelog.forking import fork
from wakelog.log.content import Note, Prompt
from wakelog.log.entry import Activity, Label, Message, Queued, Setting
from wakelog.projections.overview import overview
from wakelog.projections.session_state import is_dormant
from wakelog.reading import read_active
from wakelog.testing.builders import SessionBuilder

SPOKEN = [
    Message(message=Prompt(content="go on")),
    Queued(message=Prompt(content="go on")),
    Queued(message=Prompt(content="go on"), mode="steer"),
    Activity(holder="w"),
]
NOT_SPOKEN = [
    Queued(mode="cancel"),
    Queued(mode="compact"),
    Setting(key="a", value=1),
    Message(message=Note(content="by an extension")),
    Activity(holder="w", event="left"),
]


def moved():
    """A session whose head was moved to its prompt."""
    story = SessionBuilder()
    prompt = story.user("go")
    story.reply("done")
    story.session.move_head(prompt.id)
    return story.session


def forked():
    """A session that was forked at a prompt."""
    story = SessionBuilder()
    prompt = story.user("go")
    story.reply("done")
    return fork(story.session, prompt.id)


def state(session):
    whole, tail = overview(session.read().tree), overview(read_active(session.store, session.id).tree)
    assert whole.state == tail.state
    return whole.state


@pytest.mark.parametrize("made", [moved, forked])
def test_it_is_dormant_until_a_request(made):
    """A prompt, a queued message or a worker ends it; nothing else does."""
    for body in SPOKEN:
        session = made()
        assert state(session) == "dormant"
        session.append(body)
        assert (state(session), is_dormant(session.tree)) == ("pending", False)
    for body in NOT_SPOKEN:
        session = made()
        session.append(body)
        assert (state(session), is_dormant(session.tree)) == ("dormant", True)
        assert state(session) == "dormant"


def test_only_the_newest_move_counts():
    """A request before the last move of the head does not count."""
    session = moved()
    session.say("go on")
    session.move_head(session.tree.root)
    session.append(Label(target_id=session.tree.root, label="x"))
    assert is_dormant(session.tree)
    session.move_head(session.branch().nodes[0].id, reason="retry")
    assert not is_dormant(session.tree)


def test_a_compaction_carries_the_state():
    """Law 2: known from a tail that begins after the move."""
    session = moved()
    session.compact("so far")
    tree = read_active(session.store, session.id).tree
    assert tree.partial
    assert is_dormant(tree)
    session.say("go on")
    session.compact("so far")
    assert not is_dormant(read_active(session.store, session.id).tree)


def test_a_message_that_was_queued_before_the_move_waits():
    story = SessionBuilder()
    prompt = story.user("go")
    story.reply("done")
    story.session.append(Queued(message=Prompt(content="later")))
    assert state(story.session) == "pending"
    story.session.move_head(prompt.id)
    assert state(story.session) == "dormant"

"""A watcher reports every entry and every piece once, entries first, from any writer."""

import pytest

from wakelog.app.watch import SessionEntry, SessionWatcher
from wakelog.log.content import Text, TextDelta, encode_delta
from wakelog.log.entry import Origin, Partial, Resumed, Spawned
from wakelog.session import Session
from wakelog.session_news import StreamedPiece
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.builders import SessionBuilder


@pytest.fixture
def store(tmp_path):
    opened = JsonlStore(str(tmp_path / "sessions"))
    yield opened
    opened.close()


@pytest.fixture
def story(store):
    return SessionBuilder(store)


@pytest.fixture
def watch(store, story):
    return SessionWatcher(store, story.session.name, story.session.last_seq, with_text=True)


def told(watch):
    return [one.entry.type if isinstance(one, SessionEntry) else one.delta.text for one in watch.read_new()]


def say(story, reply_id, *texts):
    for text in texts:
        story.store.journal(story.session.name, reply_id, encode_delta(TextDelta(text)))


def test_each_item_is_reported_once(story, watch):
    story.user("hello")
    story.call("r")
    say(story, "r", "a", "b")
    assert told(watch) == ["message", "call", "a", "b"]
    assert told(watch) == []
    say(story, "r", "c")
    assert watch.read_new() == [StreamedPiece("r", TextDelta("c"), 2)]


def test_a_journal_that_begins_again_is_read_again(story, watch):
    """However many pieces the first one had: a reply that starts again loses no text."""
    story.user("hello")
    story.call("r")
    say(story, "r", "a", "b", "c")
    told(watch)
    story.store.drop(story.session.name, "r")
    story.session.append(Partial(reply_id="r", content=(Text(text="abc"),)))
    story.session.append(Resumed(reply_id="r"))
    say(story, "r", "A", "B", "C", "D", "E")
    # Pieces read together with the entries could be of either journal: they are read again.
    assert told(watch) == ["partial", "resumed", "A", "B", "C", "D", "E"]
    assert told(watch) == []


def test_sub_agents(store, story, watch):
    """Their entries, too, from the first on; a sub-agent that does not exist yet is waited for."""
    story.user("hello")
    reply = story.reply(calls=[("t", "agent", {})])
    story.session.append(Spawned(child_session="child", reply_id=reply.id, tool_call_id="t"), at=reply.id)
    assert told(watch) == ["message", "message", "spawned"]
    origin = Origin(session=story.session.id, entry=reply.id, kind="subagent")
    child = Session.create(store, session_id="child", parent=origin)
    child.say("look")
    heard = watch.read_new()
    assert [(one.session, one.entry.type) for one in heard] == [("child", "session"), ("child", "message")]
    assert watch.read_new() == []


def test_a_finished_sub_agent_is_watched_no_more(store, story, watch):
    """Its entries before the end are reported; after that it costs nothing."""
    story.user("hello")
    reply = story.reply(calls=[("t", "agent", {})])
    story.session.append(Spawned(child_session="child", reply_id=reply.id, tool_call_id="t"), at=reply.id)
    told(watch)
    origin = Origin(session=story.session.id, entry=reply.id, kind="subagent")
    child = Session.create(store, session_id="child", parent=origin)
    child.say("look")
    story.result(reply, "t")
    assert sorted(told(watch)) == ["message", "message", "session"]
    child.say("more")
    assert watch.read_new() == []


def test_garbage_in_a_log_or_a_journal_is_skipped(story, watch):
    story.user("hello")
    story.store.journal(story.session.name, "r", b"rubbish")
    say(story, "r", "a")
    assert told(watch) == ["message", "a"]

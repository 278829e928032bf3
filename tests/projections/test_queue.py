"""RUN-22: a queued message waits for the session, on whatever branch it was queued, and is taken up once."""

import asyncio

import pytest

from tests.older_rules import write_under_rules
from tests.runtime.rigs import Rig
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.decide.policy import QUEUE_MAX
from wakelog.errors import Conflict
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import RULES_VERSION, Activity, Compaction, Message, Queued
from wakelog.projections.overview import overview
from wakelog.projections.queue import must_record_queue, waiting_messages
from wakelog.projections.transcript import transcript
from wakelog.reading import read_active, read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores import open_store


def later(text):
    return Queued(message=Prompt(content=(Text(text=text),)))


def left_behind(session):
    """Queue a message at the end of a turn, then move the head back to the first prompt."""
    queued = session.append(later("Go on."))
    first = next(node.id for node in session.branch().nodes if isinstance(node.value, Message))
    return queued.id, session.tree.parent(first)


def taken(session):
    said = [entry.value.message for entry in session.read().entries if isinstance(entry.value, Message)]
    return [message.queued_id for message in said if isinstance(message, Prompt) and message.queued_id]


@pytest.fixture(params=["memory", "jsonl", "sqlite", "postgres"])
def store(request, tmp_path):
    """A store of each kind."""
    urls = {"memory": "memory:", "jsonl": f"jsonl:{tmp_path}/logs", "sqlite": f"sqlite:{tmp_path}/logs.db"}
    opened = open_store(urls.get(request.param) or request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


def test_it_is_taken_up_at_the_new_head_once(store):
    """RUN-22: visible in state and queue after the head has moved, and used there; not again on the old branch."""
    name = asyncio.run(Agent(model="demo").run(store, "Hello!")).session.name
    session = Session(store, name)
    old = session.tree.head
    assert old is not None
    queued, place = left_behind(session)
    session.move_head(place)
    assert [waiting.id for waiting in overview(session.tree).queue] == [queued]
    assert [row.text for row in transcript(session.branch(), waiting=waiting_messages(session.tree))][-1] == "Go on."
    runtime = LiveRuntime(store)
    asyncio.run(wake(runtime, name))
    assert (taken(session), overview(session.tree).queue) == ([queued], ())
    session.move_head(old)
    assert asyncio.run(wake(runtime, name)).decision == Idle()
    assert taken(session) == [queued]
    assert asyncio.run(replay(store, name)).ok


@pytest.mark.parametrize("moves_first", [True, False])
def test_a_compaction_carries_the_queue_of_the_whole_session(moves_first):
    """RUN-22, law 2: a message on a branch that was left is known from a compaction alone."""
    rig = Rig({"Hi.": [{"text": "Hello."}], "So far.": [{"text": "I see."}], "Go on.": [{"text": "Gone."}]})
    rig.say("Hi.")
    queued, place = left_behind(rig.session)
    if moves_first:
        rig.session.move_head(place)
    rig.session.compact("So far.")
    state = rig.values(Compaction)[-1].state
    assert (state.rules, [one.id for one in state.queue]) == (RULES_VERSION, [queued])
    if not moves_first:
        rig.session.move_head(place)
    assert [waiting.id for waiting in overview(read_active(rig.store, "s").tree).queue] == [queued]
    assert rig.wake().decision == Idle()
    assert taken(rig.session) == [queued]


def old_session(rig):
    """A session in which a version with rules 1 left a message behind and compacted on the new branch."""
    rig.say("Hi.")
    queued, place = left_behind(rig.session)
    old = Session(rig.store, "s", clock=rig.clock)
    write_under_rules(old, 1)
    old.move_head(place)
    old.append(Message(message=Prompt(content="Other plan")))
    old.compact("Another plan.")
    return queued


def test_an_older_compaction_is_read_past_once():
    """RUN-22: a message before a compaction of rules 1 is found, taken up once, and recorded by the next worker."""
    rig = Rig({"Hi.": [{"text": "Hello."}], "Another plan.": [{"text": "As planned."}], "Go on.": [{"text": "Gone."}]})
    queued = old_session(rig)
    tail = read_active(rig.store, "s")
    assert tail.tree.partial
    assert [one.id for one in waiting_messages(tail.tree)] == [queued]
    assert must_record_queue(tail.tree)
    assert rig.wake().decision == Idle()
    assert taken(rig.session) == [queued]
    attached = [value for value in rig.values(Activity) if value.event == "attached"][-1]
    assert [one.id for one in attached.queue] == [queued]
    # From here on the record is enough, and nothing before the compaction is read.
    again = read_active(rig.store, "s", queue=False)
    assert again.tree.partial
    assert (waiting_messages(again.tree), must_record_queue(again.tree)) == ((), False)
    rig.say("Go on.")
    assert [value.queue for value in rig.values(Activity) if value.event == "attached"][-1] is None


def test_an_append_does_not_read_past_older_compactions():
    """RUN-22: only readers of the queue pay for an old log; an append to an idle session does not."""
    rig = Rig({"Hi.": [{"text": "Hello."}]})
    old_session(rig)
    session = rig.session
    session.say("A word.")
    assert session._log.tree.queued_before is None
    assert session.tree.queued_before is not None


def test_the_bound_of_the_queue_is_per_session():
    """RUN-11: the bound holds for the session; moving the head does not empty the queue."""
    rig = Rig({"Hi.": [{"text": "Hello."}]})
    rig.say("Hi.")
    place = left_behind(rig.session)[1]
    for _ in range(QUEUE_MAX - 1):
        rig.session.append(later("More."))
    rig.session.move_head(place)
    rig.session.acquire("busy", ttl_s=1e6)
    with pytest.raises(Conflict, match="the queue of agent_user_1 is full"):
        rig.session.say("One too many.")


def test_requests_do_not_move_with_the_head():
    """RUN-22: a cancel or a compact belongs to the turn it was requested in."""
    rig = Rig({"Hi.": [{"text": "Hello."}], "Go on.": [{"text": "Gone."}]})
    rig.say("Hi.")
    place = left_behind(rig.session)[1]
    rig.session.append(Queued(mode="cancel"))
    rig.session.append(Queued(mode="compact"))
    rig.session.move_head(place)
    assert [waiting.mode for waiting in overview(read_log(rig.store, "s").tree).queue] == ["followUp"]

"""RUN-21: ending a session for good: when it is refused, and what `force` drops."""

import pytest

from tests.runtime.rigs import Rig, asks
from wakelog.decide.decisions import Await, Idle
from wakelog.errors import Conflict, SessionEnded
from wakelog.forking import fork
from wakelog.log.entry import Activity, Queued, Terminated
from wakelog.projections.overview import overview
from wakelog.runtime.user_actions import request_cancel, retry_turn
from wakelog.session import Session

PAY = {"Pay.": [asks(("pay", 1)), {"text": "Paid."}], "Go on.": [{"text": "Gone."}]}


def _asking():
    """Return a session that waits for a person to approve a tool."""
    rig = Rig(PAY, approvals={"pay": "ask"})
    assert isinstance(rig.say("Pay.").decision, Await)
    return rig


def test_an_idle_session_is_ended():
    rig = Rig(PAY)
    rig.say("Go on.")
    ended = rig.session.end("enough")
    assert (ended.entry.value.reason, ended.cancelled, ended.dropped.descriptions) == ("enough", None, ())
    assert overview(rig.session.tree).state == "terminated"
    before = len(rig.entries)
    assert rig.wake().decision == Idle("terminated")
    assert len(rig.entries) == before


def test_open_calls_prevent_the_end():
    """RUN-21: the error names the call; with force the turn is cancelled first, and what was dropped is reported."""
    rig = _asking()
    rig.session.say("And then?")
    with pytest.raises(Conflict, match="open tool call pay"):
        rig.session.end()
    assert rig.values(Terminated) == []
    ended = rig.session.end(force=True)
    assert ended.cancelled.value == rig.values(Queued)[-1]
    assert ended.cancelled.value.mode == "cancel"
    assert [call.tool_call.name for call in ended.dropped.open_tool_calls] == ["pay"]
    assert [queued.message.text for queued in ended.dropped.queue] == ["And then?"]
    assert rig.wake().decision == Idle("terminated")
    assert rig.outside.effects == {}


def test_undelivered_replies_prevent_the_end():
    rig = Rig(PAY)
    rig.channel.breaks = True
    rig.say("Go on.")
    with pytest.raises(Conflict, match="not delivered to outbox"):
        rig.session.end()
    ended = rig.session.end(force=True)
    assert [debt.channel for debt in ended.dropped.undelivered] == ["outbox"]


def test_the_lease_of_a_dead_worker_prevents_the_end_until_it_expires():
    rig = Rig(PAY)
    session = rig.session
    session.say("Go on.")
    session.acquire("w", ttl_s=60)
    with pytest.raises(Conflict, match="being run by w"):
        session.end(force=True, wait_s=0)
    rig.now += 61
    assert session.end(force=True).entry.type == "terminated"


def test_a_worker_that_has_not_left_may_still_leave():
    """RUN-21: after its lease expired and the session was ended, the old worker leaves, and writes nothing else."""
    rig = Rig(PAY)
    worker = rig.session
    lease = worker.acquire("w", ttl_s=60)
    rig.now += 61
    rig.session.end()
    with pytest.raises(SessionEnded):
        worker.append(Activity(holder="w"))
    worker.append(Activity(holder="w", event="left", fence=lease.fence))


@pytest.mark.parametrize("act", [request_cancel, retry_turn, lambda session: session.say("more")])
def test_messages_to_an_ended_session_are_refused(act):
    rig = Rig(PAY)
    rig.session.say("Pay.")
    rig.session.end()
    with pytest.raises(Conflict):
        act(rig.session)


def test_a_compaction_does_not_hide_the_end():
    """Law 2: known from a tail, from the whole log, and to a session object that was open before."""
    rig = Rig(PAY)
    rig.say("Go on.")
    rig.session.compact("so far")
    open_all_along = rig.session
    assert open_all_along.tree.partial
    Session(rig.store, "s").end()
    for session in (open_all_along, rig.session):
        with pytest.raises(SessionEnded):
            session.say("more")


def test_an_ended_session_can_be_forked():
    rig = Rig(PAY)
    rig.say("Go on.")
    rig.session.end()
    child = fork(rig.session)
    child.say("Pay.")
    assert overview(child.tree).state == "pending"

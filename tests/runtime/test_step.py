"""RUN-1, law 15: a step is appended directly behind the log it was decided on, or it is decided again."""

import asyncio

import pytest

from tests.runtime.rigs import Rig, Spied, asks
from wakelog.decide.decisions import Idle
from wakelog.errors import Conflict, LeaseLost
from wakelog.log.entry import Custom, Message, ModelCall, Queued
from wakelog.log.timestamps import iso_timestamp
from wakelog.runtime.step import Step, decide_now, elapsed_since
from wakelog.runtime.wake import wake

HELLO = {"Hi.": [{"text": "Hello."}], "Stop.": [{"text": "Stopped."}]}


def _step(rig):
    session = rig.session
    lease = session.acquire("w", ttl_s=60)
    return Step(rig.runtime(), session, lease, decide_now(rig.runtime(), session))


def test_the_first_entry_conflicts_with_any_entry_since_the_decision():
    """RUN-1: any entry in between, even an annotation, means that the decision was made on an older log."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    step = _step(rig)
    rig.session.rename("meanwhile")
    with pytest.raises(Conflict, match="has new entries"):
        step.write(Custom(custom_type="x"))
    assert not step.has_written


def test_later_entries_of_a_step_are_appended_after_other_entries():
    """RUN-11: the entries of a started step are written though people write in between."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    step = _step(rig)
    first = step.write(Custom(custom_type="x"))
    rig.session.rename("meanwhile")
    second = step.write(Custom(custom_type="y"))
    assert second.value.parent_id == first.id
    assert step.tip == second.id


def test_a_step_whose_lease_is_lost_writes_nothing():
    """Law 6: the fence is checked at every append."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    step = _step(rig)
    step.write(Custom(custom_type="x"))
    rig.now += 1e9
    rig.session.acquire("another", ttl_s=60)
    with pytest.raises(LeaseLost):
        step.write(Custom(custom_type="y"))


def test_a_cancel_between_decision_and_action_is_decided_first():
    """Law 15: after a conflict the step is decided again on the new log."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    said: list[bool] = []

    class Slow(Spied):
        def append(self, session, body, **more):
            if b'"call"' in body and not said:
                said.append(True)
                rig.session.append(Queued(mode="cancel"))
            return super().append(session, body, **more)

    rig.store.__class__ = Slow
    assert rig.wake().decision == Idle("cancelled")
    assert rig.values(ModelCall) == []


def test_steps_can_be_counted_and_alternate_between_workers():
    """RUN-1: no state is kept between steps; two workers with separate state take them in turn."""
    one, many = (Rig({"Hi.": [asks(("look", 1)), {"text": "Seen."}]}) for _ in range(2))
    one.say("Hi.")
    many.session.say("Hi.")
    for _ in range(20):
        if isinstance(many.wake(steps=1).decision, Idle):
            break
    bodies = [[type(value) for value in rig.values(Message, ModelCall)] for rig in (one, many)]
    assert bodies[0] == bodies[1]


def test_an_idle_session_gets_no_lease_and_no_entry():
    """Law 9: waking an idle session writes nothing."""
    rig = Rig(HELLO)
    rig.say("Hi.")
    before = len(rig.entries)
    assert rig.wake().rules == ("rest",)
    assert len(rig.entries) == before


def test_two_workers_do_not_run_one_session():
    """Law 6: the second worker gets an error at once."""
    rig = Rig(HELLO)
    rig.session.say("Hi.")
    rig.session.acquire("another", ttl_s=60)
    with pytest.raises(Conflict, match="being run by another"):
        asyncio.run(wake(rig.runtime(), "s"))


def test_elapsed_is_never_negative():
    """Law 3: a clock that was set back gives a duration of zero."""
    rig = Rig(HELLO)
    entry = rig.session.append(Custom(custom_type="x", timestamp=iso_timestamp(5_000)))
    assert [elapsed_since(entry, now) for now in (4_000, 5_000, 7_500)] == [0, 0, 2_500]

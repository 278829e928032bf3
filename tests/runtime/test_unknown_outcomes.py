"""RUN-26, laws 8 and 11: the runtime tells the model what a person has answered about an unknown outcome."""

import asyncio

import pytest

from tests.runtime.rigs import Rig, asks
from tests.runtime.test_tool_run import _write_of
from wakelog.app.agent_run import RunResult, run_events
from wakelog.decide import wording
from wakelog.decide.decisions import Idle
from wakelog.log.entry import Custom
from wakelog.projections.unknown_outcomes import OUTCOME_NOTICE
from wakelog.questions import unknown_outcomes
from wakelog.runtime.replay.verification import replay

DONE = {"text": "Done."}


@pytest.fixture
def rig():
    """A session whose worker was killed after `pay` had its effect, and that was woken again."""
    rig = Rig({"Go.": [asks(("pay", 1)), DONE], "On.": [DONE], "Now.": [DONE]})
    rig.session.say("Go.")
    assert rig.die(_write_of(rig, "tool_started") + 1)
    assert rig.wake().decision == Idle()
    return rig


def notices(rig):
    return [value for value in rig.values(Custom) if value.custom_type == OUTCOME_NOTICE]


def test_the_result_of_a_run_has_it(rig):
    """RUN-26: until a person answers, also of a run that has another outcome of its own."""
    for prompt in ("On.", "Now."):
        rig.session.say(prompt)
        last = _last_event(rig)
        assert isinstance(last, RunResult)
        assert (last.state, [found.tool for found in last.unknown_outcomes]) == ("idle", ["pay"])
    last.unknown_outcomes[0].answer("dismiss")
    assert _last_event(rig).unknown_outcomes == ()


def _last_event(rig):
    async def run():
        return [event async for event in run_events(rig.runtime(), rig.session)][-1]

    return asyncio.run(run())


def test_the_model_is_told_with_the_next_request(rig):
    """RUN-26: the answer alone wakes nothing; the next request has it, behind what was sent before; replay agrees."""
    unknown_outcomes(rig.session)[0].answer("ran")
    assert rig.wake().decision == Idle()
    assert notices(rig) == []
    rig.session.say("On.")
    rig.wake()
    rig.session.say("Now.")
    rig.wake()
    (notice,) = notices(rig)
    assert notice.content[0].text == wording.OUTCOME_RAN.format(call='pay({"n":1})')
    again = asyncio.run(replay(rig.store, rig.session.name))
    assert again.ok, again.reason


def test_a_crash_before_the_notice(rig):
    """Law 2: the answer is in the log, so any later worker tells it."""
    unknown_outcomes(rig.session)[0].answer("did not run")
    rig.session.say("On.")
    assert rig.die(1)
    assert notices(rig) == []
    rig.wake()
    assert len(notices(rig)) == 1

"""Laws 4, 6 and 7, RUN-5 to RUN-7, VIEW-6, LOG-12: the order in which a tool is started, runs and gets its result."""

import asyncio

import pytest

from tests.laws.plays import watch
from tests.runtime.rigs import Rig, Spied, asks
from wakelog.app.agent import Agent
from wakelog.decide import wording
from wakelog.decide.decisions import Idle
from wakelog.decide.policy import Policy
from wakelog.errors import LeaseLost, NotFound
from wakelog.log.content import ToolResult
from wakelog.log.entry import Attention, Cancelled, Message, Partial, Queued, ToolStarted
from wakelog.projections.context import build_context
from wakelog.questions import open_questions, resolve_question
from wakelog.runtime.wake import wake

DONE = {"text": "Done."}


def _rig(*calls, **agreed):
    return Rig({"Go.": [asks(*calls), DONE], "On.": [DONE]}, **agreed)


def _results(rig):
    return [value.message for value in rig.values(Message) if isinstance(value.message, ToolResult)]


def test_tool_started_is_synced_then_the_tool_runs_then_its_result_is_written():
    """Law 6: `tool_started` is synced before the effect, and the result follows it."""
    rig = _rig(("pay", 1))
    rig.kinds()
    rig.say("Go.")
    events = [event for event in rig.events if event[0] in ("tool_started", "effect", "message")]
    assert events[2:5] == [("tool_started", "synced"), ("effect", ""), ("message", "synced")]
    (started,) = rig.values(ToolStarted)
    assert (started.name, started.replay, started.attempt) == ("pay", "never", 1)


@pytest.mark.parametrize(("name", "runs"), [("look", 2), ("pay", 1), ("book", 1)])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_after_the_effect(name, runs, after):
    """RUN-6: `safe` runs again, `never` is reported as unknown, `receipt` asks the tool for its result."""
    rig = _rig((name, 8))
    rig.session.say("Go.")
    begun = _write_of(rig, "tool_started")
    assert rig.die(begun + 1, after=after)
    assert sum(rig.outside.effects.values()) == 1
    assert rig.wake().decision == Idle()
    assert sum(rig.outside.effects.values()) == (1 if after else runs)
    (result,) = _results(rig)
    assert result.effective_status == ("unknown" if name == "pay" and not after else "ok")
    if name == "book":
        assert result.text == "booked 8"


@pytest.mark.parametrize("name", ["look", "pay", "book"])
def test_a_crash_before_tool_started_is_durable(name):
    """Law 6: a tool that was not started is started."""
    rig = _rig((name, 1))
    rig.session.say("Go.")
    assert rig.die(_write_of(rig, "tool_started"))
    assert rig.outside.effects == {}
    rig.wake()
    assert sum(rig.outside.effects.values()) == 1
    assert _results(rig)[0].effective_status == "ok"


def test_live_output_of_a_killed_tool_is_part_of_its_result():
    """RUN-7, RUN-10: the journaled output becomes part of the one result, and its journal is dropped."""
    rig = _rig(("pay", 3))
    rig.session.say("Go.")
    assert rig.die(_write_of(rig, "tool_started") + 2, after=True)
    assert rig.store.journals("s")
    rig.wake()
    (result,) = _results(rig)
    assert result.text == wording.UNKNOWN + wording.OUTPUT_SO_FAR.format(shown="pay 0\npay 1\n")
    assert rig.store.journals("s") == {}


def _write_of(rig, kind):
    """The number of the write at which an undisturbed worker appends that kind of entry."""
    twin = Rig(rig.replies, **{name: getattr(rig.policy, name) for name in ("clip", "unknown")})
    twin.session.say("Go.")
    twin.kinds()
    twin.wake()
    kinds = ["acquire", *(kind for kind in twin.kinds() if kind not in ("shown", "flushed", "effect", "reset"))]
    return kinds.index(kind)


def test_a_receipt_without_an_answer_is_asked_of_a_person():
    """RUN-6: by policy, a person decides the outcome, and that is the one result."""
    rig = _rig(("book", 5), unknown="ask")
    rig.session.say("Go.")
    assert rig.die(_write_of(rig, "tool_started") + 1)
    rig.wake()
    (question,) = open_questions(rig.session)
    assert question.attention.reason == "unknown"
    resolve_question(rig.session, question.attention.id, "result", result="booked by hand")
    rig.wake()
    assert [result.text for result in _results(rig)] == ["booked by hand"]
    assert sum(rig.outside.effects.values()) == 1


def test_output_is_clipped_when_it_is_written():
    """VIEW-6, LOG-12: the mark is in the log, the whole output in a blob written before.

    A later limit changes nothing.
    """
    rig = _rig(("look", 7), clip=128)
    rig.kinds()
    rig.say("Go.")
    (result,) = _results(rig)
    assert result.truncated
    assert len(result.text.encode()) <= 128
    assert rig.store.blobs.get(result.blob) == b"look 7" * 60
    blob = rig.events.index(("blob", result.blob.digest))
    message = [at for at, event in enumerate(rig.events) if event[0] == "message"][2]
    assert blob < message
    before = build_context(rig.session.branch()).messages
    agent = Agent(model="scripted:m", tools=rig.outside.tools, policy=Policy(clip=16_384))
    agent.enter(rig.session)
    assert build_context(rig.session.branch()).messages == before


def test_calls_of_one_reply_run_concurrently_and_each_has_one_result():
    """Law 7, RUN-7: all are started before any has ended."""
    rig = _rig(("look", 3), ("pay", 2), ("book", 1))
    rig.kinds()
    rig.say("Go.")
    kinds = [kind for kind in rig.kinds() if kind in ("tool_started", "message")]
    assert kinds[2:8] == ["tool_started"] * 3 + ["message"] * 3
    assert {result.tool_name for result in _results(rig)} == {"look", "pay", "book"}


def test_a_result_has_the_duration_of_its_tool():
    """RUN-7: measured by the clock, and only where the tool was started."""
    rig = _rig(("look", 1), ("nosuch", 1))
    rig.outside.interrupt = lambda: setattr(rig.clock, "ms", rig.clock.ms + 5_000)
    rig.say("Go.")
    results = {result.tool_name: result for result in _results(rig)}
    assert 5_000 <= results["look"].duration_ms < 6_000
    assert (results["nosuch"].effective_status, results["nosuch"].duration_ms) == ("error", None)


def test_an_undeclared_tool_gives_an_error_result():
    """RUN-7: the model gets an error and no tool starts."""
    rig = _rig(("ghost", 1))
    rig.say("Go.")
    assert [result.text for result in _results(rig)] == [wording.NO_SUCH_TOOL.format(name="ghost")]
    assert rig.values(ToolStarted) == []


def test_no_approval_is_asked_for_an_unknown_tool():
    """RUN-7: the model gets an error at once, whatever the approval policy."""
    rig = _rig(("ghost", 1), approval="ask")
    assert rig.say("Go.").decision == Idle()
    assert [result.text for result in _results(rig)] == [wording.NO_SUCH_TOOL.format(name="ghost")]
    assert rig.values(Attention) == []


def test_an_installed_tool_that_is_not_declared_is_not_run():
    """RUN-7: only tools declared in the context can be called."""
    rig = _rig(("pay", 1))
    Agent(model="scripted:m", tools=rig.outside.tools[:1], policy=rig.policy).enter(rig.session)
    rig.say("Go.")
    assert rig.outside.effects == {}
    assert [result.status for result in _results(rig)] == ["error"]


def test_a_declared_tool_that_is_missing_here_is_an_error_of_the_wake():
    """RUN-19: this process cannot run the tool: the caller of `wake` gets an error, and there is no result."""
    rig = _rig(("pay", 1))
    rig.session.say("Go.")
    runtime = rig.runtime().with_changes(tools=lambda _, __: {})
    with pytest.raises(NotFound, match="not available in this process"):
        asyncio.run(wake(runtime, "s"))
    assert rig.values(ToolStarted) == _results(rig) == []
    assert rig.wake().decision == Idle()


def test_an_exception_of_a_tool_is_an_error_result():
    """RUN-7: the model gets one line; the turn goes on."""
    rig = _rig(("look", 11))
    rig.say("Go.")
    assert [(result.status, result.text) for result in _results(rig)] == [("error", "ValueError: no luck")]


def test_a_cancel_stops_a_running_tool_and_keeps_its_output():
    """RUN-12, RUN-7: the tool is stopped, its output is kept, and its call is settled as interrupted."""
    rig = _rig(("look", 3))
    rig.outside.interrupt = lambda: rig.session.append(Queued(mode="cancel"))

    rig.session.say("Go.")
    runtime = rig.runtime().with_changes(wait_for_cancel=watch)
    assert asyncio.run(wake(runtime, "s")).decision == Idle("cancelled")
    (result,) = _results(rig)
    assert result.status == "interrupted"
    assert "look 0" in result.text
    assert len(rig.values(Partial)) == len(rig.values(Cancelled)) == 1
    assert rig.store.journals("s") == {}
    assert sum(rig.outside.effects.values()) == 1


def test_a_worker_that_lost_its_lease_starts_no_tool():
    """Law 6, RUN-1: a lost lease is noticed before the effect."""
    rig = _rig(("pay", 1))
    rig.session.say("Go.")
    taken: list[Rig] = []

    class Overtaking(Spied):
        def append(self, session, body, **more):
            if b'"tool_started"' in body and not taken:
                taken.append(rig)
                rig.now += 1e9
                rig.session.acquire("another", ttl_s=1)
            return super().append(session, body, **more)

    rig.store.__class__ = Overtaking
    with pytest.raises(LeaseLost, match="taken over this session"):
        rig.wake()
    assert rig.outside.effects == {}

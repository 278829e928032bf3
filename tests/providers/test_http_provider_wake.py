"""Whole sessions at every door: whatever a server does, the right word is in the log, and wake goes on behind it."""

import asyncio
import threading

import pytest

from tests.loopback import CUT, Answer, Hold, Loopback
from tests.patience import PATIENCE_S
from tests.providers.openai.living import Ahead
from tests.providers.wire_formats import KEY, RIGS
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.log.content import Reply
from wakelog.log.entry import Cancelled, Failed, Message, Queued
from wakelog.providers.http_provider import HttpProvider
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

# What a server does instead of answering, and what it is called.
FAULTS = {
    "rate_limited": lambda rig: Answer([b"{}"], 429, {"retry-after-ms": "1234"}),
    "overloaded": lambda rig: Answer([b"{}"], 529, {}),
    "timeout": lambda rig: Answer([b"{}"], 408, {}),
    "server": lambda rig: Answer([b"{}"], 409, {}),
    "cut": lambda rig: Answer([*rig.half, CUT]),
    "malformed": lambda rig: Answer([*rig.half, b"data: {oops\n\n"]),
}


class Life:
    """One session at one door."""

    def __init__(self, rig, server, *, idle_timeout_s=PATIENCE_S):
        self.store, self.clock = MemoryStore(), Ahead()
        door = HttpProvider(rig.way, environ={rig.way.vendor.key_variables[0]: KEY}, idle_timeout_s=idle_timeout_s)
        params = {"endpoint": f"{server.url}{rig.path}"}
        self.session = Agent(model=f"{door.name}:m", params=params).begin(self.store)
        self.session.say("Hi.")
        self._runtime = LiveRuntime(self.store, provider=lambda *_: door, clock=self.clock)

    def wake(self):
        runtime = self._runtime.with_changes(sleep=self.clock.pause)
        return asyncio.run(wake(runtime, self.session.name)).decision

    def values(self, kind):
        return [entry.value for entry in self.session.read().entries if isinstance(entry.value, kind)]

    @property
    def replies(self):
        return [each.message.text for each in self.values(Message) if isinstance(each.message, Reply)]


@pytest.fixture(params=RIGS)
def rig(request):
    return RIGS[request.param]


@pytest.fixture
def server():
    with Loopback() as running:
        yield running


@pytest.mark.parametrize("kind", FAULTS)
def test_then_wake_goes_on(rig, server, kind):
    """RUN-8, RUN-12: the same word at every door, then the reply, and no request but these two."""
    life = Life(rig, server)
    server.play(FAULTS[kind](rig), Answer(rig.whole))
    assert life.wake() == Idle()
    (failed,) = life.values(Failed)
    assert (failed.error.kind, failed.error.retryable, life.replies) == (kind, True, ["Hi"])
    assert len(server.asked) == 2
    assert server.asked[0].body == server.asked[1].body


def test_a_stream_that_falls_silent(rig, server):
    """RUN-8: it is given up after a while, and asked for again."""
    gate = threading.Event()
    life = Life(rig, server, idle_timeout_s=0.3)
    server.play(Answer([*rig.half, Hold(gate)]), Answer(rig.whole))
    assert life.wake() == Idle()
    gate.set()
    assert ([each.error.kind for each in life.values(Failed)], life.replies) == (["timeout"], ["Hi"])


@pytest.mark.parametrize("is_begun", [False, True], ids=["before a word", "in the middle"])
def test_a_person_cancels_what_is_silent(rig, server, is_begun):
    """A server that says nothing holds nobody: the turn ends at once, and the next one is answered."""
    gate, reached = threading.Event(), threading.Event()
    life = Life(rig, server)
    server.play(Answer([*(rig.half if is_begun else []), Hold(gate, reached)]), Answer(rig.whole))

    def person():
        assert reached.wait(PATIENCE_S)
        Session(life.store, life.session.name).append(Queued(mode="cancel"))

    thread = threading.Thread(target=person)
    thread.start()
    assert life.wake() == Idle(outcome="cancelled")
    thread.join()
    gate.set()
    assert ([each.reason for each in life.values(Cancelled)], life.values(Failed)) == (["asked by a person"], [])
    life.session.say("Again.")
    assert (life.wake(), life.replies) == (Idle(), ["Hi"])

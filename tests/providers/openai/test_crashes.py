"""Workers that die at any write, and a session that changes its provider in between: every request is still valid."""

import asyncio

import pytest

from tests.loopback import Loopback
from tests.providers.openai.asking import MODEL
from tests.providers.openai.living import SESSION, Place
from tests.providers.openai.test_living import Wire
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Message
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash

WIRES = {"/v1/responses": Wire("openai"), "/v1/chat/completions": Wire("openai-chat")}
# One turn of two replies and two calls writes less often than this.
WRITES = 80
STRIDE = 7


class Sessions:
    """A session in memory that outlives its workers, at one server that speaks both protocols."""

    def __init__(self, folder, server):
        self.now = 0.0
        self.place = Place(folder, MemoryStore(now=lambda: self.now))
        self.server = server
        self.place.begin("openai", server.url)

    @property
    def session(self):
        return Session(self.place.store, SESSION)

    def switch(self, provider):
        """Goes on with another model."""
        params = {"endpoint": f"{self.server.url}/v1"}
        tools, hooks = (self.place.tool(),), (self.place.hook,)
        agent = Agent(
            model=f"{provider}:{MODEL}", name="crab", system="Be brief.", tools=tools, hooks=hooks, params=params
        )
        agent.enter(self.session)

    def wake(self, dies_at=None, *, after=False):
        """Lets a worker go on; whether it died."""
        self.now += 1e9
        store = self.place.store if dies_at is None else CrashingStore(self.place.store, dies_at=dies_at, after=after)
        runtime = LiveRuntime(store, tools=(self.place.tool(),), hooks=(self.place.hook,), clock=self.place.clock)
        try:
            report = asyncio.run(wake(runtime.with_changes(sleep=self.place.clock.pause), SESSION))
        except SimulatedCrash:
            self.now += 1e9
            return True
        assert report.decision == Idle()
        return False


def _answer(asked):
    return WIRES[asked.path](asked)


def _judged(server):
    for asked in server.asked:
        WIRES[asked.path].judge(asked.json)


def _said(session, kind):
    nodes = session.branch().nodes
    return [
        node.value.message for node in nodes if isinstance(node.value, Message) and isinstance(node.value.message, kind)
    ]


@pytest.mark.parametrize("first", ["openai", "openai-chat"])
def test_requests_stay_valid_whoever_dies(first, tmp_path):
    """Laws 6, 7 and 15: over crash points and switches of the provider, nothing that the wire would refuse is sent."""
    other = {"openai": "openai-chat", "openai-chat": "openai"}[first]
    deaths = 0
    for dies_at in range(0, WRITES, STRIDE):
        with Loopback(_answer) as server:
            rig = Sessions(tmp_path / str(dies_at), server)
            for turn, provider in enumerate([first, other, first]):
                rig.switch(provider)
                rig.session.say(f"Turn {turn}")
                deaths += rig.wake(dies_at, after=bool(turn % 2))
                if turn == 1:
                    # Whoever takes over may be asked to use another model in the middle of a turn.
                    rig.switch(first)
                rig.wake()
            _judged(server)
        replies = _said(rig.session, Reply)
        assert [reply.stop_reason for reply in replies] == ["tools", "stop"] * 3
        assert len(_said(rig.session, ToolResult)) == 6
        assert len(set(rig.place.looks)) == len(rig.place.looks), "no call has run twice"
    assert deaths > WRITES // STRIDE, deaths

"""Rig for tests of single runtime actions: a memory store, a scripted model, and tools that count their runs."""

import asyncio

from tests.kernel.plays import Play
from tests.laws.plays import Outside, Ticking
from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.policy import Policy
from wakelog.log.codec import decode
from wakelog.log.content import decode_delta
from wakelog.ports.runtime import OpenProvider
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash


class Spied(MemoryStore):
    """A memory store that appends the name of every operation to the event list of the rig."""

    def __init__(self, events, **more):
        super().__init__(**more)
        self.events = events
        self._put = self._blobs.put
        self._blobs.put = self._spied_put  # type: ignore[method-assign]

    def _spied_put(self, content, media_type=""):
        ref = self._put(content, media_type)
        self.events.append(("blob", ref.digest))
        return ref

    def append(self, session, body, *, durable=True, **more):
        sealed = super().append(session, body, durable=durable, **more)
        self.events.append((decode(body).type, "synced" if durable else "not synced"))
        return sealed

    def journal(self, session, reply_id, piece, **more):
        super().journal(session, reply_id, piece, **more)
        self.events.append(("journal", decode_piece(piece)))

    def drop(self, session, reply_id, **more):
        if reply_id in self.journals(session):
            self.events.append(("drop", "journal"))
        super().drop(session, reply_id, **more)


def decode_piece(piece):
    return getattr(decode_delta(piece), "text", "")


class Spying(MemoryChannel):
    """A channel that records what it receives."""

    def __init__(self, events):
        super().__init__("outbox")
        self.events = events
        self.breaks = False
        self.on_delta = lambda: None

    async def delta(self, reply_id, offset, text):
        await super().delta(reply_id, offset, text)
        self.events.append(("shown", text))
        self.on_delta()

    async def reset(self, reply_id):
        await super().reset(reply_id)
        self.events.append(("reset", reply_id))

    async def end(self, reply_id):
        if self.breaks:
            raise OSError("the line is dead")
        await super().end(reply_id)
        self.events.append(("flushed", reply_id))


class Flaky(MemoryChannel):
    """A channel that raises at the `place` of a reply for a number of `times`, and records its calls."""

    def __init__(self, name="outbox", place="begin", times=0, *, error=None):
        super().__init__(name)
        self.place, self.times = place, times
        self.error = error or ConnectionResetError("connection reset by peer")
        self.asked = []

    def _meet(self, place, reply_id):
        self.asked.append((place, reply_id))
        if place == self.place and self.times:
            self.times -= 1
            raise self.error

    async def begin(self, reply_id, attempt):
        self._meet("begin", reply_id)
        await super().begin(reply_id, attempt)

    async def delta(self, reply_id, offset, text):
        await super().delta(reply_id, offset, text)
        self._meet("delta", reply_id)

    async def reset(self, reply_id):
        self._meet("reset", reply_id)
        await super().reset(reply_id)

    async def end(self, reply_id):
        self._meet("end", reply_id)
        await super().end(reply_id)


class Rig:
    """One session `s` of an agent with the tools look, pay and book; `replies` are by prompt."""

    def __init__(self, replies, *, summary="They talked.", can_resume=False, **agreed):
        self.now = 0.0
        self.clock = Ticking()
        self.events: list[tuple[str, str]] = []
        self.store = Spied(self.events, now=lambda: self.now)
        self.outside = Outside()
        self.channel = self.outside.channel = Spying(self.events)
        self.outside.interrupt = lambda: self.events.append(("effect", ""))
        self.replies = replies
        self.provider: OpenProvider = Play(replies, summary=summary, can_resume=can_resume)
        self.policy = Policy(**agreed)
        self.hooks = ()
        Session.create(self.store, clock=self.clock, model="m", provider="scripted", session_id="s")
        Agent(model="scripted:m", tools=self.outside.tools, policy=self.policy).enter(self.session)

    @property
    def session(self):
        return Session(self.store, "s", clock=self.clock)

    @property
    def entries(self):
        return read_log(self.store, "s").entries

    def values(self, *kinds):
        return [entry.value for entry in self.entries if isinstance(entry.value, kinds)]

    def runtime(self, store=None):
        runtime = LiveRuntime(
            store or self.store,
            tools=self.outside.tools,
            channels=[self.outside.channel],
            hooks=self.hooks,
            provider=self.provider,
            clock=self.clock,
            holder="w",
        )
        at_hand = {each.name: each for each in self.outside.tools}
        return runtime.with_changes(sleep=self.clock.pause, tools=lambda _, __: at_hand)

    def wake(self, **more):
        return asyncio.run(wake(self.runtime(), "s", **more))

    def kinds(self):
        """Return the first word of each event since the last call, and clear the events."""
        seen = [event[0] for event in self.events]
        self.events.clear()
        return seen

    def say(self, text):
        self.session.say(text)
        return self.wake()

    def die(self, at, *, after=False):
        """Wake the session with a worker that crashes at its nth write; return whether it crashed."""
        self.now += 1e9
        try:
            asyncio.run(wake(self.runtime(CrashingStore(self.store, dies_at=at, after=after)), "s"))
        except SimulatedCrash:
            self.now += 1e9
            return True
        return False


def asks(*calls, text="On it."):
    """A reply that calls tools, each given as (name, n)."""
    return {"text": text, "toolCalls": [{"name": name, "input": {"n": n}} for name, n in calls]}

"""Law 8 on the wire: in a long session every request begins with the bytes of the one before, and the cache is met."""

import asyncio
import json

import msgspec

from tests.loopback import Loopback
from tests.providers.anthropic.living import MODEL, Ahead, world_of
from tests.providers.anthropic.speaking import answer, call, provider, redacted, refused, reply, text, thought
from tests.providers.anthropic.validating import bare, complaints
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.runtime.wake import wake
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import tool

TURNS = 30
# How far back from a mark the cache looks for a place it knows.
_LOOKS_BACK = 20


class Injecting:
    """A model that is told something new with every request."""

    name = "anthropic"
    can_resume = False

    def __init__(self, behind):
        self._behind = behind
        self.told = []

    def stream(self, request):
        self.told.append(f"This is request {len(self.told)}.")
        return self._behind.stream(msgspec.structs.replace(request, injected=(self.told[-1],)))


class Looker:
    """A model that thinks, looks at several things at once, answers, and is sometimes overloaded."""

    def __init__(self):
        self._was_overloaded = False

    def __call__(self, asked):
        said, number = asked.json["messages"][-1]["content"], len(asked.json["messages"])
        if said[0]["type"] == "tool_result":
            return answer(*reply(text(0, f"That was {number}.")))
        self._was_overloaded = number % 14 == 1 and not self._was_overloaded
        if self._was_overloaded:
            return refused(529, "overloaded_error")
        return answer(*reply(thought(0, f"Hm {number}"), redacted(1), *self._looks(number), stop="tool_use"))

    def _looks(self, number):
        """Now and then more of them than a cache looks back over."""
        last = 30 if number in (25, 77) else 3 + number % 3
        return [call(at, f"toolu_{number}_{at}", "look", json.dumps({"n": at})) for at in range(2, last)]


@tool(replay="safe")
async def look(n: int) -> str:
    """Looks."""
    return f"seen {n}" if n % 3 else ""


def _run():
    """Thirty turns; gives the bodies, and what was injected into each."""
    store, clock = MemoryStore(), Ahead()
    agent = Agent(model=f"anthropic:{MODEL}", system="Look closely.", tools=(look,), params={"effort": "low"})
    session = agent.begin(store)
    with Loopback(Looker()) as server:
        model = Injecting(provider(server))
        runtime = world_of(store, model, tools=(look,), clock=clock)
        for turn in range(TURNS):
            session.say(f"Turn {turn}." if turn % 5 else f"Turn {turn}.\n  ")
            assert asyncio.run(wake(runtime, session.name)).decision == Idle()
        return [asked.json for asked in server.asked], model.told, clock.waits


def _stable(body):
    """What is said in a request, block by block, as bytes, without marks and what is injected."""
    said = [[message["role"], bare(block)] for message in body["messages"] for block in message["content"]]
    return [json.dumps(block, ensure_ascii=False).encode() for block in said[:-1]]


def _marks(body):
    """How many blocks stand before the end of each mark."""
    said = [block for message in body["messages"] for block in message["content"]]
    return [at + 1 for at, block in enumerate(said) if "cache_control" in block]


def test_a_long_session_keeps_its_prefix():
    """Law 8, VIEW-5: over 30 turns with tools, thoughts, faults and injected context."""
    bodies, told, waits = _run()
    assert len(bodies) > 2 * TURNS
    assert waits, "some were overloaded"
    assert len(bodies) == len(told)
    cached: set[bytes] = set()
    seals = {each.get("signature") or each.get("data") for each in _thoughts(bodies[-1])}
    for before, body, injected in zip([None, *bodies], bodies, told, strict=False):
        assert complaints(body, own=seals, injected=[injected]) == []
        stable, marks = _stable(body), _marks(body)
        if before is not None:
            assert b"".join(stable).startswith(b"".join(_stable(before)))
            around = [{**each, "messages": None} for each in (before, body)]
            assert around[0] == around[1]
            assert _found(stable, marks, cached) >= _marks(before)[-1], "the cache does not know where it was"
        cached |= {b"".join(stable[:mark]) for mark in marks}
    assert len(_thoughts(bodies[-1])) == 2 * TURNS, "all of them went back"


def _thoughts(body):
    return [block for message in body["messages"] for block in message["content"] if "thinking" in block["type"]]


def _found(stable, marks, cached):
    """The longest stretch that a cache knows, which looks back from each mark over so many blocks."""
    places = [at for mark in marks for at in range(max(0, mark - _LOOKS_BACK), mark + 1)]
    return max((at for at in places if b"".join(stable[:at]) in cached), default=0)

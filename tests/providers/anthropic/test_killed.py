"""Kill -9 in the middle of a reply: what was shown is kept, and the next wake asks for the reply again."""

import asyncio
import threading

import pytest

from tests.kernel.watching import Watched, until
from tests.loopback import Answer, Hold, Loopback, events
from tests.patience import PATIENCE_S
from tests.providers.anthropic.living import MODEL, SESSION, Place, world_of
from tests.providers.anthropic.speaking import STREAMED, answer, call, provider, reply, text, thought
from tests.providers.anthropic.validating import complaints
from wakelog.app.agent import Agent
from wakelog.decide.assembly import parts_from_journal
from wakelog.decide.decisions import Idle
from wakelog.log.content import Reply, Text, Thinking, ToolResult
from wakelog.log.entry import Message, ModelCall, Partial, Resumed
from wakelog.runtime.wake import wake
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import CrashingStore, SimulatedCrash
from wakelog.tools.function_tool import tool

PAY = call(2, "toolu_1", "pay", '{"amou', 'nt": 7}')
WHOLE = reply(thought(0, "I must ", "pay"), text(1, "I ", "pay."), PAY, stop="tool_use")
DONE = reply(text(0, "It is paid."))
# How many events of the reply came before the kill, and what they say; the last words may be held back a little.
KILLS = {
    "before a word": (1, ()),
    "in a thought": (3, (Thinking(thinking="I must "),)),
    "behind a word": (8, (Thinking(thinking="I must pay", signature="sig=="), Text(text="I "))),
    "in a call": (12, (Thinking(thinking="I must pay", signature="sig=="), Text(text="I pay."))),
}


def _said(entries, kind):
    return [
        entry.value.message
        for entry in entries
        if isinstance(entry.value, Message) and isinstance(entry.value.message, kind)
    ]


@pytest.mark.parametrize("name", KILLS)
def test_a_worker_is_killed_in_a_reply(tmp_path, name):
    """Law 5, law 6, RUN-8: the journal is kept as `partial`, the reply is replaced, and its tool runs once."""
    count, told = KILLS[name]
    place, gate, reached = Place(tmp_path), threading.Event(), threading.Event()
    session = place.begin("Pay.")
    with Loopback() as server:
        server.play(Answer([*events(*WHOLE[:count]), Hold(gate, reached)], headers=STREAMED))
        with Watched(tmp_path, server.url, module="tests.providers.anthropic.living") as worker:
            assert reached.wait(PATIENCE_S)
            until(lambda: _is_beginning(_shown(place), told))
            worker.kill()
        gate.set()
        left = _shown(place)
        assert place.paid() == [], "half a call is no call"
        server.play(answer(*WHOLE), answer(*DONE))
        assert place.wake(server.url).decision == Idle()
        bodies = [asked.json for asked in server.asked]
    entries = session.read().entries
    assert [entry.value.content for entry in entries if isinstance(entry.value, Partial)] == ([left] if left else [])
    assert [entry.value.strategy for entry in entries if isinstance(entry.value, Resumed)] == ["replace"]
    first, second, third = (entry.value for entry in entries if isinstance(entry.value, ModelCall))
    assert (first.reply_id == second.reply_id, first.context_digest == second.context_digest) == (True, True)
    assert bodies[0] == bodies[1], "it is the same question"
    assert [reply.text for reply in _said(entries, Reply)] == ["I pay.", "It is paid."]
    assert (place.paid(), [result.status for result in _said(entries, ToolResult)]) == (["7"], ["ok"])
    assert third.reply_id != first.reply_id
    assert place.store.journals(SESSION) == {}


def test_a_worker_dies_at_every_write():
    """Law 6, law 7, RUN-8: wherever it ends, the next one asks a question that is taken, and pays at most once."""
    for after in (False, True):
        dies_at = 0
        while _died(dies_at, after=after):
            dies_at += 1
        assert dies_at > 15, "a reply is written piece by piece"


def _died(dies_at, *, after):
    """A session whose first worker dies at that write, then another that does not; whether the first one did."""
    now, paid = [0.0], []

    @tool(replay="never")
    async def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    store = MemoryStore(now=lambda: now[0])
    session = Agent(model=f"anthropic:{MODEL}", tools=(pay,)).begin(store)
    session.say("Pay.")
    with Loopback(_pays) as server:
        first = _woken(CrashingStore(store, dies_at=dies_at, after=after), server, pay, session.name)
        now[0] += 1e9
        second = _woken(store, server, pay, session.name)
    assert second == Idle()
    assert len(paid) <= 1
    assert [reply.text for reply in _said(session.read().entries, Reply)] == ["I pay.", "It is paid."]
    (result,) = _said(session.read().entries, ToolResult)
    assert (result.status, paid) in (("ok", [7]), ("unknown", [7]), ("unknown", []))
    for asked in server.asked:
        assert complaints(asked.json, own={"sig=="}) == []
    return first is None


def _pays(asked):
    return answer(*(DONE if asked.json["messages"][-1]["content"][0]["type"] == "tool_result" else WHOLE))


def _woken(store, server, pay, name):
    """How a worker left the session; None if it died."""
    try:
        return asyncio.run(wake(world_of(store, provider(server), tools=(pay,)), name)).decision
    except SimulatedCrash:
        return None


def _is_beginning(shown, told):
    """Whether all parts have been shown, the last of them at least in part."""
    if not told or len(shown) != len(told):
        return shown == told
    return shown[:-1] == told[:-1] and _words(told[-1]).startswith(_words(shown[-1]))


def _words(part):
    return part.text if isinstance(part, Text) else part.thinking


def _shown(place):
    (pieces,) = list(place.store.journals(SESSION).values()) or [()]
    return parts_from_journal(pieces)

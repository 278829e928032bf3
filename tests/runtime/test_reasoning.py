"""LOG-18 in a running session: reasoning that is not kept reaches no journal, no entry and no request."""

import asyncio

import pytest

from tests.runtime.rigs import Rig
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.errors import UsageError
from wakelog.log.content import Faulted, Finished, Reply, Text, TextDelta, Thinking, ThinkingDelta, decode_delta
from wakelog.log.entry import Compaction, Message, ModelCall, Partial
from wakelog.runtime.replay.verification import replay
from wakelog.stores.memory import MemoryStore

THOUGHT = "The secret plan is to say hello."
SHORT = "It plans a greeting."


class Thinker:
    """A model with open reasoning and a summary, whose replies are sometimes cut off."""

    name = "thinker"
    can_resume = False

    def __init__(self, *, end=None, needs_back=False):
        self.needs_reasoning_back = needs_back
        self.requests = []
        self._end = end or Finished()

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        self.requests.append(request)
        yield ThinkingDelta(SHORT, summary=True)
        yield ThinkingDelta("", "sealed", {"id": "rs_1"})
        yield ThinkingDelta(THOUGHT)
        if request.purpose == "reply":
            yield TextDelta("Hello.")
        yield self._end


def _rig(model, **agreed):
    rig = Rig({}, **agreed)
    rig.provider = model
    return rig


def _everything(rig):
    return b"".join(line.bytes for line in rig.store.load("s"))


def _journaled(rig, monkeypatch):
    """The reasoning text that is journaled from here on."""
    thoughts = []
    kept = rig.store.journal

    def journal(session, reply_id, piece, **more):
        thoughts.append(getattr(decode_delta(piece), "thinking", ""))
        kept(session, reply_id, piece, **more)

    monkeypatch.setattr(rig.store, "journal", journal)
    return thoughts


PARTS = {
    "keep": [Thinking(thinking=SHORT, signature="sealed", bound={"id": "rs_1"}), Thinking(thinking=THOUGHT)],
    "summary": [Thinking(thinking=SHORT, signature="sealed", bound={"id": "rs_1"})],
    "drop": [],
}


@pytest.mark.parametrize("reasoning", PARTS)
def test_a_reply_keeps_the_reasoning_that_the_policy_allows(monkeypatch, reasoning):
    """LOG-18, law 11: log and journal hold what the policy allows, and the log replays."""
    rig = _rig(Thinker(), reasoning=reasoning)
    journaled = _journaled(rig, monkeypatch)
    rig.say("Go.")
    (reply,) = [value.message for value in rig.values(Message) if isinstance(value.message, Reply)]
    assert list(reply.content) == [*PARTS[reasoning], Text(text="Hello.")]
    assert "".join(journaled) == "".join(part.thinking for part in PARTS[reasoning])
    assert asyncio.run(replay(rig.store, "s")).ok


@pytest.mark.parametrize("reasoning", PARTS)
def test_a_partial_keeps_the_reasoning_that_the_policy_allows(reasoning):
    """LOG-18: a partial is an entry too."""
    rig = _rig(Thinker(end=Faulted("connection", "gone")), reasoning=reasoning)
    rig.say("Go.")
    (partial,) = rig.values(Partial)
    assert [part for part in partial.content if isinstance(part, Thinking)] == PARTS[reasoning]
    assert asyncio.run(replay(rig.store, "s")).ok


@pytest.mark.parametrize("reasoning", PARTS)
def test_an_unusable_summary_is_kept_without_its_reasoning(reasoning):
    """LOG-18: a failed compaction keeps the received text without reasoning that is not kept."""
    rig = _rig(Thinker(), reasoning=reasoning, compact_at=1, keep=0)
    rig.say("Go.")
    rig.say("Go on.")
    assert rig.values(Compaction) == []
    assert any(call.purpose == "compaction" for call in rig.values(ModelCall))
    assert (THOUGHT.encode() in _everything(rig)) == (reasoning == "keep")
    assert asyncio.run(replay(rig.store, "s")).ok


@pytest.mark.parametrize("reasoning", ["summary", "drop"])
def test_a_provider_that_needs_reasoning_back_is_refused_before_the_call(reasoning):
    """LOG-18: before the call is written and before the model is asked."""
    model = Thinker(needs_back=True)
    rig = _rig(model, reasoning=reasoning)
    with pytest.raises(UsageError, match="does not work with thinker, which needs signed reasoning"):
        rig.say("Go.")
    assert rig.values(ModelCall) == []
    assert model.requests == []


@pytest.mark.parametrize("reasoning", ["summary", "drop"])
def test_the_setting_is_refused_when_it_is_made(reasoning):
    """LOG-18: a session that could not run is not written; with `thinking: drop` no reasoning is sent back."""
    store, policy = MemoryStore(), Policy(reasoning=reasoning)
    with pytest.raises(UsageError, match="does not work with anthropic, which needs signed reasoning"):
        Agent(model="anthropic:claude-x", policy=policy).begin(store)
    assert list(store.sessions()) == []
    Agent(model="anthropic:claude-x", policy=policy, params={"thinking": "drop"}).begin(store)
    for model in ("openai:gpt-x", "openai-chat:m", "demo"):
        Agent(model=model, policy=policy).begin(store)

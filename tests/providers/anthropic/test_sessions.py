"""Whole sessions on this wire: models that change in the middle, folds, and replies that end in their own way."""

import asyncio

import pytest

from tests.loopback import Loopback
from tests.providers.anthropic.living import MODEL, Ahead, world_of
from tests.providers.anthropic.speaking import answer, call, provider, refused, reply, text, thought
from tests.providers.anthropic.validating import complaints
from wakelog.app.agent import Agent
from wakelog.decide.decisions import Idle
from wakelog.decide.policy import Policy
from wakelog.log.content import Reply
from wakelog.log.entry import Compaction, Failed, Message
from wakelog.providers.scripted import ScriptedProvider
from wakelog.runtime.wake import wake
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import tool

OTHER = "claude-opus-5"


@tool(replay="safe")
async def look(n: int = 0) -> str:
    """Looks."""
    return f"seen {n}"


class Life:
    """One session, and a server that says what it is told."""

    def __init__(self, server, model=MODEL, **more):
        self.server, self.store = server, MemoryStore()
        self.models = {"anthropic": provider(server)}
        self.session = self._agent(model, **more).begin(self.store)

    def _agent(self, model, **more):
        provider_name = "" if ":" in model else "anthropic:"
        return Agent(model=f"{provider_name}{model}", tools=(look,), **more)

    def switch(self, model, **more):
        self._agent(model, **more).enter(self.session)

    def turn(self, prompt, *answers, steps=None):
        """What is decided in the end, with these answers of the server."""
        self.server.play(*answers)
        if prompt:
            self.session.say(prompt)
        runtime = world_of(self.store, None, tools=(look,), clock=Ahead())
        runtime = runtime.with_changes(open_provider=lambda name, _: self.models[name])
        return asyncio.run(wake(runtime, self.session.name, steps=steps)).decision

    def values(self, kind):
        return [entry.value for entry in self.session.read().entries if isinstance(entry.value, kind)]

    def replies(self):
        return [value.message for value in self.values(Message) if isinstance(value.message, Reply)]


@pytest.fixture
def server():
    with Loopback() as running:
        yield running


def looks(seal, n=1):
    return answer(
        *reply(thought(0, seal, signature=seal), call(1, "toolu_1", "look", f'{{"n": {n}}}'), stop="tool_use")
    )


def says(words, seal=None):
    thoughts = [thought(0, seal, signature=seal)] if seal else []
    return answer(*reply(*thoughts, text(len(thoughts), words)))


def seals(body):
    return [block["signature"] for said in body["messages"] for block in said["content"] if block["type"] == "thinking"]


def test_a_session_changes_its_model(server):
    """RUN-8: in the middle of a turn too; each model gets its own thoughts back, and everybody's words and calls."""
    life = Life(server)
    life.turn("One.", looks("a1"), says("So.", "a2"))
    life.switch(OTHER)
    life.turn("Two.", looks("b1"), says("Well.", "b2"))
    life.models["scripted"] = ScriptedProvider(
        [{}] * 4 + [{"thinking": "?", "text": "", "toolCalls": [{"name": "look"}]}]
    )
    life.switch("scripted:x")
    life.turn("Three.", steps=2)
    life.switch(MODEL)
    assert life.turn("", says("Done.", "a3")) == Idle()
    bodies = [asked.json for asked in server.asked]
    assert [(body["model"], seals(body)) for body in bodies] == [
        (MODEL, []),
        (MODEL, ["a1"]),
        (OTHER, []),
        (OTHER, ["b1"]),
        (MODEL, ["a1", "a2"]),
    ]
    for body in bodies:
        assert complaints(body, own=seals(body)) == []
    assert bodies[-1]["messages"][-1]["content"][0]["type"] == "tool_result"
    assert [each.text for each in life.replies()][-1] == "Done."


def test_a_fold(server):
    """RUN-8: the wish for a summary comes last, no tool may be called, and the next request is whole."""
    life = Life(server, policy=Policy(compact_at=60, keep=1))
    life.turn("One. " * 40, looks("a1"), says("So. " * 60))
    assert life.turn("Two.", says("They looked."), says("Done.")) == Idle()
    (fold,) = life.values(Compaction)
    assert "They looked." in fold.summary
    asked = [each.json for each in server.asked]
    folding = [body for body in asked if "tool_choice" in body]
    assert [body["tool_choice"] for body in folding] == [{"type": "none"}]
    for body in asked:
        assert complaints(body, own={"a1"}, injected=_tail(body)) == []
    assert "cache_control" not in folding[0]["messages"][-1]["content"][-1]
    assert [each.text for each in life.replies()][-1] == "Done."


def _tail(body):
    return [body["messages"][-1]["content"][-1]["text"]] if "tool_choice" in body else []


@pytest.mark.parametrize(
    ("stop", "word"), [("refusal", "refusal"), ("max_tokens", "length"), ("pause_turn", "pause"), ("end_turn", "stop")]
)
def test_replies_end_in_their_own_way(server, stop, word):
    """RUN-8: the reply is kept with the reason it ended, the turn is over, and the session goes on."""
    life = Life(server)
    assert life.turn("One.", answer(*reply(text(0, "I can"), stop=stop))) == Idle()
    assert life.turn("Two.", says("Now I do.")) == Idle()
    assert [(each.text, each.stop_reason) for each in life.replies()] == [("I can", word), ("Now I do.", "stop")]


def test_a_conversation_that_is_too_long_says_so(server):
    """RUN-8: it is not asked again as it is."""
    life = Life(server)
    life.turn("One.", *[refused(400, message="prompt is too long: 9 tokens > 8 maximum")] * 3)
    assert life.values(Failed)[0].error.kind == "context_overflow"

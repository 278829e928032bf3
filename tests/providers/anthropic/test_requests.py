"""Requests that the interface takes, whatever happened: random logs and parts, switches of model, workers that died.

Every body is judged by `validating.py`, which knows nothing of how it was made.
"""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.logs import STORIES, tell
from tests.laws.plays import ACTIONS, KILLS, SEEDS, Play
from tests.providers.anthropic.speaking import MODEL, body_of
from tests.providers.anthropic.validating import complaints
from tests.providers.asking import TOOLS
from wakelog.log.content import Image, Prompt, Reply, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Message
from wakelog.ports.runtime import ModelRequest
from wakelog.projections.context import build_context
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import SessionBuilder

INJECTED = st.sampled_from([(), ("It rains.",), ("", " ", "It is late.", "x")])
PLANS = st.sampled_from(["full", "window:2", "window:5", "budget:20"])


def own_seals(request):
    """The signatures and seals that came from this very model."""
    return {
        part.signature or (part.bound or {})["data"]
        for message in request.messages
        if (message.provider, message.model) == ("anthropic", request.model)
        for part in message.content
        if isinstance(part, Thinking) and (part.signature or (part.bound or {}).get("data"))
    }


def assert_taken(request):
    assert complaints(body_of(request), own=own_seals(request), injected=request.injected) == []


# ── logs as they are ─────────────────────────────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(STORIES, PLANS, INJECTED)
def test_any_log_makes_a_request(steps, plan, injected):
    """RUN-8: calls left open, forks, folds and windows never make a body that is refused."""
    context = build_context(tell(steps).session.branch(), plan)
    assert_taken(ModelRequest(model=MODEL, messages=context.messages, injected=injected, system="s", tools=TOOLS))


# ── parts as they may be ─────────────────────────────────────────────────────────────────────────

_WORDS = st.sampled_from(["", " ", "\n", "so", "ä\u2028", "x" * 30])
_SEALS = st.sampled_from(["sig1", "sig2", "sig3"])
_THOUGHTS = st.one_of(
    st.builds(lambda words: Thinking(thinking=words), _WORDS),
    st.builds(lambda words, seal: Thinking(thinking=words, signature=seal), _WORDS, _SEALS),
    st.builds(lambda seal: Thinking(bound={"type": "redacted_thinking", "data": f"{seal}r"}), _SEALS),
    st.builds(lambda seal: Thinking(signature=seal, bound={"id": "rs_1", "summary": []}), _SEALS),
)
_CALLS = st.builds(
    lambda call_id, name, given: ToolCall(id=call_id, name=name, input=given, bound={"id": "fc_1"}),
    st.sampled_from(["t0", "t1", "t.1", "", "call_9", "é" * 80]),
    st.sampled_from(["read", "", "a.b c"]),
    st.sampled_from([None, {}, {"b": 1, "a": None}, [1], "text"]),
)
_TEXTS = st.builds(lambda words: Text(text=words, bound={"id": "msg_1"}), _WORDS)
_PICTURES = st.sampled_from([Image(mime_type="image/png", data="AA=="), Image(mime_type="image/tiff", data="AA==")])
_WHO = st.sampled_from([("anthropic", MODEL), ("anthropic", "claude-opus-5"), ("openai", "gpt"), (None, None)])


@st.composite
def _told(draw):
    """A session of messages by hand: replies of several models, results that come in any order, twice, or never."""
    story = SessionBuilder(MemoryStore())
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            parts = tuple(draw(st.lists(_TEXTS | _PICTURES, max_size=3)))
            story.session.append(Message(message=Prompt(content=parts)))
            continue
        provider, model = draw(_WHO)
        parts = tuple(draw(st.lists(_THOUGHTS | _TEXTS | _CALLS, max_size=6)))
        reply = story.session.append(Message(message=Reply(content=parts, provider=provider, model=model)))
        for call in draw(st.permutations([part for part in parts if isinstance(part, ToolCall)])):
            for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
                content = tuple(draw(st.lists(_TEXTS | _PICTURES, max_size=2)))
                result = ToolResult(
                    tool_call_id=call.id, reply_id=reply.id, content=content, is_error=draw(st.booleans())
                )
                story.session.append(Message(message=result))
    return build_context(story.session.branch(), draw(PLANS))


@settings(max_examples=150, deadline=None)
@given(_told(), INJECTED, st.sampled_from(["reply", "compaction"]), st.sampled_from([MODEL, "claude-haiku-4-5"]))
def test_any_parts_make_a_request(context, injected, purpose, model):
    """RUN-8: over switches of provider and model, thoughts go only where they came from, and pairs are whole."""
    params = {"effort": "high"}
    request = ModelRequest(
        model=model, messages=context.messages, injected=injected, purpose=purpose, tools=TOOLS, params=params
    )
    assert_taken(request)


@settings(max_examples=100, deadline=None)
@given(_told(), st.data())
def test_a_longer_conversation_begins_with_the_shorter_one(context, data):
    """Law 8: whatever the parts are, the blocks of a request are the first ones of any that goes on from it."""
    starts = [at for at, message in enumerate(context.messages) if message.role == "user"]
    at = data.draw(st.sampled_from([0, *starts]))
    shorter = _blocks(ModelRequest(model=MODEL, messages=context.messages[: at + 1]))
    longer = _blocks(ModelRequest(model=MODEL, messages=context.messages, injected=("x",)))
    if context.messages and context.messages[at].role == "user":
        assert longer[: len(shorter)] == shorter


def _blocks(request):
    """What is said, block by block, by whom, without marks."""
    return [
        (message["role"], {key: value for key, value in block.items() if key != "cache_control"})
        for message in body_of(request)["messages"]
        for block in message["content"]
    ]


# ── plays: a kernel, people, workers that die ────────────────────────────────────────────────────


@settings(max_examples=40, deadline=None)
@given(SEEDS, ACTIONS, KILLS)
def test_every_request_of_a_play_is_taken(seed, actions, kills):
    """Law 7, RUN-8: whoever died wherever, and whoever spoke in between, the next request is one that is taken."""
    play = Play(seed, kills=kills)
    for verb, number in actions:
        play.act(verb, number)
    for request in play.model.requests:
        handed = msgspec.structs.replace(request, params={})
        assert_taken(handed)
        assert_taken(msgspec.structs.replace(handed, messages=tuple(map(_as_ours, request.messages)), model=MODEL))


def _as_ours(message):
    ours = message.role == "assistant"
    return msgspec.structs.replace(message, provider="anthropic", model=MODEL) if ours else message

"""RUN-2: a session that cannot run here stays as it is: no entry and no new session, however often it is tried."""

import asyncio

import pytest

from tests.runtime.rigs import Rig, asks
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.errors import NotFound, UsageError
from wakelog.log.content import Prompt, Text, TextDelta, encode_delta
from wakelog.log.entry import FaultReport, Message, ModelCall, Spawned
from wakelog.questions import open_questions, resolve_question
from wakelog.runtime.lease import hold_lease
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import compact_now
from wakelog.runtime.wake import take_step, wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools.subagent import SubagentProfile, SubagentTool

KEYED = "anthropic:claude"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def _logs(store):
    """The bytes of every session of a store."""
    return {stat.name: [line.raw for line in store.load(stat.name)] for stat in store.sessions()}


def _refused(store, session, **runtime):
    """Wake twice, assert that both are refused and nothing is written; return the error."""
    before = _logs(store)
    for _ in range(2):
        with pytest.raises(UsageError) as error:
            asyncio.run(wake(LiveRuntime(store, **runtime), session.name))
    assert _logs(store) == before
    return error.value


def test_waking_without_a_key_writes_nothing():
    """The prompt stays pending, and the error says which variable to set."""
    store = MemoryStore()
    session = Agent(model=KEYED).begin(store)
    session.say("Hello.")
    error = _refused(store, session)
    assert str(error) == f"{error.message}; {error.hint}"
    assert "no API key for Anthropic; set ANTHROPIC_API_KEY" in str(error)


def test_an_interrupted_reply_without_a_key_is_not_recovered():
    """Law 5: the journal stays for a worker that can continue the reply; `resumed` is not written either."""
    store = MemoryStore()
    session = Agent(model=KEYED).begin(store)
    session.say("Hello.")
    lease = session.acquire("killed", ttl_s=60)
    session.append(ModelCall(reply_id="r", model="claude", provider="anthropic"), lease=lease)
    store.journal(session.name, "r", encode_delta(TextDelta("Once upon")))
    store.release(lease)
    _refused(store, session)
    assert list(store.journals(session.name)) == ["r"]
    with pytest.raises(UsageError):
        asyncio.run(_one_step(store, session))
    assert not any(entry.type == "resumed" for entry in session.read().entries)


async def _one_step(store, session):
    runtime = LiveRuntime(store)
    async with hold_lease(runtime, session) as lease:
        await take_step(runtime, session, lease)


def test_a_session_without_a_model_is_refused_with_a_hint():
    store = MemoryStore()
    session = Session.create(store)
    session.say("Hello.")
    error = _refused(store, session)
    assert f"{session.name} has no model that can be called" in error.message
    assert f"wakelog run -s {session.name} --model PROVIDER:NAME" in error.hint


@pytest.mark.parametrize("params", [{"endpoint": "https://elsewhere.example"}, {"max_tokens": "many"}])
def test_a_bad_endpoint_or_setting_is_refused_before_anything_is_written(params, monkeypatch):
    """Keys are not sent to an endpoint that only a log names, and settings are checked; neither leaves an entry."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    store = MemoryStore()
    session = Agent(model=KEYED, params=params).begin(store)
    session.say("Hello.")
    _refused(store, session)


def test_running_without_a_key_makes_no_session():
    """`Agent.run` checks the model before it creates a session or appends anything."""
    store = MemoryStore()
    for _ in range(2):
        with pytest.raises(UsageError, match="no API key for Anthropic"):
            asyncio.run(Agent(model=KEYED).run(store, "Hello."))
    assert _logs(store) == {}


def test_running_an_existing_session_without_a_key_leaves_it_as_it_is():
    store = MemoryStore()
    report = asyncio.run(Agent(model="demo").run(store, "Hello."))
    before = _logs(store)
    with pytest.raises(UsageError, match="no API key for Anthropic"):
        asyncio.run(Agent(model=KEYED, system="New.").run(store, "Hello.", session=report.session))
    assert _logs(store) == before


def test_work_without_a_model_is_done_before_the_key_is_missed():
    """Delivery and results of open tool calls need no key; the error comes when the model is called."""
    rig = _asked_about()
    before = len(rig.entries)
    with pytest.raises(UsageError, match="the script m cannot be read"):
        asyncio.run(wake(LiveRuntime(rig.store, tools=rig.outside.tools), "s"))
    types = [entry.type for entry in rig.entries[before:]]
    assert types == ["activity", "message", "activity"]
    _refused(rig.store, rig.session)


def _asked_about(decision="deny"):
    """A session with one tool call, on which a person has decided."""
    rig = Rig({"Go.": [asks(("pay", 1)), {"text": "Done."}]}, approvals={"pay": "ask"})
    rig.say("Go.")
    (question,) = open_questions(rig.session)
    resolve_question(rig.session, question.attention.id, decision)
    return rig


def test_a_compaction_without_a_key_is_not_requested():
    """The request for a summary is an entry too: it is not left in the queue of a session without a key."""
    rig = Rig({"Hi.": [{"text": "Hello. " * 50}], "Go.": [{"text": "Gone. " * 50}]}, keep=1)
    rig.say("Hi.")
    rig.say("Go.")
    before = _logs(rig.store)
    with pytest.raises(UsageError, match="the script m cannot be read"):
        asyncio.run(compact_now(LiveRuntime(rig.store), "s"))
    assert _logs(rig.store) == before


# ── sub-agents and tools ─────────────────────────────────────────────────────────────────────────


def _sender(store, other):
    """A session of the demo model that starts a sub-agent."""
    agent = Agent(model="demo", tools=(SubagentTool({"other": other}),), policy=Policy(children=2))
    session = agent.begin(store)
    session.say('use agent with {"prompt": "Help.", "agent": "other"}')
    return session


def test_a_sub_agent_without_a_key_is_not_started():
    """TREE-6: there is no `spawned` entry and no child session; the next wake writes nothing at all."""
    store = MemoryStore()
    session = _sender(store, SubagentProfile(model=KEYED))
    with pytest.raises(UsageError, match="no API key for Anthropic"):
        asyncio.run(wake(LiveRuntime(store), session.name))
    assert [stat.name for stat in store.sessions()] == [session.name]
    assert not any(isinstance(entry.value, Spawned) for entry in session.read().entries)
    _refused(store, session)


def test_a_child_without_a_key_leaves_its_parent_as_it_is():
    """The child was started where a key was set: without one its parent is not woken in vain."""
    store = MemoryStore()
    session = _sender(store, SubagentProfile(model="demo"))
    asyncio.run(wake(LiveRuntime(store), session.name, steps=1))
    (call,) = session.branch().tip.value.message.tool_calls
    lease = session.acquire("killed", ttl_s=60)
    spawned = Spawned(child_session="child", reply_id=session.branch().tip.id, tool_call_id=call.id)
    session.append(spawned, lease=lease)
    store.release(lease)
    waiting = Session.create(store, provider="anthropic", model="claude", session_id="child")
    waiting.append(Message(message=Prompt(content=(Text(text="Help."),))))
    _refused(store, session)


def test_missing_tools_leave_the_session_as_it_is():
    """RUN-19: `NotFound` names the tool; a worker that cannot run it writes nothing."""
    rig = _asked_about("approve")
    before = _logs(rig.store)
    with pytest.raises(NotFound, match="'pay'"):
        asyncio.run(wake(LiveRuntime(rig.store, provider=rig.provider), "s"))
    assert _logs(rig.store) == before


# ── reports ──────────────────────────────────────────────────────────────────────────────────────


def test_a_report_carries_the_error_and_the_usage_of_its_wake():
    """A failed turn has its error as a value; the usage counts the model calls of this wake only."""
    used = {"inputTokens": 7, "outputTokens": 3}
    broken = {"error": {"kind": "broken", "message": "out of order"}}
    rig = Rig({"Hi.": [{"text": "Hello.", "usage": used}], "Fail.": [broken]})
    first = rig.say("Hi.")
    assert (first.error, first.usage.input_tokens, first.usage.output_tokens) == (None, 7, 3)
    failed = rig.say("Fail.")
    assert failed.error == FaultReport(kind="broken", message="out of order")
    assert failed.usage.input_tokens == 0
    assert rig.wake().error == failed.error
    again = rig.say("Hi.")
    assert (again.error, again.usage.input_tokens) == (None, 7)

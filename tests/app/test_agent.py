"""RUN-19, law 2: an agent is written into a session when it differs from it; after that only the log is read."""

import asyncio
from typing import Any

import pytest

from tests.laws.plays import Outside
from tests.runtime.rigs import Rig
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy, policy_in_force
from wakelog.errors import Conflict, UsageError
from wakelog.log.content import BlobRef, Finished, Prompt, Reply, TextDelta
from wakelog.log.entry import ContextEntry, Message, ModelChange
from wakelog.projections.branch_state import branch_state
from wakelog.runtime.context_entry import store_declarations
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import as_tools

SCRIPT = '{"text": "Hello."}\n{"text": "Again."}\n'


def _types(session):
    return [entry.type for entry in session.read().entries]


def test_begin_writes_the_settings_in_force():
    """RUN-19: model and provider in the first line, the rest in a `context` entry with its texts in blobs."""
    store = MemoryStore()
    agent = Agent(model="scripted:play.jsonl", name="crab", system="Be brief.", params={"t": 1}, policy=Policy(keep=7))
    session = agent.begin(store, sender="ann", cwd="/repo", title="A title")
    assert _types(session) == ["session", "context"]
    state = branch_state(session.branch())
    assert (state.provider, state.model) == ("scripted", "play.jsonl")
    assert state.context is not None
    assert isinstance(state.context.system, BlobRef)
    assert store.blobs.get(state.context.system) == b"Be brief."
    assert state.context.params == {"t": 1}
    assert policy_in_force(state.context) == Policy(keep=7)
    assert store.name(session.id) == "crab_ann_1"


def test_the_environment_is_recorded(tmp_path):
    """LOG-14, VIEW-12: folder, git branch, model, approval, sandbox and network are in the `context` entry."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    session = Agent(model="scripted:a", policy=Policy(approval="ask")).begin(MemoryStore(), cwd=str(tmp_path))
    assert environment_of(session) == {
        "cwd": str(tmp_path),
        "git": "main",
        "model": "a",
        "provider": "scripted",
        "reasoning": "default",
        "approvalPolicy": "ask",
        "sandboxPolicy": "none",
        "network": "allowed",
    }


def environment_of(session):
    return branch_state(session.branch()).context.environment


class Recording:
    """A provider that keeps the requests that it gets."""

    name = "recording"
    can_resume = True
    needs_reasoning_back = True

    def __init__(self):
        self.requests = []

    async def stream(self, request):
        self.requests.append(request)
        yield TextDelta("Yes.")
        yield Finished("stop")


def test_the_environment_is_what_was_sent():
    """VIEW-12: model, provider, reasoning level and search mode of each turn are those of its request."""
    store, provider, session = MemoryStore(), Recording(), None
    search = {"tools": [{"type": "web_search_20250305"}]}
    for model, params in (("a", {}), ("b", {"effort": "high"}), ("b", {"effort": "high", "extra": search}), ("a", {})):
        agent = Agent(f"recording:{model}", provider=provider, params=params)
        session = agent.run_sync(store, "Go", session=session).session
        environment, request = environment_of(session), provider.requests[-1]
        assert (environment["model"], environment["provider"]) == (request.model, "recording") == (model, "recording")
        assert environment["reasoning"] == request.params.get("effort", "default")
        assert environment.get("searchMode") == ("web_search_20250305" if "extra" in request.params else None)
        assert environment["capabilities"] == {"canResume": True, "needsReasoningBack": True}
    assert _types(session).count("context") == 4
    assert _types(session).count("model_change") == 2


def test_an_environment_with_secrets_is_redacted_and_written_once():
    """Law 14, VIEW-12: no secret is in an environment, and an unchanged one is not written again."""
    key = "sk-ant-api03-" + "Ab1" * 30
    agent = Agent(f"scripted:{key}", params={"effort": key})
    session = agent.begin(MemoryStore(), cwd=f"/repo/{key}")
    assert key not in repr(environment_of(session))
    assert agent.enter(session) is None


def test_entering_again_writes_nothing():
    """RUN-19: only changes are written; an equal agent changes nothing."""
    store = MemoryStore()
    session = Agent(model="scripted:a", tools=Outside().tools, system="x").begin(store)
    assert Agent(model="scripted:a", tools=Outside().tools, system="x").enter(Session(store, session.id)) is None
    assert _types(session) == ["session", "context"]


def test_each_change_is_one_entry():
    """RUN-19: instructions, tools, parameters, policy and environment are a `context`; another model is both."""
    store = MemoryStore()
    session = Agent(model="scripted:a").begin(store)
    assert isinstance(Agent(model="scripted:b").enter(session).value, ContextEntry)
    assert _types(session)[2:] == ["model_change", "context"]
    for number, change in enumerate(
        [{"system": "x"}, {"tools": Outside().tools}, {"params": {"t": 1}}, {"policy": Policy(clip=999)}], 1
    ):
        assert isinstance(Agent(model="scripted:b", **change).enter(session).value, ContextEntry)
        assert _types(session)[3:] == ["context"] * (number + 1)
    assert isinstance(session.read().entries[2].value, ModelChange)


def test_a_branch_has_the_settings_in_force_there():
    """Law 2: `enter` compares with the branch it writes to, not with the last entry of the log."""
    store = MemoryStore()
    session = Agent(model="scripted:a").begin(store)
    before = session.tree.head
    assert before is not None
    Agent(model="scripted:a", system="new").enter(session)
    session.move_head(before)
    assert Agent(model="scripted:a").enter(session) is None
    assert Agent(model="scripted:a", system="new").enter(session) is not None


def test_tools_are_declared_in_their_order():
    """Law 8: the same tools are the same bytes; no tools is no blob."""
    store = MemoryStore()
    tools = Outside().tools
    assert store_declarations(store, tools) == store_declarations(store, Outside().tools)
    assert store_declarations(store, tools) != store_declarations(store, tools[::-1])
    assert store_declarations(store, ()) is None


def test_run_begins_and_continues_a_session(tmp_path):
    """RUN-2: a first run and the next are one code path; the reply is returned, and the session continues."""
    script = tmp_path / "play.jsonl"
    script.write_text(SCRIPT)
    store, agent = MemoryStore(), Agent(model=f"scripted:{script}")
    first = asyncio.run(agent.run(store, "Hi."))
    second = asyncio.run(agent.run(store, "Once more.", session=first.session))
    assert (first.state, second.state, second.session.name) == ("idle", "idle", first.session.name)
    entries = first.session.entries()
    messages = [entry.value.message for entry in entries if isinstance(entry.value, Message)]
    assert [message.text for message in messages if isinstance(message, Reply)] == ["Hello.", "Again."]
    assert _types(first.session).count("context") == 1


def test_a_turn_ends_under_the_policy_in_its_log():
    """RUN-19: the policy in the log asks for approval, though today's agent would not."""
    rig = Rig({"Pay.": [{"toolCalls": [{"name": "pay", "input": {"n": 1}}]}]}, approvals={"pay": "ask"})
    rig.policy = Policy()
    assert rig.say("Pay.").rules[-1] == "call waits"
    assert rig.outside.effects == {}


@pytest.mark.parametrize("wrong", [{"unknown": "aks"}, {"compact_at": -1}, {"approvals": {"pay": "maybe"}}])
def test_an_invalid_policy_is_refused_before_anything_is_written(wrong):
    """An error of the caller is a `UsageError`, not damage of a log."""
    store = MemoryStore()
    with pytest.raises(UsageError):
        asyncio.run(Agent(model="demo", policy=Policy(**wrong)).run(store, "Hello."))
    assert list(store.sessions()) == []


@pytest.mark.meddled
def test_a_prompt_to_a_running_session_is_queued():
    """RUN-11: it is queued, and the error says so, so that the caller need not repeat it."""
    store = MemoryStore()
    agent = Agent(model="demo")
    session = agent.begin(store)
    session.acquire("somebody", ttl_s=60)
    with pytest.raises(Conflict, match="waits in its queue"):
        asyncio.run(agent.run(store, "Hello.", session=session))
    assert len(branch_state(session.branch()).queue) == 1


def test_a_session_is_continued_by_name():
    """RUN-2: the session itself, its name or its id."""
    store = MemoryStore()
    agent = Agent(model="demo")
    result = asyncio.run(agent.run(store, "Hello."))
    asyncio.run(agent.run(store, "Hello again.", session=result.session))
    asyncio.run(agent.run(store, "And again.", session=result.session.name))
    asyncio.run(agent.run(store, "And once more.", session=result.session.id))
    assert [stat.name for stat in store.sessions()] == [result.session.name]


# ── mistakes of callers ──────────────────────────────────────────────────────────────────────────


def test_a_plain_function_is_a_tool_that_never_runs_twice():
    """Law 6: a function that declares nothing about replay gets `never`, in an agent and in a runtime."""

    def greet(name: str) -> str:
        """Greet."""
        return f"Hello, {name}"

    store = MemoryStore()
    agent = Agent(model="demo", tools=[greet])
    assert [(each.name, each.replay) for each in as_tools(agent.tools)] == [("greet", "never")]
    session = agent.begin(store)
    session.say('use greet with {"name": "Ada"}')
    assert "Hello, Ada" in asyncio.run(wake(LiveRuntime(store, tools=[greet]), session)).text


class _Halfway:
    name = "half"


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([_Halfway()], "a tool must be a function, or an object with name, description"),
        ([Outside], "Outside is a class, not a tool"),
        (["shell"], "not str"),
        (len, "tools must be a list, not builtin_function_or_method"),
        ("shell", "tools must be a list, not str"),
        ([lambda: ""], "not a valid tool name"),
    ],
)
def test_an_invalid_tool_is_refused_when_the_agent_is_made(tools, told):
    with pytest.raises(UsageError, match=told) as error:
        Agent(model="demo", tools=tools)
    assert error.value.hint


def test_a_session_is_woken_by_itself_its_name_or_its_id():
    store = MemoryStore()
    for ref in (lambda it: it, lambda it: it.name, lambda it: it.id):
        session = Agent(model="demo").begin(store)
        session.say("Hello.")
        assert asyncio.run(wake(LiveRuntime(store), ref(session))).session == session.name


# Arguments of wrong types.
NUMBER: Any = 7
STORE_URL: Any = "sessions"


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (wake, "a runtime first, not MemoryStore; pass LiveRuntime"),
        (lambda store, _: wake(LiveRuntime(store), NUMBER), "not int; pass the session itself"),
        (lambda _, __: Agent(model="demo").run(STORE_URL, "Hi."), r"open store.*open_store\('sessions'\)"),
        (lambda store, _: Agent(model="demo").run(store, NUMBER), "not a prompt: int"),
        (lambda store, _: Agent(model="demo").run(store, "Hi.", session=NUMBER), "a session id or a name, not int"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_to_pass(mistake, told):
    """The `UsageError` says what to pass, and nothing is written."""
    store = MemoryStore()
    session = Agent(model="demo").begin(store)
    before = len(session.read().entries)
    with pytest.raises(UsageError, match=told):
        asyncio.run(mistake(store, session.name))
    assert (len(list(store.sessions())), len(session.read().entries)) == (1, before)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Prompt(), r"not Prompt; use session.append\(Message\(message=Prompt"),
        ("Hi.", r"not str; use session.say"),
        (None, "not NoneType"),
    ],
)
def test_a_wrong_body_is_refused_with_what_to_call(given, told):
    session = Agent(model="demo").begin(MemoryStore())
    with pytest.raises(UsageError, match=told):
        session.append(given)


def test_a_wrong_message_is_refused_with_what_to_call():
    session = Agent(model="demo").begin(MemoryStore())
    with pytest.raises(UsageError, match="not Message; `append` takes"):
        session.say(Message(message=Prompt()))  # type: ignore[arg-type]

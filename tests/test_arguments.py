"""ST-10: common mistakes at the public functions are errors with a hint, or simply work; nothing is written or lost."""

import asyncio
import pathlib
from typing import Any

import pytest

from wakelog import Agent, Session, open_store, replay
from wakelog.channels.in_process import MemoryChannel
from wakelog.errors import UsageError
from wakelog.forking import fork
from wakelog.identity import latest
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Message
from wakelog.projections.context import build_context
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.stores.memory import MemoryStore

AGENT = Agent(model="demo")


def plain(euros: int) -> str:
    """Pays."""
    return f"paid {euros}"


def mistyped(value: object) -> Any:
    """Return a value whose type is wrong on purpose."""
    return value


def begun(store: Any) -> Session:
    session = Session.create(store)
    session.say("hello")
    return session


# ── a session object, or something else, for a name ──────────────────────────────────────────────


def test_a_session_stands_for_its_name():
    """Every function that takes a name takes the session itself."""
    store = MemoryStore()
    session = AGENT.begin(store)
    session.say("hello")
    assert asyncio.run(wake(LiveRuntime(store), session)).decision.outcome == "done"
    assert asyncio.run(AGENT.wake(store, session)).state == "idle"
    assert asyncio.run(AGENT.run(store, "and now?", session=session)).state == "idle"
    assert asyncio.run(replay(store, session)).ok
    assert read_log(store, session).name == Session(store, session).name == Session.get(store, session).name
    last = session.branch().nodes[-1]
    assert fork(session, last).tree.header.parent.entry == last.id


@pytest.mark.parametrize("wrong", [None, 5, b"agent_user_1", AGENT, ["agent_user_1"], pathlib.Path("agent_user_1")])
@pytest.mark.parametrize(
    "use",
    [
        Session,
        Session.get,
        read_log,
        lambda store, name: asyncio.run(replay(store, name)),
        lambda store, name: asyncio.run(wake(LiveRuntime(store), name)),
        lambda store, name: asyncio.run(AGENT.wake(store, name)),
        lambda store, name: (
            asyncio.run(AGENT.run(store, "hi", session=name)) if name is not None else read_log(store, 5)
        ),
        lambda store, name: fork(name),
        lambda store, name: latest(store, name, "user"),
        lambda store, name: latest(store, "agent", name),
        lambda store, name: Session.open(store, agent=name),
        lambda store, name: Session.open(store, sender=name),
        lambda store, name: Session.create(store, sender=name),
        lambda store, name: AGENT.begin(store, sender=name),
    ],
)
def test_anything_else_is_no_name(use, wrong):
    store = MemoryStore()
    begun(store)
    with pytest.raises(UsageError) as raised:
        use(store, wrong)
    assert raised.value.hint
    assert raised.value.hint in str(raised.value)
    assert len([*store.sessions()]) == 1


@pytest.mark.parametrize("header", [{"title": 5}, {"model": 5}, {"provider": b"x"}, {"cwd": pathlib.Path("/")}])
def test_a_header_that_could_not_be_read_back(header):
    """Law 10: what is acknowledged can be read back."""
    store = MemoryStore()
    with pytest.raises(UsageError, match="must be a string"):
        Session.create(store, **header)
    assert [*store.sessions()] == []


# ── something else for a store ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wrong", ["sessions", pathlib.Path("sessions"), None, 5])
@pytest.mark.parametrize(
    "use",
    [
        lambda store: Session(store, "agent_user_1"),
        Session.open,
        Session.create,
        lambda store: read_log(store, "agent_user_1"),
        lambda store: asyncio.run(replay(store, "agent_user_1")),
        lambda store: latest(store, "agent", "user"),
        LiveRuntime,
        AGENT.begin,
        lambda store: asyncio.run(AGENT.run(store, "hi")),
        lambda store: asyncio.run(AGENT.wake(store, "agent_user_1")),
    ],
)
def test_what_is_no_open_store(use, wrong):
    with pytest.raises(UsageError, match=r"takes an open store, not .*open_store"):
        use(wrong)


def test_a_path_is_the_url_of_a_store(tmp_path):
    store = open_store(tmp_path / "sessions")
    begun(store)
    assert (tmp_path / "sessions" / "agent_user_1.jsonl").exists()
    store.close()
    wrong: Any = None
    with pytest.raises(UsageError, match="not the URL of a store: NoneType"):
        open_store(wrong)


# ── bodies, roles, tools ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mistake", "match"),
    [
        (lambda s: s.append(Prompt(content="hi")), r"not Prompt; use session.append\(Message"),
        (lambda s: s.append({"type": "message"}), "append takes the body of an entry, not dict"),
        (lambda s: s.append(next(s.entries())), "append takes the body of an entry, not Entry"),
        (
            lambda s: s.append(Message(message=mistyped({"role": "oracle", "content": "hi"}))),
            "dict with the role 'oracle'",
        ),
        (lambda s: s.append(Message(message=mistyped("hi"))), "not a message: str"),
        (lambda s: s.append(Message(message=Prompt(content=mistyped(5)))), "not the content of a message: int"),
        (lambda s: s.append(Message(message=Reply(content=mistyped(("hi",))))), "not the content of a message: tuple"),
        (lambda s: s.say({"role": "user", "content": "hi"}), "not dict"),
        (lambda s: s.say(Message(message=Prompt(content="hi"))), "not Message"),
        (lambda s: s.say(Prompt(content=mistyped(5))), "not the content of a message: int"),
        (lambda s: s.say("hi", mode="later"), "not a mode of a message: 'later'"),
        (lambda s: s.user({"role": "user", "content": "hi"}), "not a prompt: dict"),
        (lambda s: s.user(Prompt(content=mistyped(5))), "not the content of a message: int"),
        (lambda s: s.user(Message(message=Prompt(content="hi"))), "not a prompt: Message"),
        (lambda s: s.assistant({"role": "oracle", "content": "hi"}), "role assistant, not 'oracle'"),
        (lambda s: s.assistant(Message(message=Reply(content="hi"))), "not a reply: Message"),
        (lambda s: s.tool(plain), "not a tool call: function"),
        (lambda s: s.tool_result("c9", "done"), "'c9' is not an open tool call"),
        (lambda s: s.recover([plain]), "not functions by the name of their tool"),
        (lambda s: s.recover({"pay": "paid"}), "not functions by the name of their tool"),
        (lambda s: s.compact(None), "a summary must be a string"),
        (lambda s: s.search(None), "a query must be a string"),
        (lambda s: LiveRuntime(s.store, tools=mistyped(plain)), "tools must be a list"),
        (lambda s: LiveRuntime(s.store, tools=mistyped(["plain"])), "a tool must be a function"),
        (lambda s: LiveRuntime(s.store, channels=mistyped(["page"])), "not a channel: str"),
        (lambda s: Agent(model="demo", tools=mistyped(plain)), "tools must be a list"),
        (lambda s: asyncio.run(Agent(model=mistyped(None)).run(s.store, "hi", session=s)), "None is not a model"),
        (lambda s: asyncio.run(Agent("demo", policy=mistyped({})).run(s.store, "hi")), "not a policy: dict"),
        (lambda s: asyncio.run(AGENT.run(s.store, {"role": "user"}, session=s)), "not a prompt: dict"),
        (lambda s: asyncio.run(wake(s.store, s)), "takes a runtime first, not MemoryStore"),
    ],
)
def test_mistakes_write_no_message(mistake, match):
    session = begun(MemoryStore())
    with pytest.raises(UsageError, match=match) as raised:
        mistake(session)
    assert raised.value.hint in str(raised.value)
    assert raised.value.hint
    assert [entry.type for entry in session.entries() if entry.type != "activity"] == ["session", "message"]
    session.close()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"hooks": [print]}, "hooks has an element of a wrong type: builtin_function_or_method"),
        ({"hooks": print}, "hooks must be a tuple or list, not builtin_function_or_method"),
        ({"channels": 3}, "channels must be a tuple or list, not int"),
        ({"channels": [MemoryChannel]}, "channels has an element of a wrong type: the class MemoryChannel"),
        ({"params": 3}, "params must be a dict with strings as keys, not int"),
        ({"params": {1: 2}}, "params must be a dict with strings as keys, not with a key of type int"),
        ({"system": 3}, "the system prompt must be a string, not int"),
        ({"provider": 3}, "a provider has a method stream"),
    ],
)
def test_an_agent_made_of_other_things(given, match):
    """ST-10: the mistake is named where the agent is made."""
    with pytest.raises(UsageError, match=match) as raised:
        Agent("demo", **given)
    assert raised.value.hint


def test_an_entry_stands_for_its_id_in_a_compaction():
    """ST-10: `compact(first_kept=…)` takes an entry or its id; anything else, and an entry elsewhere, is an error."""
    store = MemoryStore()
    session, other = begun(store), begun(store)
    kept = session.user("And now?")
    with pytest.raises(UsageError, match="an entry id must be a string, not int"):
        session.compact("They talked.", first_kept=mistyped(3))
    elsewhere = other.user("Elsewhere.")
    with pytest.raises(UsageError, match=f"{elsewhere.id} is not on the active branch"):
        session.compact("They talked.", first_kept=elsewhere)
    assert session.compact("They talked.", first_kept=kept).value.first_kept_entry_id == kept.id


def test_a_plain_function_is_a_tool():
    """Tools need no decorator, neither on the agent nor in the runtime."""
    store = MemoryStore()
    report = asyncio.run(Agent(model="demo", tools=[plain]).run(store, 'use plain with {"euros": 3}'))
    assert "paid 3" in report.text
    session = Agent(model="demo", tools=[plain]).begin(store)
    session.say('use plain with {"euros": 4}')
    assert "paid 4" in asyncio.run(wake(LiveRuntime(store, tools=[plain]), session)).text


@pytest.mark.parametrize("write", [lambda s, r: s.append(Message(message=r)), lambda s, r: s.say(r)])
def test_a_dangling_result_is_kept_and_not_sent(write):
    """Law 10: it is in the log, and no request is refused for it."""
    session = begun(MemoryStore())
    write(session, ToolResult(tool_call_id="c9", content="done"))
    assert [*session.entries()][-1].value.message.text == "done"
    assert len(session.to_anthropic()) == len(session.to_openai_responses()) == len(session.to_openai_chat()) == 1
    assert asyncio.run(AGENT.run(session.store, "go on", session=session)).state == "idle"


# ── a closed store ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["memory", "files", "sqlite", "postgresql"])
def test_a_closed_store_opens_itself_again(kind, request, tmp_path):
    """ST-7: closing frees files and connections; nothing that is done afterwards is lost."""
    urls = {"memory": "memory:", "files": f"{tmp_path}/sessions", "sqlite": f"sqlite:{tmp_path}/s.db"}
    store = open_store(urls.get(kind) or request.getfixturevalue("postgres_url"))
    session = AGENT.begin(store)

    def again() -> Any:
        store.close()
        return store

    again()
    session.say("one")
    assert asyncio.run(wake(LiveRuntime(again()), session)).state == "idle"
    assert asyncio.run(AGENT.run(again(), "two", session=session.name)).state == "idle"
    assert latest(again(), "agent", "user") == session.name
    assert asyncio.run(replay(again(), session)).ok
    other = fork(Session(again(), session.name))
    again()
    other.user("three")
    other.assistant("four")
    again()
    with other.streaming() as stream:
        stream.text("five")
        again()
    other.close()
    found = [message.content[0].text for message in build_context(read_log(again(), other).tree.branch()).messages]
    assert (found[0], found[2], found[4:]) == ("one", "two", ["three", "four", "five"])
    assert Session.get(again(), other).verify().ok
    again()

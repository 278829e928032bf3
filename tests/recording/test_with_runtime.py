"""A recorded session beside the runtime: replay, waking, and continuing it with an agent (law 11, RUN-15)."""

import asyncio

import pytest

from tests.cli.running import Shell
from wakelog.app.agent import Agent
from wakelog.errors import Conflict, OpenToolCalls, Unavailable, UsageError
from wakelog.log.content import Reply, ToolCall
from wakelog.log.entry import Message
from wakelog.projections.session_state import is_recorded
from wakelog.reading import read_active
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore


def record_turn(session: Session, text: str) -> None:
    session.user(text)
    session.assistant(Reply(content=(ToolCall(id="c1", name="pay", input={}),), model="demo", provider="demo"))
    with session.tool("c1") as run:
        run.result = "paid"
    session.assistant(Reply(content="Done.", model="demo", provider="demo"))


def test_what_a_program_recorded_is_an_input_of_replay(store):
    """Law 11: replay reproduces what the runtime wrote, between stretches that a program recorded."""
    with Session.open(store) as session:
        record_turn(session, "first")
    report = asyncio.run(Agent(model="demo").run(store, "second", session=session))
    assert report.state == "idle"
    record_turn(session, "third")
    session.close()
    found = asyncio.run(replay(store, session.name))
    assert (found.ok, found.reason, found.workers) == (True, "", 1)
    assert found.written > 3


def test_the_last_worker_decides_who_continues_a_session(session):
    """RUN-15: a session is left to the program that records it until a worker of the runtime has run it."""
    session.say("go")
    assert not is_recorded(session.tree)
    session.assistant(Reply(content="ok", model="demo", provider="demo"))
    assert is_recorded(session.tree)
    session.compact("They said hello.")
    session.user("more")
    session.close()
    assert is_recorded(read_active(session.store, session.name).tree)
    asyncio.run(Agent(model="demo").run(session.store, "and you?", session=session))
    assert not is_recorded(session.tree)
    Session.get(session.store, session.name).user("the program continues")
    assert is_recorded(session.tree)


def test_a_prompt_alone_marks_the_session(store, session):
    """RUN-15: the mark is there from the first recorded entry; the prompt keeps no lease, and no worker out."""
    session.user("go")
    assert is_recorded(read_active(store, session.name).tree)
    assert store.held(session.name) is None
    with Session.get(store, session.name) as worker:
        worker.assistant("ok")
        with pytest.raises(Conflict, match="is being run by"):
            session.user("meanwhile")
    forked = session.fork()
    assert not is_recorded(forked.tree)
    forked.user("another way")
    assert is_recorded(forked.tree)


def test_a_prompt_that_is_refused_marks_nothing(store):
    """ST-10: a mistake writes nothing, so the runtime may still continue its own session."""
    session = Session.create(store)
    session.say("go")
    session.append(Message(message=Reply(content=(ToolCall(id="c1", name="pay", input={}),))))
    before = len([*session.entries()])
    with pytest.raises(OpenToolCalls):
        session.user("and?")
    with pytest.raises(UsageError):
        session.user([])
    assert (len([*session.entries()]), is_recorded(session.tree)) == (before, False)


class Unreachable(MemoryStore):
    """A store that fails when a lease is released."""

    def release(self, lease):
        raise Unavailable("no answer")


def test_a_prompt_is_acknowledged_although_its_lease_is_not_released():
    """Law 4: a prompt that is in the log must not be reported as failed, or the program would record it twice."""
    session = Session.create(Unreachable())
    session.user("go")
    assert [entry.type for entry in session.entries()].count("message") == 1


def test_wake_all_leaves_recorded_sessions_alone(tmp_path, monkeypatch):
    """RUN-15: a timer must not call a model for a turn that belongs to a program's own loop."""
    shell = Shell(tmp_path, monkeypatch)
    store = open_store(str(shell.store))
    with Session.open(store) as session:
        session.user("go")
        session.assistant(Reply(content="ok", model="demo", provider="demo"))
        session.user("more")
    prompted = Session.create(store, model="demo", provider="demo")
    prompted.user("only a prompt")
    before = [len([*each.entries()]) for each in (session, prompted)]
    woken = shell("wake", "--all")
    told = "left to the program that records it; `wakelog wake SESSION` continues it here\n"
    assert (woken.code, woken.out) == (0, f"agent_user_1  {told}agent_user_2  {told}")
    ends = [row for row in shell("wake", "--all", "--json").rows if row["event"] == "end"]
    assert [row["state"] for row in ends] == ["recorded", "recorded"]
    assert [len([*each.entries()]) for each in (session, prompted)] == before
    assert shell("wake", session.name).code == 0
    assert shell("wake", prompted.name).code == 0
    assert isinstance(prompted.branch().nodes[-1].value.message, Reply)
    store.close()
    shell.close()

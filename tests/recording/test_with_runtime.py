"""A recorded session beside the runtime: replay, waking, and continuing it with an agent (law 11, RUN-15)."""

import asyncio

from tests.cli.running import Shell
from wakelog.app.agent import Agent
from wakelog.log.content import Reply, ToolCall
from wakelog.projections.session_state import is_recorded
from wakelog.reading import read_active
from wakelog.runtime.replay.verification import replay
from wakelog.session import Session
from wakelog.stores import open_store


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
    session.user("go")
    assert not is_recorded(session.tree)
    session.assistant(Reply(content="ok", model="demo", provider="demo"))
    assert is_recorded(session.tree)
    session.compact("They said hello.")
    session.user("more")
    session.close()
    assert is_recorded(read_active(session.store, session.name).tree)
    asyncio.run(Agent(model="demo").run(session.store, "and you?", session=session))
    assert not is_recorded(session.tree)


def test_wake_all_leaves_recorded_sessions_alone(tmp_path, monkeypatch):
    """RUN-15: a timer must not call a model for a turn that belongs to a program's own loop."""
    shell = Shell(tmp_path, monkeypatch)
    store = open_store(str(shell.store))
    with Session.open(store) as session:
        session.user("go")
        session.assistant(Reply(content="ok", model="demo", provider="demo"))
        session.user("more")
    before = len([*session.entries()])
    woken = shell("wake", "--all")
    assert (woken.code, woken.out) == (
        0,
        "agent_user_1  left to the program that records it; `wakelog wake SESSION` continues it here\n",
    )
    assert [row["state"] for row in shell("wake", "--all", "--json").rows if row["event"] == "end"] == ["recorded"]
    assert len([*session.entries()]) == before
    assert shell("wake", session.name).code == 0
    store.close()
    shell.close()

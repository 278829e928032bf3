"""ST-9 with the real Gemini CLI: it continues a session that wakelog wrote, and wakelog continues one that it left."""

import json

import pytest

from tests.loopback import Row, Say, Shell
from tests.loopback.models import SIDE_TEXT
from tests.real_tools.sessions import (
    SUMMARY,
    continue_with_wakelog,
    example_rows,
    example_session,
    spoken_rows,
    without_ids,
)
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.files import DiskFile
from wakelog.exchange.gemini.entries import ACKNOWLEDGEMENT
from wakelog.exchange.gemini.reader import read_sessions
from wakelog.exchange.gemini.writer import write_session
from wakelog.exchange.importing import import_session
from wakelog.log.content import Prompt, Reply, ToolCall
from wakelog.log.entry import Message
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore

pytestmark = pytest.mark.real_tools("gemini")

SHELL = "run_shell_command"


def import_all(store, tool):
    """Import every file in the folder of the sessions; return the session, which is one however many files it has.

    A resume in another minute leaves one more file of the session, which has nothing new.
    """
    files = sorted(str(path) for path in tool.data.glob("tmp/*/chats/session-*.jsonl"))
    assert files, "Gemini CLI has written no session"
    done = []
    stored: set[str] = set()
    for file in files:
        [foreign] = read_sessions(DiskFile(file), stored.__contains__)
        done.append(import_session(store, foreign))
        stored |= {entry.id for entry in Session(store, done[-1].session).entries()}
    assert len({imported.session for imported in done}) == 1
    assert [imported.added for imported in done[1:]] == [0] * (len(done) - 1)
    return done[0]


def test_gemini_continues_a_written_session(server, tool):
    written = write_session(example_session(tool.project, SHELL))
    tool.place(written)
    server.play([Say("Next answer.")])
    assert "Next answer." in tool.run("And now?", written.id).stdout
    [request] = server.turns
    rows = spoken_rows(request)
    assert rows[:2] == [Row("user", SUMMARY), Row("assistant", ACKNOWLEDGEMENT)]
    assert rows[2:] == [*example_rows(SHELL), Row("user", "And now?")]
    assert request.problems == []


def test_an_open_call_does_not_stop_gemini(server, tool):
    """A call without a result would be refused by the API: the result says that its outcome is unknown."""
    store = MemoryStore()
    session = Session.create(store, agent="crab", cwd=str(tool.project))
    session.append(Message(message=Prompt(content="Begin")))
    call = ToolCall(id="call_1", name=SHELL, input={"command": "deploy"})
    session.append(Message(message=Reply(content=(call,))))
    written = write_session(session_to_write(store, session.name))
    tool.place(written)
    server.play([Say("I check.")])
    tool.run("What happened?", written.id)
    [request] = server.turns
    rows = spoken_rows(request)
    assert [row.kind for row in rows if row.kind != "assistant"] == ["user", "call", "result", "user"]
    assert "Outcome unknown" in next(row.text for row in rows if row.kind == "result")
    assert request.problems == []


def test_a_written_session_grows_in_gemini_and_comes_back(server, tool):
    """What Gemini CLI appends goes behind the written messages; what it records again is known."""
    written = write_session(example_session(tool.project, SHELL))
    tool.place(written)
    server.play([Say("I look."), Shell("printf 'se%s' en-42")], [Say("Seen.")])
    tool.run("Look", written.id)
    store = MemoryStore()
    imported = import_all(store, tool)
    continued = continue_with_wakelog(server, store, imported, SHELL)
    summary, *rows = spoken_rows(continued.request)
    assert SUMMARY in summary.text
    assert without_ids(rows[:7]) == without_ids(example_rows(SHELL))
    assert [row.kind for row in rows[7:]] == ["user", "assistant", "call", "result", "assistant", "user"]
    assert (rows[7].text, rows[-1].text) == ("Look", "What happened?")
    assert "seen-42" in rows[10].text
    assert continued.ran == []


def test_a_session_of_a_killed_gemini_is_continued_by_wakelog(server, tool, held_command):
    """Law 6: Gemini CLI has not stored the call. wakelog runs nothing and tells the model that one is lost."""
    server.play([Shell(held_command.text)])
    run = tool.start("Do it")
    held_command.wait_until_begun()
    run.kill()
    store = MemoryStore()
    imported = import_all(store, tool)
    continued = continue_with_wakelog(server, store, imported, SHELL)
    assert (continued.ran, continued.statuses) == ([], [])
    texts = [row.text for row in spoken_rows(continued.request) if row.kind == "user"]
    assert texts[0] == "Do it"
    assert any("The tool may have run; it was not run again." in text for text in texts[1:])
    assert texts[-1].endswith("What happened?")
    assert continued.request.problems == []
    assert held_command.effects == ["begun"]


def test_a_session_that_gemini_compressed_is_continued_by_wakelog(server, tool):
    """Gemini CLI writes no record of a compression: it replaces all messages, and gives those it keeps new ids."""
    words = " ".join(f"word-{number}" for number in range(300))
    server.play([Say(f"One. {words}")])
    tool.run("First")
    [file] = tool.data.glob("tmp/*/chats/session-*.jsonl")
    own_id = json.loads(file.read_text().splitlines()[0])["sessionId"]
    path = tool.home / ".gemini/settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model": {"compressionThreshold": 0.00001}}))
    server.play([Say("Two.")], [Say("Three.")])
    tool.run("Second", own_id)
    tool.run("Third", own_id)
    store = MemoryStore()
    continued = continue_with_wakelog(server, store, import_all(store, tool), SHELL)
    said = ["Second", "Two.", "Third", "Three.", "What happened?"]
    assert [row.text for row in spoken_rows(continued.request)] == [SIDE_TEXT, *said]
    bodies = [entry.value for entry in continued.session.entries()]
    prompts = [body.message.text for body in bodies if isinstance(body, Message) and isinstance(body.message, Prompt)]
    assert prompts == ["First", "Second", "Third", "What happened?"]
